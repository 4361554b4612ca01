// What templates emit, compared with tests/golden/*.cu. After a deliberate change, run with
// KFUSE_UPDATE_GOLDEN=1 and read the difference before committing it.
#include "codegen/cuda/Templates.h"
#include "tests/cuda/TemplateCases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace kfuse;
using namespace kfuse::test;

namespace {

struct Golden {
  std::string caseName; ///< One of TemplateCases.
  const codegen::KernelTemplate &source;
  std::string config;
};

std::vector<Golden> goldens() {
  using namespace codegen::cuda;
  return {
      {"add_gelu_64x96_bf16", pointwiseTemplate(), "threads=256,unroll=2,vector=8"},
      {"rotary", pointwiseTemplate(), "threads=128,unroll=1,vector=4"},
      {"gather_rows", pointwiseTemplate(), "threads=128,unroll=1,vector=8"},
      {"state_update_per_row", pointwiseTemplate(), "threads=128,unroll=1,vector=2"},
      {"rotary_beside_update_bf16", sideBySideTemplate(), "rank=0,threads=128"},
      {"masked_softmax", rowsTemplate(), "cluster=1,rows=8,storage=1,threads=16,vector=8"},
      {"add_layer_norm_2x3x20000_f16", rowsTemplate(), "cluster=4,rows=1,storage=2,threads=512,vector=8"},
      {"reduce_middle_and_last", rowsTemplate(), "cluster=1,rows=128,storage=0,threads=1,vector=4"},
      {"softmax_5x9x49_bf16", rowsTemplate(), "cluster=1,rows=16,rows_each=2,storage=1,threads=8,vector=1"},
      {"masked_softmax_3x5x11x49_to_f32", rowsTemplate(), "cluster=1,rows=16,rows_each=1,storage=0,threads=8,vector=1"},
      {"column_moments_with_bias", columnsTemplate(), "groups=8,lanes=16,splits=4,unroll=4,vector=8"},
      {"depthwise_7x7_bf16", windowsTemplate(), "access=4,lanes=1,rows=2,strip=8,threads=128,unrolled=1,vector=1"},
      {"depthwise_7x7_of_18_images_bf16", windowsTemplate(), "rows=9,stages=8"},
      {"depthwise_last_7x7_of_32_bf16", windowsTemplate(),
       "access=1,lanes=16,rows=4,strip=4,threads=128,unrolled=0,vector=2"},
      {"softmax_2x4096_bf16", rowsTemplate(), "cluster=1,rows=1,storage=3,threads=128,vector=8"},
      {"decode_positions_bf16", decodeAttentionTemplate(), "keys=16,splits=3,stages=4,warps=4"},
      {"decode_shared_heads_bf16", decodeAttentionTemplate(), "keys=32,splits=1,stages=2,warps=4"},
      {"decode_into_cache_bf16", decodeAttentionTemplate(), "keys=16,splits=2,stages=3,warps=4"},
      {"decode_norms_into_cache_bf16", decodeAttentionTemplate(), "keys=16,splits=2,stages=3,warps=4"},
      {"flash_2x4of2_77x77_64x64_causal_tokens_bf16", flashAttentionTemplate(), "keys=64,rows=64,stages=2,warps=4"},
      {"flash_2x6of2_45x98_48x32_causal_from53_bf16", flashAttentionTemplate(),
       "keys=96,pingpong=1,rows=128,stages=2,warps=8,wgmma=1"},
      {"flash_2x2of2_49x61_64x32_chosen_guarded_bf16", flashAttentionTemplate(), "keys=32,rows=64,stages=3,warps=2"},
      {"transpose_bias_gelu_residual", transposeTemplate(),
       "across=8,down=8,down_first=1,lanes_down=8,shared=0,warps_across=2,warps_down=2"},
      {"transpose_33x47_to_47x33_f32", transposeTemplate(),
       "across=1,down=1,down_first=0,lanes_down=32,shared=1,side=64,warps_across=8,warps_down=1"},
      {"transpose_gelu_unaligned", transposeTemplate(), "chunks_down=24,in_lines=1,lanes_across=16,warps=12"},
      {"bias_gelu_residual_bf16", matmulSm80Template(),
       "k=64,m=64,n=64,swizzle=8,split_k=1,stages=4,warps_m=2,warps_n=2"},
      {"grouped_heads_bf16", matmulSm80Template(), "k=32,m=128,n=128,swizzle=1,split_k=1,stages=3,warps_m=2,warps_n=2"},
      {"two_results_bf16", matmulSm80Template(), "k=64,m=16,n=64,swizzle=1,split_k=4,stages=4,warps_m=1,warps_n=4"},
      {"bias_relu_bf16", matmulSm90Template(),
       "cluster_m=1,cluster_n=2,k=64,m=64,n=128,pingpong=1,swizzle=1,swizzle_n=0,split_k=1,stages=4"},
      {"linear_norm_67x200x72_tb_bf16", matmulSm90Template(),
       "cluster_m=1,cluster_n=2,k=64,m=64,n=112,pingpong=1,swizzle=1,swizzle_n=0,split_k=1,stages=4"},
      {"heads_out_bf16", matmulSm90SplitTemplate(),
       "blocks_k=1,groups_k=1,k=64,m=32,n=64,swizzle=1,split_k=1,stages=4,swap=1"},
      {"repeated_rows_bf16", matmulSm90SplitTemplate(),
       "blocks_k=1,groups_k=2,k=64,m=32,n=64,swizzle=1,split_k=1,stages=4,swap=1"},
      {"heads_in_transposed_out_bf16", matmulSm90SplitTemplate(),
       "blocks_k=1,groups_k=1,k=64,m=64,n=64,swizzle=1,split_k=1,stages=4,swap=0"}, // Lanes store their own sums.
      {"matmul_3x33x4104_tb_bf16", gemvTemplate(), "outputs=2,split=4,unroll=2,warps=8"},
      {"rms_norm_matmul_1x520x1000_bf16", gemvTemplate(), "outputs=1,split=4,unroll=2,warps=8"},
      {"layers_2_2x64x128_bf16", chainTemplate(), "cluster_n=2,groups_k=2,k=64,m=32,n=64,stages=8"},
      {"normed_layers_2_40x136_tb_bf16", chainTemplate(), "cluster_n=2,groups_k=1,k=64,m=24,n=128,stages=4"},
      {"scaled_layers_3_200x256_tb_bf16", rowChainTemplate(),
       "cluster_m=1,cluster_n=2,k=64,m=64,n=128,pingpong=1,swizzle=1,swizzle_n=0,split_k=1,stages=6"},
      {"silu_mul_into_matmul", matmulSimtTemplate(), "k=16,m=64,n=64,swizzle=1,split_k=1,thread_m=4,thread_n=4"},
  };
}

TemplateCase caseNamed(const std::string &name) {
  for (const auto &cases :
       {pointwiseCases(), sideBySideCases(), transposeCases(), rowCases(), shortRowCases(), columnCases(),
        slidingCases(), decodeCases(), decodeNormCases(), flashCases(), matmulCases("bf16"), fewRowCases("bf16"),
        rowProductCases("bf16"), normedRowCases("bf16"), computedOperandCases(),
        std::vector<TemplateCase>{layers(2, 2, 64, 128, 2, true, "bf16"), normedLayers(2, 40, 136, true, "bf16"),
                                  scaledLayers(3, 200, 256, "bf16")}})
    for (const TemplateCase &candidate : cases)
      if (candidate.name == name)
        return candidate;
  FAIL("no case " << name);
  return {};
}

std::string read(const std::filesystem::path &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("Golden: emitted CUDA is as committed, and the same every time") {
  for (const Golden &golden : goldens()) {
    INFO(golden.caseName);
    RegionCase given(caseNamed(golden.caseName));
    codegen::TileConfig config = *codegen::TileConfig::parse(golden.config);
    const ir::Target &target = *ir::findTarget("sm_90a");
    Result<codegen::KernelPlan> plan = golden.source.emit(given.region, config, target);
    REQUIRE_MESSAGE(plan, plan.error().message);
    CHECK(*golden.source.emit(given.region, config, target) == *plan);

    std::filesystem::path path = std::filesystem::path(KFUSE_TEST_DIR) / "golden" / (golden.caseName + ".cu");
    if (std::getenv("KFUSE_UPDATE_GOLDEN"))
      std::ofstream(path) << plan->source;
    CHECK_MESSAGE(plan->source == read(path), "differs from " << path.string());
  }
}
