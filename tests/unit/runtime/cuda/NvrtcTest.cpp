#include "runtime/cuda/Nvrtc.h"
#include "runtime/Device.h"
#include "runtime/Elf.h"
#include "runtime/cuda/PtxasLog.h"
#include "tests/Skip.h"
#include "tests/unit/SampleProgram.h"

#include <doctest/doctest.h>

#include <thread>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

const std::vector<codegen::DeviceHeader> headers{{"kfuse/scale.cuh",
                                                  "#pragma once\n"
                                                  "#include <kfuse/factor.cuh>\n"
                                                  "__device__ inline float scale(float x) { return x * factor; }\n"},
                                                 {"kfuse/factor.cuh", "#pragma once\nconstexpr float factor = 3;\n"}};

/// Null, with a message, on a machine without NVRTC.
std::unique_ptr<KernelCompiler> compiler() {
  Result<std::unique_ptr<KernelCompiler>> made = makeCudaCompiler(headers);
  if (made)
    return std::move(*made);
  kfuse::testing::skip(made.error().message);
  CHECK(made.error().code == ErrorCode::NoDevice);
  return nullptr;
}

codegen::KernelPlan planOf(std::string target, std::string source) {
  codegen::KernelPlan plan;
  plan.name = "sample";
  plan.target = std::move(target);
  plan.source = std::move(source);
  return plan;
}

} // namespace

TEST_CASE("Nvrtc: PTX is the image for a target without machine code") {
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc)
    return;
  Result<CompiledKernel> kernel =
      nvrtc->compile(planOf("compute_80", "extern \"C\" __global__ void sample(float *x) { x[0] = 1; }\n"));
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  REQUIRE(!kernel->image.empty());
  const std::string text = reinterpret_cast<const char *>(kernel->image.data());
  CHECK(text.size() + 1 == kernel->image.size()); // The only zero is the last byte.
  CHECK(text.find(".target sm_80") != std::string::npos);
  CHECK(text.find(".entry sample") != std::string::npos);
}

TEST_CASE("Nvrtc: compiles to cubin with headers from memory, for three architectures") {
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc)
    return;
  CHECK(nvrtc->version().rfind("nvrtc 1", 0) == 0);
  for (const char *target : {"sm_80", "sm_90a", "sm_100a"}) {
    INFO(target);
    Result<CompiledKernel> kernel = nvrtc->compile(planOf(target, "#include <kfuse/scale.cuh>\n"
                                                                  "extern \"C\" __global__ void sample(float *x) {\n"
                                                                  "  __shared__ float tile[512];\n"
                                                                  "  tile[threadIdx.x] = scale(x[threadIdx.x]);\n"
                                                                  "  __syncthreads();\n"
                                                                  "  x[threadIdx.x] = tile[511 - threadIdx.x];\n"
                                                                  "}\n"));
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    CHECK(isWholeElf(kernel->image));
    CHECK(kernel->facts.registers >= 4);
    CHECK(kernel->facts.registers <= 255);
    CHECK(kernel->facts.staticSharedBytes >= 2048);
    CHECK(kernel->facts.staticSharedBytes <= 2048 + 1024); // Hopper and later reserve up to 1 KB.
    CHECK(kernel->facts.spillBytes == 0);
    CHECK(kernel->compileMs > 0);
    CHECK(kernel->log.find("ptxas info") != std::string::npos);
  }
}

TEST_CASE("Nvrtc: the toolkit's own headers are found beside the library") {
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc || (*cuda::Nvrtc::get())->includePath.empty())
    return;
  Result<CompiledKernel> kernel = nvrtc->compile(
      planOf("sm_80", "#include <cuda_bf16.h>\n"
                      "extern \"C\" __global__ void sample(__nv_bfloat16 *x) { x[0] = __float2bfloat16(1); }\n"));
  CHECK_MESSAGE(kernel, kernel.error().message);
}

