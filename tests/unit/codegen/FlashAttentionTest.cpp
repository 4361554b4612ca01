#include "codegen/KeyBounds.h"
#include "codegen/cuda/Templates.h"
#include "tests/cuda/TemplateCases.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using namespace kfuse::test;

namespace {

const ir::Target &hopper() { return *ir::findTarget("sm_90a"); }

/// An attention of 40 queries and 50 keys whose scores `mask`, lines of text, makes %s of %0, by the type.
TemplateCase masked(const std::string &mask) {
  return {"masked", R"(
func.func @f(%q: tensor<2x40x32xbf16>, %k: tensor<2x50x32xbf16>, %v: tensor<2x50x32xbf16>, %m: tensor<2x40x50xi1>) -> tensor<2x40x32xbf16> {
  %r = kfuse.attention %q, %k, %v, %m : (tensor<2x40x32xbf16>, tensor<2x50x32xbf16>, tensor<2x50x32xbf16>, tensor<2x40x50xi1>) -> tensor<2x40x32xbf16> {
  ^bb0(%a: tensor<2x40x32xbf16>, %b: tensor<2x50x32xbf16>, %c: tensor<2x50x32xbf16>, %d: tensor<2x40x50xi1>):
    %row = kfuse.iota {dim = 0 : i64} : tensor<40x1xi32>
    %key = kfuse.iota {dim = 1 : i64} : tensor<1x50xi32>
    %inf = kfuse.constant dense<0xFF80> : tensor<bf16>
    %lowest = kfuse.constant dense<0xFF7F> : tensor<bf16>
    %zero = kfuse.constant dense<0.0> : tensor<bf16>
    %six = kfuse.constant dense<6> : tensor<i32>
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x40x32xbf16>, tensor<2x50x32xbf16>) -> tensor<2x40x50xbf16>
    )" + mask + R"(
    %w = kfuse.softmax %s : (tensor<2x40x50xbf16>) -> tensor<2x40x50xbf16>
    %y = kfuse.matmul %w, %c : (tensor<2x40x50xbf16>, tensor<2x50x32xbf16>) -> tensor<2x40x32xbf16>
    kfuse.yield %y : tensor<2x40x32xbf16>
  }
  return %r : tensor<2x40x32xbf16>
})"};
}

std::string compare(const std::string &name, const std::string &op, const std::string &left, const std::string &right) {
  auto type = [](const std::string &value) { return value == "%row" ? "tensor<40x1xi32>" : "tensor<1x50xi32>"; };
  return name + " = kfuse." + op + " " + left + ", " + right + " : (" + type(left) + ", " + type(right) +
         ") -> tensor<40x50xi1>\n";
}
const std::string later = "%key6 = kfuse.sub %key, %six : (tensor<1x50xi32>, tensor<i32>) -> tensor<1x50xi32>\n";
std::string choose(const std::string &condition, const std::string &yes, const std::string &no,
                   const std::string &conditionType = "tensor<40x50xi1>") {
  auto type = [](const std::string &value) { return value == "%0" ? "tensor<2x40x50xbf16>" : "tensor<bf16>"; };
  return "%s = kfuse.where " + condition + ", " + yes + ", " + no + " : (" + conditionType + ", " + type(yes) + ", " +
         type(no) + ") -> tensor<2x40x50xbf16>\n";
}
std::string add(const std::string &condition, const std::string &yes, const std::string &no) {
  return "%w0 = kfuse.where " + condition + ", " + yes + ", " + no +
         " : (tensor<40x50xi1>, tensor<bf16>, tensor<bf16>) -> tensor<40x50xbf16>\n"
         "%s = kfuse.add %0, %w0 : (tensor<2x40x50xbf16>, tensor<40x50xbf16>) -> tensor<2x40x50xbf16>\n";
}

