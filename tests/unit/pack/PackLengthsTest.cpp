// Packs of models whose lengths each run gives: by C++ and by C the bits of the program that was saved, in every
// bucket.
#include "TemporaryFolder.h"

#include "kfuse/kfuse.h"
#include "kfuse/runtime.h"
#include "runtime/pack/Pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

using namespace kfuse;

namespace {

constexpr std::int64_t inner = 40, columns = 24, stateRows = 2;
constexpr std::int64_t mostBatch = 3, mostTokens = 600;
using Lengths = std::array<std::int64_t, 2>;

/// y = softmax(gelu(x w + exp(b) + b)) of x [batch, tokens, inner]; s takes the first row of z. The bias is prepared.
Result<Graph> graphFor(std::span<const std::int64_t> lengths) {
  GraphBuilder g;
  const Tensor x = g.input("x", DType::F32, {lengths[0], lengths[1], inner});
  const Tensor z = g.input("z", DType::F32, {1, columns});
  const Tensor w = g.parameter("w", DType::F32, {inner, columns}), b = g.parameter("b", DType::F32, {columns});
  const Tensor s = g.state("s", DType::F32, {stateRows, columns});
  const Tensor bias = g.add(g.pointwise("exp", {b}), b);
  g.output("y", g.softmax(g.gelu(g.add(g.matmul(x, w), bias))));
  g.updateState(s, g.add(z, b), g.constant(1, DType::I64), 0);
  return g.build();
}

struct Saved {
  tuner::test::TemporaryFolder folder;
  std::string path = (folder.path / "lengths.kfp").string();
  Executable program;

  static Executable compiled(const std::string &store) {
    const Model model = Model::fromGraphs(graphFor, {{"batch", 1, mostBatch}, {"tokens", 1, mostTokens}}).value();
    CompileOptions options;
    options.target = "cpu";
    options.store = store;
    options.effort = Effort::None;
    return compile(model, options).value();
  }
  Saved() : program(compiled((folder.path / "store.db").string())) { program.save(path).value(); }
};

const Saved &saved() {
  static const Saved once;
  return once;
}

/// Memory of floats at 64 bytes' alignment, with a mark behind them.
class Floats {
public:
  Floats(std::int64_t count, unsigned seed) : count(static_cast<std::size_t>(count)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::ranges::generate(all(), [&] { return normal(random); });
    data()[this->count] = mark;
  }
  float *data() const { return static_cast<float *>(memory.get()); }
  std::size_t bytes() const { return 4 * count; }
  bool isWhole() const { return data()[count] == mark; }
  bool operator==(const Floats &other) const {
    return count == other.count && std::memcmp(data(), other.data(), bytes()) == 0;
  }

private:
  static constexpr float mark = 12345;
  std::span<float> all() const { return {data(), count}; }
  std::size_t count;
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(64, (4 * count + 4 + 63) / 64 * 64), std::free};
};

struct Values {
  explicit Values(const Lengths &lengths)
      : x(lengths[0] * lengths[1] * inner, 1), z(columns, 5), w(inner * columns, 2), b(columns, 3),
        s(stateRows * columns, 4), y(lengths[0] * lengths[1] * columns, 6) {}
  Floats x, z, w, b, s, y;
  bool operator==(const Values &other) const {
    return y == other.y && s == other.s && y.isWhole() && other.y.isWhole();
  }
};

Values runIn(const Executable &program, const Lengths &lengths) {
  Values values(lengths);
  void *const parameters[] = {values.w.data(), values.b.data()},
              *const inputs[] = {values.x.data(), values.z.data(), values.s.data()},
              *const outputs[] = {values.y.data(), nullptr};
  const Weights weights = program.prepare(parameters).value();
  Session session = program.newSession(weights).value();
  const Result<void> ran = session.run(nullptr, inputs, outputs, lengths);
  REQUIRE_MESSAGE(ran, ran.error().message);
  return values;
}

