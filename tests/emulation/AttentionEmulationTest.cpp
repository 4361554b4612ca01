// Kernels of attention are right for every layout, mask and tile.
#include "codegen/cuda/Templates.h"
#include "tests/emulation/EmulatedChecks.h"
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <utility>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// On wgmma: two and three warpgroups of 64 rows, in ping-pong and not.
std::vector<codegen::TileConfig> wgmmaConfigs(int keys, int keysInPingPong) {
  std::vector<codegen::TileConfig> configs;
  for (int warps : {8, 12})
    for (int pingPong : {0, 1})
      configs.push_back({{"rows", warps * 16},
                         {"warps", warps},
                         {"keys", pingPong ? keysInPingPong : keys},
                         {"stages", pingPong ? 3 : 2},
                         {"pingpong", pingPong},
                         {"persistent", 0},
                         {"resident", 1},
                         {"wgmma", 1}});
  return configs;
}

} // namespace

TEST_CASE("Emulated cuda.decode_attention: right for every layout, mask and split of the keys") {
  checkAll(decodeCases(), codegen::cuda::decodeAttentionTemplate(), 3);
}

TEST_CASE("Emulated cuda.decode_attention: right for norms of heads of every size, and into caches") {
  checkAll(decodeNormCases(), codegen::cuda::decodeAttentionTemplate(), 2);
}

TEST_CASE("Emulated cuda.decode_attention: right where all but the product before is loaded ahead of the wait") {
  RegionCase given(decodeCases()[4]);
  given.region.isFixed.assign(given.region.isFixed.size(), true);
  given.region.isFixed[0] = false;
  const std::vector<reference::HostTensor> inputs = given.inputs();
  Oracle oracle(given, inputs);
  const codegen::TileConfig config{{"warps", 4}, {"keys", 16}, {"stages", 2}, {"splits", 2}};
  for (int splits : {1, 2, 24}) // More splits than are held at once, some of them without keys.
    check(given, inputs, oracle, codegen::cuda::decodeAttentionTemplate(), config.with("splits", splits));
}

TEST_CASE("Emulated cuda.decode_attention: short caches have as many splits as give each warp a tile") {
  const RegionCase given(decodeCases()[0]); // Two sequences, each with its position among 200 keys.
  const std::vector<reference::HostTensor> inputs = given.inputs();
  auto outputOf = [&](int splits) {
    const codegen::TileConfig config{{"warps", 4}, {"keys", 16}, {"stages", 2}, {"splits", splits}};
    const Emulated emulated = emulate(codegen::cuda::decodeAttentionTemplate(), given, config);
    auto outputs = emulated.kernel.run(inputs, given.states(), Copies::Early);
    REQUIRE_MESSAGE(outputs, outputs.error().message);
    return std::move((*outputs)[0]);
  };
  CHECK(outputOf(24) == outputOf(4)); // The same splits give the same bits.
}

TEST_CASE("Emulated cuda.flash_attention: right for every layout, mask and tile") {
  checkAll(flashCases(), codegen::cuda::flashAttentionTemplate(), 2);
}

TEST_CASE("Emulated cuda.flash_attention: right against a cache, from positions that are read on") {
  checkAll(cacheCases(), codegen::cuda::flashAttentionTemplate(), 4);
}

TEST_CASE("Emulated cuda.flash_attention: right for every split of a cache's keys, and for new rows that it writes") {
  const CacheSketch sketches[] = {
      {.batch = 3, .heads = 6, .keyHeads = 2, .rows = 9, .keys = 401, .size = 32, .writes = true, .step = 71},
      {.type = "f16", .batch = 2, .heads = 2, .keyHeads = 2, .rows = 30, .keys = 390, .size = 48, .step = 61},
      {.batch = 3, .heads = 4, .keyHeads = 2, .rows = 5, .keys = 400, .size = 64, .isLength = true, .step = 60}};
  for (const CacheSketch &sketch : sketches) {
    EmulatedCase emulated(cacheCase(sketch), codegen::cuda::flashAttentionTemplate());
    for (int splits : {1, 3})
      for (auto [rows, warps] : {std::pair{16, 1}, {64, 4}})
        for (int stages : {2, 3}) {
          codegen::TileConfig config{
              {"rows", rows}, {"warps", warps}, {"keys", stages == 3 ? 16 : 32}, {"stages", stages}};
          if (splits > 1)
            config = std::move(config).with("splits", splits);
          if (sketch.heads > sketch.keyHeads)
            config = std::move(config).with("packed", 1);
          emulated.check(config);
        }
  }
}

