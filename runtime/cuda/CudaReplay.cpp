#include "runtime/cuda/CudaReplay.h"

#include "runtime/cuda/CudaGraph.h"
#include "runtime/cuda/CudaKernel.h"

#include <algorithm>
#include <optional>

namespace kfuse::runtime::cuda {

struct CudaReplay::Given {
  const LoadedKernel *kernel = nullptr; ///< Null for a copy.
  std::vector<void *> pointers;         ///< Buffers and workspace; to and from of a copy.
  std::size_t bytes = 0;                ///< Bytes of a copy.

  static Given of(const KernelRun &run) {
    Given given{run.kernel, {run.buffers.begin(), run.buffers.end()}, 0};
    given.pointers.push_back(run.workspace);
    return given;
  }
  static Given of(const Copy &copy) { return {nullptr, {copy.to, const_cast<void *>(copy.from)}, copy.bytes}; }

  /// Whether the node that one became may be patched to be the other.
  bool isLike(const Given &other) const {
    return kernel == other.kernel && bytes == other.bytes && pointers.size() == other.pointers.size();
  }
};

struct CudaReplay::Recording {
  Graph graph;
  std::vector<Given> work;
  std::vector<std::size_t> firstNode; ///< The first node of each of `work`: a kernel may be several launches.
  std::vector<CUgraphNode> nodes;
  bool isPatchable = true; ///< Each launch and copy is known to be one node.
};

struct CudaReplay::Instance {
  std::shared_ptr<const Recording> recording;
  GraphExec exec;
  std::vector<Given> work;
  std::vector<void *> pointers; ///< Those of the run that it is.
  std::uint64_t lastLaunch = 0;
};

//===- Capture -------------------------------------------------------------------------------===//

/// Enqueues on a stream under capture and notes the node that each piece of work became: the one on which the next
/// would depend.
class CudaReplay::Recorder final : public WorkQueue {
public:
  Recorder(const PrimaryContext &context, CUstream stream, Recording &recording)
      : context(context), stream(stream), recording(recording) {}

  Result<void> launch(const KernelRun &run) override {
    begin(Given::of(run));
    return kernelOf(run).visit(run, [&](const CudaKernel::ReadyLaunch &ready) -> Result<void> {
      if (Result<void> launched = ready.enqueue(context.api, stream); !launched)
        return launched;
      return addNode();
    });
  }

  Result<void> copy(const Copy &copy) override {
    begin(Given::of(copy));
    KFUSE_DRIVER(context.api, cuMemcpyDtoDAsync(devicePointer(copy.to), devicePointer(copy.from), copy.bytes, stream));
    return addNode();
  }

  static const CudaKernel &kernelOf(const KernelRun &run) { return static_cast<const CudaKernel &>(*run.kernel); }

private:
  void begin(Given given) {
    recording.work.push_back(std::move(given));
    recording.firstNode.push_back(recording.nodes.size());
  }

  Result<void> addNode() {
    if (!recording.isPatchable)
      return {};
    if (!context.api.cuStreamGetCaptureInfo) {
      recording.isPatchable = false;
      return {};
    }
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *last = nullptr;
    const CUgraphEdgeData *edges = nullptr; // Must be asked for: edges of dependent launches carry data.
    std::size_t count = 0;
    KFUSE_DRIVER(context.api, cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &edges, &count));
    recording.isPatchable = count == 1 && (recording.nodes.empty() || recording.nodes.back() != *last);
    if (recording.isPatchable)
      recording.nodes.push_back(*last);
    return {};
  }

  const PrimaryContext &context;
  CUstream stream;
  Recording &recording;
};

//===- Patches -------------------------------------------------------------------------------===//

/// Compares work with what an instance holds, and patches the nodes whose pointers differ.
class CudaReplay::Patcher final : public WorkQueue {
public:
  Patcher(const PrimaryContext &context, Instance &instance) : context(context), instance(instance) {}

  Result<void> launch(const KernelRun &run) override {
    std::optional<std::size_t> node = nodeToPatch(Given::of(run));
    if (!node)
      return {};
    return Recorder::kernelOf(run).visit(run, [&](const CudaKernel::ReadyLaunch &ready) -> Result<void> {
      CUDA_KERNEL_NODE_PARAMS params = ready.nodeParams();
      KFUSE_DRIVER(context.api, cuGraphExecKernelNodeSetParams(instance.exec.get(), nodeAt((*node)++), &params));
      return {};
    });
  }

  Result<void> copy(const Copy &copy) override {
    std::optional<std::size_t> node = nodeToPatch(Given::of(copy));
    if (!node)
      return {};
    CUDA_MEMCPY3D params{};
    params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = devicePointer(copy.from);
    params.dstDevice = devicePointer(copy.to);
    params.WidthInBytes = copy.bytes;
    params.Height = params.Depth = 1;
    KFUSE_DRIVER(context.api,
                 cuGraphExecMemcpyNodeSetParams(instance.exec.get(), nodeAt(*node), &params, context.get()));
    return {};
  }

