// Matrix products on GPUs: which variant takes what, and how.
#include "CudaRegions.h"

#include "codegen/cuda/Templates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::codegen::cuda;

TEST_CASE("cuda.gemv: computes rows for its product, but not for what reads them beside it") {
  auto normed = [](const std::string &result) {
    return region(R"(
func.func @f(%a: tensor<1x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<1x512xbf16> {
  %0 = kfuse.rms_norm %a {epsilon = 1.0e-5 : f32} : (tensor<1x512xbf16>) -> tensor<1x512xbf16>
  %1 = kfuse.matmul %0, %b {transpose_b} : (tensor<1x512xbf16>, tensor<512x512xbf16>) -> tensor<1x512xbf16>
  %2 = kfuse.add %1, )" +
                  result + R"( : (tensor<1x512xbf16>, tensor<1x512xbf16>) -> tensor<1x512xbf16>
  return %2 : tensor<1x512xbf16>
})");
  };
  CHECK(refusal(gemvTemplate(), normed("%a")).empty());
  CHECK(refusal(gemvTemplate(), normed("%0")) == "holds tiles of rows, which a reduction needs whole");
}

TEST_CASE("CUDA templates: a product of extents that 32 bits do not count is refused in every variant") {
  auto product = [](const std::string &batches, const std::string &m, const std::string &n, const std::string &k) {
    const std::string left = "tensor<" + batches + "x" + m + "x" + k + "xbf16>",
                      right = "tensor<" + batches + "x" + k + "x" + n + "xbf16>",
                      result = "tensor<" + batches + "x" + m + "x" + n + "xbf16>";
    return region("func.func @f(%a: " + left + ", %b: " + right + ") -> " + result +
                  " {\n  %0 = kfuse.matmul %a, %b : (" + left + ", " + right + ") -> " + result +
                  "\n  return %0 : " + result + "\n}");
  };
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  const std::vector<const codegen::KernelTemplate *> variants{
      &matmulTemplate(),
      &gemvTemplate(),
      &matmulStreamTemplate(),
      &matmulLowBitsTemplate(),
      &matmulSm90LowBitsTemplate(),
      &matmulSm90SplitTemplate(),
      &matmulSm80Template(),
      &matmulSm90Template(),
      &matmulSimtTemplate(),
  };
  auto check = [&](const RegionCase &given, const std::string &extent) {
    for (const codegen::KernelTemplate *variant : variants)
      CHECK_MESSAGE(variant->match(given.region, hopper).reason() ==
                        "multiplies matrices of " + extent + ", at most 2146435072 are counted in 32 bits",
                    variant->name());
  };
  check(product("2", "4294967296", "8", "8"), "M = 4294967296"); // 32 bits cut it to 0.
  check(product("2", "1", "2147483647", "8"), "N = 2147483647"); // No tile may be added to it.
  check(product("2", "1", "8", "2147483648"), "K = 2147483648");
  check(product("3000000000", "1", "8", "8"), "batches = 3000000000");
  CHECK(matmulTemplate().match(product("2", "2146435072", "8", "8").region, hopper));
}

