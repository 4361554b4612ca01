#include "tests/cuda/Schedules.h"

#include "codegen/cuda/Templates.h"

#include <algorithm>

namespace kfuse::test {
namespace {

using namespace codegen::cuda;

/// The case of this name.
TemplateCase named(const std::vector<TemplateCase> &cases, const std::string &name) {
  auto found = std::find_if(cases.begin(), cases.end(), [&](const TemplateCase &one) { return one.name == name; });
  REQUIRE_MESSAGE(found != cases.end(), "no case " << name);
  return *found;
}

/// Products whose sizes no tile divides, in strides that TMA reads.
TemplateCase product(const std::string &name) { return named(pairwiseProducts(304, 272, 1040), name); }
/// Three whole tiles of 64 rows down, seven of 96 columns across.
TemplateCase oddTiles(const std::string &name) { return named(pairwiseProducts(192, 672, 1040), name); }
/// A wave of tiles of 64 by 128 on an H200, and more than half of one.
TemplateCase manyTiles(const std::string &name) { return named(pairwiseProducts(1590, 1000, 1200), name); }
/// With K to split.
TemplateCase deepProduct(const std::string &name) { return named(pairwiseProducts(72, 144, 1040), name); }

/// Heads of 128 elements in groups of four, of 777 tokens.
TemplateCase modelAttention() { return named(largeFlashCases(), "flash_1x8of2_777x777_128x128_causal_tokens_bf16"); }

std::vector<Schedule> sm90Schedules() {
  const auto &persistent = matmulSm90Template();
  const auto &split = matmulSm90SplitTemplate();
  return {
      {"sm90: cooperative",
       persistent,
       product("bias_relu_ta_bf16"),
       {{"pingpong", 0}, {"cluster_m", 1}, {"cluster_n", 1}}},
      {"sm90: ping-pong", persistent, product("gelu_residual_bf16"), {{"pingpong", 1}}},
      {"sm90: a residual through TMA", persistent, product("bias_residual_tb_bf16"), {{"pingpong", 0}}},
      {"sm90: a residual through TMA, ping-pong", persistent, product("bias_residual_ta_f16"), {{"pingpong", 1}}},
      {"sm90: rows of a cluster share columns", persistent, product("plain_tb_bf16"), {{"cluster_m", 2}}},
      {"sm90: columns of a cluster share rows", persistent, product("plain_tb_bf16"), {{"cluster_n", 2}}},
      {"sm90: stream-K, several tiles a contributor",
       persistent,
       manyTiles("plain_tb_bf16"),
       {{"m", 64}, {"n", 128}, {"pingpong", 1}, {"cluster_m", 1}, {"cluster_n", 1}, {"segments", 1}}},
      {"sm90: stream-K, several contributors a tile",
       persistent,
       named(pairwiseProducts(1300, 1000, 1200), "plain_tb_bf16"),
       {{"m", 64}, {"n", 128}, {"pingpong", 1}, {"cluster_m", 1}, {"cluster_n", 1}, {"segments", 2}}},
      {"sm90: stream-K, rows of a cluster share columns",
       persistent,
       manyTiles("bias_residual_tb_bf16"),
       {{"m", 64}, {"n", 128}, {"pingpong", 1}, {"cluster_m", 2}, {"cluster_n", 1}, {"segments", 1}}},
      {"sm90: two products", persistent, product("gated_tb_f16"), {{"pingpong", 0}}},
      {"sm90: 8-bit floats", persistent, product("bias_relu_tb_f8E4M3FN"), {{"pingpong", 0}}},
      {"sm90: tf32", persistent, product("bias_relu_tb_tf32"), {{"pingpong", 0}}},
      {"sm90: batches", persistent, named(matmulCases("bf16"), "bias_relu_bf16"), {}},
      {"sm90: norm of a block's rows",
       persistent,
       named(rowProductCases("bf16"), "linear_norm_67x200x72_tb_bf16"),
       {{"cluster_n", 1}}},
      {"sm90: norm of a cluster's rows",
       persistent,
       named(rowProductCases("bf16"), "residual_norm_300x768x200_bf16"),
       {{"cluster_n", 4}}},
      {"split: one block",
       split,
       deepProduct("plain_tb_bf16"),
       {{"blocks_k", 1}, {"groups_k", 1}, {"cluster_m", 1}, {"cluster_n", 1}, {"swap", 0}}},
      {"split: warpgroups along K", split, deepProduct("plain_tb_bf16"), {{"blocks_k", 1}, {"groups_k", 2}}},
      {"split: cluster along K",
       split,
       deepProduct("bias_relu_tb_f16"),
       {{"blocks_k", 2}, {"cluster_m", 1}, {"cluster_n", 1}}},
      {"split: multicast", split, deepProduct("plain_tb_bf16"), {{"blocks_k", 1}, {"cluster_n", 2}}},
      {"split: whole tiles, the last one of a cluster past the bottom",
       split,
       oddTiles("plain_tb_bf16"),
       {{"m", 64}, {"n", 96}, {"blocks_k", 1}, {"groups_k", 1}, {"cluster_m", 2}, {"cluster_n", 1}, {"swap", 0}}},
      {"split: whole tiles, the last one of a cluster past the right",
       split,
       oddTiles("plain_tb_bf16"),
       {{"m", 64}, {"n", 96}, {"blocks_k", 1}, {"groups_k", 1}, {"cluster_m", 1}, {"cluster_n", 2}, {"swap", 0}}},
      {"split: cluster along K and multicast",
       split,
       deepProduct("plain_tb_bf16"),
       {{"blocks_k", 2}, {"cluster_n", 2}}},
      {"split: swapped", split, named(largeMatmulCases("bf16"), "matmul_1x4096x1024_tb_bf16"), {{"swap", 1}}},
      {"split: two products", split, deepProduct("gated_tb_f16"), {{"blocks_k", 2}}},
      {"split: 8-bit floats", split, deepProduct("bias_relu_tb_f8E4M3FN"), {{"groups_k", 2}}},
      {"split: tf32", split, deepProduct("bias_relu_tb_tf32"), {{"blocks_k", 2}}},
      {"split: weights of few bits, warpgroups along K",
       split,
       manyRowLowBitCases("bf16")[0],
       {{"blocks_k", 1}, {"groups_k", 2}, {"cluster_m", 1}, {"cluster_n", 1}}},
      {"split: weights of few bits, a cluster along K and multicast",
       split,
       manyRowLowBitCases("f16")[1],
       {{"blocks_k", 2}, {"cluster_n", 2}}},
      {"sm90 low bits: cooperative",
       matmulSm90LowBitsTemplate(),
       lowBitProduct(400, 1104, 640, 32, "ui4", "bf16"),
       {{"pingpong", 0}, {"cluster_m", 1}, {"cluster_n", 1}}},
      {"sm90 low bits: ping-pong, columns of a cluster share rows",
       matmulSm90LowBitsTemplate(),
       lowBitProduct(400, 2200, 640, 128, "i8", "f16"),
       {{"pingpong", 1}, {"cluster_n", 2}}},
      {"sm90 low bits: two products",
       matmulSm90LowBitsTemplate(),
       manyRowLowBitCases("bf16").back(),
       {{"pingpong", 0}}},
      {"chain: within clusters, in batches",
       chainTemplate(),
       layers(6, 3, 64, 256, 64, false, "bf16"),
       {{"cluster_n", 4}}},
      {"chain: with norms, rows and columns that end in a tile",
       chainTemplate(),
       normedLayers(3, 40, 200, false, "bf16"),
       {{"cluster_n", 4}}},
      {"row chain", rowChainTemplate(), normedLayers(3, 2500, 256, true, "bf16"), {{"m", 64}}},
      {"decode attention: within a cluster",
       decodeAttentionTemplate(),
       named(decodeCases(), "decode_positions_bf16"),
       {{"splits", 2}, {"cluster", 2}}},
      {"decode attention: within a cluster, sixteen rows",
       decodeAttentionTemplate(),
       named(decodeCases(), "decode_sixteen_rows_bf16"),
       {{"splits", 4}, {"cluster", 4}}},
      {"flash attention: wgmma, warpgroups in ping-pong",
       flashAttentionTemplate(),
       modelAttention(),
       {{"wgmma", 1}, {"warps", 8}, {"pingpong", 1}, {"persistent", 0}}},
      {"flash attention: wgmma, three warpgroups",
       flashAttentionTemplate(),
       flashCase(
           {.type = "f16", .batch = 1, .rows = 130, .keys = 130, .keySize = 32, .valueSize = 40, .mask = "window"}),
       {{"wgmma", 1}, {"warps", 12}}},
      {"flash attention: wgmma, from positions on",
       flashAttentionTemplate(),
       cacheCase({.batch = 2, .heads = 8, .rows = 190, .keys = 600, .step = 57}),
       {{"wgmma", 1}}},
      {"flash attention: wgmma, a mask by TMA and a sink",
       flashAttentionTemplate(),
       flashCase({.batch = 2, .heads = 8, .rows = 400, .keys = 600, .mask = "added", .hasSink = true}),
       {{"wgmma", 1}}},
      {"flash attention: wgmma, a mask that two blocks read together",
       flashAttentionTemplate(),
       flashCase({.batch = 1, .heads = 32, .rows = 500, .keys = 600, .keySize = 64, .valueSize = 64, .mask = "added"}),
       {{"wgmma", 1}, {"persistent", 0}, {"sharers", 2}}},
      {"flash attention: wgmma, from one integer of each row on to another",
       flashAttentionTemplate(),
       flashCase({.heads = 8, .rows = 400, .keys = 100, .mask = "bounded", .isGuarded = true}),
       {{"wgmma", 1}}},
      {"flash attention: wgmma, two blocks on an SM",
       flashAttentionTemplate(),
       flashCase({.batch = 40, .heads = 4, .rows = 150, .keys = 150, .mask = "causal"}),
       {{"wgmma", 1}, {"warps", 8}, {"resident", 2}, {"persistent", 1}}},
      {"flash attention: wgmma, queries that it computes",
       flashAttentionTemplate(),
       flashCase({.batch = 20,
                  .heads = 4,
                  .keyHeads = 2,
                  .rows = 250,
                  .keys = 250,
                  .mask = "causal",
                  .tokensFirst = true,
                  .front = "norm"}),
       {{"wgmma", 1}, {"warps", 8}, {"persistent", 1}}},
      {"flash attention: wgmma, blocks for several tiles of rows",
       flashAttentionTemplate(),
       flashCase({.batch = 40, .heads = 4, .rows = 150, .keys = 150, .mask = "causal"}),
       {{"wgmma", 1}, {"warps", 12}, {"pingpong", 1}, {"persistent", 1}}},
      {"rows: clusters", rowsTemplate(), named(longRowCases(), "add_layer_norm_5x8192_f16"), {{"cluster", 8}}},
      {"rows: clusters, the next row on its way",
       rowsTemplate(),
       named(longRowCases(), "add_layer_norm_90x65536_bf16"),
       {{"cluster", 8}, {"storage", 3}}},
  };
}

std::vector<Schedule> commonSchedules() {
  const auto &sm80 = matmulSm80Template();
  const auto &rows = rowsTemplate();
  const std::vector<TemplateCase> decode = decodeCases(), transposes = transposeCases();
  return {
      {"sm80: whole K", sm80, product("bias_relu_ta_bf16"), {{"split_k", 1}}},
      {"sm80: K split over blocks", sm80, named(matmulCases("f16"), "two_results_f16"), {{"split_k", 2}}},
      {"sm80: two products", sm80, product("gated_tb_f16"), {}},
      {"sm80: windows that reach outside", sm80, named(windowCases("bf16"), "windows_of_16_bf16"), {{"split_k", 1}}},
      {"sm80: windows, element by element", sm80, named(windowCases("bf16"), "windows_of_3_bf16"), {{"split_k", 1}}},
      {"sm80: tf32", sm80, product("gelu_residual_tb_tf32"), {}},
      {"rows: tiles of short rows", rows, named(shortRowCases(), "add_layer_norm_70x77_bf16"), {{"rows_each", 2}}},
      {"simt", matmulSimtTemplate(), named(matmulCases("f32"), "matmul_127x130x264_f32"), {}},
      {"stream", matmulStreamTemplate(), named(streamedCases("bf16"), "matmul_13x150x1000_tb_bf16"), {{"split", 8}}},
      {"stream: two products of 8-bit floats",
       matmulStreamTemplate(),
       named(streamedCases("f8E4M3FN"), "silu_gated_12x72x1040_tb_f8E4M3FN"),
       {}},
      {"low bits: scaled sums",
       matmulLowBitsTemplate(),
       named(lowBitCases("bf16"), "low_bits_1x72x512_of128_ui4_zeros_8_bf16"),
       {{"split", 4}, {"unroll", 2}}},
      {"low bits: scaled weights",
       matmulLowBitsTemplate(),
       named(lowBitCases("f16"), "low_bits_3x150x1056_of32_ui4_zeros_stored_f16"),
       {{"split", 4}, {"panels", 2}}},
      {"low bits: two products",
       matmulLowBitsTemplate(),
       named(lowBitCases("bf16"), "low_bits_2x56x768_of128_ui4_zeros_stored_gated_bf16"),
       {}},
      {"sm80: weights of few bits", sm80, manyRowLowBitCases("bf16")[1], {{"split_k", 1}}},
      {"sm80: two products with weights of few bits", sm80, manyRowLowBitCases("f16").back(), {}},
      {"gemv: warps of their own",
       gemvTemplate(),
       named(fewRowCases("bf16"), "matmul_4x520x264_tb_bf16"),
       {{"split", 1}}},
      {"gemv: warps along K", gemvTemplate(), named(fewRowCases("bf16"), "matmul_3x33x4104_tb_bf16"), {{"split", 4}}},
      {"gemv: a norm in front",
       gemvTemplate(),
       named(normedRowCases("bf16"), "add_layer_norm_gated_3x33x4104_bf16"),
       {}},
      {"rows: in registers", rows, named(rowCases(), "softmax_5x8x64_bf16"), {{"storage", 1}}},
      {"rows: in shared memory", rows, named(rowCases(), "softmax_2x4096_bf16"), {{"storage", 2}}},
      {"rows: read once", rows, named(rowCases(), "mean_of_squares"), {{"storage", 0}}},
      {"rows: the next one on its way", rows, named(rowCases(), "add_layer_norm_6x768_bf16"), {{"storage", 3}}},
      {"columns: split over blocks",
       columnsTemplate(),
       named(columnCases(), "mean_columns_1000x136_bf16"),
       {{"splits", 32}}},
      {"windows: neighbours in a row",
       windowsTemplate(),
       named(slidingCases(), "depthwise_7x7_bf16"),
       {{"access", 8}, {"rows", 2}}},
      {"windows: bands on tensor cores",
       windowsTemplate(),
       named(slidingCases(), "depthwise_7x7_of_18_images_bf16"),
       {{"stages", 8}}},
      {"windows: channels side by side", windowsTemplate(), named(slidingCases(), "depthwise_last_7x7_of_32_bf16"), {}},
      {"decode attention: one block",
       decodeAttentionTemplate(),
       named(decode, "decode_twelve_rows_bf16"),
       {{"splits", 1}}},
      {"decode attention: split",
       decodeAttentionTemplate(),
       named(decode, "decode_positions_bf16"),
       {{"splits", 2}, {"cluster", 1}}},
      {"decode attention: into the cache",
       decodeAttentionTemplate(),
       named(decode, "decode_into_cache_bf16"),
       {{"splits", 2}, {"cluster", 1}}},
      {"flash attention: queries in registers",
       flashAttentionTemplate(),
       flashCase({.heads = 4, .rows = 77, .keys = 77, .mask = "causal", .tokensFirst = true}),
       {{"rows", 64}, {"warps", 4}, {"stages", 2}}},
      {"flash attention: several heads in turn, with a bias in registers",
       flashAttentionTemplate(),
       flashCase({.batch = 600,
                  .heads = 3,
                  .keyHeads = 3,
                  .rows = 49,
                  .keys = 49,
                  .keySize = 32,
                  .valueSize = 32,
                  .mask = "bias"}),
       {{"rows", 64}, {"warps", 4}, {"keys", 64}, {"batches", 4}}},
      {"flash attention: queries in shared memory",
       flashAttentionTemplate(),
       flashCase({.heads = 2, .keyHeads = 2, .rows = 60, .keys = 290, .keySize = 256, .valueSize = 256}),
       {{"rows", 64}, {"warps", 4}, {"keys", 64}, {"stages", 2}}},
      {"flash attention: keys split, into the cache",
       flashAttentionTemplate(),
       cacheCase({.batch = 3, .heads = 8, .rows = 8, .keys = 500, .writes = true, .step = 57}),
       {{"splits", 3}, {"packed", 1}}},
      {"flash attention: queries that it computes",
       flashAttentionTemplate(),
       flashCase({.rows = 150, .keys = 150, .mask = "causal", .tokensFirst = true, .front = "rotary"}),
       {{"rows", 64}, {"warps", 4}, {"stages", 2}}},
      {"flash attention: without tensor cores",
       flashAttentionTemplate(),
       flashCase({.type = "f32", .rows = 300, .keys = 290, .keySize = 40, .valueSize = 40, .mask = "causal"}),
       {{"rows", 64}, {"warps", 4}, {"scalar", 1}}},
      {"side by side", sideBySideTemplate(), named(sideBySideCases(), "three_sizes"), {}},
      {"pointwise", pointwiseTemplate(), named(pointwiseCases(), "transpose_add"), {}},
      {"transpose: in registers",
       transposeTemplate(),
       named(transposes, "transpose_200x136_to_136x200_bf16"),
       {{"shared", 0}}},
      {"transpose: elements through shared memory",
       transposeTemplate(),
       named(transposes, "transpose_70x101_to_101x70_f16"),
       {{"shared", 1}, {"side", 64}}},
      {"transpose: whole chunks of rows that begin anywhere",
       transposeTemplate(),
       named(transposes, "transpose_300x141_to_141x300_bf16"),
       {{"in_lines", 0}}},
      {"transpose: whole chunks that keep their places in lines",
       transposeTemplate(),
       named(transposes, "transpose_300x141_to_141x300_bf16"),
       {{"in_lines", 1}}},
      {"transpose: vectors through shared memory",
       transposeTemplate(),
       named(transposes, "transpose_200x136_to_136x200_bf16"),
       {{"shared", 1}, {"across", 8}}},
  };
}

} // namespace

codegen::TileConfig Schedule::config(const codegen::Region &given, const ir::Target &target) const {
  ir::FusionDecision decision = source.match(given, target);
  REQUIRE_MESSAGE(decision, decision.reason());
  std::string offered;
  for (const codegen::TileConfig &config : source.candidates(given, target)) {
    offered += config.str() + "\n";
    codegen::TileConfig same = config;
    for (const auto &[field, value] : fields)
      same = same.with(field, value);
    if (same == config)
      return config;
  }
  FAIL("the template offers no such config but\n" << offered);
  return {};
}

std::vector<Schedule> schedules(bool withHopper) {
  std::vector<Schedule> all = commonSchedules();
  if (withHopper)
    for (Schedule &one : sm90Schedules())
      all.push_back(std::move(one));
  return all;
}

} // namespace kfuse::test
