#include "runtime/cuda/CudaDevice.h"

#include "runtime/Residency.h"
#include "runtime/cuda/CudaGraph.h"
#include "runtime/cuda/CudaKernel.h"
#include "runtime/cuda/CudaReplay.h"
#include "runtime/cuda/PinnedRing.h"
#include "runtime/pack/Selection.h"

#include <bit>
#include <cstdio>

namespace kfuse::runtime::cuda {
namespace {

class CudaBuffer final : public DeviceBuffer {
public:
  CudaBuffer(Memory memory, std::size_t bytes) : memory(std::move(memory)), bytes(bytes) {}
  void *data() const override { return std::bit_cast<void *>(memory.get()); }
  std::size_t size() const override { return bytes; }

private:
  Memory memory;
  std::size_t bytes;
};

/// "580.82.07 (CUDA 13.0)": the kernel module's version where Linux shows it, and the newest CUDA it serves.
std::string driverVersion(const DriverApi &api) {
  int cuda = 0;
  api.cuDriverGetVersion(&cuda);
  std::string served = "CUDA " + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  char module[64] = ""; // By stdio: streams are 400 KB of the runtime library.
  if (std::FILE *file = std::fopen("/sys/module/nvidia/version", "r")) {
    if (std::fscanf(file, "%63s", module) != 1)
      module[0] = '\0';
    std::fclose(file);
  }
  return module[0] == '\0' ? served : std::string(module) + " (" + served + ")";
}

/// From Hopper on, code is built for one capability and its own instructions ("a").
std::string targetName(int capability) { return "sm_" + std::to_string(capability) + (capability >= 90 ? "a" : ""); }

} // namespace

Result<GpuFacts> gpuFacts(const DriverApi &api, int ordinal) {
  GpuFacts facts;
  facts.ordinal = ordinal;
  CUdevice device = 0;
  KFUSE_DRIVER(api, cuDeviceGet(&device, ordinal));
  char name[256] = {};
  KFUSE_DRIVER(api, cuDeviceGetName(name, sizeof name, device));
  KFUSE_DRIVER(api, cuDeviceTotalMem(&facts.memoryBytes, device));
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0; // Stays 0 where a driver does not know the attribute.
    api.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  facts.name = name;
  facts.capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.target = targetName(facts.capability);
  facts.driver = driverVersion(api);
  char place[32];
  std::snprintf(place, sizeof place, "%04x:%02x:%02x.0", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  facts.id = place;
  facts.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.l2Bytes = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  facts.sharedBytesPerBlock =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  facts.clockKhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  return facts;
}

Result<std::unique_ptr<DeviceBuffer>> CudaDevice::allocate(std::size_t bytes) {
  Result<Memory> memory = cuda::allocate(context, bytes);
  if (!memory)
    return memory.error();
  return std::unique_ptr<DeviceBuffer>(std::make_unique<CudaBuffer>(std::move(*memory), bytes));
}

// The driver's plain copies and fills may still be under way when they return, and streams that do
// not wait for the default stream would not see them: hence the waits.

Result<void> CudaDevice::upload(void *device, const void *host, std::size_t bytes) {
  if (bytes == 0)
    return {};
  Current current(*context);
  KFUSE_DRIVER(context->api, cuMemcpyHtoD(devicePointer(device), host, bytes));
  KFUSE_DRIVER(context->api, cuStreamSynchronize(nullptr));
  return {};
}

Result<void> CudaDevice::uploadAll(std::span<const Transfer> transfers) {
  return uploadThroughRing(context, transfers);
}

Result<void> CudaDevice::download(void *host, const void *device, std::size_t bytes) {
  if (bytes == 0)
    return {};
  Current current(*context);
  KFUSE_DRIVER(context->api, cuMemcpyDtoH(host, devicePointer(device), bytes));
  return {};
}

Result<void> CudaDevice::fill(void *device, unsigned char value, std::size_t bytes) {
  if (bytes == 0)
    return {};
  Current current(*context);
  KFUSE_DRIVER(context->api, cuMemsetD8Async(devicePointer(device), value, bytes, nullptr));
  KFUSE_DRIVER(context->api, cuStreamSynchronize(nullptr));
  return {};
}

Result<std::uint64_t> CudaDevice::digest(const void *device, std::size_t bytes) {
  if (!sum) {
    Result<CudaDigest> made = CudaDigest::make(context, facts.multiprocessors);
    if (!made)
      return made.error();
    sum.emplace(std::move(*made));
  }
  return (*sum)(device, bytes);
}

Result<bool> CudaDevice::sumDifferences(DType type, const void *found, const void *expected, std::size_t count,
                                        void *sums) {
  if (!difference) {
    Result<CudaDifference> made = CudaDifference::make(context);
    if (!made)
      return made.error();
    difference.emplace(std::move(*made));
  }
  return (*difference)(type, found, expected, count, sums);
}

Result<void> CudaDevice::writeWord(Stream stream, void *to, std::uint32_t word) {
  Current current(*context);
  const auto cuStream = static_cast<CUstream>(stream);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream) // The default stream cannot be captured.
    KFUSE_DRIVER(context->api, cuStreamIsCapturing(cuStream, &capture));
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE) {
    // What enqueues no kernel takes the host and the GPU 2 us less each. Some drivers of virtual GPUs have none of it.
    const CUresult status = context->api.cuStreamWriteValue32(cuStream, devicePointer(to), word, 0);
    if (status != CUDA_ERROR_NOT_SUPPORTED)
      return context->api.check(status, "cuStreamWriteValue32");
  }
  KFUSE_DRIVER(context->api, cuMemsetD32Async(devicePointer(to), word, 1, cuStream));
  return {};
}