TEST_CASE("CUDA templates: a product of computed or mixed operands is refused with its reason") {
  CHECK(refusal(matmulSm80Template(), region(computedOperandCases()[0].text)) ==
        "the left operand is computed in the region, not an input of it");
  CHECK(
      refusal(matmulSm80Template(), region(R"(
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = kfuse.matmul %a, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
})")) ==
      "multiplies f32 by f32, tensor cores take pairs of f16, of bf16, of 8-bit floats or, where tf32 is allowed, f32");
  const auto tf32 = [](const char *flags) {
    return region("func.func @f(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
                  "%0 = kfuse.matmul %a, %b " +
                  std::string(flags) +
                  " : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
                  "return %0 : tensor<64x64xf32> }");
  };
  const auto refusalOnHopper = [](const RegionCase &given) {
    return matmulSm90Template().match(given.region, *ir::findTarget("sm_90a")).reason();
  };
  CHECK(refusalOnHopper(tf32("{tf32, transpose_b}")).empty());
  CHECK(refusalOnHopper(tf32("{transpose_b}")) ==
        "multiplies f32 by f32, wgmma takes pairs of f16, of bf16, of 8-bit floats or, where tf32 is allowed, f32");
  CHECK(refusalOnHopper(tf32("{tf32}")) ==
        "the right operand is not contiguous along K, which wgmma needs of other than 16 bits");
  CHECK(refusal(matmulSm80Template(), region(R"(
func.func @f(%a: tensor<8x16xbf16>, %b: tensor<16x8xbf16>, %i: tensor<8xi64>) -> tensor<8x8xbf16> {
  %0 = kfuse.gather %a, %i {axis = 0 : i64} : (tensor<8x16xbf16>, tensor<8xi64>) -> tensor<8x16xbf16>
  %1 = kfuse.matmul %0, %b : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
  return %1 : tensor<8x8xbf16>
})")) == "the left operand is gathered or joined from pieces");
  CHECK(refusal(matmulSm80Template(), region(R"(
func.func @f(%a: tensor<9x8xbf16>, %b: tensor<12x5xbf16>) -> tensor<6x5xbf16> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<9x8xbf16>) -> tensor<8x9xbf16>
  %1 = kfuse.reshape %0 : (tensor<8x9xbf16>) -> tensor<6x12xbf16>
  %2 = kfuse.matmul %1, %b : (tensor<6x12xbf16>, tensor<12x5xbf16>) -> tensor<6x5xbf16>
  return %2 : tensor<6x5xbf16>
})")) == "the left operand is not a matrix over its rows and columns: their positions mix in memory");
}

TEST_CASE("CUDA templates: split K reduces in a second launch over its workspace") {
  RegionCase given = region(product);
  auto config = codegen::TileConfig::parse("k=64,m=64,n=64,swizzle=1,split_k=4,stages=3,warps_m=2,warps_n=2");
  Result<codegen::KernelPlan> plan = matmulSm80Template().emit(given.region, *config, ampere());
  REQUIRE(plan);
  REQUIRE(plan->launches.size() == 2);
  CHECK(plan->launches[0].grid == std::array<std::uint32_t, 3>{8, 4, 1});
  CHECK(plan->launches[1].entry == "kfuse_matmul_finish");
  CHECK(plan->workspaceBytes == 4 * 64 * 512 * sizeof(float));
}

TEST_CASE("CUDA templates: what TMA reads and writes of a batched product") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<3x67x72xbf16>, %b: tensor<3x200x72xbf16>, %c: tensor<200xbf16>) -> tensor<3x67x200xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<3x67x72xbf16>, tensor<3x200x72xbf16>) -> tensor<3x67x200xbf16>
  %1 = kfuse.add %0, %c : (tensor<3x67x200xbf16>, tensor<200xbf16>) -> tensor<3x67x200xbf16>
  return %1 : tensor<3x67x200xbf16>
})");
  auto config = *codegen::TileConfig::parse(
      "cluster_m=1,cluster_n=2,k=64,m=64,n=128,pingpong=1,swizzle=1,swizzle_n=0,split_k=1,stages=4");
  Result<codegen::KernelPlan> plan = matmulSm90Template().emit(given.region, config, *ir::findTarget("sm_90a"));
  REQUIRE_MESSAGE(plan, plan.error().message);
  using Map = codegen::TensorMapRecipe;
  REQUIRE(plan->tensorMaps.size() == 3);
  // Blocks of a cluster that share rows bring half of them each.
  CHECK((plan->tensorMaps[0] == Map{0, DType::BF16, {72, 67, 3}, {144, 67 * 144}, {64, 32, 1}, 128}));
  CHECK((plan->tensorMaps[1] == Map{1, DType::BF16, {72, 200, 3}, {144, 200 * 144}, {64, 128, 1}, 128}));
  CHECK((plan->tensorMaps[2] == Map{3, DType::BF16, {200, 67, 3}, {400, 67 * 400}, {64, 16, 1}, 128}));
  using Kind = codegen::KernelArg::Kind;
  const codegen::Launch &launch = plan->launches.front();
  CHECK((launch.args == std::vector<codegen::KernelArg>{{Kind::TensorMap, 0},
                                                        {Kind::TensorMap, 1},
                                                        {Kind::TensorMap, 2},
                                                        {Kind::Buffer, 0},
                                                        {Kind::Buffer, 1},
                                                        {Kind::Buffer, 2},
                                                        {Kind::Buffer, 3}}));
  CHECK(launch.cluster[0] == 2);
  CHECK(launch.grid[0] == 12); // Two tiles down, one pair across, three batches.
}

