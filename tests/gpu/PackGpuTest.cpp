// Packs on a GPU through the C interface: threads inside captures, and weights through the pinned ring.
#include "kfuse/runtime.h"
#include "runtime/pack/PackWriter.h"
#include "tests/gpu/Gpu.h"
#include "tests/unit/SampleProgram.h"

#include <array>
#include <chrono>
#include <thread>

using namespace kfuse;
using namespace kfuse::test;

namespace {

constexpr std::int64_t count = 1000;
constexpr std::size_t bytes = count * sizeof(float);

/// sampleProgram(count) for this device, whose parameter w lies inside.
std::vector<std::byte> packFor(Gpu &gpu, const std::vector<float> &w) {
  runtime::PackContents contents;
  runtime::VariantPrograms programs{gpu.compile(sampleProgram(count)), std::nullopt};
  runtime::Manifest &manifest = contents.manifest;
  manifest.model = "sample";
  const std::vector<TensorDesc> &arguments = programs.main.arguments;
  manifest.inputs = {arguments[0]}, manifest.parameters = {arguments[1]}, manifest.states = {arguments[2]};
  manifest.outputs = programs.main.results;
  manifest.updatedStates = {-1, 0, -1, -1};
  contents.weights = {std::as_bytes(std::span(w))};
  runtime::PackVariant variant;
  variant.target = gpu.device->target();
  contents.variants.emplace_back(variant, std::vector{std::move(programs)});
  return runtime::writePack(std::move(contents));
}

void check(kfr_code code, const kfr_error &error) { REQUIRE_MESSAGE(code == KFR_OK, error.message); }

/// A pack that is loaded on the first GPU, with its weights.
struct Loaded {
  kfr_error error{.struct_size = sizeof(kfr_error), .code = KFR_OK, .message = {}};
  kfr_pack *pack = nullptr;
  kfr_program *program = nullptr;
  kfr_weights *weights = nullptr;

  explicit Loaded(const std::vector<std::byte> &file) {
    check(kfr_open_memory(file.data(), file.size(), &pack, &error), error);
    check(kfr_load(pack, nullptr, &program, &error), error);
    check(kfr_prepare(program, nullptr, 0, &weights, &error), error);
  }
  ~Loaded() {
    kfr_weights_release(weights);
    kfr_program_release(program);
    kfr_pack_release(pack);
  }
};

/// A session with a stream and tensors of its own, whose run is captured.
class CapturedSession {
public:
  CapturedSession(Gpu &gpu, const Loaded &loaded, float seed)
      : gpu(gpu), seed(seed), stream(gpu.stream()), x(gpu, std::vector<float>(count, seed)),
        s(gpu, std::vector<float>(count, 1)), y(gpu, count), wCopy(gpu, count), sBefore(gpu, count) {
    session = nullptr;
    isRight = kfr_session_new(loaded.weights, nullptr, 0, &session, nullptr) == KFR_OK &&
              kfr_bind(session, KFR_INPUT, "x", x.data(), bytes, nullptr) == KFR_OK &&
              kfr_bind(session, KFR_STATE, "s", s.data(), bytes, nullptr) == KFR_OK &&
              kfr_bind(session, KFR_OUTPUT, "y", y.data(), bytes, nullptr) == KFR_OK &&
              kfr_bind(session, KFR_OUTPUT, "w_copy", wCopy.data(), bytes, nullptr) == KFR_OK &&
              kfr_bind(session, KFR_OUTPUT, "s_before", sBefore.data(), bytes, nullptr) == KFR_OK;
  }
  ~CapturedSession() { kfr_session_release(session); }

  /// Called by one of many threads at once: no assertions.
  void capture() {
    runtime::cuda::Current current(*gpu.context);
    CUgraph recorded = nullptr;
    isRight = isRight &&
              gpu.api.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS &&
              kfr_run(session, stream.get(), nullptr) == KFR_OK &&
              gpu.api.cuStreamEndCapture(stream.get(), &recorded) == CUDA_SUCCESS;
    graph = {gpu.context, recorded};
    CUgraphExec ready = nullptr;
    isRight = isRight && gpu.api.cuGraphInstantiate(&ready, recorded, 0) == CUDA_SUCCESS;
    exec = {gpu.context, ready};
  }
  void launch() {
    runtime::cuda::Current current(*gpu.context);
    isRight = isRight && gpu.api.cuGraphLaunch(exec.get(), stream.get()) == CUDA_SUCCESS;
    ++runs;
  }

