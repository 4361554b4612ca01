// Every CUDA template on the device against the reference evaluator, over odd shapes, layouts, types
// and configs.
#include "codegen/cuda/Templates.h"
#include "tests/gpu/TemplateChecks.h"

using namespace kfuse;
using namespace kfuse::test;

// Short enough for compute-sanitizer (tests/gpu.sh).
TEST_CASE("schedules: one config of each is right") {
  TemplateChecks checks;
  for (const Schedule &schedule : schedules(checks.isHopper()))
    checks.add(schedule);
  checks.run();
}

TEST_CASE("cuda.pointwise: right on every access pattern") {
  TemplateChecks checks;
  checks.add(pointwiseCases(), codegen::cuda::pointwiseTemplate(), 8);
  checks.run();
}

TEST_CASE("cuda.side_by_side: right for parts of any size") {
  TemplateChecks checks;
  checks.add(sideBySideCases(), codegen::cuda::sideBySideTemplate(), 9);
  checks.run();
}

TEST_CASE("cuda.transpose: right for every layout and tile") {
  TemplateChecks checks;
  checks.add(transposeCases(), codegen::cuda::transposeTemplate(), 12);
  checks.run();
}

TEST_CASE("cuda.columns: right for every split of rows over threads and blocks") {
  TemplateChecks checks;
  checks.add(columnCases(), codegen::cuda::columnsTemplate(), 12);
  checks.run();
}

TEST_CASE("cuda.windows: right for every stride, border and tile") {
  TemplateChecks checks;
  checks.add(slidingCases(), codegen::cuda::windowsTemplate(), 12);
  checks.add(largeSlidingCases(), codegen::cuda::windowsTemplate(), 4);
  checks.run();
}

TEST_CASE("cuda.decode_attention: right for every layout, mask and split of the keys") {
  TemplateChecks checks;
  checks.add(decodeCases(), codegen::cuda::decodeAttentionTemplate(), 12);
  checks.add(decodeNormCases(), codegen::cuda::decodeAttentionTemplate(), 12);
  checks.add(modelDecodeCases(), codegen::cuda::decodeAttentionTemplate(), 12);
  checks.run();
}

TEST_CASE("cuda.flash_attention: right for every layout, mask and tile") {
  TemplateChecks checks;
  checks.add(flashCases(), codegen::cuda::flashAttentionTemplate(), 12);
  checks.add(largeFlashCases(), codegen::cuda::flashAttentionTemplate(), 12);
  checks.run();
}

TEST_CASE("cuda.rows: right for every split of rows over threads and clusters") {
  TemplateChecks checks;
  checks.add(rowCases(), codegen::cuda::rowsTemplate(), 10);
  checks.add(longRowCases(), codegen::cuda::rowsTemplate(), 12);
  checks.add(shortRowCases(), codegen::cuda::rowsTemplate(), 16);
  checks.run();
}

TEST_CASE("cuda.matmul_sm80: right in bf16 and f16 for every layout, edge and split") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16"}) {
    checks.add(matmulCases(type), codegen::cuda::matmulSm80Template(), 6);
    checks.add(largeMatmulCases(type), codegen::cuda::matmulSm80Template(), 16);
  }
  checks.run();
}

TEST_CASE("Two products at once: right in every variant, type, layout and edge") {
  TemplateChecks checks;
  using namespace codegen::cuda;
  for (const char *type : {"bf16", "f16", "f8E4M3FN"}) {
    checks.add(gatedCases(type), matmulSm80Template(), 6);
    checks.add(gatedCases(type), gemvTemplate(), 6, true);
    checks.add(largeGatedCases(type), matmulSm80Template(), 8);
    if (!checks.isHopper())
      continue;
    checks.add(gatedCases(type), matmulSm90Template(), 8, true);
    checks.add(gatedCases(type), matmulSm90SplitTemplate(), 8, true);
    checks.add(largeGatedCases(type), matmulSm90Template(), 16, true);
    checks.add(largeGatedCases(type), matmulSm90SplitTemplate(), 16, true);
  }
  checks.run();
}

TEST_CASE("8-bit floats with scales: right in every variant, layout and edge") {
  TemplateChecks checks;
  using namespace codegen::cuda;
  checks.add(scaledMatmulCases(), matmulSm80Template(), 6);
  checks.add(scaledMatmulCases(), gemvTemplate(), 6, true);
  checks.add(largeScaledMatmulCases(), matmulSm80Template(), 8);
  checks.add(largeScaledMatmulCases(), gemvTemplate(), 8, true);
  if (checks.isHopper()) {
    checks.add(scaledMatmulCases(), matmulSm90Template(), 8, true);
    checks.add(scaledMatmulCases(), matmulSm90SplitTemplate(), 8, true);
    checks.add(largeScaledMatmulCases(), matmulSm90Template(), 24, true);
    checks.add(largeScaledMatmulCases(), matmulSm90SplitTemplate(), 24, true);
  }
  checks.run();
}

TEST_CASE("tf32: right on tensor cores, for every edge and schedule") {
  TemplateChecks checks;
  checks.add(tf32Cases(), codegen::cuda::matmulSm80Template(), 8);
  if (checks.isHopper()) {
    checks.add(tf32Cases(), codegen::cuda::matmulSm90Template(), 12, true);
    checks.add(tf32Cases(), codegen::cuda::matmulSm90SplitTemplate(), 12, true);
  }
  checks.run();
}

TEST_CASE("cuda.matmul_sm80: right for operands that are read window by window") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16"})
    checks.add(windowCases(type), codegen::cuda::matmulSm80Template(), 8);
  checks.add(windowCases("f32"), codegen::cuda::matmulSimtTemplate(), 4);
  checks.run();
}