TEST_CASE("CUDA templates: clusters that share the last tiles have room for their accumulators, and no waves are "
          "rounded up") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<256x8192xbf16>, %b: tensor<8192x8192xbf16>) -> tensor<256x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<256x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<256x8192xbf16>
  return %0 : tensor<256x8192xbf16>
})");
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  // 256 tiles for 132 blocks: 8 contributors have segments of 16 each of the last 124, with accumulators of four warps.
  const auto config =
      *codegen::TileConfig::parse("cluster_m=1,cluster_n=1,k=64,m=64,n=128,segments=1,pingpong=1,swizzle=1,"
                                  "swizzle_n=0,split_k=1,stages=8");
  Result<codegen::KernelPlan> plan = matmulSm90Template().emit(given.region, config, hopper);
  REQUIRE_MESSAGE(plan, plan.error().message);
  const codegen::Launch &launch = plan->launches.front();
  CHECK(launch.grid[0] == 132);
  CHECK(plan->zeroedBytes >= 124 * 4 * sizeof(float)); // A flag for each warp of a warpgroup.
  CHECK(plan->zeroedBytes < 124 * 8 * sizeof(float));
  CHECK(plan->workspaceBytes == plan->zeroedBytes + 124 * 64 * 128 * sizeof(float));
  using Kind = codegen::KernelArg::Kind;
  CHECK((launch.args.back() == codegen::KernelArg{Kind::Workspace, plan->zeroedBytes}));
  // What shares tiles need not take whole waves.
  CHECK(matmulTemplate().leastWork(given.region, hopper)(config.with("variant", 1)).flops == given.region.flops);

  // Nor are tiles shared where both warpgroups have the same one, or without a whole wave.
  for (const codegen::TileConfig &other :
       {config.with("pingpong", 0).with("m", 128), config.with("m", 128).with("n", 256)}) {
    Result<codegen::KernelPlan> whole = matmulSm90Template().emit(given.region, other, hopper);
    REQUIRE_MESSAGE(whole, whole.error().message);
    CHECK(whole->zeroedBytes == 0);
  }
  bool isStreamed = false;
  for (const codegen::TileConfig &candidate : matmulSm90Template().candidates(given.region, hopper))
    if (candidate.has("segments")) {
      isStreamed = true;
      CHECK(candidate["pingpong"]);
      CHECK((((256 + candidate["m"] - 1) / candidate["m"]) * ((8192 + candidate["n"] - 1) / candidate["n"]) > 132 ||
             candidate["cluster_m"] * candidate["cluster_n"] > 1));
    }
  CHECK(isStreamed);
}