  void check(const std::vector<float> &w) {
    REQUIRE(isRight);
    gpu.synchronize(stream.get());
    const std::vector<float> ys = y.read(), states = s.read();
    for (std::size_t i = 0; i < count; ++i) {
      const float expected = (seed + w[i]) * sampleScale(static_cast<std::int64_t>(i));
      REQUIRE(ys[i] == expected);
      float state = 1;
      for (int run = 0; run < runs; ++run)
        state += expected;
      REQUIRE(states[i] == state);
    }
  }

private:
  Gpu &gpu;
  const float seed;
  runtime::cuda::StreamHandle stream;
  GpuArray x, s, y, wCopy, sBefore;
  kfr_session *session;
  runtime::cuda::Graph graph;
  runtime::cuda::GraphExec exec;
  bool isRight = false;
  int runs = 0;
};

} // namespace

TEST_CASE("packs: eight threads with four sessions each, on their own streams, inside captures") {
  Gpu gpu;
  std::vector<float> w(count);
  for (std::size_t i = 0; i < count; ++i)
    w[i] = static_cast<float>(i % 32);
  const std::vector<std::byte> file = packFor(gpu, w);
  const Loaded loaded(file);
  constexpr int threads = 8, sessions = 4, launches = 20;
  std::vector<std::unique_ptr<CapturedSession>> all;
  for (int i = 0; i < threads * sessions; ++i)
    all.push_back(std::make_unique<CapturedSession>(gpu, loaded, static_cast<float>(i)));
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread)
      running.emplace_back([&, thread] {
        const std::span own(all.data() + thread * sessions, sessions);
        for (const auto &session : own)
          session->capture();
        for (int i = 0; i < launches; ++i)
          for (const auto &session : own)
            session->launch();
      });
  }
  for (const auto &session : all)
    session->check(w);
}

TEST_CASE("packs: weights of a file go through the pinned ring, whole, and as fast as plain copies or faster") {
  Gpu gpu;
  constexpr std::size_t mb = std::size_t(1) << 20;
  const std::vector<std::size_t> sizes{117 * mb + 2, 33 * mb, 64 * mb + 6, 1000, 0, 42 * mb};
  std::size_t all = 1; // Tensors of a file begin anywhere.
  for (std::size_t size : sizes)
    all += size;
  std::vector<std::byte> host(all);
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> buffers;
  std::vector<runtime::Transfer> transfers;
  std::size_t at = 1;
  for (std::size_t size : sizes) {
    buffers.push_back(take(gpu.device->allocate(size)));
    transfers.push_back({buffers.back()->data(), std::span(host).subspan(at, size)});
    at += size;
  }
  auto rate = [&](auto copy) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    return static_cast<double>(all) / 1e9 /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double plain = 0, ring = 0;
  for (int i = 0; i < 3; ++i) {
    plain = std::max(plain, rate([&] { succeed(gpu.device->Device::uploadAll(transfers)); }));
    for (const runtime::Transfer &transfer : transfers)
      if (!transfer.host.empty())
        succeed(gpu.device->fill(transfer.device, 0xff, transfer.host.size()));
    ring = std::max(ring, rate([&] { succeed(gpu.device->uploadAll(transfers)); }));
  }
  MESSAGE("plain copies " << plain << " GB/s, through the ring " << ring);
  for (const runtime::Transfer &transfer : transfers) {
    std::vector<std::byte> arrived(transfer.host.size());
    succeed(gpu.device->download(arrived.data(), transfer.device, arrived.size()));
    REQUIRE(std::ranges::equal(arrived, transfer.host));
  }
  CHECK(ring > 0.8 * plain);
}
