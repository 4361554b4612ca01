// Attention of many queries: every mask, sizes that divide nothing, blocks of keys that some rows see.
#include "CpuRegion.h"

#include "tests/cuda/Oracle.h"
#include "tests/cuda/TemplateCases.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

void checkAttention(const TemplateCase &source) {
  CAPTURE(source.name);
  CpuRegion region(source.text);
  CHECK(region.templateName() == "cpu.attention");
  region.check(RegionCase(source).inputs());
}

} // namespace

TEST_CASE("cpu.attention: right for every layout and mask") {
  constexpr std::size_t fewRows = 2; // 5 and 13 rows: other templates take them, part by part.
  std::size_t refused = 0;
  auto has = [](const TemplateCase &source, const char *part) { return source.name.find(part) != std::string::npos; };
  for (const TemplateCase &source : flashCases()) {
    if (has(source, "_rotary") || has(source, "_norm")) // Kernels in front compute such queries.
      continue;
    if (has(source, "_5x9_") || has(source, "_13x13_"))
      ++refused;
    else
      checkAttention(source);
  }
  CHECK(refused == fewRows);
}

TEST_CASE("cpu.attention: right for several blocks of rows and keys, not all of which are seen") {
  for (const char *mask : {"", "causal", "window", "chunked", "causal added", "added", "chosen"})
    checkAttention(flashCase({.type = "f32",
                              .batch = 1,
                              .heads = 2,
                              .keyHeads = 1,
                              .rows = 301,
                              .keys = 530,
                              .keySize = 40,
                              .valueSize = 24,
                              .mask = mask}));
  checkAttention(
      flashCase({.batch = 1, .rows = 230, .keys = 211, .mask = "causal", .offset = "-7", .isGuarded = true}));
  checkAttention(flashCase({.batch = 1, .rows = 230, .keys = 700, .mask = "causal", .offset = "469"}));
  checkAttention(
      flashCase({.batch = 1, .heads = 1, .keyHeads = 1, .rows = 390, .keys = 90, .keySize = 256, .valueSize = 256}));
}

TEST_CASE("cpu.attention: right for keys up to a position or a length that is read") {
  for (const CacheSketch &sketch :
       {CacheSketch{.batch = 3, .rows = 40, .keys = 700, .step = 99},
        CacheSketch{.batch = 4, .heads = 2, .keyHeads = 1, .rows = 133, .keys = 600, .isLength = true, .step = 83},
        CacheSketch{.type = "f16", .batch = 2, .rows = 70, .keys = 610, .size = 40, .step = 61, .window = 200}})
    checkAttention(cacheCase(sketch));
  checkAttention(
      flashCase({.batch = 1, .rows = 230, .keys = 99, .mask = "bounded", .isGuarded = true, .hasSink = true}));
}