TEST_CASE("CUDA templates: blocks of a cluster bring a part of what they share, and split K beside it") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<256x1024xbf16>, %b: tensor<1024x1024xbf16>) -> tensor<256x1024xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<256x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<256x1024xbf16>
  return %0 : tensor<256x1024xbf16>
})");
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto config = *codegen::TileConfig::parse(
      "blocks_k=2,cluster_m=1,cluster_n=2,groups_k=1,k=64,m=64,n=96,swizzle=1,split_k=1,stages=8,swap=0");
  Result<codegen::KernelPlan> plan = matmulSm90SplitTemplate().emit(given.region, config, hopper);
  REQUIRE_MESSAGE(plan, plan.error().message);
  using Map = codegen::TensorMapRecipe;
  CHECK((plan->tensorMaps[0] == Map{0, DType::BF16, {1024, 256, 1}, {2048, 128}, {64, 32, 1}, 128}));
  CHECK((plan->tensorMaps[1] == Map{1, DType::BF16, {1024, 1024, 1}, {2048, 128}, {64, 96, 1}, 128}));
  CHECK(plan->launches.front().cluster[0] == 4);
  CHECK(plan->launches.front().grid[0] ==
        4 * 6 * 4); // Four tiles down, six pairs across; the last tile is past the edge.

  // A config of a store from before the fields were made.
  auto old = *codegen::TileConfig::parse("blocks_k=2,groups_k=1,k=64,m=64,n=96,swizzle=1,split_k=1,stages=8,swap=0");
  plan = matmulSm90SplitTemplate().emit(given.region, old, hopper);
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK(plan->launches.front().cluster[0] == 2);

  bool isShared = false;
  for (const codegen::TileConfig &candidate : matmulSm90SplitTemplate().candidates(given.region, hopper)) {
    const std::int64_t blocks = candidate["blocks_k"] * candidate["cluster_m"] * candidate["cluster_n"];
    CHECK(blocks <= 8);
    isShared |= candidate["cluster_m"] * candidate["cluster_n"] > 1 && candidate["blocks_k"] > 1;
  }
  CHECK(isShared);
}

TEST_CASE(
    "CUDA templates: columns are permuted where lanes store their own accumulators, so that each has four neighbours") {
  using Map = codegen::TensorMapRecipe;
  constexpr int columns = 80;
  const auto config = *codegen::TileConfig::parse(
      "blocks_k=1,cluster_m=1,cluster_n=1,groups_k=1,k=64,m=128,n=80,swizzle=1,split_k=1,stages=8,swap=0");
  const auto mapOfColumns = [&](const std::string &N) {
    RegionCase given =
        region("func.func @f(%a: tensor<256x1024xbf16>, %b: tensor<" + N + "x1024xbf16>) -> tensor<256x" + N +
               "xbf16> { %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<256x1024xbf16>, tensor<" + N +
               "x1024xbf16>) -> tensor<256x" + N + "xbf16> return %0 : tensor<256x" + N + "xbf16> }");
    Result<codegen::KernelPlan> plan = matmulSm90SplitTemplate().emit(given.region, config, *ir::findTarget("sm_90a"));
    REQUIRE_MESSAGE(plan, plan.error().message);
    return plan->tensorMaps[1];
  };
  const Map permuted = mapOfColumns("1000");
  CHECK((permuted == Map{1, DType::BF16, {1024, 4, 250, 1}, {2048, 4 * 2048, 128}, {64, 2, columns / 4, 1}, 128}));
  CHECK((mapOfColumns("1002") == Map{1, DType::BF16, {1024, 1002, 1}, {2048, 128}, {64, columns, 1}, 128}));

  // Which column comes to which line of the tile, from a box for each half (loadPermutedTile).
  std::vector<int> columnOfLine;
  for (int half : {0, 1})
    for (unsigned z = 0; z < permuted.box[2]; ++z)
      for (unsigned y = 0; y < permuted.box[1]; ++y)
        columnOfLine.push_back(
            static_cast<int>(z * permuted.strideBytes[1] + (2 * half + y) * permuted.strideBytes[0]) / 2048);
  REQUIRE(columnOfLine.size() == columns);
  // An instruction gives lane q of a row columns 2 q and 2 q + 1 of every eight lines (PTX ISA, wgmma's accumulators).
  for (int group = 0; group < columns / 16; ++group)
    for (int lane = 0; lane < 4; ++lane)
      for (int i = 0; i < 4; ++i)
        CHECK(columnOfLine[i / 2 * columns / 2 + group * 8 + lane * 2 + i % 2] == group * 16 + lane * 4 + i);
}