std::string boundsOf(const std::string &mask) {
  const RegionCase given(masked(mask));
  const ir::ScalarGraph &scores = given.region.attention()->scores;
  const codegen::KeyBounds bounds = codegen::keyBounds(scores);
  auto text = [](const std::optional<std::int64_t> &bound) { return bound ? std::to_string(*bound) : "-"; };
  const bool isProduct = scores[bounds.seen].kind == ir::ScalarNode::Kind::Contract;
  const std::string chunks = bounds.chunks ? ", chunks of " + std::to_string(bounds.chunks->size) + " (" +
                                                 std::to_string(bounds.chunks->rowOffset) + ", " +
                                                 std::to_string(bounds.chunks->keyOffset) + ")"
                                           : "";
  return text(bounds.lowest) + ".." + text(bounds.highest) + chunks + (isProduct ? "" : ", masked");
}

std::string refusal(const TemplateCase &source, const char *target = "sm_90a") {
  const RegionCase given(source);
  return codegen::cuda::flashAttentionTemplate().match(given.region, *ir::findTarget(target)).reason();
}

} // namespace

TEST_CASE("Key bounds: of causal masks and windows, however models write them") {
  const std::string causal = compare("%c0", "le", "%key", "%row"), notCausal = compare("%c0", "gt", "%key", "%row"),
                    window = later + compare("%c1", "gt", "%key6", "%row"),
                    both = "%c2 = kfuse.and %c0, %c1 : (tensor<40x50xi1>, tensor<40x50xi1>) -> tensor<40x50xi1>\n";
  CHECK(boundsOf(causal + choose("%c0", "%0", "%inf")) == "-..0");
  CHECK(boundsOf(compare("%c0", "lt", "%key", "%row") + choose("%c0", "%0", "%inf")) == "-..-1");
  CHECK(boundsOf(compare("%c0", "ge", "%row", "%key") + choose("%c0", "%0", "%inf")) == "-..0");
  CHECK(boundsOf(later + compare("%c0", "ge", "%row", "%key6") + choose("%c0", "%0", "%inf")) == "-..6");
  CHECK(boundsOf(notCausal + choose("%c0", "%inf", "%0")) == "-..0");
  CHECK(boundsOf(causal + "%n = kfuse.not %c0 : (tensor<40x50xi1>) -> tensor<40x50xi1>\n" +
                 choose("%n", "%inf", "%0")) == "-..0");
  CHECK(boundsOf(causal + choose("%c0", "%0", "%lowest")) == "-..0");
  CHECK(boundsOf(causal + add("%c0", "%zero", "%inf")) == "-..0");
  CHECK(boundsOf(notCausal + add("%c0", "%lowest", "%zero")) == "-..0");
  CHECK(boundsOf(causal + window + both + choose("%c2", "%0", "%inf")) == "7..0");
  CHECK(boundsOf(causal + compare("%c1", "gt", "%key", "%row") + both + choose("%c2", "%0", "%inf")) == "1..0");
  CHECK(boundsOf(causal + later + compare("%c1", "lt", "%row", "%key6") + both + choose("%c2", "%0", "%inf")) ==
        "7..0");
}

