#include "tests/gpu/Gpu.h"
#include "tests/unit/SampleProgram.h"

#include <array>
#include <numeric>

using namespace kfuse;
using namespace kfuse::test;
using codegen::KernelArg;

namespace {

std::vector<float> iota(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// A kernel over one float buffer to write, which is all its arguments.
codegen::KernelPlan writerPlan(const std::string &name, std::int64_t count, std::string source) {
  codegen::KernelPlan plan;
  plan.name = name;
  plan.source = std::move(source);
  plan.outputs = {{DType::F32, {count}}};
  codegen::Launch launch;
  launch.entry = name;
  launch.args = {{KernelArg::Kind::Buffer, 0}};
  plan.launches = {launch};
  return plan;
}

} // namespace

TEST_CASE("CudaDevice: facts and version") {
  Gpu gpu;
  std::vector<runtime::GpuFacts> gpus = take(runtime::listGpus());
  REQUIRE_FALSE(gpus.empty());
  const runtime::GpuFacts &facts = gpus.front();
  MESSAGE(facts.name << ", " << facts.target << ", driver " << facts.driver << ", " << facts.multiprocessors
                     << " SMs, L2 " << facts.l2Bytes << ", memory " << facts.memoryBytes << ", shared "
                     << facts.sharedBytesPerBlock << ", " << facts.clockKhz << " kHz");
  CHECK(gpu.device->sku() == facts.name);
  CHECK(gpu.device->target() == facts.target);
  CHECK(facts.driver.find("CUDA ") != std::string::npos);
  CHECK(facts.l2Bytes > 1000000);
  CHECK(facts.clockKhz > 500000);
  CHECK(facts.sharedBytesPerBlock >= 99 * 1024);
  CHECK_FALSE(runtime::openCuda(1000));
}

TEST_CASE("CudaKernel: vector add at sizes that divide nothing") {
  Gpu gpu;
  for (std::size_t count : {1, 255, 1000, 1000003}) {
    CAPTURE(count);
    auto kernel = gpu.load(binaryPlan("add", "+", static_cast<std::int64_t>(count)));
    GpuArray a(gpu, iota(count, 0)), b(gpu, iota(count, 5)), out(gpu, count);
    std::array<void *, 3> buffers{a.data(), b.data(), out.data()};
    succeed(kernel->launch(nullptr, buffers, nullptr));
    gpu.synchronize();
    std::vector<float> sum = out.read();
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(sum[i] == 2 * static_cast<float>(i) + 5);
    CHECK_FALSE(kernel->launch(nullptr, std::span(buffers).first(2), nullptr));
  }
}

TEST_CASE("CudaKernel: large dynamic shared memory, shared by two launches of one entry") {
  Gpu gpu;
  codegen::KernelPlan plan = writerPlan("fill", 64,
                                        "extern __shared__ float tile[];\n"
                                        "extern \"C\" __global__ void fill(float *out) {\n"
                                        "  unsigned size;\n"
                                        "  asm(\"mov.u32 %0, %dynamic_smem_size;\" : \"=r\"(size));\n"
                                        "  tile[size / 4 - 1 - threadIdx.x] = threadIdx.x;\n"
                                        "  out[threadIdx.x] = tile[size / 4 - 1 - threadIdx.x] + size;\n"
                                        "}\n");
  plan.launches[0].block = {64, 1, 1};
  plan.launches[0].sharedBytes = 90 * 1024;
  plan.launches.push_back(plan.launches[0]);
  plan.launches[1].sharedBytes = 1024;
  auto kernel = gpu.load(plan);
  GpuArray out(gpu, 64);
  std::array<void *, 1> buffers{out.data()};
  succeed(kernel->launch(nullptr, buffers, nullptr));
  gpu.synchronize();
  CHECK(out.read()[63] == 63 + 1024);

  plan.launches[0].sharedBytes = 10 << 20;
  plan.target = gpu.device->target();
  auto refused = gpu.device->load(plan, take(gpu.compiler->compile(plan)));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("kernel 'fill' (fill, ") == 0);
}