TEST_CASE("Emulated cuda.flash_attention: right for every number of warps and stages") {
  EmulatedCase emulated(flashCase({.batch = 1,
                                   .heads = 1,
                                   .keyHeads = 1,
                                   .rows = 150,
                                   .keys = 171,
                                   .keySize = 32,
                                   .valueSize = 32,
                                   .mask = "causal"}),
                        codegen::cuda::flashAttentionTemplate());
  for (auto [rows, warps] : {std::pair{256, 8}, {128, 4}, {64, 4}, {64, 2}, {32, 1}, {16, 1}})
    for (int stages : {2, 3, 4})
      emulated.check({{"rows", rows}, {"warps", warps}, {"keys", stages == 3 ? 16 : 32}, {"stages", stages}});
}

TEST_CASE("Emulated cuda.flash_attention: right where several heads take turns, whose full tiles of rows come first") {
  EmulatedCase emulated(
      flashCase({.batch = 3, .heads = 2, .keyHeads = 2, .rows = 56, .keys = 70, .keySize = 32, .valueSize = 32}),
      codegen::cuda::flashAttentionTemplate());
  for (auto [rows, warps] : {std::pair{32, 2}, {16, 1}}) // 2 tiles, in order, and 4, the last one half full.
    emulated.check({{"rows", rows}, {"warps", warps}, {"keys", 32}, {"stages", 2}});
}

TEST_CASE("Emulated cuda.flash_attention: right without tensor cores for every number of warps and keys") {
  EmulatedCase emulated(
      flashCase(
          {.type = "f32", .batch = 1, .rows = 150, .keys = 139, .keySize = 24, .valueSize = 44, .mask = "window"}),
      codegen::cuda::flashAttentionTemplate());
  for (auto [rows, warps] : {std::pair{128, 4}, {64, 4}, {64, 2}, {32, 2}, {32, 1}, {16, 1}})
    for (int keys : {16, 32, 64})
      emulated.check({{"rows", rows}, {"warps", warps}, {"keys", keys}, {"stages", 1}, {"scalar", 1}});
}

TEST_CASE("Emulated cuda.flash_attention: right for the rows of a group's heads as those of one head") {
  const FlashSketch sketches[] = {{.heads = 6,
                                   .keyHeads = 2,
                                   .rows = 7,
                                   .keys = 45,
                                   .keySize = 32,
                                   .valueSize = 40,
                                   .mask = "causal",
                                   .offset = "30"},
                                  {.batch = 1,
                                   .heads = 8,
                                   .keyHeads = 1,
                                   .rows = 21,
                                   .keys = 70,
                                   .keySize = 64,
                                   .mask = "window",
                                   .offset = "49",
                                   .tokensFirst = true},
                                  {.heads = 4,
                                   .keyHeads = 1,
                                   .rows = 13,
                                   .keys = 33,
                                   .keySize = 32,
                                   .valueSize = 32,
                                   .mask = "added",
                                   .isGuarded = true},
                                  {.type = "f32",
                                   .heads = 6,
                                   .keyHeads = 2,
                                   .rows = 9,
                                   .keys = 50,
                                   .keySize = 20,
                                   .valueSize = 12,
                                   .mask = "chunked",
                                   .tokensFirst = true}};
  for (const FlashSketch &sketch : sketches) {
    EmulatedCase emulated(flashCase(sketch), codegen::cuda::flashAttentionTemplate());
    const bool isScalar = sketch.type == "f32";
    for (auto [rows, warps] : {std::pair{16, 1}, {32, 1}, {64, 4}, {128, 4}})
      for (int keys : {16, 32})
        emulated.check({{"rows", rows},
                        {"warps", warps},
                        {"keys", keys},
                        {"stages", isScalar ? 1 : 2},
                        {"scalar", isScalar},
                        {"packed", 1}});
  }
}

