#include "runtime/cuda/CudaDigest.h"

#include <array>

namespace kfuse::runtime::cuda {
namespace {

constexpr unsigned threads = 256, blocksPerSm = 8;
constexpr std::size_t wordBytes = 8;

// sum += (word[i] + i * step) * odd, mixed, for every 8-byte word: the product of a changed word changes, for an odd
// factor has an inverse, and the shift of the product brings its high bits down. PTX, because the driver
// compiles it for any device without NVRTC.
constexpr const char *digestPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry digest(.param .u64 data, .param .u64 count, .param .u64 result)
{
  .reg .pred %done;
  .reg .b32 %block, %threads, %thread, %blocks;
  .reg .b64 %data, %at, %index, %count, %step, %word, %sum, %high, %result;
  ld.param.u64 %data, [data];
  ld.param.u64 %count, [count];
  ld.param.u64 %result, [result];
  cvta.to.global.u64 %data, %data;
  cvta.to.global.u64 %result, %result;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %index, %block, %threads;
  cvt.u64.u32 %word, %thread;
  add.u64 %index, %index, %word;
  mul.wide.u32 %step, %blocks, %threads;
  mov.u64 %sum, 0;
next:
  setp.ge.u64 %done, %index, %count;
  @%done bra finish;
  shl.b64 %at, %index, 3;
  add.u64 %at, %at, %data;
  ld.global.u64 %word, [%at];
  mad.lo.u64 %word, %index, 0x9e3779b97f4a7c15, %word;
  mul.lo.u64 %word, %word, 0xd6e8feb86659fd93;
  shr.u64 %high, %word, 32;
  xor.b64 %word, %word, %high;
  add.u64 %sum, %sum, %word;
  add.u64 %index, %index, %step;
  bra next;
finish:
  red.global.add.u64 [%result], %sum;
  ret;
}
)";

} // namespace

Result<CudaDigest> CudaDigest::make(const ContextRef &context, int multiprocessors) {
  CudaDigest digest;
  digest.context = context;
  digest.blocks = blocksPerSm * static_cast<unsigned>(multiprocessors);
  Result<Module> module = loadModule(context, digestPtx);
  if (!module)
    return module.error();
  Current current(*context);
  KFUSE_DRIVER(context->api, cuModuleGetFunction(&digest.function, module->get(), "digest"));
  Result<Memory> sum = allocate(context, sizeof(std::uint64_t));
  if (!sum)
    return sum.error();
  digest.module = std::move(*module);
  digest.sum = std::move(*sum);
  return digest;
}

Result<std::uint64_t> CudaDigest::operator()(const void *device, std::size_t bytes) const {
  Current current(*context);
  const DriverApi &api = context->api;
  std::uint64_t total = 0, tail = 0; // What is left of the last word comes over the bus.
  KFUSE_DRIVER(api, cuMemsetD8Async(sum.get(), 0, sizeof total, nullptr));
  CUdeviceptr data = devicePointer(device), result = sum.get();
  std::uint64_t words = bytes / wordBytes;
  std::array<void *, 3> arguments{&data, &words, &result};
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.blockDimX = threads;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  KFUSE_DRIVER(api, cuLaunchKernelEx(&config, function, arguments.data(), nullptr));
  KFUSE_DRIVER(api, cuMemcpyDtoH(&total, result, sizeof total));
  if (std::size_t rest = bytes % wordBytes; rest > 0)
    KFUSE_DRIVER(api, cuMemcpyDtoH(&tail, data + words * wordBytes, rest));
  return total ^ tail;
}

} // namespace kfuse::runtime::cuda
