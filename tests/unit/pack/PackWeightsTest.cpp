// Packs that name a safetensors file of their weights, by C and by C++.
#include "TemporaryFolder.h"

#include "kfuse/kfuse.h"
#include "kfuse/runtime.h"
#include "runtime/pack/PackWriter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace kfuse;

namespace {

constexpr std::int64_t count = 16;
using Floats = std::array<float, count>;

void writeFile(const std::string &path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
}

/// A safetensors file of one tensor.
void writeWeights(const std::string &path, const std::string &name, const Floats &values) {
  const std::string header = R"({")" + name + R"(":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}})";
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), 8);
  file += header;
  file.append(reinterpret_cast<const char *>(values.data()), sizeof values);
  writeFile(path, std::as_bytes(std::span(file)));
}

/// y = x + w, and a pack of it that refers to w.safetensors beside it.
struct Referring {
  tuner::test::TemporaryFolder folder;
  std::string pack = (folder.path / "p.kfp").string(), file = (folder.path / "w.safetensors").string();
  Floats w{1, 2, 3};

  Referring() {
    GraphBuilder g;
    g.output("y", g.add(g.input("x", DType::F32, {count}), g.parameter("w", DType::F32, {count})));
    CompileOptions options;
    options.target = "cpu";
    options.store = (folder.path / "store.db").string();
    options.effort = Effort::None;
    compile(Model::fromGraph(g.build().value()).value(), options).value().save(pack).value();
    const runtime::Pack saved = runtime::Pack::open(pack).value();
    runtime::PackContents contents{saved.manifest()};
    contents.manifest.variants.clear();
    contents.manifest.weightsFile = "w.safetensors";
    contents.manifest.weightSeals = {runtime::toHex(runtime::sha256(std::as_bytes(std::span(w))))};
    contents.variants.emplace_back(saved.manifest().variants[0], saved.loadAll(0).value());
    const std::vector<std::byte> bytes = runtime::writePack(std::move(contents));
    pack += "2";
    writeFile(pack, bytes);
    writeWeights(file, "w", w);
  }
};

/// What kfr_prepare() says where no parameter is given; the first of y where it is prepared, for x = 0.
struct Outcome {
  kfr_code code;
  std::string message;
  float first = 0;
};

Outcome runIn(const std::string &path, const char *weights, bool isChecked) {
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  kfr_pack *pack = nullptr;
  kfr_program *program = nullptr;
  kfr_weights *prepared = nullptr;
  kfr_session *session = nullptr;
  const kfr_load_options options{.struct_size = sizeof options,
                                 .device = KFR_CPU,
                                 .threads = 1,
                                 .variant = nullptr,
                                 .weights = weights,
                                 .check_weights = isChecked};
  REQUIRE_MESSAGE(kfr_open(path.c_str(), &pack, &error) == KFR_OK, error.message);
  REQUIRE_MESSAGE(kfr_load(pack, &options, &program, &error) == KFR_OK, error.message);
  CHECK(kfr_tensor_at(program, KFR_PARAMETER, 0)->in_pack);
  Outcome outcome{kfr_prepare(program, nullptr, 0, &prepared, &error), error.message};
  if (outcome.code == KFR_OK) {
    alignas(16) Floats x{}, y{};
    REQUIRE(kfr_session_new(prepared, nullptr, 0, &session, &error) == KFR_OK);
    REQUIRE(kfr_bind_at(session, KFR_INPUT, 0, x.data(), sizeof x, &error) == KFR_OK);
    REQUIRE(kfr_bind_at(session, KFR_OUTPUT, 0, y.data(), sizeof y, &error) == KFR_OK);
    REQUIRE(kfr_run(session, nullptr, &error) == KFR_OK);
    outcome.first = y[0];
  }
  kfr_session_release(session);
  kfr_weights_release(prepared);
  kfr_program_release(program);
  kfr_pack_release(pack);
  return outcome;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("pack weights: they come from the file beside the pack, or another") {
  Referring referring;
  CHECK(runIn(referring.pack, nullptr, false).first == 1);
  CHECK(runIn(referring.pack, nullptr, true).first == 1);
  const std::string other = (referring.folder.path / "other.safetensors").string();
  writeWeights(other, "w", {7});
  CHECK(runIn(referring.pack, other.c_str(), false).first == 7);
  const Executable program = loadPack(referring.pack, {.weights = other}).value();
  void *const none[] = {nullptr};
  Session session = program.newSession(program.prepare(none).value()).value();
  alignas(16) Floats x{}, y{};
  void *const inputs[] = {x.data()}, *const outputs[] = {y.data()};
  session.run(nullptr, inputs, outputs).value();
  CHECK(y[0] == 7);
}

TEST_CASE("pack weights: what is altered, missing or of another shape is named") {
  Referring referring;
  writeWeights(referring.file, "w", {5});
  CHECK(runIn(referring.pack, nullptr, false).first == 5); // Nobody asked.
  const Outcome altered = runIn(referring.pack, nullptr, true);
  CHECK(altered.code == KFR_BAD_PACK);
  CHECK_MESSAGE(contains(altered.message, "w.safetensors: 'w' was altered"), altered.message);
  const Executable program = loadPack(referring.pack, {.checkWeights = true}).value();
  void *const none[] = {nullptr};
  CHECK(contains(program.prepare(none).error().message, "'w' was altered"));
  writeWeights(referring.file, "v", referring.w);
  const Outcome missing = runIn(referring.pack, nullptr, false);
  CHECK(missing.code == KFR_USAGE);
  CHECK_MESSAGE(contains(missing.message, "w.safetensors holds no tensor 'w'"), missing.message);
  writeFile(referring.file, {});
  CHECK(runIn(referring.pack, nullptr, false).code == KFR_BAD_PACK);
  std::filesystem::remove(referring.file);
  const Outcome gone = runIn(referring.pack, nullptr, false);
  CHECK(gone.code == KFR_IO);
  CHECK_MESSAGE(contains(gone.message, "w.safetensors"), gone.message);
}

TEST_CASE("pack weights: manifests that say half of it are refused") {
  Referring referring;
  const runtime::Pack saved = runtime::Pack::open(referring.pack).value();
  auto refused = [&](auto change, const std::string &part) {
    runtime::Manifest manifest = saved.manifest();
    change(manifest);
    const Result<runtime::Manifest> read = runtime::Manifest::deserialise(manifest.serialise());
    REQUIRE_FALSE(read);
    CHECK_MESSAGE(contains(read.error().message, part), read.error().message);
  };
  refused([](runtime::Manifest &m) { m.weightsFile.clear(); }, "a file of weights, or seals, alone");
  refused([](runtime::Manifest &m) { m.weightSeals.push_back(""); }, "seals of 2 of its 1 parameters");
  refused([](runtime::Manifest &m) { m.dims = {{"n", 1, 4}}; }, "lengths of other tensors");
  refused([](runtime::Manifest &m) { m.dims = {{"n", 5, 4}}; }, "no run can have its lengths");
  refused(
      [](runtime::Manifest &m) {
        m.dims = {{"n", 1, 4}};
        m.inputDims.resize(1);
        m.outputDims.resize(1);
      },
      "is not of the pack's lengths");
}