TEST_CASE("CUDA templates: rows that are all the same become a batch, where another batch can be the rows") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<21x1x64xbf16>, %b: tensor<72x64xbf16>) -> tensor<21x19x72xbf16> {
  %0 = kfuse.broadcast %a : (tensor<21x1x64xbf16>) -> tensor<21x19x64xbf16>
  %1 = kfuse.transpose %b {permutation = array<i64: 1, 0>} : (tensor<72x64xbf16>) -> tensor<64x72xbf16>
  %2 = kfuse.matmul %0, %1 : (tensor<21x19x64xbf16>, tensor<64x72xbf16>) -> tensor<21x19x72xbf16>
  return %2 : tensor<21x19x72xbf16>
})");
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  const codegen::TileConfig config = matmulSm90Template().candidates(given.region, hopper).front();
  Result<codegen::KernelPlan> plan = matmulSm90Template().emit(given.region, config, hopper);
  REQUIRE_MESSAGE(plan, plan.error().message);
  REQUIRE(plan->tensorMaps.size() == 3);
  CHECK((plan->tensorMaps[0].sizes == std::vector<std::uint64_t>{64, 21, 1}));
  CHECK((plan->tensorMaps[2].sizes == std::vector<std::uint64_t>{72, 21, 19}));
  CHECK((plan->tensorMaps[2].strideBytes == std::vector<std::uint64_t>{19 * 144, 144}));

  RegionCase one = region(R"(
func.func @f(%a: tensor<1x64xbf16>, %b: tensor<64x72xbf16>) -> tensor<19x72xbf16> {
  %0 = kfuse.broadcast %a : (tensor<1x64xbf16>) -> tensor<19x64xbf16>
  %1 = kfuse.matmul %0, %b : (tensor<19x64xbf16>, tensor<64x72xbf16>) -> tensor<19x72xbf16>
  return %1 : tensor<19x72xbf16>
})");
  CHECK(matmulTemplate().remark(one.region, hopper) ==
        "on mma.sync, not on wgmma: the left operand repeats itself along its rows or along K, which TMA cannot");
}

TEST_CASE("CUDA templates: what TMA cannot read goes to mma.sync, and explain says why") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<64x100xbf16>, %b: tensor<100x512xbf16>) -> tensor<64x512xbf16> {
  %0 = kfuse.matmul %a, %b : (tensor<64x100xbf16>, tensor<100x512xbf16>) -> tensor<64x512xbf16>
  return %0 : tensor<64x512xbf16>
})");
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  CHECK(matmulTemplate().match(given.region, hopper));
  CHECK(matmulTemplate().remark(given.region, hopper) ==
        "on mma.sync, not on wgmma: the left operand starts or strides at other than multiples of 16 bytes, which TMA "
        "needs");
  CHECK(matmulTemplate().remark(region(product).region, hopper).empty());
  CHECK(matmulTemplate().remark(given.region, ampere()).empty());

  RegionCase transposed = region(R"(
func.func @f(%a: tensor<512x64xf32>, %b: tensor<512x512xf32>) -> tensor<64x512xf32> {
  %0 = kfuse.matmul %a, %b {tf32, transpose_a, transpose_b} : (tensor<512x64xf32>, tensor<512x512xf32>) -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
})");
  const std::string mmaSync =
      "not on mma.sync: operands of f32 are not contiguous along K, which mma.sync needs of them";
  CHECK(matmulTemplate().remark(transposed.region, ampere()) == "on plain FMAs, " + mmaSync);
  CHECK(matmulTemplate().remark(transposed.region, hopper) ==
        "on plain FMAs, not on wgmma: the left operand is not contiguous along K, which wgmma needs of other than 16 "
        "bits; " +
            mmaSync);
}

