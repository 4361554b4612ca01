// Programs that are saved as packs and run from there, by C++ and by C: the same bits.
#include "TemporaryFolder.h"

#include "kfuse/kfuse.h"
#include "kfuse/runtime.h"
#include "runtime/cpu/HostCpu.h"
#include "runtime/host/CpuFeatures.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

using namespace kfuse;

namespace {

constexpr std::int64_t rows = 5, inner = 72, columns = 40, stateRows = 16;

/// y = softmax(gelu(x w + exp(b) + b)), and y becomes rows 3 to 7 of s. The bias is prepared.
Model smallModel() {
  GraphBuilder g;
  const Tensor x = g.input("x", DType::F32, {rows, inner}), w = g.parameter("w", DType::F32, {inner, columns});
  const Tensor b = g.parameter("b", DType::F32, {columns}), s = g.state("s", DType::F32, {stateRows, columns});
  const Tensor bias = g.add(g.pointwise("exp", {b}), b);
  const Tensor y = g.softmax(g.gelu(g.add(g.matmul(x, w), bias)));
  g.output("y", y);
  g.updateState(s, y, g.constant(3, DType::I64), 0);
  return Model::fromGraph(g.build().value()).value();
}

std::vector<float> noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// What every way to run the model is given, and gives.
struct Values {
  std::vector<float> x = noise(rows * inner, 1), w = noise(inner * columns, 2), b = noise(columns, 3),
                     s = noise(stateRows * columns, 4), y = std::vector<float>(rows * columns, NAN);
  bool operator==(const Values &other) const {
    return std::memcmp(y.data(), other.y.data(), 4 * y.size()) == 0 &&
           std::memcmp(s.data(), other.s.data(), 4 * s.size()) == 0;
  }
};

Values runIn(const Executable &program) {
  Values values;
  auto upload = [&](const std::vector<float> &from) {
    Buffer buffer = program.allocate(4 * from.size()).value();
    buffer.upload(from.data()).value();
    return buffer;
  };
  const Buffer x = upload(values.x), w = upload(values.w), b = upload(values.b), s = upload(values.s),
               y = upload(values.y);
  void *const parameters[] = {w.data(), b.data()}, *const inputs[] = {x.data(), s.data()},
              *const outputs[] = {y.data(), nullptr};
  const Weights weights = program.prepare(parameters).value();
  Session session = program.newSession(weights).value();
  session.run(nullptr, inputs, outputs).value();
  y.download(values.y.data()).value();
  s.download(values.s.data()).value();
  return values;
}

struct Saved {
  tuner::test::TemporaryFolder folder;
  std::string path = (folder.path / "small.kfp").string();
  Executable program = compileSmall();
  Values expected = runIn(program);

  Executable compileSmall() {
    CompileOptions options;
    options.target = "cpu";
    options.store = (folder.path / "store.db").string();
    options.effort = Effort::None;
    return compile(smallModel(), options).value();
  }
  Saved() { program.save(path).value(); }
};

const Saved &saved() {
  static const Saved once;
  return once;
}

/// A pack's program by the C interface; its errors are kept.
struct Loaded {
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  kfr_pack *pack = nullptr;
  kfr_program *program = nullptr;
  kfr_weights *weights = nullptr;