  /// Whether all work was that of the instance, but for its pointers.
  bool isComplete() const { return !differs && next == instance.work.size(); }

private:
  CUgraphNode nodeAt(std::size_t index) const { return instance.recording->nodes[index]; }

  /// The first node of the next piece of work if it must be patched.
  std::optional<std::size_t> nodeToPatch(Given given) {
    differs = differs || next == instance.work.size() || !given.isLike(instance.work[next]);
    if (differs)
      return std::nullopt;
    Given &held = instance.work[next];
    const std::size_t node = instance.recording->firstNode[next++];
    if (held.pointers == given.pointers)
      return std::nullopt;
    held.pointers = std::move(given.pointers);
    return node;
  }

  const PrimaryContext &context;
  Instance &instance;
  std::size_t next = 0;
  bool differs = false;
};

//===- Replay --------------------------------------------------------------------------------===//

CudaReplay::CudaReplay(ContextRef context, StreamHandle recorder)
    : context(std::move(context)), recorder(std::move(recorder)) {}
CudaReplay::~CudaReplay() = default;

Result<std::unique_ptr<Replay>> CudaReplay::make(const ContextRef &context) {
  Result<StreamHandle> recorder = makeStream(context);
  if (!recorder)
    return recorder.error();
  return std::unique_ptr<Replay>(new CudaReplay(context, std::move(*recorder)));
}

Result<bool> CudaReplay::isCapturing(Stream stream) {
  if (stream == nullptr)
    return false; // The default stream cannot be captured.
  Current current(*context);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  KFUSE_DRIVER(context->api, cuStreamIsCapturing(static_cast<CUstream>(stream), &status));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<void> CudaReplay::launch(Stream stream, std::span<void *const> pointers, const Work &work) {
  Current current(*context);
  Instance *instance = find(pointers);
  if (!instance) {
    Result<Instance *> made = makeRoom(pointers, work);
    if (!made)
      return made.error();
    instance = *made;
  }
  instance->lastLaunch = ++launches;
  KFUSE_DRIVER(context->api, cuGraphLaunch(instance->exec.get(), static_cast<CUstream>(stream)));
  return {};
}

CudaReplay::Instance *CudaReplay::find(std::span<void *const> pointers) {
  auto found = std::find_if(instances.begin(), instances.end(), [&](const Instance &instance) {
    return std::equal(pointers.begin(), pointers.end(), instance.pointers.begin(), instance.pointers.end());
  });
  return found == instances.end() ? nullptr : &*found;
}

/// An instance that holds `work`: a new one while there are few, else the one launched longest ago. A recording serves
/// runs of the same kernels and copies; pointers decide whether a copy onto itself is left out, so there may be others.
Result<CudaReplay::Instance *> CudaReplay::makeRoom(std::span<void *const> pointers, const Work &work) {
  auto place = instances.size() < mostGraphs
                   ? instances.end()
                   : std::min_element(
                         instances.begin(), instances.end(),
                         [](const Instance &a, const Instance &b) { return a.lastLaunch < b.lastLaunch; });
  Instance made;
  if (place != instances.end()) {
    made = std::move(*place);
    instances.erase(place);
  } else if (latest && latest->isPatchable) {
    Result<Instance> another = instantiate();
    if (!another)
      return another.error();
    made = std::move(*another);
    ++done.instantiations;
  }
  Result<bool> holds = made.exec && made.recording->isPatchable ? patch(made, work) : Result<bool>(false);
  if (!holds)
    return holds.error();
  if (!*holds) {
    if (Result<void> recorded = record(work); !recorded)
      return recorded.error();
    Result<Instance> fresh = instantiate();
    if (!fresh)
      return fresh.error();
    made = std::move(*fresh); // A graph that still runs is freed when it has ended (cuGraphExecDestroy).
    ++done.instantiations;
  }
  made.pointers.assign(pointers.begin(), pointers.end());
  instances.push_back(std::move(made));
  return &instances.back();
}

Result<void> CudaReplay::record(const Work &work) {
  auto recording = std::make_shared<Recording>();
  Result<Graph> graph = capture(context, recorder.get(), [&](Stream stream) {
    Recorder queue(*context, static_cast<CUstream>(stream), *recording);
    return work(queue);
  });
  if (!graph)
    return graph.error();
  recording->graph = std::move(*graph);
  latest = std::move(recording);
  ++done.captures;
  return {};
}

Result<CudaReplay::Instance> CudaReplay::instantiate() const {
  Result<GraphExec> exec = cuda::instantiate(context, latest->graph);
  if (!exec)
    return exec.error();
  return Instance{latest, std::move(*exec), latest->work, {}, 0};
}

Result<bool> CudaReplay::patch(Instance &instance, const Work &work) {
  Patcher patcher(*context, instance);
  if (Result<void> patched = work(patcher); !patched)
    return patched.error().code == ErrorCode::Internal ? Result<bool>(false) : patched.error();
  if (patcher.isComplete())
    ++done.patches;
  return patcher.isComplete();
}

} // namespace kfuse::runtime::cuda
