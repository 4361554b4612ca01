#ifdef KFUSE_CUDA_DRIVER
#include "runtime/Program.h"
#include "runtime/cuda/CudaDevice.h"
#include "tests/unit/SampleProgram.h"
#include "tests/unit/runtime/cuda/FakeDriver.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

constexpr int threads = 8, sessions = 4;

/// Threads that are inside a launch. Each stays until all are, which a lock that is held over launches would not let
/// happen.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, missed = 0;

  void join() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    if (!changed.wait_for(lock, std::chrono::seconds(20), [&] { return inside == threads; }))
      ++missed;
  }
};

Meeting *meeting = nullptr;
CUstreamCaptureStatus captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
thread_local int launches = 0; ///< This thread's.

CUresult launch() {
  if (launches++ == 0)
    meeting->join();
  return CUDA_SUCCESS;
}

/// Memory of the host, and graphs that are nothing but their launch.
cuda::DriverApi meetingDriver() {
  cuda::DriverApi api = test::fakeDriver();
  api.cuMemAlloc = [](CUdeviceptr *pointer, std::size_t bytes) {
    *pointer = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    return CUDA_SUCCESS;
  };
  api.cuMemFree = [](CUdeviceptr pointer) { return std::free(reinterpret_cast<void *>(pointer)), CUDA_SUCCESS; };
  api.cuMemcpyHtoD = [](CUdeviceptr to, const void *from, std::size_t bytes) {
    return std::memcpy(reinterpret_cast<void *>(to), from, bytes), CUDA_SUCCESS;
  };
  api.cuMemcpyDtoDAsync = [](CUdeviceptr, CUdeviceptr, std::size_t, CUstream) { return CUDA_SUCCESS; };
  api.cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) { return CUDA_SUCCESS; };
  api.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamCreate = [](CUstream *stream, unsigned) { return *stream = reinterpret_cast<CUstream>(1), CUDA_SUCCESS; };
  api.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus *status) {
    return *status = captureStatus, CUDA_SUCCESS;
  };
  api.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) { return CUDA_SUCCESS; };
  api.cuStreamEndCapture = [](CUstream, CUgraph *graph) { return *graph = reinterpret_cast<CUgraph>(1), CUDA_SUCCESS; };
  api.cuGraphInstantiate = [](CUgraphExec *exec, CUgraph, unsigned long long) {
    return *exec = reinterpret_cast<CUgraphExec>(1), CUDA_SUCCESS;
  };
  api.cuGraphDestroy = [](CUgraph) { return CUDA_SUCCESS; };
  api.cuGraphExecDestroy = [](CUgraphExec) { return CUDA_SUCCESS; };
  return api;
}

/// Runs of `program` on streams of their own, by all threads at once. How many succeeded.
int runAll(const Program &program, Device &device) {
  alignas(16) static std::array<float, 8> values{};
  std::atomic<int> succeeded = 0;
  auto work = [&](std::size_t thread) {
    for (std::size_t session = 0; session < sessions; ++session) {
      auto context = makeContext(program, device);
      std::array<void *, 3> arguments{};
      arguments.fill(values.data());
      std::array<void *, 4> results{};
      results.fill(values.data());
      auto *stream = reinterpret_cast<Stream>(thread * sessions + session + 1);
      const Result<void> ran = context ? (*context)->run(stream, arguments, results) : context.error();
      CHECK_MESSAGE(ran, ran.error().message);
      succeeded += ran ? 1 : 0;
    }
  };
  std::vector<std::jthread> running;
  for (std::size_t thread = 0; thread < threads; ++thread)
    running.emplace_back(work, thread);
  running.clear();
  return succeeded;
}

} // namespace

TEST_CASE("launches: no lock is held over one, in a caller's capture or in a graph's launch") {
  cuda::DriverApi api = meetingDriver();
  Program program = test::sampleProgram(8);
  for (ProgramKernel &kernel : program.kernels)
    kernel.binary = test::emptyCubin();
  GpuFacts facts;
  facts.target = program.target;
  cuda::CudaDevice device(cuda::PrimaryContext::retain(api, 0).value(), facts);
  for (bool isCaptured : {true, false}) {
    INFO(isCaptured);
    Meeting here;
    meeting = &here;
    captureStatus = isCaptured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    api.cuLaunchKernelEx = [](const CUlaunchConfig *, CUfunction, void **, void **) { return launch(); };
    api.cuGraphLaunch = [](CUgraphExec, CUstream) { return launch(); };
    CHECK(runAll(program, device) == threads * sessions);
    CHECK(here.inside == threads);
    CHECK(here.missed == 0);
  }
}
#endif