/// A session by the C interface, in memory of the test's.
struct Running {
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  kfr_pack *pack = nullptr;
  kfr_program *program = nullptr;
  kfr_weights *weights = nullptr;
  kfr_session *session = nullptr;
  Values fixed{{1, 1}};
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, std::free};

  Running() {
    REQUIRE(kfr_open(saved().path.c_str(), &pack, &error) == KFR_OK);
    REQUIRE_MESSAGE(kfr_load(pack, nullptr, &program, &error) == KFR_OK, error.message);
    const kfr_binding parameters[] = {{"b", fixed.b.data(), fixed.b.bytes()}, {"w", fixed.w.data(), fixed.w.bytes()}};
    REQUIRE_MESSAGE(kfr_prepare(program, parameters, 2, &weights, &error) == KFR_OK, error.message);
    const std::size_t bytes = kfr_session_bytes(program);
    memory.reset(std::aligned_alloc(256, bytes));
    CHECK(kfr_session_new(weights, memory.get(), bytes - 256, &session, &error) == KFR_USAGE);
    REQUIRE_MESSAGE(kfr_session_new(weights, memory.get(), bytes, &session, &error) == KFR_OK, error.message);
  }
  ~Running() {
    kfr_session_release(session);
    kfr_weights_release(weights);
    kfr_program_release(program);
    kfr_pack_release(pack);
  }
  kfr_code bind(const Values &values) {
    for (auto [role, name, tensor] : {std::tuple(KFR_INPUT, "x", &values.x),
                                      {KFR_INPUT, "z", &values.z},
                                      {KFR_STATE, "s", &values.s},
                                      {KFR_OUTPUT, "y", &values.y}})
      if (const kfr_code code = kfr_bind(session, role, name, tensor->data(), tensor->bytes(), &error); code != KFR_OK)
        return code;
    return KFR_OK;
  }
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// The ends of each bucket of tokens, and what lies beside.
std::vector<Lengths> lengthsOfBuckets() {
  const runtime::Pack pack = runtime::Pack::open(saved().path).value();
  std::vector<Lengths> lengths;
  for (std::int64_t batch : {std::int64_t(1), mostBatch})
    for (std::int64_t rung : pack.manifest().variants[0].rungs[1])
      for (std::int64_t tokens : {rung, std::min(rung + 1, mostTokens)})
        lengths.push_back({batch, tokens});
  return lengths;
}

} // namespace

TEST_CASE("packs of lengths: C++ and C give the bits of the program that was saved, in every bucket") {
  const Executable loaded = loadPack(saved().path).value();
  CHECK(loaded.dims() == saved().program.dims());
  CHECK(loaded.inputs() == saved().program.inputs());
  CHECK(loaded.outputs() == saved().program.outputs());
  Running running;
  REQUIRE(lengthsOfBuckets().size() > 4); // More than one bucket.
  for (const Lengths &lengths : lengthsOfBuckets()) {
    CAPTURE(lengths[0]);
    CAPTURE(lengths[1]);
    CHECK(loaded.outputShapes(lengths).value() == saved().program.outputShapes(lengths).value());
    const Values expected = runIn(saved().program, lengths);
    CHECK(runIn(loaded, lengths) == expected);
    Values values(lengths);
    REQUIRE(running.bind(values) == KFR_OK);
    REQUIRE_MESSAGE(kfr_run_lengths(running.session, nullptr, lengths.data(), 2, &running.error) == KFR_OK,
                    running.error.message);
    CHECK(values == expected);
    std::int64_t shape[3] = {};
    REQUIRE(kfr_shape(running.program, KFR_OUTPUT, 0, lengths.data(), 2, shape, &running.error) == KFR_OK);
    CHECK(std::vector(shape, shape + 3) == Shape{lengths[0], lengths[1], columns});
    REQUIRE(kfr_shape(running.program, KFR_INPUT, 0, lengths.data(), 2, shape, &running.error) == KFR_OK);
    CHECK(std::vector(shape, shape + 3) == Shape{lengths[0], lengths[1], inner});
  }
}

