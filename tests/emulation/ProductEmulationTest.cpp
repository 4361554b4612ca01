// Matrix products and chains of them are right, on Hopper in every schedule.
#include "codegen/cuda/Templates.h"
#include "tests/cuda/Schedules.h"
#include "tests/emulation/EmulatedChecks.h"

#include "llvm/ADT/STLExtras.h"
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <set>
#include <utility>

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("Emulated cuda.matmul_sm80: right for every layout, edge and split") {
  checkAll(matmulCases("bf16"), codegen::cuda::matmulSm80Template(), 3);
  checkAll({matmulCases("f16")[6]}, codegen::cuda::matmulSm80Template(), 1);
}

TEST_CASE("Emulated cuda.matmul_sm80: right for 8-bit floats with scales, for tf32, and for two products at once") {
  checkAll(scaledMatmulCases(), codegen::cuda::matmulSm80Template(), 2);
  for (const char *type : {"bf16", "f8E4M3FN"})
    checkAll(gatedCases(type), codegen::cuda::matmulSm80Template(), 2);
  checkAll({tf32Cases()[0], tf32Cases()[1]}, codegen::cuda::matmulSm80Template(), 3);
}

TEST_CASE("Emulated cuda.matmul_sm80: right for operands that are read window by window") {
  checkAll(windowCases("bf16"), codegen::cuda::matmulSm80Template(), 3);
  checkAll({windowCases("f16")[0], windowCases("f16")[2]}, codegen::cuda::matmulSm80Template(), 1);
}

TEST_CASE("Emulated cuda.matmul_simt: right for operands that are read window by window") {
  checkAll({windowCases("f32")[0], windowCases("f32")[1]}, codegen::cuda::matmulSimtTemplate(), 1);
}

TEST_CASE("Emulated cuda.matmul_simt: right in f32 and with computed operands") {
  checkAll(matmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 2);
  checkAll({matmulCases("bf16")[4]}, codegen::cuda::matmulSimtTemplate(), 1);
  checkAll(computedOperandCases(), codegen::cuda::matmulSimtTemplate(), 2);
}

TEST_CASE("Emulated cuda.matmul_stream: right for every type, edge and split of K, and for two products at once") {
  for (const char *type : {"bf16", "f16", "f8E4M3FN"})
    checkAll(streamedCases(type), codegen::cuda::matmulStreamTemplate(), 4);
}

TEST_CASE("Emulated products of few rows: right for rows that come in segments") {
  for (const char *type : {"bf16", "f16"}) {
    checkAll({pieceRowCases(type)[0]}, codegen::cuda::gemvTemplate(), 4);
    checkAll(pieceRowCases(type), codegen::cuda::matmulStreamTemplate(), 4);
  }
}

TEST_CASE("Emulated cuda.gemv: right for norms of few rows") {
  for (const char *type : {"bf16", "f16", "f32"})
    checkAll(normedRowCases(type), codegen::cuda::gemvTemplate(), 3);
}

TEST_CASE("Emulated cuda.gemv: right in every type for few rows") {
  for (const char *type : {"bf16", "f16", "f32"})
    checkAll({fewRowCases(type)[0], fewRowCases(type)[1]}, codegen::cuda::gemvTemplate(), 3);
  checkAll({scaledMatmulCases()[6], scaledMatmulCases()[7]}, codegen::cuda::gemvTemplate(), 3);
  for (const char *type : {"bf16", "f32", "f8E4M3FN"})
    checkAll({gatedCases(type)[3]}, codegen::cuda::gemvTemplate(), 3);
}

TEST_CASE("Emulated Hopper: one config of every schedule is right") {
  const char *only = std::getenv("KFUSE_CASE");
  for (const Schedule &schedule : schedules(/*withHopper=*/true)) {
    const bool hasManyTiles =
        llvm::any_of(schedule.fields, [](const auto &field) { return field.first == "segments"; });
    if (hasManyTiles || (only && schedule.name != only)) // Below, with fewer of them.
      continue;
    INFO(schedule.name);
    RegionCase given(schedule.region);
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    check(given, inputs, oracle, schedule.source, schedule.config(given.region, hopper()), hopperOf(4));
  }
}