TEST_CASE("Key bounds: of chunks of keys, of which a row sees its own") {
  auto quotient = [](const std::string &name, const std::string &of, const std::string &by) {
    const std::string type = of == "%row" ? "tensor<40x1xi32>" : "tensor<1x50xi32>";
    return name + " = kfuse.div " + of + ", " + by + " : (" + type + ", tensor<i32>) -> " + type + "\n";
  };
  auto equal = [](const std::string &op) {
    return "%c0 = kfuse." + op + " %a0, %b0 : (tensor<40x1xi32>, tensor<1x50xi32>) -> tensor<40x50xi1>\n";
  };
  const std::string both = "%c2 = kfuse.and %c0, %c1 : (tensor<40x50xi1>, tensor<40x50xi1>) -> tensor<40x50xi1>\n",
                    ahead = "%key6 = kfuse.add %key, %six : (tensor<1x50xi32>, tensor<i32>) -> tensor<1x50xi32>\n",
                    quotients = quotient("%a0", "%row", "%six") + quotient("%b0", "%key", "%six");
  CHECK(boundsOf(quotients + equal("eq") + choose("%c0", "%0", "%inf")) == "-..-, chunks of 6 (0, 0)");
  CHECK(boundsOf(quotients + equal("ne") + choose("%c0", "%inf", "%0")) == "-..-, chunks of 6 (0, 0)");
  CHECK(boundsOf(quotients + equal("eq") + compare("%c1", "le", "%key", "%row") + both + choose("%c2", "%0", "%inf")) ==
        "-..0, chunks of 6 (0, 0)");
  CHECK(boundsOf(ahead + quotient("%a0", "%row", "%six") + quotient("%b0", "%key6", "%six") + equal("eq") +
                 choose("%c0", "%0", "%inf")) == "-..-, chunks of 6 (0, 6)");
  CHECK(boundsOf(quotients + equal("eq") + choose("%c0", "%0", "%lowest")) == "-..-, chunks of 6 (0, 0)");
  CHECK(boundsOf(quotients + equal("ne") + choose("%c0", "%0", "%inf")) == "-..-, masked");
  // Integers round towards zero: keys 0 to 11, six of them before 0, would be one chunk.
  CHECK(boundsOf(later + quotient("%a0", "%row", "%six") + quotient("%b0", "%key6", "%six") + equal("eq") +
                 choose("%c0", "%0", "%inf")) == "-..-, masked");
  // Rows 0 to 5 see none of the keys, which are of the chunk before.
  CHECK(boundsOf(ahead + quotient("%a0", "%row", "%six") + quotient("%b0", "%key6", "%six") + equal("eq") +
                 choose("%c0", "%0", "%lowest")) == "-..-, masked");
}

TEST_CASE("Key bounds: what is no bound, or not all of the mask, stays with the scores") {
  const std::string causal = compare("%c0", "le", "%key", "%row"),
                    both = "%c2 = kfuse.and %c0, %d : (tensor<40x50xi1>, tensor<2x40x50xi1>) -> tensor<2x40x50xi1>\n";
  CHECK(boundsOf("%s = kfuse.neg %0 : (tensor<2x40x50xbf16>) -> tensor<2x40x50xbf16>\n") == "-..-, masked");
  CHECK(boundsOf(choose("%d", "%0", "%inf", "tensor<2x40x50xi1>")) == "-..-, masked");
  CHECK(boundsOf(causal + choose("%c0", "%0", "%zero")) == "-..-, masked");
  CHECK(boundsOf(compare("%c0", "eq", "%key", "%row") + choose("%c0", "%0", "%inf")) == "-..-, masked");
  // Keys that both hide, but a row may see none of them: then it has the mean of all where the mask is no infinity.
  CHECK(boundsOf(causal + both + choose("%c2", "%0", "%inf", "tensor<2x40x50xi1>")) == "-..0, masked");
  CHECK(boundsOf(causal + both + choose("%c2", "%0", "%lowest", "tensor<2x40x50xi1>")) == "-..-, masked");
  CHECK(boundsOf(compare("%c0", "lt", "%key", "%row") + choose("%c0", "%0", "%lowest")) == "-..-, masked");
}

TEST_CASE("Key bounds: of a cache's position and of lengths, which are read") {
  auto boundsOf = [](const CacheSketch &sketch) {
    const RegionCase given(cacheCase(sketch));
    const codegen::KeyBounds bounds = codegen::keyBounds(given.region.attention()->scores);
    auto text = [](const auto &all) {
      std::string joined;
      for (const codegen::ReadBound &bound : all)
        joined += (bound.movesWithRow ? "row + " : "") + std::to_string(bound.terms.size()) + " read + " +
                  std::to_string(bound.offset);
      return joined;
    };
    return text(bounds.firsts) + ".." + text(bounds.lasts);
  };
  CHECK(boundsOf({}) == "..row + 1 read + 0");
  CHECK(boundsOf({.isLength = true}) == "..1 read + -1");
  CHECK(boundsOf({.window = 20}) == "row + 1 read + -19..row + 1 read + 0");
}