TEST_CASE("Nvrtc: an error carries the first line of the log") {
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc)
    return;
  Result<CompiledKernel> wrong = nvrtc->compile(planOf("sm_80", "__global__ void f() {\n  undeclared = 1;\n}\n"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::Compile);
  CHECK(wrong.error().message ==
        "kernel 'sample' does not compile for sm_80: sample.cu(2): error: identifier \"undeclared\" is undefined");

  Result<CompiledKernel> missing = nvrtc->compile(planOf("sm_80", "#include <kfuse/nothing.cuh>\n"));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("kfuse/nothing.cuh") != std::string::npos);

  Result<CompiledKernel> unknown = nvrtc->compile(planOf("sm_12", "__global__ void f() {}\n"));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::Compile);
  CHECK(unknown.error().message.find("gpu-architecture") != std::string::npos);
}

TEST_CASE("Cubin: a truncated or foreign one is told from a whole one") {
  CHECK_FALSE(isWholeElf({}));
  CHECK_FALSE(isWholeElf(std::vector<std::byte>(1000, std::byte{7})));
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc)
    return;
  Result<CompiledKernel> kernel = nvrtc->compile(test::binaryPlan("add", "+", 1000));
  REQUIRE_MESSAGE(kernel, kernel.error().message);
  std::span<const std::byte> image = kernel->image;
  CHECK(isWholeElf(image));
  for (std::size_t size = 0; size < image.size() - 64; ++size) // Its last bytes may be padding.
    CHECK_FALSE(isWholeElf(image.first(size)));
}

TEST_CASE("Nvrtc: compiles on several threads at once") {
  std::unique_ptr<KernelCompiler> nvrtc = compiler();
  if (!nvrtc)
    return;
  std::vector<std::size_t> sizes(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    threads.emplace_back([&, i] {
      Result<CompiledKernel> kernel = nvrtc->compile(test::binaryPlan("add", "+", 1000));
      sizes[i] = kernel && isWholeElf(kernel->image) ? kernel->image.size() : 0;
    });
  for (std::thread &thread : threads)
    thread.join();
  for (std::size_t size : sizes) {
    CHECK(size > 0);
    CHECK(size == sizes[0]);
  }
}

TEST_CASE("Nvrtc: what is missing says what to install") {
  Result<cuda::Nvrtc> missing = cuda::Nvrtc::open({"libnowhere.so.1", "libnowhere.so"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::NoDevice);
  CHECK(missing.error().message.find("nvidia-cuda-nvrtc") != std::string::npos);
  Result<cuda::Nvrtc> foreign = cuda::Nvrtc::open({"libm.so.6"});
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().message.find("libm.so.6 is not NVRTC") != std::string::npos);
}

TEST_CASE("Nvrtc: the version is told by the names of its files, as the library tells it") {
  Result<std::string> version = cuda::Nvrtc::findVersion();
  Result<const cuda::Nvrtc *> nvrtc = cuda::Nvrtc::get();
  REQUIRE(bool(version) == bool(nvrtc));
  if (version)
    CHECK(*version == (*nvrtc)->version);
}

TEST_CASE("PtxasLog: the worst of all entries") {
  const char *log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
      "ptxas info    : Function properties for first\n"
      "    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 64 bytes smem\n"
      "ptxas info    : Function properties for second\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 9 registers, used 0 barriers, 1024 bytes smem, 384 bytes cmem[0]\n";
  CHECK(cuda::parseResourceFacts(log) == ResourceFacts{255, 56, 16, 1024});
  CHECK(cuda::parseResourceFacts("") == ResourceFacts{});
  CHECK(cuda::firstErrorLine("note\na.cu(1): error: x\nmore") == "a.cu(1): error: x");
  CHECK(cuda::firstErrorLine("ptxas fatal   : too few\nptxas fatal   : aborted due to errors") ==
        "ptxas fatal   : too few");
  CHECK(cuda::firstErrorLine("note\nmore") == "note");
  CHECK(cuda::firstErrorLine("").empty());
}
