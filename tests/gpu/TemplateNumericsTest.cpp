// Every CUDA template on the device against the reference evaluator, over odd shapes, layouts, types
// and configs. Compilation runs on all cores.
#include "codegen/cuda/DeviceLibrary.h"
#include "codegen/cuda/Templates.h"
#include "tests/cuda/Oracle.h"
#include "tests/gpu/Gpu.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

using namespace kfuse;
using namespace kfuse::test;
using codegen::KernelPlan;
using codegen::TileConfig;
using reference::HostTensor;

namespace {

/// Configs spread over a ranked space, with at least one of each storage and each split of K.
std::vector<TileConfig> spread(const std::vector<TileConfig> &all, std::size_t count) {
  std::set<std::size_t> chosen;
  for (std::size_t i = 0; i < count && !all.empty(); ++i)
    chosen.insert(i * (all.size() - 1) / std::max<std::size_t>(1, count - 1));
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const char *field : {"storage", "split_k", "vector", "swap", "cluster", "shared", "splits", "stages", "warps",
                              "blocks_k", "groups_k", "pingpong", "cluster_m", "cluster_n"})
      if (all[i].has(field) && seen.emplace(field, all[i][field]).second)
        chosen.insert(i);
  std::vector<TileConfig> configs;
  for (std::size_t i : chosen)
    configs.push_back(all[i]);
  return configs;
}

struct Compiled {
  TileConfig config;
  KernelPlan plan;
  Result<runtime::CompiledKernel> kernel = Error{};
};

/// Emits and compiles every config, on all cores.
std::vector<Compiled> compileAll(const codegen::KernelTemplate &source, const codegen::Region &region,
                                 const ir::Target &target, const std::vector<TileConfig> &configs) {
  auto compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  std::vector<Compiled> all(configs.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].config = configs[i];
    all[i].plan = take(source.emit(region, configs[i], target));
  }
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < all.size(); i = next++)
        all[i].kernel = compiler->compile(all[i].plan);
    });
  for (std::thread &thread : threads)
    thread.join();
  return all;
}

/// Device memory that holds a tensor.
std::unique_ptr<runtime::DeviceBuffer> uploaded(Gpu &gpu, const HostTensor &tensor) {
  auto buffer = take(gpu.device->allocate(tensor.bytes.size()));
  succeed(gpu.device->upload(buffer->data(), tensor.bytes.data(), tensor.bytes.size()));
  return buffer;
}

std::vector<HostTensor> run(Gpu &gpu, const Compiled &compiled, const std::vector<HostTensor> &inputs,
                            const std::vector<int> &states) {
  auto kernel = take(gpu.device->load(compiled.plan, *compiled.kernel));
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<void *> buffers;
  for (const HostTensor &input : inputs)
    buffers.push_back(owned.emplace_back(uploaded(gpu, input))->data());
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < compiled.plan.outputs.size(); ++i) {
    const codegen::BufferDesc &desc = compiled.plan.outputs[i];
    outputs.push_back(HostTensor::zeros(desc.type, desc.shape));
    auto poisoned = take(gpu.device->allocate(desc.bytes()));
    succeed(gpu.device->fill(poisoned->data(), 0xff, desc.bytes()));
    buffers.push_back(states[i] >= 0 ? buffers[states[i]] : poisoned->data());
    owned.push_back(std::move(poisoned));
  }
  auto workspace = take(gpu.device->allocate(compiled.plan.workspaceBytes));
  succeed(gpu.device->fill(workspace->data(), 0xff, compiled.plan.workspaceBytes));
  succeed(gpu.device->fill(workspace->data(), 0, compiled.plan.zeroedBytes));
  succeed(kernel->launch(nullptr, buffers, workspace->data()));
  gpu.synchronize();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    succeed(gpu.device->download(outputs[i].bytes.data(), buffers[inputs.size() + i], outputs[i].bytes.size()));
  return outputs;
}

/// Every case that the template takes; it has to take all of them unless it `mayRefuse`.
void checkAll(const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &source, std::size_t count,
              bool mayRefuse = false) {
  Gpu gpu;
  std::size_t taken = 0, configs = 0, spilled = 0;
  const ir::Target &target = *ir::findTarget(gpu.device->target());
  const char *only = std::getenv("KFUSE_CASE");
  for (const TemplateCase &text : cases) {
    if (only && text.name.find(only) == std::string::npos)
      continue;
    INFO(text.name);
    RegionCase given(text);
    ir::FusionDecision decision = source.match(given.region, target);
    if (!decision && mayRefuse)
      continue;
    REQUIRE_MESSAGE(decision, decision.reason());
    ++taken;
    std::vector<HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    std::vector<TileConfig> chosen = spread(source.candidates(given.region, target), count);
    REQUIRE_FALSE(chosen.empty());
    for (const Compiled &compiled : compileAll(source, given.region, target, chosen)) {
      INFO(compiled.config.str());
      REQUIRE_MESSAGE(compiled.kernel, compiled.kernel.error().message);
      ++configs, spilled += compiled.kernel->facts.spillBytes > 0;
      const std::vector<HostTensor> outputs = run(gpu, compiled, inputs, given.states());
      for (const reference::Verdict &verdict : oracle.judge(outputs))
        CHECK_MESSAGE(verdict.right, verdict.message);
      CHECK_MESSAGE(run(gpu, compiled, inputs, given.states()) == outputs, "two runs differ");
    }
  }
  CHECK((only || taken > 0));
  // The tuner refuses what spills: a template that offers more than a few such configs wastes its time.
  CHECK_MESSAGE(spilled * 20 <= configs, spilled << " of " << configs << " configs spill");
}

bool isHopper() { return Gpu().isHopper(); }

} // namespace