TEST_CASE("Flash attention: writes a few new rows of a cache, on tensor cores") {
  auto refusalOf = [](const CacheSketch &sketch) { return refusal(cacheCase(sketch)); };
  CHECK(refusalOf({.writes = true}) == "");
  CHECK(refusalOf({.rows = 64, .writes = true}) == "");
  CHECK(refusalOf({.rows = 65, .writes = true}) ==
        "new keys and values are not whole rows of the cache, up to 64 of each pair");
  CHECK(refusalOf({.type = "f32", .writes = true}) ==
        "its states are written by a kernel before it, as queries, keys and values are not bf16 or f16 alike");
}

TEST_CASE("Key bounds: FLOPs count the keys that a row sees") {
  const FlashSketch full{.rows = 64, .keys = 96, .keySize = 32, .valueSize = 32};
  FlashSketch causal = full;
  causal.mask = "causal", causal.offset = "32";
  const double all = RegionCase(flashCase(full)).region.flops, seen = RegionCase(flashCase(causal)).region.flops;
  // Rows see 33 to 96 of 96 keys; and there is the mask.
  CHECK(seen > all * 64.5 / 96);
  CHECK(seen < all * 64.5 / 96 * 1.1);
}

TEST_CASE("Flash attention: takes many queries from sm_80 on, and says what it does not take") {
  const FlashSketch plain{.rows = 300, .keys = 300};
  auto with = [&](auto change) {
    FlashSketch sketch = plain;
    change(sketch);
    return flashCase(sketch);
  };
  for (const char *target : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
    for (int size : {64, 160, 256}) {
      const FlashSketch sketch{.rows = 300, .keys = 300, .keySize = size, .valueSize = size};
      CHECK(refusal(flashCase(sketch), target) == "");
      CHECK(!codegen::cuda::flashAttentionTemplate()
                 .candidates(RegionCase(flashCase(sketch)).region, *ir::findTarget(target))
                 .empty());
    }
  CHECK(refusal(with([](FlashSketch &s) { s.rows = 1, s.keys = 1025; })) == "one query has its keys split over blocks");
  CHECK(refusal(with([](FlashSketch &s) { s.rows = 1; })) == "");
  CHECK(refusal(with([](FlashSketch &s) { s.keySize = 260; })) == "heads of 260 and 64 elements; up to 256 are taken");
}

TEST_CASE("Flash attention: what tensor cores do not take is multiplied in f32, and says why") {
  auto remarkOf = [](FlashSketch sketch) {
    sketch.rows = sketch.keys = 300;
    RegionCase given(flashCase(sketch));
    const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
    const bool isScalar = flash.candidates(given.region, hopper()).front().valueOr("scalar", 0) == 1;
    return isScalar ? flash.remark(given.region, hopper()) : "on tensor cores";
  };
  CHECK(remarkOf({}) == "on tensor cores");
  CHECK(remarkOf({.type = "f32"}) ==
        "queries, keys and values are not bf16 or f16 alike: it is multiplied in f32, without tensor cores");
  CHECK(remarkOf({.keySize = 60}) ==
        "heads of 60 and 64 elements are no multiples of 8: it is multiplied in f32, without tensor cores");
}

TEST_CASE("Flash attention: few rows of heads that share keys may be those of one head") {
  /// Whether there are such configs, with blocks for `heads` heads of `rows` rows.
  auto isPacked = [](const FlashSketch &sketch, std::uint32_t heads, std::int64_t rows) {
    RegionCase given(flashCase(sketch));
    const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
    bool found = false;
    for (const codegen::TileConfig &config : flash.candidates(given.region, hopper()))
      if (config.valueOr("packed", 0) == 1) {
        found = true;
        CHECK(flash.emit(given.region, config, hopper())->launches[0].grid[0] ==
              heads * ((rows + config["rows"] - 1) / config["rows"]));
      }
    return found;
  };
  CHECK(isPacked({.heads = 16, .keyHeads = 2, .rows = 20, .keys = 500}, 2 * 2, 8 * 20));
  CHECK(isPacked({.heads = 16, .keyHeads = 2, .rows = 20, .keys = 500, .tokensFirst = true}, 2 * 2, 8 * 20));
  CHECK(!isPacked({.heads = 4, .keyHeads = 4, .rows = 20, .keys = 500}, 0, 0));
  CHECK(!isPacked({.heads = 16, .keyHeads = 2, .rows = 100, .keys = 500}, 0, 0));
}

TEST_CASE("Flash attention: every config fits, and tiles are no larger than what there is") {
  using codegen::TileConfig;
  for (const char *target : {"sm_80", "sm_86", "sm_90a"})
    for (int size : {32, 72, 128, 256}) {
      RegionCase given(flashCase({.rows = 5000, .keys = 4000, .keySize = size, .valueSize = size, .mask = "causal"}));
      const ir::Target &on = *ir::findTarget(target);
      const std::vector<TileConfig> configs = codegen::cuda::flashAttentionTemplate().candidates(given.region, on);
      CHECK(configs.size() >= 12);
      for (const TileConfig &config : configs) {
        auto plan = codegen::cuda::flashAttentionTemplate().emit(given.region, config, on);
        REQUIRE_MESSAGE(plan, plan.error().message);
        CHECK(plan->launches[0].sharedBytes <= static_cast<std::uint32_t>(on.sharedBytesPerBlock));
        const std::int64_t blocks = 4 * ((5000 + config["rows"] - 1) / config["rows"]);
        const std::int64_t atOnce = on.multiprocessors * config.valueOr("resident", 1);
        CHECK(plan->launches[0].grid[0] == (config.valueOr("persistent", 0) ? std::min(atOnce, blocks) : blocks));
      }
    }
  RegionCase few(flashCase({.rows = 20, .keys = 30, .keySize = 32, .valueSize = 32}));
  for (const TileConfig &config : codegen::cuda::flashAttentionTemplate().candidates(few.region, hopper())) {
    CHECK(config["rows"] <= 32);
    CHECK(config["keys"] <= 32);
    CHECK((config["stages"] == 2 || config["keys"] < 30));
  }
}

TEST_CASE("Flash attention: heads take turns where some tiles of rows have less work, as far as the cache holds keys") {
  auto together = [](int rows, int keys, const char *mask) {
    RegionCase given(flashCase({.batch = 8,
                                .heads = 20,
                                .keyHeads = 20,
                                .rows = rows,
                                .keys = keys,
                                .keySize = 64,
                                .valueSize = 64,
                                .mask = mask}));
    auto plan = codegen::cuda::flashAttentionTemplate().emit(
        given.region, {{"rows", 128}, {"warps", 4}, {"keys", 64}, {"stages", 2}}, hopper());
    REQUIRE_MESSAGE(plan, plan.error().message);
    const std::size_t at = plan->source.find("together = ");
    REQUIRE(at != std::string::npos);
    return std::stoi(plan->source.substr(at + 11));
  };
  CHECK(together(448, 1500, "") == 40);        // The fourth tile is half empty.
  CHECK(together(448, 15000, "") == 5);        // 10 times the keys.
  CHECK(together(512, 1500, "") == 1);         // All tiles are full.
  CHECK(together(257, 1500, "") == 1);         // Too few of them.
  CHECK(together(1000, 1500, "") == 1);        // The eighth lacks 24 rows of 1024.
  CHECK(together(1500, 1500, "causal") == 40); // Tiles have different numbers of keys.
}

TEST_CASE("Flash attention: the estimate knows that a causal mask hides half of the keys") {
  auto best = [](const char *mask) {
    RegionCase given(flashCase(
        {.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128, .mask = mask}));
    return codegen::cuda::flashAttentionTemplate().estimated(given.region, hopper()).front().us;
  };
  const double full = best(""), causal = best("causal");
  CHECK(causal > 0.5 * full);
  CHECK(causal < 0.65 * full);
}
