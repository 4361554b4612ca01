#ifdef KFUSE_CUDA_DRIVER
#include "runtime/cuda/CudaReplay.h"
#include "runtime/cuda/CudaKernel.h"
#include "tests/unit/runtime/cuda/FakeDriver.h"

#include <doctest/doctest.h>

#include <array>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

using Pointers = std::vector<void *>;

/// What the driver below was asked for. Its graphs are lists of nodes, a node the pointers that it was given: two of
/// each kernel and each copy.
struct Driver {
  std::vector<Pointers> captured;                ///< By the capture that runs, or ran last.
  std::vector<std::vector<Pointers>> executable; ///< Every graph that was instantiated, as patched by now.
  std::vector<std::vector<Pointers>> launched;   ///< Every run, as its graph was then.
  int captures = 0, kernelPatches = 0, copyPatches = 0;
  bool tellsNodes = true, refusesPatches = false;
} driver;

// Handles of nodes and graphs are their numbers, from 1 on.
template <class Handle> Handle handleOf(std::size_t index) { return reinterpret_cast<Handle>(index + 1); }
template <class Handle> std::size_t indexOf(Handle handle) { return reinterpret_cast<std::size_t>(handle) - 1; }

Pointers argumentsOf(void **arguments) {
  return {*static_cast<void **>(arguments[0]), *static_cast<void **>(arguments[1])};
}

Pointers ends(CUdeviceptr to, CUdeviceptr from) {
  return {reinterpret_cast<void *>(to), reinterpret_cast<void *>(from)};
}

cuda::DriverApi recordingDriver() {
  driver = {};
  cuda::DriverApi api = test::fakeDriver();
  api.cuStreamCreate = [](CUstream *stream, unsigned) { return *stream = handleOf<CUstream>(7), CUDA_SUCCESS; };
  api.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    return ++driver.captures, driver.captured.clear(), CUDA_SUCCESS;
  };
  api.cuStreamEndCapture = [](CUstream, CUgraph *graph) { return *graph = handleOf<CUgraph>(0), CUDA_SUCCESS; };
  api.cuLaunchKernelEx = [](const CUlaunchConfig *, CUfunction, void **arguments, void **) {
    return driver.captured.push_back(argumentsOf(arguments)), CUDA_SUCCESS;
  };
  api.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t, CUstream) {
    return driver.captured.push_back(ends(to, from)), CUDA_SUCCESS;
  };
  api.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **last,
                                  const CUgraphEdgeData **, std::size_t *count) {
    static CUgraphNode node; // The caller reads it at once.
    node = handleOf<CUgraphNode>(driver.captured.size() - 1);
    return *last = &node, *count = driver.tellsNodes ? 1 : 2, CUDA_SUCCESS;
  };
  api.cuGraphInstantiate = [](CUgraphExec *exec, CUgraph, unsigned long long) {
    *exec = handleOf<CUgraphExec>(driver.executable.size());
    return driver.executable.push_back(driver.captured), CUDA_SUCCESS;
  };
  api.cuGraphDestroy = [](CUgraph) { return CUDA_SUCCESS; };
  api.cuGraphExecDestroy = [](CUgraphExec) { return CUDA_SUCCESS; };
  api.cuGraphExecKernelNodeSetParams = [](CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    if (driver.refusesPatches)
      return CUDA_ERROR_INVALID_VALUE;
    ++driver.kernelPatches;
    driver.executable[indexOf(exec)][indexOf(node)] = argumentsOf(params->kernelParams);
    return CUDA_SUCCESS;
  };
  api.cuGraphExecMemcpyNodeSetParams = [](CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext) {
    ++driver.copyPatches;
    driver.executable[indexOf(exec)][indexOf(node)] = ends(params->dstDevice, params->srcDevice);
    return CUDA_SUCCESS;
  };
  api.cuGraphLaunch = [](CUgraphExec exec, CUstream) {
    return driver.launched.push_back(driver.executable[indexOf(exec)]), CUDA_SUCCESS;
  };
  return api;
}

