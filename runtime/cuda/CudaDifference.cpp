#include "runtime/cuda/CudaDifference.h"

#include <array>
#include <string>

namespace kfuse::runtime::cuda {
namespace {

constexpr unsigned threads = 128;
/// How the kernel is told of a type.
constexpr std::uint32_t asF32 = 0, asF16 = 1, asBf16 = 2;

static_assert(sizeof(DifferenceSums) == 16 && DifferenceSums::elements == 256, "as the kernel has it");

/// PTX that reads the element %offset bytes from `array` on as the f32 `value`, which has a register `value`_half, too.
std::string readOf(const std::string &array, const std::string &value) {
  const std::string half = value + "_half";
  std::string text = "  add.u64 %at, " + array + ", %offset;\n";
  text += "  @%is_f32 ld.global.f32 " + value + ", [%at];\n";
  text += "  @!%is_f32 ld.global.b16 " + half + ", [%at];\n";
  text += "  @%is_f16 cvt.f32.f16 " + value + ", " + half + ";\n";
  text += "  @%is_bf16 mov.b32 " + value + ", {%zero, " + half + "};\n";
  return text;
}

// A thread for each run of 256 elements: sums of (found - expected)^2 and of expected^2, in f64, so that they are those
// of the host. PTX, because the driver compiles it for any device without NVRTC.
std::string differencePtx() {
  return R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry difference(.param .u32 type, .param .u64 found, .param .u64 expected, .param .u64 count,
                           .param .u64 sums)
{
  .reg .pred %done, %is_f32, %is_f16, %is_bf16;
  .reg .b16 %x_half, %y_half, %zero;
  .reg .b32 %type, %block, %threads, %thread, %shift;
  .reg .f32 %x, %y;
  .reg .f64 %a, %b, %error, %size;
  .reg .b64 %found, %expected, %count, %sums, %run, %wide, %index, %end, %offset, %at;
  ld.param.u32 %type, [type];
  ld.param.u64 %found, [found];
  ld.param.u64 %expected, [expected];
  ld.param.u64 %count, [count];
  ld.param.u64 %sums, [sums];
  cvta.to.global.u64 %found, %found;
  cvta.to.global.u64 %expected, %expected;
  cvta.to.global.u64 %sums, %sums;
  setp.eq.u32 %is_f32, %type, 0;
  setp.eq.u32 %is_f16, %type, 1;
  setp.eq.u32 %is_bf16, %type, 2;
  selp.u32 %shift, 2, 1, %is_f32;
  mov.b16 %zero, 0;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %run, %block, %threads;
  cvt.u64.u32 %wide, %thread;
  add.u64 %run, %run, %wide;
  shl.b64 %index, %run, 8;
  setp.ge.u64 %done, %index, %count;
  @%done ret;
  add.u64 %end, %index, 256;
  min.u64 %end, %end, %count;
  mov.f64 %error, 0d0000000000000000;
  mov.f64 %size, 0d0000000000000000;
next:
  shl.b64 %offset, %index, %shift;
)" + readOf("%found", "%x") +
         readOf("%expected", "%y") + R"(
  cvt.f64.f32 %a, %x;
  cvt.f64.f32 %b, %y;
  sub.f64 %a, %a, %b;
  fma.rn.f64 %error, %a, %a, %error;
  fma.rn.f64 %size, %b, %b, %size;
  add.u64 %index, %index, 1;
  setp.lt.u64 %done, %index, %end;
  @%done bra next;
  shl.b64 %at, %run, 4;
  add.u64 %at, %at, %sums;
  st.global.v2.f64 [%at], {%error, %size};
  ret;
}
)";
}

} // namespace

Result<CudaDifference> CudaDifference::make(const ContextRef &context) {
  CudaDifference difference;
  difference.context = context;
  Result<Module> module = loadModule(context, differencePtx().c_str());
  if (!module)
    return module.error();
  Current current(*context);
  KFUSE_DRIVER(context->api, cuModuleGetFunction(&difference.function, module->get(), "difference"));
  difference.module = std::move(*module);
  return difference;
}

Result<bool> CudaDifference::operator()(DType type, const void *found, const void *expected, std::size_t count,
                                        void *sums) const {
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16)
    return false;
  if (count == 0)
    return true;
  Current current(*context);
  std::uint32_t kind = type == DType::F32 ? asF32 : type == DType::F16 ? asF16 : asBf16;
  CUdeviceptr a = devicePointer(found), b = devicePointer(expected), to = devicePointer(sums);
  std::uint64_t elements = count;
  std::array<void *, 5> arguments{&kind, &a, &b, &elements, &to};
  constexpr std::size_t perBlock = threads * DifferenceSums::elements;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>((count + perBlock - 1) / perBlock);
  config.blockDimX = threads;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  KFUSE_DRIVER(context->api, cuLaunchKernelEx(&config, function, arguments.data(), nullptr));
  KFUSE_DRIVER(context->api, cuStreamSynchronize(nullptr));
  return true;
}

} // namespace kfuse::runtime::cuda
