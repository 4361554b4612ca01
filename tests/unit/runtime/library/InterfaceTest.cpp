// The C interface, with a pack of machine code that a C compiler made (host/object.c): no compiler of kfuse's, no GPU.
#include "kfuse/runtime.h"
#include "runtime/host/CpuFeatures.h"
#include "runtime/pack/PackWriter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

constexpr std::int64_t count = 16;
using Floats = std::array<float, count>;

/// out[i] = floor(in[i]) + i^2.
ProgramKernel squaresKernel() {
  std::ifstream file(KFUSE_TEST_OBJECT, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  ProgramKernel kernel;
  kernel.plan.name = "squares";
  kernel.plan.target = "cpu";
  kernel.plan.inputs = kernel.plan.outputs = {{DType::F32, {count}}};
  kernel.plan.inPlace = {-1};
  codegen::Launch launch;
  launch.entry = "squares";
  launch.items = count;
  launch.args = {{codegen::KernelArg::Kind::Buffer, 0}, {codegen::KernelArg::Kind::Buffer, 1}};
  kernel.plan.launches = {launch};
  const auto *first = reinterpret_cast<const std::byte *>(bytes.data());
  kernel.binary.image.assign(first, first + bytes.size());
  return kernel;
}

/// w = squares(w0), once; y = squares(x) + 0 through the arena's memory; s = squares(x); p is w handed through.
std::vector<std::byte> samplePack(bool withWeights) {
  using Space = BufferRef::Space;
  auto tensor = [](const char *name) { return TensorDesc{name, DType::F32, {count}}; };
  Program main;
  main.name = "main";
  main.target = "cpu";
  main.arguments = {tensor("x"), tensor("w"), tensor("s")};
  main.roles = {Role::Input, Role::Parameter, Role::State};
  main.results = {tensor("y"), tensor("s"), tensor("p")};
  main.resultState = {-1, 2, -1};
  main.kernels = {squaresKernel()};
  const BufferRef x{Space::Argument, 0, 0}, w{Space::Argument, 1, 0}, s{Space::Argument, 2, 0}, y{Space::Result, 0, 0},
      between{Space::Arena, 0, 256};
  main.steps = {{0, {x, between}}, {0, {x, y}}, {0, {x, s}}};
  main.passThroughs = {{2, w}};
  main.arenaBytes = 512;
  Program prepare = main;
  prepare.name = "prepare";
  prepare.arguments = {tensor("w0")};
  prepare.roles = {Role::Parameter};
  prepare.results = {tensor("w")};
  prepare.resultState = {-1};
  prepare.steps = {{0, {{Space::Argument, 0, 0}, {Space::Result, 0, 0}}}};
  prepare.passThroughs = {};

  PackContents contents;
  contents.manifest.model = "sample";
  contents.manifest.inputs = {tensor("x")};
  contents.manifest.parameters = {tensor("w0")};
  contents.manifest.states = {tensor("s")};
  contents.manifest.outputs = main.results;
  contents.manifest.updatedStates = {-1, 0, -1};
  static const Floats w0{1, 0, 1};
  if (withWeights)
    contents.weights = {std::as_bytes(std::span(w0))};
  PackVariant variant;
  variant.target = "cpu";
  contents.variants.emplace_back(variant, std::vector{VariantPrograms{main, prepare}});
  return writePack(std::move(contents));
}

/// Everything from a pack in memory on; errors are kept.
struct Loaded {
  std::vector<std::byte> bytes;
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  kfr_pack *pack = nullptr;
  kfr_program *program = nullptr;
  kfr_weights *weights = nullptr;
  alignas(16) Floats w0{0.5F, -1, 2};

  explicit Loaded(bool withWeights = false) : Loaded(samplePack(withWeights)) {}
  explicit Loaded(const std::vector<char> &file)
      : Loaded(std::vector(std::as_bytes(std::span(file)).begin(), std::as_bytes(std::span(file)).end())) {}
  explicit Loaded(std::vector<std::byte> whole) : bytes(std::move(whole)) {
    REQUIRE_MESSAGE(kfr_open_memory(bytes.data(), bytes.size(), &pack, &error) == KFR_OK, error.message);
    const kfr_load_options options{.struct_size = sizeof options,
                                   .device = KFR_CPU,
                                   .threads = 3,
                                   .variant = nullptr,
                                   .weights = nullptr,
                                   .check_weights = 0};
    REQUIRE_MESSAGE(kfr_load(pack, &options, &program, &error) == KFR_OK, error.message);
  }
  ~Loaded() {
    kfr_pack_release(pack); // In another order than they were made.
    kfr_program_release(program);
    kfr_weights_release(weights);
  }
  void prepare() {
    const kfr_binding given{"w0", w0.data(), sizeof w0};
    REQUIRE_MESSAGE(kfr_prepare(program, &given, 1, &weights, &error) == KFR_OK, error.message);
  }
  kfr_session *session(void *memory = nullptr, std::size_t size = 0) {
    kfr_session *made = nullptr;
    REQUIRE_MESSAGE(kfr_session_new(weights, memory, size, &made, &error) == KFR_OK, error.message);
    return made;
  }
};

Floats squaresOf(const Floats &in) {
  Floats out;
  for (std::size_t i = 0; i < count; ++i)
    out[i] = std::floor(in[i]) + static_cast<float>(i * i);
  return out;
}

/// Whether runs give what they should, with memory that is this call's.
bool runsRight(kfr_session *session, float first, const Floats &w0) {
  alignas(16) Floats x{first, 2, -3}, s{}, y{}, p{};
  kfr_bind(session, KFR_INPUT, "x", x.data(), sizeof x, nullptr);
  kfr_bind(session, KFR_STATE, "s", s.data(), sizeof s, nullptr);
  kfr_bind_at(session, KFR_OUTPUT, 0, y.data(), sizeof y, nullptr);
  kfr_bind(session, KFR_OUTPUT, "p", p.data(), sizeof p, nullptr);
  return kfr_run(session, nullptr, nullptr) == KFR_OK && y == squaresOf(x) && s == y && p == squaresOf(w0);
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("interface: a program is described, prepared and run") {
  CHECK(kfr_version() == 0x10001);
  Loaded loaded;
  CHECK(std::string(kfr_target(loaded.program)) == "cpu");
  CHECK(kfr_device(loaded.program) == KFR_CPU);
  CHECK(kfr_count(loaded.program, KFR_OUTPUT) == 3);
  const kfr_tensor *s = kfr_tensor_named(loaded.program, KFR_OUTPUT, "s");
  REQUIRE(s);
  CHECK(s->state == 0);
  CHECK(s->type == KFR_F32);
  CHECK(s->rank == 1);
  CHECK(s->shape[0] == count);
  CHECK(s->bytes == 4 * count);
  CHECK_FALSE(kfr_tensor_named(loaded.program, KFR_INPUT, "s"));
  CHECK_FALSE(kfr_tensor_at(loaded.program, KFR_OUTPUT, 3));
  CHECK_FALSE(kfr_tensor_at(loaded.program, KFR_PARAMETER, 0)->in_pack);
  loaded.prepare();
  kfr_session *session = loaded.session();
  CHECK(runsRight(session, 1, loaded.w0));
  CHECK(runsRight(session, 2, loaded.w0));
  kfr_session_release(session);
}

TEST_CASE("interface: weights of the pack, and others in their place") {
  Loaded loaded(/*withWeights=*/true);
  CHECK(kfr_tensor_at(loaded.program, KFR_PARAMETER, 0)->in_pack);
  REQUIRE_MESSAGE(kfr_prepare(loaded.program, nullptr, 0, &loaded.weights, &loaded.error) == KFR_OK,
                  loaded.error.message);
  kfr_session *session = loaded.session();
  CHECK(runsRight(session, 1, Floats{1, 0, 1}));
  kfr_session_release(session);
  kfr_weights_release(loaded.weights);
  loaded.prepare();
  session = loaded.session();
  CHECK(runsRight(session, 1, loaded.w0));
  kfr_session_release(session);
}

TEST_CASE("interface: a session in the caller's memory") {
  Loaded loaded;
  loaded.prepare();
  const std::size_t size = kfr_session_bytes(loaded.program);
  CHECK(size == 512);
  alignas(256) std::array<std::byte, 1024> memory{};
  kfr_session *session = loaded.session(memory.data(), size);
  CHECK(runsRight(session, 1, loaded.w0));
  CHECK(std::all_of(memory.begin() + 512, memory.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK_FALSE(std::all_of(memory.begin(), memory.begin() + 512, [](std::byte byte) { return byte == std::byte{0}; }));
  kfr_session_release(session);
  CHECK(kfr_session_new(loaded.weights, memory.data(), size - 1, &session, &loaded.error) == KFR_USAGE);
  CHECK(contains(loaded.error.message, "has 511 bytes, expected 512"));
  CHECK(kfr_session_new(loaded.weights, memory.data() + 16, size, &session, &loaded.error) == KFR_USAGE);
  CHECK(contains(loaded.error.message, "not aligned to 256 bytes"));
}

TEST_CASE("interface: misuse is an error that names the tensor") {
  Loaded loaded;
  auto says = [&](kfr_code code, const std::string &part) {
    CHECK(code == KFR_USAGE);
    CHECK(loaded.error.code == KFR_USAGE);
    CHECK_MESSAGE(contains(loaded.error.message, part), loaded.error.message);
  };
  alignas(16) Floats some{};
  const kfr_binding wrong{"w0", some.data(), 3}, unknown{"v", some.data(), 4}, empty{"w0", nullptr, 64};
  kfr_weights *none = nullptr;
  says(kfr_prepare(loaded.program, &wrong, 1, &none, &loaded.error), "parameter 'w0' is given 3 bytes, expected 64");
  says(kfr_prepare(loaded.program, &unknown, 1, &none, &loaded.error), "there is no 'v'; there are: w0");
  says(kfr_prepare(loaded.program, &empty, 1, &none, &loaded.error), "null pointer");
  says(kfr_prepare(loaded.program, nullptr, 0, &none, &loaded.error), "'w0' is not given, and the pack does not hold");
  loaded.prepare();
  kfr_session *session = loaded.session();
  says(kfr_bind(session, KFR_INPUT, "x", some.data(), 60, &loaded.error),
       "'x' is given 60 bytes, expected 64 of f32 16");
  says(kfr_bind(session, KFR_OUTPUT, "z", some.data(), 64, &loaded.error), "there is no 'z'; there are: y, s, p");
  says(kfr_bind(session, KFR_PARAMETER, "w0", some.data(), 64, &loaded.error), "kfr_prepare");
  says(kfr_bind_at(session, KFR_STATE, 1, some.data(), 64, &loaded.error), "there is no tensor 1, there are 1");
  says(kfr_run(session, nullptr, &loaded.error), "'x' is null; expected 64 bytes of f32 16");
  says(kfr_bind(session, KFR_INPUT, "x", some.data() + 1, 64, nullptr) == KFR_OK
           ? kfr_run(session, nullptr, &loaded.error)
           : KFR_OK,
       "'x' is not 16-byte aligned");
  says(kfr_run(nullptr, nullptr, &loaded.error), "null pointer");
  kfr_session_release(session);
  kfr_program *other = nullptr;
  kfr_load_options options{.struct_size = sizeof options,
                           .device = KFR_CPU,
                           .threads = 1,
                           .variant = "sm_80",
                           .weights = nullptr,
                           .check_weights = 0};
  says(kfr_load(loaded.pack, &options, &other, &loaded.error), "no program for 'sm_80' runs on this processor");
  options.threads = 100000;
  says(kfr_load(loaded.pack, &options, &other, &loaded.error), "100000 threads were asked for, expected 0 to 1024");
  options.struct_size = 4;
  says(kfr_load(loaded.pack, &options, &other, &loaded.error), "set struct_size");
}

TEST_CASE("interface: what is no pack, and an error that has less room") {
  kfr_error error{.struct_size = sizeof error, .code = KFR_OK, .message = {}};
  kfr_pack *none = nullptr;
  CHECK(kfr_open("/nonexistent.kfp", &none, &error) == KFR_IO);
  CHECK(contains(error.message, "cannot read '/nonexistent.kfp': "));
  CHECK(kfr_open_memory("KFUSEPAK", 8, &none, &error) == KFR_BAD_PACK);
  CHECK(contains(error.message, "the pack in memory is damaged"));
  CHECK(kfr_open("/nonexistent.kfp", &none, nullptr) == KFR_IO);
  kfr_error small{.struct_size = offsetof(kfr_error, message) + 8, .code = KFR_OK, .message = "unchanged"};
  CHECK(kfr_open("/nonexistent.kfp", &none, &small) == KFR_IO);
  CHECK(std::string(small.message) == "cannot ");
  CHECK(small.message[8] == 'd');
  kfr_pack_release(nullptr);
  kfr_program_release(nullptr);
  kfr_weights_release(nullptr);
  kfr_session_release(nullptr);
}

TEST_CASE("interface: memory that a program gives is the program's") {
  Loaded loaded;
  void *memory = nullptr;
  REQUIRE(kfr_allocate(loaded.program, 1000, &memory, &loaded.error) == KFR_OK);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
  Floats in{1, 2, 3}, out{};
  CHECK(kfr_upload(loaded.program, memory, in.data(), sizeof in, &loaded.error) == KFR_OK);
  CHECK(kfr_download(loaded.program, out.data(), memory, sizeof out, &loaded.error) == KFR_OK);
  CHECK(in == out);
  kfr_free(loaded.program, memory);
  CHECK(kfr_allocate(loaded.program, SIZE_MAX - 8, &memory, &loaded.error) == KFR_OUT_OF_MEMORY);
  CHECK(kfr_allocate(loaded.program, 8, &memory, &loaded.error) == KFR_OK); // Freed with the program.
}

TEST_CASE("interface: what is made of a program keeps the memory that it gave") {
  Loaded loaded;
  void *w0 = nullptr;
  REQUIRE(kfr_allocate(loaded.program, sizeof loaded.w0, &w0, &loaded.error) == KFR_OK);
  REQUIRE(kfr_upload(loaded.program, w0, loaded.w0.data(), sizeof loaded.w0, &loaded.error) == KFR_OK);
  const kfr_binding given{"w0", w0, sizeof loaded.w0};
  REQUIRE(kfr_prepare(loaded.program, &given, 1, &loaded.weights, &loaded.error) == KFR_OK);
  kfr_program_release(std::exchange(loaded.program, nullptr));
  kfr_pack_release(std::exchange(loaded.pack, nullptr));
  kfr_session *session = loaded.session();
  CHECK(runsRight(session, 1, loaded.w0));
  kfr_session_release(session);
}

TEST_CASE("interface: the pack with machine code that version 1.0 wrote runs") {
  std::ifstream file(KFUSE_TEST_DIR "/data/pack_1_0_cpu.kfp", std::ios::binary);
  Loaded loaded(std::vector<char>{std::istreambuf_iterator<char>(file), {}});
  loaded.prepare();
  kfr_session *session = loaded.session();
  CHECK(runsRight(session, 1, loaded.w0));
  kfr_session_release(session);
}

TEST_CASE("interface: eight threads with four sessions each") {
  Loaded loaded;
  loaded.prepare();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      std::array<kfr_session *, 4> sessions{};
      for (kfr_session *&session : sessions)
        kfr_session_new(loaded.weights, nullptr, 0, &session, nullptr);
      for (int i = 0; i < 100; ++i)
        right += runsRight(sessions[static_cast<std::size_t>(i) % 4], static_cast<float>(thread), loaded.w0) ? 1 : 0;
      for (kfr_session *session : sessions)
        kfr_session_release(session);
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(right == 8 * 100);
}

TEST_CASE("interface: code that asks for instructions which are not there is not run") {
  const std::vector<std::byte> bytes = samplePack(false);
  Result<Pack> pack = Pack::parse(bytes, "p");
  REQUIRE(pack);
  PackContents contents;
  contents.manifest = pack->manifest();
  contents.manifest.variants.clear();
  PackVariant variant;
  variant.target = "cpu";
  variant.features = {"teleportation"};
  contents.variants.emplace_back(variant, pack->loadAll(0).value());
  const std::vector<std::byte> other = writePack(std::move(contents));
  kfr_error error{.struct_size = sizeof error, .code = KFR_OK, .message = {}};
  kfr_pack *opened = nullptr;
  kfr_program *none = nullptr;
  REQUIRE(kfr_open_memory(other.data(), other.size(), &opened, &error) == KFR_OK);
  CHECK(kfr_load(opened, nullptr, &none, &error) == KFR_NO_DEVICE);
  CHECK(contains(error.message, "cpu (needs teleportation)"));
  kfr_pack_release(opened);
}