TEST_CASE("Emulated Hopper: last waves are shared right in clusters of every shape") {
  const codegen::KernelTemplate &persistent = codegen::cuda::matmulSm90Template();
  const codegen::TileConfig large{{"cluster_m", 1}, {"cluster_n", 1}, {"k", 64},       {"m", 128},
                                  {"n", 64},        {"segments", 1},  {"pingpong", 1}, {"swizzle", 1},
                                  {"swizzle_n", 0}, {"split_k", 1},   {"stages", 4}},
      small = large.with("m", 64);
  for (auto [name, tile] : {std::pair{"bias_residual_tb_bf16", large}, {"plain_tb_bf16", small}}) {
    const std::vector<TemplateCase> cases = pairwiseProducts(600, 300, 1040);
    RegionCase given(*llvm::find_if(cases, [&](const TemplateCase &one) { return one.name == name; }));
    INFO(name);
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (auto [clusterM, clusterN] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      for (int segments : {1, 3}) {
        const codegen::TileConfig config =
            tile.with("cluster_m", clusterM).with("cluster_n", clusterN).with("segments", segments);
        ir::Target target = hopperOf(14);
        auto isStreamK = [&] { // There are flags.
          Result<codegen::KernelPlan> plan = persistent.emit(given.region, config, target);
          REQUIRE_MESSAGE(plan, plan.error().message);
          return plan->zeroedBytes > 0;
        };
        while (target.multiprocessors > 4 && !isStreamK())
          --target.multiprocessors;
        REQUIRE_MESSAGE(isStreamK(), config.str());
        check(given, inputs, oracle, persistent, config, target);
      }
  }
}

TEST_CASE(
    "Emulated Hopper: every pair of a type, a layout and an epilogue is right, in persistent and in split tiles") {
  for (const codegen::KernelTemplate *variant :
       {&codegen::cuda::matmulSm90Template(), &codegen::cuda::matmulSm90SplitTemplate()})
    checkAll(pairwiseProducts(152, 144, 528), *variant, 2);
}

TEST_CASE("Emulated Hopper: persistent tiles whose rows are the instruction's columns are right") {
  const codegen::KernelTemplate &persistent = codegen::cuda::matmulSm90Template();
  const ir::Target target = hopperOf(4);
  const std::vector<TemplateCase> products = pairwiseProducts(152, 264, 528), gated = gatedCases("bf16");
  std::set<std::array<std::int64_t, 3>> seen; // One config in clusters and not, in ping-pong and not.
  for (const std::vector<TemplateCase> *cases : {&products, &gated})
    for (const TemplateCase &source : *cases) {
      RegionCase given(source);
      if (!persistent.match(given.region, target))
        continue;
      INFO(source.name);
      for (const codegen::TileConfig &config : persistent.candidates(given.region, target))
        if (config.valueOr("swap", 0) != 0 &&
            seen.insert({cases == &gated, config["cluster_m"] * config["cluster_n"], config["pingpong"]}).second)
          EmulatedCase(source, persistent).check(config, target);
    }
  CHECK(seen.size() >= 6);
}

TEST_CASE("Emulated Hopper: random chains are right") {
  for (unsigned seed = 1; seed <= 6; ++seed)
    checkAll({randomChain(seed)}, codegen::cuda::chainTemplate(), 2);
}

TEST_CASE("Emulated Hopper: chains of products with norms are right, whatever divides their rows") {
  checkAll({normedLayers(3, 33, 136, true, "bf16"), normedLayers(2, 100, 520, false, "f16"),
            scaledLayers(3, 70, 200, "bf16")},
           codegen::cuda::chainTemplate(), 3);
}