TEST_CASE("CudaKernel: clusters of 2 and, beyond the portable size, of 16 blocks") {
  Gpu gpu;
  if (!gpu.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (std::uint32_t size : {2U, 16U}) {
    CAPTURE(size);
    codegen::KernelPlan plan = writerPlan("rank", 32,
                                          "extern \"C\" __global__ void rank(float *out) {\n"
                                          "  unsigned blocks, rank;\n"
                                          "  asm(\"mov.u32 %0, %cluster_nctarank;\" : \"=r\"(blocks));\n"
                                          "  asm(\"mov.u32 %0, %cluster_ctarank;\" : \"=r\"(rank));\n"
                                          "  out[blockIdx.x] = 100 * blocks + rank;\n"
                                          "}\n");
    plan.launches[0].grid = {32, 1, 1};
    plan.launches[0].cluster = {size, 1, 1};
    auto kernel = gpu.load(plan);
    GpuArray out(gpu, 32);
    std::array<void *, 1> buffers{out.data()};
    succeed(kernel->launch(nullptr, buffers, nullptr));
    gpu.synchronize();
    std::vector<float> ranks = out.read();
    for (std::uint32_t block = 0; block < 32; ++block)
      CHECK(ranks[block] == static_cast<float>(100 * size + block % size));
  }
}

TEST_CASE("CudaKernel: tensor maps load tiles, and zeros beyond the edge") {
  Gpu gpu;
  if (!gpu.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  // A 20 x 36 matrix in tiles of 8 x 16; block (x, y) writes its tile after those before it.
  const std::string source = R"(
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void tiles(const __grid_constant__ TensorMap map, float *out) {
  __shared__ alignas(128) float tile[8 * 16];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned arrived = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(arrived) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(16 * blockIdx.x), "r"(8 * blockIdx.y),
                 "r"(arrived) : "memory");
  }
  __syncthreads();
  for (unsigned done = 0; !done;)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(arrived) : "memory");
  out[(blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x] = tile[threadIdx.x];
}
)";
  codegen::KernelPlan plan = writerPlan("tiles", 9 * 128, source);
  plan.inputs = {{DType::F32, {20, 36}}};
  plan.tensorMaps = {{0, DType::F32, {36, 20}, {36 * 4}, {16, 8}, 0}};
  plan.launches[0].grid = {3, 3, 1};
  plan.launches[0].block = {128, 1, 1};
  plan.launches[0].args = {{KernelArg::Kind::TensorMap, 0}, {KernelArg::Kind::Buffer, 1}};
  auto kernel = gpu.load(plan);
  GpuArray matrix(gpu, iota(20 * 36, 1)), out(gpu, 9 * 128);
  std::array<void *, 2> buffers{matrix.data(), out.data()};
  succeed(kernel->launch(nullptr, buffers, nullptr));
  gpu.synchronize();
  std::vector<float> tiles = out.read();
  for (int tile = 0; tile < 9; ++tile)
    for (int i = 0; i < 128; ++i) {
      int row = tile / 3 * 8 + i / 16, column = tile % 3 * 16 + i % 16;
      float expected = row < 20 && column < 36 ? static_cast<float>(1 + row * 36 + column) : 0;
      REQUIRE(tiles[tile * 128 + i] == expected);
    }
}

TEST_CASE("CudaDevice: what cannot be loaded or allocated is an error, and the device lives on") {
  Gpu gpu;
  auto refused = gpu.device->allocate(std::size_t(1) << 50);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::OutOfMemory);
  CHECK(refused.error().message.find("1125899906842624 bytes") != std::string::npos);

  codegen::KernelPlan plan = binaryPlan("add", "+", 10);
  plan.target = gpu.device->target();
  runtime::CompiledKernel compiled = take(gpu.compiler->compile(plan));
  plan.launches[0].entry = "nothing";
  auto missing = gpu.device->load(plan, compiled);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("kernel 'add' (nothing, ") == 0);
  compiled.image.resize(compiled.image.size() / 2);
  auto damaged = gpu.device->load(plan, compiled);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == ErrorCode::BadModel);

  GpuArray alive(gpu, iota(10, 1));
  CHECK(alive.read()[9] == 10);
}