TEST_CASE("cuda.matmul_simt: right in f32 and with computed operands") {
  TemplateChecks checks;
  checks.add(matmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 5);
  checks.add(largeMatmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 10);
  checks.add(computedOperandCases(), codegen::cuda::matmulSimtTemplate(), 5);
  checks.run();
}

TEST_CASE("cuda.matmul_sm90: right in bf16 and f16 for every layout, edge and schedule") {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checks.add(matmulCases(type), codegen::cuda::matmulSm90Template(), 8, true);
    checks.add(largeMatmulCases(type), codegen::cuda::matmulSm90Template(), 24, true);
    checks.add(largeResidualCases(type), codegen::cuda::matmulSm90Template(), 10);
  }
  checks.run();
}

TEST_CASE("cuda.matmul_sm90: right for norms and softmax of a product's rows, for every cluster and schedule") {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checks.add(rowProductCases(type), codegen::cuda::matmulSm90Template(), 12);
    checks.add(largeRowProductCases(type), codegen::cuda::matmulSm90Template(), 12);
  }
  checks.run();
}

TEST_CASE("cuda.matmul_sm90_split: right in bf16 and f16 for every layout, edge and split") {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  for (const char *type : {"bf16", "f16"}) {
    checks.add(matmulCases(type), codegen::cuda::matmulSm90SplitTemplate(), 8, true);
    checks.add(largeMatmulCases(type), codegen::cuda::matmulSm90SplitTemplate(), 24, true);
  }
  checks.run();
}

TEST_CASE("cuda.chain: right for random chains, and twice the same") {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  checks.add({layers(4, 0, 256, 1024, 2, true, "bf16"), layers(3, 5, 256, 512, 64, false, "bf16")},
             codegen::cuda::chainTemplate(), 14);
  checks.add({normedLayers(20, 256, 1024, true, "bf16"), normedLayers(3, 67, 1000, false, "f16"),
              scaledLayers(4, 130, 456, "bf16")},
             codegen::cuda::chainTemplate(), 14);
  std::vector<TemplateCase> cases;
  for (unsigned seed = 0; seed < 24; ++seed)
    cases.push_back(randomChain(seed));
  checks.add(cases, codegen::cuda::chainTemplate(), 4);
  checks.run();
}

TEST_CASE("cuda.row_chain: right for layers of every size, and twice the same") {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  // One tile, one for each warpgroup, one more, many for each cluster; columns that end within a block's, in clusters
  // of 2 to 16.
  checks.add({normedLayers(2, 3, 256, true, "bf16"), normedLayers(3, 67, 200, true, "bf16"),
              normedLayers(4, 300, 256, false, "f16"), normedLayers(5, 2050, 1024, true, "bf16"),
              normedLayers(3, 4999, 1000, true, "bf16"), normedLayers(2, 6000, 456, false, "f16"),
              normedLayers(2, 1000, 2048, true, "bf16"), scaledLayers(3, 1300, 512, "bf16"),
              scaledLayers(2, 67, 200, "f16")},
             codegen::cuda::rowChainTemplate(), 6);
  checks.run();
}

TEST_CASE("cuda.matmul_stream: right for every type, edge and split of K, and for two products at once") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16", "f8E4M3FN", "f8E5M2"})
    checks.add(streamedCases(type), codegen::cuda::matmulStreamTemplate(), 12);
  checks.run();
}

TEST_CASE("cuda.matmul_low_bits: right for every type of weights, groups, zeros, edges and split of K") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16"})
    checks.add(lowBitCases(type), codegen::cuda::matmulLowBitsTemplate(), 24);
  checks.run();
}

TEST_CASE("Weights of few bits on mma.sync: right for every type, group, zero, edge and tile") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16"}) {
    checks.add(manyRowLowBitCases(type), codegen::cuda::matmulSm80Template(), 8);
    checks.add({lowBitProduct(200, 1536, 2048, 128, "ui4", type)}, codegen::cuda::matmulSm80Template(), 16);
  }
  checks.run();
}

namespace {

/// Products of more rows with weights of few bits, and some large ones in bf16, with what a template offers.
void checkLowBitRows(const codegen::KernelTemplate &source, std::size_t count, bool mayRefuse) {
  TemplateChecks checks;
  if (!checks.isHopper()) {
    MESSAGE("skipped: needs sm_90");
    return;
  }
  checks.add(manyRowLowBitCases("f16"), source, count, mayRefuse);
  std::vector<TemplateCase> cases = manyRowLowBitCases("bf16");
  for (int m : {64, 200, 1100})
    cases.push_back(lowBitProduct(m, 1536, 2048, 128, "ui4", "bf16"));
  cases.push_back(lowBitProduct(600, 1000, 1024, 32, "i8", "bf16"));
  checks.add(cases, source, count, mayRefuse);
  checks.run();
}

} // namespace

TEST_CASE("Weights of few bits as rows of wgmma: right for every type, group, zero, edge and split of K") {
  checkLowBitRows(codegen::cuda::matmulSm90SplitTemplate(), 6, false);
}

TEST_CASE("Weights of few bits as rows of wgmma: right for every type, group, zero and edge in persistent blocks") {
  checkLowBitRows(codegen::cuda::matmulSm90LowBitsTemplate(), 8, true);
}

TEST_CASE("cuda.gemv: right in every type for few rows") {
  TemplateChecks checks;
  for (const char *type : {"bf16", "f16", "f32"}) {
    checks.add(matmulCases(type), codegen::cuda::gemvTemplate(), 8, true);
    checks.add(fewRowCases(type), codegen::cuda::gemvTemplate(), 8);
    checks.add(normedRowCases(type), codegen::cuda::gemvTemplate(), 8);
  }
  checks.run();
}