TEST_CASE("packs of lengths: tensors bound by name, in a session's memory of the caller") {
  for (const Executable &program : {loadPack(saved().path).value(), saved().program}) {
    const Values fixed({1, 1});
    const Binding parameters[] = {{"b", fixed.b.data(), fixed.b.bytes()}, {"w", fixed.w.data(), fixed.w.bytes()}};
    const Weights weights = program.prepareNamed(parameters).value();
    std::vector<std::byte> memory(program.sessionBytes() + 256);
    std::byte *aligned = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
    CHECK(contains(program.newSession(weights, {aligned, program.sessionBytes() - 1}).error().message, "expected"));
    CHECK(contains(program.newSession(weights, {aligned + 16, program.sessionBytes()}).error().message, "aligned"));
    Session session = program.newSession(weights, {aligned, program.sessionBytes()}).value();
    for (const Lengths &lengths : {Lengths{1, 7}, Lengths{3, 600}}) {
      Values values(lengths);
      session.bindInput({"x", values.x.data(), values.x.bytes()}).value();
      session.bindInput({"z", values.z.data(), values.z.bytes()}).value();
      session.bindInput({"s", values.s.data(), values.s.bytes()}).value();
      session.bindOutput({"y", values.y.data(), values.y.bytes()}).value();
      session.run(nullptr, lengths).value();
      CHECK(values == runIn(saved().program, lengths));
      const Lengths longer{3, 600};
      if (lengths[0] < longer[0])
        CHECK(contains(session.run(nullptr, longer).error().message, "'x' is given 1120 bytes, this run needs 288000"));
    }
    CHECK(contains(session.bindInput({"y", aligned, 8}).error().message, "there is no 'y'; there are: x, z, s"));
    CHECK(contains(session.bindInput({"s", aligned, 8}).error().message, "'s' is given 8 bytes, expected 192 of f32"));
    CHECK(contains(session.bindOutput({"x", aligned, 8}).error().message, "there is no 'x'"));
    CHECK(contains(program.prepareNamed({parameters, 1}).error().message, "'w'"));
    Session other = program.newSession(weights).value();
    CHECK(contains(other.run(nullptr, Lengths{1, 1}).error().message, "is null"));
  }
}

TEST_CASE("packs of lengths: wrong lengths and short memory are named") {
  Running running;
  REQUIRE(kfr_dim_count(running.program) == 2);
  CHECK(std::string(kfr_dim_at(running.program, 1)->name) == "tokens");
  CHECK(kfr_dim_at(running.program, 1)->high == mostTokens);
  CHECK_FALSE(kfr_dim_at(running.program, 2));
  const Lengths lengths{2, 9}, longer{2, 10}, outside{2, mostTokens + 1};
  const Values values(lengths);
  REQUIRE(running.bind(values) == KFR_OK);
  auto says = [&](kfr_code code, const std::string &part) {
    CHECK(code == KFR_USAGE);
    CHECK_MESSAGE(contains(running.error.message, part), running.error.message);
  };
  says(kfr_run(running.session, nullptr, &running.error), "got 0 lengths, expected 2, of batch=1..3, tokens=1..600");
  says(kfr_run_lengths(running.session, nullptr, outside.data(), 2, &running.error), "'tokens' is 601");
  says(kfr_run_lengths(running.session, nullptr, longer.data(), 2, &running.error),
       "'x' is given 2880 bytes, this run needs 3200 of f32 2x10x40");
  says(kfr_run_lengths(running.session, nullptr, nullptr, 2, &running.error), "null pointer");
  std::int64_t shape[3];
  says(kfr_shape(running.program, KFR_OUTPUT, 0, outside.data(), 2, shape, &running.error), "'tokens' is 601");
  says(kfr_shape(running.program, KFR_OUTPUT, 7, lengths.data(), 2, shape, &running.error), "there is no tensor 7");
  CHECK(kfr_run_lengths(running.session, nullptr, lengths.data(), 2, &running.error) == KFR_OK);
}