/// A run of three kernels and a copy: in -> between -> between -> out, in -> copied, in which only the first kernel,
/// the last and the copy see what the caller gives. Each kernel is two launches.
class Runs {
public:
  Runs() {
    codegen::KernelPlan plan;
    plan.name = "step";
    plan.target = "sm_90a";
    plan.inputs = plan.outputs = {{DType::F32, {4}}};
    plan.launches.resize(2);
    for (codegen::Launch &launch : plan.launches)
      launch.args = {{codegen::KernelArg::Kind::Buffer, 0}, {codegen::KernelArg::Kind::Buffer, 1}};
    kernel = *cuda::CudaKernel::load(context, plan, test::emptyCubin());
    replay = *cuda::CudaReplay::make(context);
  }

  void run(float &in, float &out) {
    Pointers pointers{&in, &out};
    auto ran = replay->launch(nullptr, pointers, [&](WorkQueue &queue) -> Result<void> {
      if (&in != &out)
        CHECK(queue.copy({&copied, &in, 4}));
      std::array<Pointers, 3> steps{Pointers{&in, &between}, {&between, &between}, {&between, &out}};
      for (const Pointers &step : steps)
        if (Result<void> launched = queue.launch({kernel.get(), step, nullptr, &step != steps.data()}); !launched)
          return launched;
      return {};
    });
    REQUIRE_MESSAGE(ran, ran.error().message);
    std::vector<Pointers> expected{{&copied, &in},       {&in, &between},  {&in, &between}, {&between, &between},
                                   {&between, &between}, {&between, &out}, {&between, &out}};
    if (&in == &out)
      expected.erase(expected.begin());
    REQUIRE(driver.launched.back() == expected);
  }

  cuda::DriverApi api = recordingDriver();
  cuda::ContextRef context = *cuda::PrimaryContext::retain(api, 0);
  std::unique_ptr<LoadedKernel> kernel;
  std::unique_ptr<Replay> replay;
  float between = 0, copied = 0;
};

} // namespace

TEST_CASE("CudaReplay: sets of pointers in turn are captured once and then only launched") {
  Runs runs;
  float in = 0;
  std::array<float, 4> out{};
  for (int turn = 0; turn < 3; ++turn)
    for (float &each : out)
      runs.run(in, each);
  CHECK(runs.replay->counts() == ReplayCounts{.captures = 1, .instantiations = 4, .patches = 3});
  CHECK(driver.captures == 1);
  CHECK(driver.kernelPatches == 3 * 2); // The last kernel's two launches.
  CHECK(driver.copyPatches == 0);
}

TEST_CASE("CudaReplay: pointers that never come again patch the graph launched longest ago, where they changed") {
  Runs runs;
  std::array<float, 40> in{}, out{};
  for (std::size_t i = 0; i < in.size(); ++i)
    runs.run(in[i], out[i]);
  CHECK(runs.replay->counts() == ReplayCounts{.captures = 1, .instantiations = 4, .patches = 39});
  CHECK(driver.kernelPatches == 39 * 4);
  CHECK(driver.copyPatches == 39);
  runs.run(in[39], out[39]); // Still there, as are the three before it.
  runs.run(in[36], out[36]);
  CHECK(runs.replay->counts().patches == 39);
  runs.run(in[35], out[35]);
  CHECK(runs.replay->counts() == ReplayCounts{.captures = 1, .instantiations = 4, .patches = 40});
}

TEST_CASE("CudaReplay: a run of other kernels or copies is captured anew, and both are kept") {
  Runs runs;
  float in = 0, out = 0;
  for (int turn = 0; turn < 3; ++turn) {
    runs.run(in, out);
    runs.run(in, in); // Without its copy.
  }
  CHECK(driver.captures == 2);
  CHECK(runs.replay->counts().captures == 2);
}

TEST_CASE("CudaReplay: where nodes are not known, or patches are refused, runs are captured anew") {
  for (bool tells : {false, true}) {
    Runs runs;
    driver.tellsNodes = tells;
    driver.refusesPatches = true;
    std::array<float, 6> out{};
    float in = 0;
    for (float &each : out)
      runs.run(in, each);
    CHECK(driver.captures == 6);
    runs.run(in, out[5]);
    CHECK(driver.captures == 6);
  }
}
#endif