TEST_CASE("Emulated cuda.flash_attention: right for every number of warpgroups and stages, in ping-pong and not") {
  // Warpgroups without rows, that do not see the last tiles of keys, and that do not see the first ones; masks that TMA
  // brings, of two bytes and of one.
  const FlashSketch sketches[] = {
      {.batch = 1, .rows = 230, .keys = 211, .keySize = 72, .valueSize = 40, .mask = "causal", .offset = "-7"},
      {.type = "f16", .batch = 1, .rows = 200, .keys = 230, .keySize = 32, .valueSize = 32, .mask = "window"},
      {.batch = 1, .rows = 210, .keys = 205, .keySize = 32, .valueSize = 32, .mask = "chunked"},
      {.batch = 1, .rows = 210, .keys = 184, .keySize = 32, .valueSize = 32, .mask = "added", .hasSink = true},
      {.type = "f16",
       .batch = 2,
       .heads = 1,
       .keyHeads = 1,
       .rows = 210,
       .keys = 192,
       .keySize = 32,
       .valueSize = 32,
       .mask = "chosen",
       .isGuarded = true}};
  for (const FlashSketch &sketch : sketches) {
    EmulatedCase emulated(flashCase(sketch), codegen::cuda::flashAttentionTemplate());
    for (const codegen::TileConfig &config : wgmmaConfigs(80, 32)) {
      const bool isAlone = config["pingpong"] != 0 || config["warps"] > 8;
      emulated.check(config.with("persistent", config["pingpong"]).with("resident", isAlone ? 1 : 2),
                     hopperOf(3)); // Four tiles of rows or more.
    }
  }
}

TEST_CASE("Emulated cuda.flash_attention: right on wgmma for keys from one integer of each row on to another") {
  EmulatedCase emulated(
      flashCase(
          {.batch = 1, .rows = 230, .keys = 110, .keySize = 32, .valueSize = 32, .mask = "bounded", .isGuarded = true}),
      codegen::cuda::flashAttentionTemplate());
  for (const codegen::TileConfig &config : wgmmaConfigs(48, 32))
    emulated.check(config.with("stages", 2));
}

TEST_CASE("Emulated cuda.flash_attention: right on wgmma for blocks of two heads that read a mask together") {
  const FlashSketch sketches[] = {
      {.batch = 2,
       .heads = 4,
       .keyHeads = 2,
       .rows = 210,
       .keys = 184,
       .keySize = 32,
       .valueSize = 32,
       .mask = "added"},
      {.batch = 1, .rows = 150, .keys = 192, .keySize = 64, .valueSize = 40, .mask = "chosen", .isGuarded = true}};
  for (const FlashSketch &sketch : sketches) {
    EmulatedCase emulated(flashCase(sketch), codegen::cuda::flashAttentionTemplate());
    for (const codegen::TileConfig &config : wgmmaConfigs(80, 32))
      emulated.check(config.with("sharers", 2));
  }
}

TEST_CASE("Emulated cuda.flash_attention: right for heads that a block takes one behind the other") {
  const FlashSketch sketches[] = {
      {.batch = 7, .heads = 3, .keyHeads = 3, .rows = 49, .keys = 49, .keySize = 32, .valueSize = 32, .mask = "bias"},
      {.batch = 3, .heads = 2, .keyHeads = 1, .rows = 30, .keys = 40, .keySize = 40, .valueSize = 24, .mask = "added"},
      {.type = "f16",
       .batch = 5,
       .heads = 2,
       .rows = 64,
       .keys = 61,
       .mask = "causal",
       .offset = "-9",
       .isGuarded = true},
      {.batch = 3, .heads = 4, .keyHeads = 2, .rows = 17, .keys = 33, .tokensFirst = true, .hasSink = true}};
  for (const FlashSketch &sketch : sketches) {
    EmulatedCase emulated(flashCase(sketch), codegen::cuda::flashAttentionTemplate());
    for (int batches : {2, 3, 8})
      for (int warps : {2, 4})
        emulated.check({{"rows", 64}, {"warps", warps}, {"keys", 64}, {"stages", 2}, {"batches", batches}});
  }
}