Result<void> CudaDevice::copy(Stream stream, void *to, const void *from, std::size_t bytes) {
  if (bytes == 0)
    return {};
  Current current(*context);
  KFUSE_DRIVER(context->api,
               cuMemcpyDtoDAsync(devicePointer(to), devicePointer(from), bytes, static_cast<CUstream>(stream)));
  return {};
}

Result<void> CudaDevice::synchronize(Stream stream) {
  Current current(*context);
  KFUSE_DRIVER(context->api, cuStreamSynchronize(static_cast<CUstream>(stream)));
  return {};
}

Result<std::unique_ptr<LoadedKernel>> CudaDevice::load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) {
  return CudaKernel::load(context, planOn(plan, facts.multiprocessors), kernel);
}

Result<CudaTimer *> CudaDevice::timerHere() {
  if (!timer) {
    Result<CudaTimer> made = CudaTimer::make(context, facts);
    if (!made)
      return made.error();
    timer.emplace(std::move(*made));
  }
  return &*timer;
}

Result<std::unique_ptr<TimedRuns>> CudaDevice::prepareRuns(LoadedKernel &kernel, std::span<void *const> buffers,
                                                           void *workspace, const MeasureOptions &options) {
  Result<CudaTimer *> here = timerHere();
  if (!here)
    return here.error();
  auto run = [&kernel, workspace, programmaticLaunch = options.programmaticLaunch](Stream stream,
                                                                                   std::span<void *const> set) {
    return programmaticLaunch ? kernel.launchProgrammatic(stream, set, workspace)
                              : kernel.launch(stream, set, workspace);
  };
  return (*here)->prepare(run, buffers, options.cold);
}

Result<std::vector<double>> CudaDevice::measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                                const MeasureOptions &options) {
  Result<std::unique_ptr<TimedRuns>> runs = prepareRuns(kernel, buffers, workspace, options);
  return runs ? (*runs)->measure(options) : runs.error();
}

Result<std::vector<double>> CudaDevice::measureRuns(const Enqueue &run, const MeasureOptions &options) {
  Result<CudaTimer *> here = timerHere();
  return here ? (*here)->measureRuns(run, options) : here.error();
}

std::optional<Conditions> CudaDevice::conditions() {
  if (!nvml)
    nvml.emplace();
  return nvml->conditionsOf(facts.id);
}

Result<std::unique_ptr<Replay>> CudaDevice::makeReplay() { return CudaReplay::make(context); }

} // namespace kfuse::runtime::cuda

namespace kfuse::runtime {

Result<std::unique_ptr<Device>> openCuda(int ordinal) {
  Result<const cuda::DriverApi *> api = cuda::DriverApi::get();
  if (!api)
    return api.error();
  Result<GpuFacts> facts = cuda::gpuFacts(**api, ordinal);
  if (!facts)
    return facts.error();
  CUdevice device = 0;
  KFUSE_DRIVER(**api, cuDeviceGet(&device, ordinal));
  Result<cuda::ContextRef> context = cuda::PrimaryContext::retain(**api, device);
  if (!context)
    return context.error();
  return std::unique_ptr<Device>(std::make_unique<cuda::CudaDevice>(std::move(*context), std::move(*facts)));
}

Result<DeviceKind> cudaKind(int ordinal) {
  Result<const cuda::DriverApi *> api = cuda::DriverApi::get();
  if (!api)
    return api.error();
  Result<GpuFacts> facts = cuda::gpuFacts(**api, ordinal);
  if (!facts)
    return facts.error();
  int served = 0;
  KFUSE_DRIVER(**api, cuDriverGetVersion(&served));
  return DeviceKind{facts->target, facts->name, facts->multiprocessors, static_cast<int>(facts->sharedBytesPerBlock),
                    served,        {}};
}

bool hasCudaDriver() { return cuda::DriverApi::isInstalled(); }

Result<std::vector<GpuFacts>> listGpus() {
  Result<const cuda::DriverApi *> api = cuda::DriverApi::get();
  if (!api)
    return api.error();
  int count = 0;
  KFUSE_DRIVER(**api, cuDeviceGetCount(&count));
  std::vector<GpuFacts> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Result<GpuFacts> facts = cuda::gpuFacts(**api, ordinal);
    if (!facts)
      return facts.error();
    gpus.push_back(std::move(*facts));
  }
  return gpus;
}

} // namespace kfuse::runtime