  Loaded() {
    REQUIRE(kfr_open(saved().path.c_str(), &pack, &error) == KFR_OK);
    REQUIRE(kfr_load(pack, nullptr, &program, &error) == KFR_OK);
  }
  ~Loaded() {
    kfr_pack_release(pack); // In another order than they were made.
    kfr_program_release(program);
    kfr_weights_release(weights);
  }
  void prepare(const Values &values) {
    const kfr_binding parameters[] = {{"b", values.b.data(), 4 * values.b.size()},
                                      {"w", values.w.data(), 4 * values.w.size()}};
    REQUIRE_MESSAGE(kfr_prepare(program, parameters, 2, &weights, &error) == KFR_OK, error.message);
  }
  kfr_session *session() {
    kfr_session *made = nullptr;
    REQUIRE_MESSAGE(kfr_session_new(weights, nullptr, 0, &made, &error) == KFR_OK, error.message);
    return made;
  }
};

/// Binds memory that is 16-byte aligned, as that of vectors is, and runs.
Values runIn(kfr_session *session) {
  Values values;
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  for (auto [role, name, tensor] :
       {std::tuple(KFR_INPUT, "x", &values.x), {KFR_STATE, "s", &values.s}, {KFR_OUTPUT, "y", &values.y}})
    CHECK(kfr_bind(session, role, name, tensor->data(), 4 * tensor->size(), &error) == KFR_OK);
  CHECK_MESSAGE(kfr_run(session, nullptr, &error) == KFR_OK, error.message);
  return values;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("packs: a saved program runs as the one that was compiled") {
  const Executable loaded = loadPack(saved().path).value();
  CHECK(loaded.target() == "cpu");
  CHECK(loaded.inputs() == saved().program.inputs());
  CHECK(loaded.updatedStates() == saved().program.updatedStates());
  CHECK(loaded.plan() == saved().program.plan());
  CHECK(runIn(loaded) == saved().expected);
  // By itself: rows of a softmax, as the formula says.
  const Values &values = saved().expected;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> terms;
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = std::exp(double(values.b[column])) + values.b[column];
      for (std::int64_t k = 0; k < inner; ++k)
        sum += double(values.x[row * inner + k]) * values.w[k * columns + column];
      terms.push_back(std::exp(sum / 2 * (1 + std::erf(sum / std::sqrt(2)))));
    }
    const double total = std::accumulate(terms.begin(), terms.end(), 0.0);
    for (std::int64_t column = 0; column < columns; ++column) {
      CHECK(values.y[row * columns + column] == doctest::Approx(terms[column] / total).epsilon(1e-4));
      CHECK(values.s[(row + 3) * columns + column] == values.y[row * columns + column]);
    }
  }
}

TEST_CASE("packs: what came from one is not saved as another") {
  const Executable loaded = loadPack(saved().path).value();
  CHECK(contains(loaded.save(saved().path + "2").error().message, "copy that file"));
  CHECK((saved().program.save("/nonexistent/x.kfp").error().code == ErrorCode::Io));
}

TEST_CASE("packs: their description is JSON of what they hold") {
  const std::string text = describePack(saved().path).value();
  for (const char *part : {R"("target": "cpu")", R"("name": "s")", R"("holds_weights": false)"})
    CHECK(contains(text, part));
}

TEST_CASE("packs: C runs a program with the same bits") {
  Loaded loaded;
  CHECK(std::string(kfr_target(loaded.program)) == "cpu");
  CHECK(kfr_device(loaded.program) == KFR_CPU);
  CHECK(kfr_count(loaded.program, KFR_PARAMETER) == 2);
  const kfr_tensor *y = kfr_tensor_named(loaded.program, KFR_OUTPUT, "y");
  REQUIRE(y);
  CHECK(y->bytes == 4 * rows * columns);
  CHECK(y->rank == 2);
  CHECK(y->shape[1] == columns);
  CHECK(y->state == -1);
  CHECK(kfr_tensor_at(loaded.program, KFR_OUTPUT, 1)->state == 0);
  CHECK_FALSE(kfr_tensor_at(loaded.program, KFR_OUTPUT, 2));
  loaded.prepare(saved().expected);
  kfr_session *session = loaded.session();
  CHECK(runIn(session) == saved().expected);
  CHECK(runIn(session) == saved().expected); // Anew, with other memory.
  kfr_session_release(session);
}

TEST_CASE("packs: a byte that was changed is found when the program is loaded") {
  std::ifstream file(saved().path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  for (std::size_t i = 12; i < bytes.size(); i += 97) {
    bytes[i] = static_cast<char>(bytes[i] ^ 16);
    kfr_pack *pack = nullptr;
    kfr_program *program = nullptr;
    kfr_code code = kfr_open_memory(bytes.data(), bytes.size(), &pack, &error);
    if (code == KFR_OK)
      code = kfr_load(pack, nullptr, &program, &error);
    CHECK_MESSAGE(code == KFR_BAD_PACK, "byte " << i << ": " << error.message);
    kfr_program_release(program);
    kfr_pack_release(pack);
    bytes[i] = static_cast<char>(bytes[i] ^ 16);
  }
}

TEST_CASE("packs: the processor's features are those that LLVM finds") {
  std::vector<std::string> llvm;
  for (std::size_t at = 0; at < runtime::cpu::hostCpu().features.size();) {
    const std::string &all = runtime::cpu::hostCpu().features;
    const std::size_t end = std::min(all.find(',', at), all.size());
    llvm.push_back(all.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  const std::vector<std::string> own = runtime::cpuFeatures();
  for (const std::string &feature : runtime::knownCpuFeatures())
    CHECK_MESSAGE(std::ranges::count(llvm, feature) == std::ranges::count(own, feature), feature);
}