TEST_CASE("cuda.pointwise: right on every access pattern") {
  checkAll(pointwiseCases(), codegen::cuda::pointwiseTemplate(), 8);
}

TEST_CASE("cuda.side_by_side: right for parts of any size") {
  checkAll(sideBySideCases(), codegen::cuda::sideBySideTemplate(), 9);
}

TEST_CASE("cuda.transpose: right for every layout and tile") {
  checkAll(transposeCases(), codegen::cuda::transposeTemplate(), 12);
}

TEST_CASE("cuda.columns: right for every split of rows over threads and blocks") {
  checkAll(columnCases(), codegen::cuda::columnsTemplate(), 12);
}

TEST_CASE("cuda.decode_attention: right for every layout, mask and split of the keys") {
  checkAll(decodeCases(), codegen::cuda::decodeAttentionTemplate(), 12);
}

TEST_CASE("cuda.rows: right for every split of rows over threads and clusters") {
  checkAll(rowCases(), codegen::cuda::rowsTemplate(), 10);
  checkAll(longRowCases(), codegen::cuda::rowsTemplate(), 12);
}

TEST_CASE("cuda.matmul_sm80: right in bf16 and f16 for every layout, edge and split") {
  for (const char *type : {"bf16", "f16"}) {
    checkAll(matmulCases(type), codegen::cuda::matmulSm80Template(), 6);
    checkAll(largeMatmulCases(type), codegen::cuda::matmulSm80Template(), 16);
  }
}

TEST_CASE("Two products at once: right in every way, type, layout and edge") {
  using namespace codegen::cuda;
  for (const char *type : {"bf16", "f16", "f8E4M3FN"}) {
    checkAll(gatedCases(type), matmulSm80Template(), 6);
    checkAll(gatedCases(type), gemvTemplate(), 6, true);
    checkAll(largeGatedCases(type), matmulSm80Template(), 8);
    if (!isHopper())
      continue;
    checkAll(gatedCases(type), matmulSm90Template(), 8, true);
    checkAll(gatedCases(type), matmulSm90SplitTemplate(), 8, true);
    checkAll(largeGatedCases(type), matmulSm90Template(), 16, true);
    checkAll(largeGatedCases(type), matmulSm90SplitTemplate(), 16, true);
  }
}

TEST_CASE("8-bit floats with scales: right in every way, layout and edge") {
  using namespace codegen::cuda;
  checkAll(scaledMatmulCases(), matmulSm80Template(), 6);
  checkAll(scaledMatmulCases(), gemvTemplate(), 6, true);
  checkAll(largeScaledMatmulCases(), matmulSm80Template(), 8);
  checkAll(largeScaledMatmulCases(), gemvTemplate(), 8, true);
  if (!isHopper())
    return;
  checkAll(scaledMatmulCases(), matmulSm90Template(), 8, true);
  checkAll(scaledMatmulCases(), matmulSm90SplitTemplate(), 8, true);
  checkAll(largeScaledMatmulCases(), matmulSm90Template(), 24, true);
  checkAll(largeScaledMatmulCases(), matmulSm90SplitTemplate(), 24, true);
}

TEST_CASE("tf32: right on tensor cores, for every edge and schedule") {
  checkAll(tf32Cases(), codegen::cuda::matmulSm80Template(), 8);
  if (!isHopper())
    return;
  checkAll(tf32Cases(), codegen::cuda::matmulSm90Template(), 12, true);
  checkAll(tf32Cases(), codegen::cuda::matmulSm90SplitTemplate(), 12, true);
}

TEST_CASE("cuda.matmul_simt: right in f32 and with computed operands") {
  checkAll(matmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 5);
  checkAll(largeMatmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 10);
  checkAll(computedOperandCases(), codegen::cuda::matmulSimtTemplate(), 5);
}

TEST_CASE("cuda.matmul_sm90: right in bf16 and f16 for every layout, edge and schedule") {
  if (!isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checkAll(matmulCases(type), codegen::cuda::matmulSm90Template(), 8, true);
    checkAll(largeMatmulCases(type), codegen::cuda::matmulSm90Template(), 24, true);
  }
}

TEST_CASE("cuda.matmul_sm90: right for norms and softmax of a product's rows, for every cluster and schedule") {
  if (!isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checkAll(rowProductCases(type), codegen::cuda::matmulSm90Template(), 12);
    checkAll(largeRowProductCases(type), codegen::cuda::matmulSm90Template(), 12);
  }
}

TEST_CASE("cuda.matmul_sm90_split: right in bf16 and f16 for every layout, edge and split") {
  if (!isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checkAll(matmulCases(type), codegen::cuda::matmulSm90SplitTemplate(), 8, true);
    checkAll(largeMatmulCases(type), codegen::cuda::matmulSm90SplitTemplate(), 24, true);
  }
}

TEST_CASE("cuda.chain: right for random chains, and twice the same") {
  if (!isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  std::vector<TemplateCase> cases{layers(4, 0, 256, 1024, 2, true, "bf16"), layers(3, 5, 256, 512, 64, false, "bf16")};
  for (unsigned seed = 0; seed < 24; ++seed)
    cases.push_back(randomChain(seed));
  checkAll(cases, codegen::cuda::chainTemplate(), 4);
}

TEST_CASE("cuda.gemv: right in every type for few rows") {
  for (const char *type : {"bf16", "f16", "f32"}) {
    checkAll(matmulCases(type), codegen::cuda::gemvTemplate(), 8, true);
    checkAll(fewRowCases(type), codegen::cuda::gemvTemplate(), 8);
    checkAll(normedRowCases(type), codegen::cuda::gemvTemplate(), 8);
  }
}