TEST_CASE("CUDA templates: tiles that lie across each other or differ in their order are of one kind") {
  auto kind = [](const char *text) { return matmulTemplate().kind(*codegen::TileConfig::parse(text)); };
  const codegen::TileConfig tile =
      kind("cluster_m=1,cluster_n=2,k=64,m=128,n=256,pingpong=0,swizzle=1,swizzle_n=1,split_k=1,stages=4,variant=1");
  for (const char *kin :
       {"cluster_m=1,cluster_n=2,k=64,m=128,n=256,pingpong=0,swizzle=8,swizzle_n=0,split_k=1,stages=3,variant=1",
        "cluster_m=2,cluster_n=1,k=64,m=256,n=128,pingpong=1,swizzle=1,swizzle_n=1,split_k=1,stages=4,variant=1"})
    CHECK(kind(kin) == tile);
  for (const char *other :
       {"cluster_m=1,cluster_n=1,k=64,m=128,n=256,pingpong=0,swizzle=1,swizzle_n=1,split_k=1,stages=4,variant=1",
        "cluster_m=1,cluster_n=2,k=64,m=128,n=128,pingpong=0,swizzle=1,swizzle_n=1,split_k=1,stages=4,variant=1",
        "cluster_m=1,cluster_n=2,k=64,m=128,n=256,segments=1,pingpong=0,swizzle=1,swizzle_n=1,split_k=1,stages=4,"
        "variant=1",
        "cluster_m=1,cluster_n=2,k=64,m=128,n=256,swizzle=1,split_k=1,stages=4,variant=2"})
    CHECK(kind(other) != tile);
  CHECK(kind("blocks_k=1,groups_k=2,k=64,m=32,n=64,swizzle=1,stages=16,swap=1,variant=2") ==
        kind("blocks_k=1,groups_k=2,k=64,m=64,n=32,swizzle=1,stages=16,swap=0,variant=2"));
  CHECK(kind("blocks_k=1,groups_k=2,k=64,m=32,n=64,swizzle=1,stages=16,swap=1,variant=2") !=
        kind("blocks_k=2,groups_k=2,k=64,m=32,n=64,swizzle=1,stages=16,swap=1,variant=2"));
  CHECK(kind("outputs=2,split=8,unroll=1,warps=8,variant=3") == kind("outputs=2,split=8,unroll=2,warps=16,variant=3"));
  CHECK(kind("outputs=2,split=8,unroll=1,warps=8,variant=3") != kind("outputs=2,split=4,unroll=1,warps=8,variant=3"));
  CHECK(kind("panels=1,split=8,unroll=1,variant=5") != kind("panels=1,split=8,unroll=2,variant=5"));

  auto group = [](const char *text) { return matmulTemplate().estimateGroup(*codegen::TileConfig::parse(text)); };
  CHECK(group("k=64,m=128,n=64,split_k=1,variant=0") != group("k=64,m=128,n=64,split_k=8,variant=0"));
  CHECK(group("k=64,m=128,n=64,split_k=2,variant=0") == group("k=64,m=128,n=64,split_k=8,variant=0"));
  CHECK(group("k=64,m=128,n=64,split_k=1,variant=0") != group("k=64,m=128,n=64,split_k=1,variant=1"));
}

TEST_CASE("CUDA templates: a stored variant that this version does not have is an error") {
  RegionCase given = region(product);
  for (const char *text : {"variant=99", "k=64", "cluster_m=1,cluster_n=1,k=64,m=128,n=128,pieces=1,raster=1,way=1"})
    CHECK_FALSE(matmulTemplate().emit(given.region, *codegen::TileConfig::parse(text), ampere()));
}

TEST_CASE("cuda.matmul_low_bits: configs for 16 rows are estimated in the order in which an H200 takes them") {
  const RegionCase given(lowBitProduct(16, 8192, 8192, 128, "ui4", "bf16"));
  auto us = [&, all = matmulLowBitsTemplate().estimated(given.region, *ir::findTarget("sm_90a"))](const char *text) {
    auto found = std::ranges::find(all, *codegen::TileConfig::parse(text), &codegen::EstimatedConfig::config);
    REQUIRE(found != all.end());
    return found->us;
  };
  CHECK(us("panels=2,split=8,unroll=2") < us("panels=4,split=8,unroll=2")); // 15.3 and 16.1 us.
  CHECK(us("panels=4,split=8,unroll=2") < us("panels=4,split=8,unroll=1")); // 17.9 us.
  CHECK(us("panels=4,split=8,unroll=1") < us("panels=1,split=4,unroll=2")); // 20.1 us.
  CHECK(us("panels=1,split=4,unroll=2") < us("panels=4,split=4,unroll=2")); // 23.9 us.
}
