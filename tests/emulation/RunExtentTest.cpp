// Kernels of which a run needs the first rows alone: these are what they are in a run of all rows, bit for bit where
// sums are not split otherwise, and what lies behind them is not computed.
#include "codegen/cuda/Templates.h"
#include "tests/cuda/RegionText.h"
#include "tests/emulation/EmulatedChecks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <regex>

using namespace kfuse;
using namespace kfuse::test;
using reference::HostTensor;

namespace {

/// `body` defines %0 of type `result`, of whose dimension `axis` a run needs `times` for each of %n's second length.
TemplateCase endedCase(std::vector<std::string> arguments, const std::string &result, const std::string &body, int axis,
                       int times) {
  const std::string lengths = tensor("2", "i64"), n = std::string(1, static_cast<char>('a' + arguments.size()));
  arguments.push_back(lengths);
  return {"ended",
          function(arguments, result,
                   body + "\n%r = kfuse.prefix %0, %" + n + " {axis = " + std::to_string(axis) +
                       " : i64, length = 1 : i64, times = " + std::to_string(times) + " : i64, plus = 0 : i64} : (" +
                       result + ", " + lengths + ") -> " + result + "\nreturn %r : " + result)};
}

TemplateCase product(int m, int n, int k, bool isGated = false) {
  const std::string a = matrixType(m, k, false, "bf16"), b = matrixType(k, n, true, "bf16"),
                    r = matrixType(m, n, false, "bf16"), types = " {transpose_b} : (" + a + ", " + b + ") -> " + r;
  if (!isGated)
    return endedCase({a, b}, r, "%0 = kfuse.matmul %a, %b" + types, 0, 1);
  return endedCase({a, b, b}, r,
                   "%1 = kfuse.matmul %a, %b" + types + "\n%2 = kfuse.matmul %a, %c" + types +
                       "\n%0 = kfuse.mul %1, %2 : (" + r + ", " + r + ") -> " + r,
                   0, 1);
}

/// The case, of whose last result %r a run needs as many along a dimension as the second of %n's lengths says.
TemplateCase ended(TemplateCase source, const std::string &result, int axis = 0) {
  auto replace = [&](const char *what, const std::string &by) {
    source.text = std::regex_replace(source.text, std::regex(what), by);
  };
  replace("func\\.func @f\\((.*?)\\) ->", "func.func @f($1, %n: tensor<2xi64>) ->");
  replace("(return|kfuse\\.yield) (.*)%r : (.*)", "%e = kfuse.prefix %r, %n {axis = " + std::to_string(axis) +
                                                      " : i64, length = 1 : i64, times = 1 : i64, plus = 0 : i64} : (" +
                                                      result + ", tensor<2xi64>) -> " + result + "\n$1 $2%e : $3");
  return source;
}

/// The same of a chain, each of whose layers is told the lengths.
TemplateCase endedChain(TemplateCase source, const std::string &result) {
  source = ended(std::move(source), result);
  source.text =
      std::regex_replace(source.text, std::regex("kfuse\\.fused (.*?) : \\((.*?)\\) -> (.*?) \\{\n\\^bb0\\((.*?)\\):"),
                         "kfuse.fused $1, %n : ($2, tensor<2xi64>) -> $3 {\n^bb0($4, %l: tensor<2xi64>):");
  source.text = std::regex_replace(source.text, std::regex("prefix %r, %n"), "prefix %r, %l");
  return source;
}

/// Elements of a result up to index `end` of dimension `axis`, by their number.
bool isNeeded(const Shape &shape, int axis, std::int64_t end, std::int64_t element) {
  std::int64_t inner = 1;
  for (std::size_t dim = axis + 1; dim < shape.size(); ++dim)
    inner *= shape[dim];
  return element / inner % shape[axis] < end;
}

/// What a kernel does with elements that it does not compute: it leaves them, or stores what a row without keys has.
enum class Behind { Left, WithoutKeys };

struct EndedRun {
  const RegionCase &given;
  const codegen::KernelTemplate &kernel;
  int axis = 0, times = 1;
  std::int64_t granule = 1; ///< The axis's; a kernel may compute a whole one that is needed in part.
  double tolerance = 0;     ///< A share of each element.
  Behind behind = Behind::Left;
};

bool areAlike(double found, double expected, double tolerance) {
  return tolerance > 0 && std::abs(found - expected) <= tolerance * std::max(std::abs(expected), 1.0);
}

void check(const EndedRun &run, const codegen::TileConfig &config, const ir::Target &target) {
  INFO("config " << config.str());
  const Emulated emulated = emulate(run.kernel, run.given, config, target);
  const std::vector<int> states = run.given.states();
  const auto result = static_cast<std::size_t>(std::ranges::find(states, -1) - states.begin());
  const Shape shape = run.given.region.graph.outputs[result].shape;
  const std::int64_t most = shape[run.axis] / run.times;
  std::vector<HostTensor> inputs = run.given.inputs();
  auto outputsOf = [&](std::int64_t length) {
    inputs.back() = reference::tensorOf(DType::I64, {2}, {1, static_cast<double>(length)});
    auto outputs = emulated.kernel.run(inputs, states, Copies::Late);
    REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << emulated.plan.source);
    return std::move(*outputs);
  };
  const std::vector<HostTensor> wholes = outputsOf(most);
  const HostTensor &whole = wholes[result];
  const std::size_t width = byteWidth(whole.type);
  for (std::int64_t length : {std::int64_t{1}, most / 3, most - 1}) {
    CAPTURE(length);
    const std::vector<HostTensor> outputs = outputsOf(length);
    const HostTensor &ended = outputs[result];
    const std::vector<std::byte> nothing(width, std::byte{0xff}); // What nobody wrote.
    const std::int64_t end = length * run.times, computed = (end + run.granule - 1) / run.granule * run.granule;
    const std::vector<double> foundValues = reference::toDoubles(ended), expectedValues = reference::toDoubles(whole);
    bool areRight = true, isLeft = true;
    for (std::int64_t i = 0; i < elementCount(shape); ++i) {
      const std::byte *found = &ended.bytes[static_cast<std::size_t>(i) * width],
                      *expected = &whole.bytes[static_cast<std::size_t>(i) * width];
      if (isNeeded(shape, run.axis, end, i))
        areRight &= std::memcmp(found, expected, width) == 0 ||
                    areAlike(foundValues[static_cast<std::size_t>(i)], expectedValues[static_cast<std::size_t>(i)],
                             run.tolerance);
      else if (!isNeeded(shape, run.axis, computed, i))
        isLeft &= run.behind == Behind::Left ? std::memcmp(found, nothing.data(), width) == 0
                                             : foundValues[static_cast<std::size_t>(i)] == 0 ||
                                                   std::isnan(foundValues[static_cast<std::size_t>(i)]);
    }
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i] >= 0) { // The part of sequences behind the end is as it was.
        const std::vector<std::byte> &before = inputs[static_cast<std::size_t>(states[i])].bytes;
        const auto end = static_cast<std::ptrdiff_t>(before.size()) / most * length;
        areRight &= std::equal(outputs[i].bytes.begin(), outputs[i].bytes.begin() + end, wholes[i].bytes.begin());
        isLeft &= std::equal(outputs[i].bytes.begin() + end, outputs[i].bytes.end(), before.begin() + end);
        CHECK(wholes[i].bytes != before);
      }
    CHECK_MESSAGE(areRight, emulated.plan.source);
    CHECK_MESSAGE(isLeft, emulated.plan.source);
  }
}

/// Some configs of a kernel, and that it is right where a run needs all.
template <class Granule>
void checkAll(const TemplateCase &source, const codegen::KernelTemplate &kernel, int axis, int times,
              std::size_t configs, Granule granuleOf) {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 3; // Blocks take several tiles.
  RegionCase given(source);
  REQUIRE(given.region.isOneGraph() == given.region.graph.runExtent.has_value());
  ir::FusionDecision decision = kernel.match(given.region, target);
  REQUIRE_MESSAGE(decision, decision.reason());
  const std::vector<codegen::TileConfig> all = kernel.candidates(given.region, target);
  REQUIRE_FALSE(all.empty());
  for (std::size_t i = 0; i < std::min(configs, all.size()); ++i) {
    const codegen::TileConfig &config = all[i * all.size() / std::min(configs, all.size())];
    const bool ends = kernel.endsWithRun(given.region, config);
    check({given, kernel, axis, times, ends ? granuleOf(config) : given.region.graph.outputs[0].shape[axis]}, config,
          target);
  }
}

/// A granule of single elements.
std::int64_t one(const codegen::TileConfig &) { return 1; }

/// Whether a kernel says that it ends with a run, by its fastest config.
bool endsWithRun(const TemplateCase &source, const codegen::KernelTemplate &kernel) {
  const ir::Target &target = *ir::findTarget("sm_90a");
  RegionCase given(source);
  return kernel.endsWithRun(given.region, kernel.candidates(given.region, target).front());
}

/// What a template prints, but for the head, which names the region.
std::string textBelowHead(const codegen::KernelTemplate &kernel, const RegionCase &given,
                          const codegen::TileConfig &config, const ir::Target &target) {
  const Result<codegen::KernelPlan> plan = kernel.emit(given.region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  return plan->source.substr(plan->source.find("#include"));
}

} // namespace

TEST_CASE("Emulated run extent: rows of tiles of wgmma") {
  auto granule = [](const codegen::TileConfig &config) { return config["m"] * config["cluster_m"]; };
  checkAll(product(700, 136, 72), codegen::cuda::matmulSm90Template(), 0, 1, 6, granule);
  checkAll(product(600, 64, 136, true), codegen::cuda::matmulSm90Template(), 0, 1, 3, granule);
}

TEST_CASE("Emulated run extent: tiles of wgmma whose columns are rows of the result") {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 3;
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  for (const TemplateCase &source : {product(300, 264, 72), product(300, 136, 72, true)}) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> swapped = kernel.candidates(given.region, target);
    std::erase_if(swapped, [](const codegen::TileConfig &config) { return config.valueOr("swap", 0) == 0; });
    REQUIRE_FALSE(swapped.empty());
    const codegen::TileConfig &config = swapped.front();
    check({given, kernel, 0, 1, config["m"] * config["cluster_m"]}, config, target);
  }
}

TEST_CASE("Emulated run extent: bounds of a run whose rows end in whole tiles have one code") {
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  const ir::Target &target = *ir::findTarget("sm_90a");
  auto sourceOf = [&](int rows) {
    RegionCase given(product(rows, 4096, 512));
    const codegen::TileConfig config{{"cluster_m", 1}, {"cluster_n", 1}, {"k", 64},      {"m", 128},
                                     {"n", 128},       {"pingpong", 0},  {"swizzle", 1}, {"swizzle_n", 0},
                                     {"split_k", 1},   {"stages", 4}};
    return textBelowHead(kernel, given, config, target);
  };
  CHECK(sourceOf(1024) == sourceOf(1280));
  CHECK(sourceOf(1024) != sourceOf(1240));
}

TEST_CASE("Emulated run extent: tiles of wgmma of a last wave, which clusters share") {
  ir::Target target = *ir::findTarget("sm_90a");
  target.multiprocessors = 5; // Some of 7 tiles or of 13 are left, with one or more contributors for each.
  const codegen::KernelTemplate &kernel = codegen::cuda::matmulSm90Template();
  for (const TemplateCase &source : {product(850, 64, 1024), product(420, 64, 1536, true)}) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> shared = kernel.candidates(given.region, target);
    std::erase_if(shared, [](const codegen::TileConfig &config) { return config.valueOr("segments", 0) == 0; });
    REQUIRE_FALSE(shared.empty());
    for (const codegen::TileConfig &config : {shared.front(), shared.back()})
      check({given, kernel, 0, 1, config["m"] * config["cluster_m"], 0.01}, config, target);
  }
}

TEST_CASE("Emulated run extent: tiles of wgmma whose K is split") {
  checkAll(product(300, 136, 520), codegen::cuda::matmulSm90SplitTemplate(), 0, 1, 6,
           [](const codegen::TileConfig &config) { return config["m"] * config["cluster_m"]; });
}

TEST_CASE("Emulated run extent: tiles of mma.sync and of plain FMAs, with K split too") {
  auto granule = [](const codegen::TileConfig &config) {
    return config.valueOr("split_k", 1) > 1 ? std::int64_t{1} : config["m"];
  };
  checkAll(product(300, 136, 520), codegen::cuda::matmulSm80Template(), 0, 1, 8, granule);
  checkAll(product(300, 72, 136, true), codegen::cuda::matmulSm80Template(), 0, 1, 3, granule);
  checkAll(product(100, 40, 72), codegen::cuda::matmulSimtTemplate(), 0, 1, 4, granule);
}

TEST_CASE("Emulated run extent: tiles that are transposed, along either side") {
  const std::string t = tensor("264x400", "bf16"), turned = tensor("400x264", "bf16"),
                    body = "%0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (" + t + ") -> " + turned;
  auto down = [](const codegen::TileConfig &config) {
    return config.valueOr("side", 0) > 0 ? config["side"]
                                         : config["down"] * config["lanes_down"] * config["warps_down"];
  };
  auto across = [](const codegen::TileConfig &config) {
    return config.valueOr("side", 0) > 0 ? config["side"]
                                         : config["across"] * (32 / config["lanes_down"]) * config["warps_across"];
  };
  checkAll(endedCase({t}, turned, body, 0, 1), codegen::cuda::transposeTemplate(), 0, 1, 6, down);
  checkAll(endedCase({t}, turned, body, 1, 1), codegen::cuda::transposeTemplate(), 1, 1, 6, across);
}

TEST_CASE("Emulated run extent: rows") {
  const std::string t = tensor("150x200", "bf16"), heads = tensor("50x3x200", "bf16");
  auto granule = [](const codegen::TileConfig &config) {
    return config["rows"] * std::max<std::int64_t>(1, config.valueOr("rows_each", 0));
  };
  const codegen::KernelTemplate &kernel = codegen::cuda::rowsTemplate();
  auto softmaxOf = [](const std::string &type, int axis, int times) {
    return endedCase({type}, type, "%0 = kfuse.softmax %a : (" + type + ") -> " + type, axis, times);
  };
  checkAll(softmaxOf(t, 0, 3), kernel, 0, 3, 8, granule);
  checkAll(softmaxOf(t, 0, 1), kernel, 0, 1, 8, granule);
  checkAll(softmaxOf(heads, 0, 1), kernel, 0, 1, 3, granule);
  CHECK_FALSE(endsWithRun(softmaxOf(heads, 1, 1), kernel)); // It ends rows of each of several.
  checkAll(softmaxOf(heads, 1, 1), kernel, 1, 1, 3, one);
}

TEST_CASE("Emulated run extent: rows of bounds that are whole blocks have one code") {
  auto sourceOf = [&](int rows) {
    const std::string t = tensor(std::to_string(rows) + "x200", "bf16");
    RegionCase given(endedCase({t}, t, "%0 = kfuse.softmax %a : (" + t + ") -> " + t, 0, 1));
    const codegen::KernelTemplate &kernel = codegen::cuda::rowsTemplate();
    const ir::Target &target = *ir::findTarget("sm_90a");
    const std::vector<codegen::TileConfig> all = kernel.candidates(given.region, target);
    auto config = std::ranges::find_if(
        all, [](const codegen::TileConfig &one) { return one["rows"] == 4 && one.valueOr("rows_each", 0) == 0; });
    REQUIRE(config != all.end());
    return textBelowHead(kernel, given, *config, target);
  };
  CHECK(sourceOf(1024) == sourceOf(1280));
  CHECK(sourceOf(1024) != sourceOf(1021));
}

TEST_CASE("Emulated run extent: elements, of one row or of several") {
  const std::string t = tensor("90x40", "bf16"), heads = tensor("3x50x40", "bf16");
  checkAll(endedCase({t}, t, "%0 = kfuse.exp %a : (" + t + ") -> " + t, 0, 1), codegen::cuda::pointwiseTemplate(), 0, 1,
           6, one);
  checkAll(endedCase({heads}, heads, "%0 = kfuse.exp %a : (" + heads + ") -> " + heads, 1, 1),
           codegen::cuda::pointwiseTemplate(), 1, 1, 6, one);
}

TEST_CASE("Emulated run extent: columns that are reduced, and batches of them") {
  const std::string t = tensor("70x520", "bf16"), sums = tensor("520", "bf16"), batches = tensor("6x40x264", "bf16"),
                    ofBatch = tensor("6x264", "bf16");
  auto reduced = [](const std::string &of, int axis, const std::string &result) {
    return "%0 = kfuse.reduce %a {function = \"sum\", axes = array<i64: " + std::to_string(axis) + ">} : (" + of +
           ") -> " + result;
  };
  checkAll(endedCase({t}, sums, reduced(t, 0, sums), 0, 1), codegen::cuda::columnsTemplate(), 0, 1, 6,
           [](const codegen::TileConfig &config) { return config["lanes"] * config["vector"]; });
  checkAll(endedCase({batches}, ofBatch, reduced(batches, 1, ofBatch), 0, 1), codegen::cuda::columnsTemplate(), 0, 1, 6,
           one);
}

TEST_CASE("Emulated run extent: weights of few bits on wgmma") {
  const std::string x = tensor("300x256", "bf16"), q = tensor("136x256", "i4"), s = tensor("136x2", "bf16"),
                    w = tensor("136x256", "bf16"), y = tensor("300x136", "bf16");
  checkAll(endedCase({x, q, s}, y,
                     "%w = kfuse.dequantize %b, %c {blocks = array<i64: 1, 128>} : (" + q + ", " + s + ") -> " + w +
                         "\n%0 = kfuse.matmul %a, %w {transpose_b} : (" + x + ", " + w + ") -> " + y,
                     0, 1),
           codegen::cuda::matmulSm90LowBitsTemplate(), 0, 1, 4,
           [](const codegen::TileConfig &config) { return config["m"] * config["cluster_m"]; });
}

TEST_CASE("Emulated run extent: sequences of decode attention, whose new rows are not written, and heads") {
  const codegen::KernelTemplate &kernel = codegen::cuda::decodeAttentionTemplate();
  auto one = [](const codegen::TileConfig &) { return std::int64_t{1}; };
  const CacheSketch sketch{.batch = 6, .heads = 4, .keyHeads = 2, .rows = 1, .keys = 301, .size = 64, .step = 57};
  const std::string result = tensor("6x4x1x64", "bf16");
  checkAll(ended(cacheCase(sketch), result), kernel, 0, 1, 4, one);
  CacheSketch written = sketch;
  written.writes = true;
  checkAll(ended(cacheCase(written), result), kernel, 0, 1, 4, one);
  const CacheSketch groups{.batch = 2, .heads = 8, .keyHeads = 2, .rows = 1, .keys = 301, .size = 64, .step = 57};
  checkAll(ended(cacheCase(groups), tensor("2x8x1x64", "bf16"), 1), kernel, 1, 1, 2,
           [&](const codegen::TileConfig &) { return std::int64_t{groups.heads / groups.keyHeads}; });
}

TEST_CASE("Emulated run extent: sequences of flash attention, of which those behind the run's see no keys") {
  const ir::Target &target = *ir::findTarget("sm_90a");
  const codegen::KernelTemplate &kernel = codegen::cuda::flashAttentionTemplate();
  CacheSketch sketch{.batch = 4, .heads = 2, .keyHeads = 2, .rows = 40, .keys = 150, .size = 32, .step = 19};
  for (bool writes : {false, true}) {
    sketch.writes = writes;
    RegionCase given(ended(cacheCase(sketch), tensor("4x2x40x32", "bf16")));
    const std::vector<codegen::TileConfig> all = kernel.candidates(given.region, target);
    constexpr std::size_t tried = 3;
    REQUIRE(all.size() >= tried);
    for (std::size_t i = 0; i < tried; ++i)
      check({.given = given, .kernel = kernel, .behind = Behind::WithoutKeys}, all[i * all.size() / tried], target);
  }
}

TEST_CASE("Emulated run extent: heads that a block takes one behind the other, of sequences behind the run's too") {
  RegionCase given(ended(flashCase({.batch = 7,
                                    .heads = 3,
                                    .keyHeads = 3,
                                    .rows = 49,
                                    .keys = 49,
                                    .keySize = 32,
                                    .valueSize = 32,
                                    .mask = "bias"}),
                         tensor("7x3x49x32", "bf16")));
  for (int batches : {3, 8})
    check({.given = given, .kernel = codegen::cuda::flashAttentionTemplate(), .behind = Behind::WithoutKeys},
          {{"rows", 64}, {"warps", 4}, {"keys", 64}, {"stages", 2}, {"batches", batches}}, *ir::findTarget("sm_90a"));
}

TEST_CASE("Emulated run extent: two blocks that read a mask together, between which the run ends") {
  RegionCase given(ended(flashCase({.batch = 4,
                                    .heads = 3,
                                    .keyHeads = 3,
                                    .rows = 70,
                                    .keys = 152,
                                    .keySize = 32,
                                    .valueSize = 32,
                                    .mask = "added"}),
                         tensor("4x3x70x32", "bf16")));
  const codegen::TileConfig config{{"rows", 128},   {"warps", 8},      {"keys", 64},   {"stages", 2}, {"pingpong", 0},
                                   {"resident", 1}, {"persistent", 0}, {"sharers", 2}, {"wgmma", 1}};
  check({.given = given,
         .kernel = codegen::cuda::flashAttentionTemplate(),
         .granule = 2, // Six heads, of whose three pairs one may be of both sequences.
         .behind = Behind::WithoutKeys},
        config, *ir::findTarget("sm_90a"));
}

TEST_CASE("Emulated run extent: chains of few rows and of many") {
  const std::string few = tensor("70x128", "bf16"), many = tensor("600x192", "bf16");
  checkAll(endedChain(layers(1, 0, 70, 128, 128, true, "bf16"), few), codegen::cuda::chainTemplate(), 0, 1, 3,
           [](const codegen::TileConfig &config) { return config["m"]; });
  checkAll(endedChain(normedLayers(3, 600, 192, true, "bf16"), many), codegen::cuda::rowChainTemplate(), 0, 1, 2,
           [](const codegen::TileConfig &config) { return config["m"]; });
}

TEST_CASE("Emulated run extent: small kernels side by side") {
  const std::string t = tensor("90x40", "bf16"), n = tensor("2", "i64"),
                    prefix = ", %n {axis = 0 : i64, length = 1 : i64, times = 1 : i64, plus = 0 : i64} : (" + t + ", " +
                             n + ") -> " + t;
  checkAll({"ended", "func.func @f(%a: " + t + ", %b: " + t + ", %n: " + n + ") -> (" + t + ", " + t +
                         ") {\n%0 = kfuse.exp %a : (" + t + ") -> " + t + "\n%1 = kfuse.relu %b : (" + t + ") -> " + t +
                         "\n%2 = kfuse.prefix %0" + prefix + "\n%3 = kfuse.prefix %1" + prefix +
                         "\nreturn %2, %3 : " + t + ", " + t + "\n}"},
           codegen::cuda::sideBySideTemplate(), 0, 1, 3, one);
}

TEST_CASE("Emulated run extent: a chain of whose layers two give results away computes all") {
  const std::string x = tensor("70x128", "bf16");
  TemplateCase source = layers(1, 0, 70, 128, 128, true, "bf16");
  const codegen::KernelTemplate &kernel = codegen::cuda::chainTemplate();
  CHECK(endsWithRun(endedChain(source, x), kernel));
  source.text =
      std::regex_replace(source.text, std::regex("-> \\(" + x + "\\) \\{\n%v0"), "-> (" + x + ", " + x + ") {\n%v0");
  source.text = std::regex_replace(source.text, std::regex("return %v1 : " + x), "return %v0, %v1 : " + x + ", " + x);
  source = endedChain(std::move(source), x);
  CHECK_FALSE(endsWithRun(source, kernel));
  checkAll(source, kernel, 0, 1, 2, one);
}

TEST_CASE("Emulated run extent: products of few rows and windows compute all") {
  const TemplateCase few = product(4, 72, 136), some = product(13, 72, 136);
  CHECK_FALSE(endsWithRun(few, codegen::cuda::gemvTemplate()));
  checkAll(few, codegen::cuda::gemvTemplate(), 0, 1, 2, one);
  CHECK_FALSE(endsWithRun(some, codegen::cuda::matmulStreamTemplate()));
  checkAll(some, codegen::cuda::matmulStreamTemplate(), 0, 1, 2, one);
  const std::string image = tensor("4x15x29", "f32"), windows = tensor("4x3x3x7x14", "f32"),
                    most = tensor("4x7x14", "f32");
  const TemplateCase pool = endedCase(
      {image}, most,
      "%1 = kfuse.window %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads "
      "= array<i64: 0, 0>} : (" +
          image + ") -> " + windows + "\n%0 = kfuse.reduce %1 {function = \"max\", axes = array<i64: 1, 2>} : (" +
          windows + ") -> " + most,
      0, 1);
  CHECK_FALSE(endsWithRun(pool, codegen::cuda::windowsTemplate()));
  checkAll(pool, codegen::cuda::windowsTemplate(), 0, 1, 2, one);
}

TEST_CASE("Emulated run extent: rows and elements of few bits") {
  const std::string q = tensor("96x256", "i4"), scales = tensor("96x2", "bf16"), x = tensor("96x256", "bf16"),
                    wide =
                        "kfuse.dequantize %a, %b {blocks = array<i64: 1, 128>} : (" + q + ", " + scales + ") -> " + x;
  checkAll(endedCase({q, scales}, x, "%0 = " + wide, 0, 1), codegen::cuda::pointwiseTemplate(), 0, 1, 3, one);
  checkAll(endedCase({q, scales}, x, "%1 = " + wide + "\n%0 = kfuse.softmax %1 : (" + x + ") -> " + x, 0, 1),
           codegen::cuda::rowsTemplate(), 0, 1, 3, [](const codegen::TileConfig &config) {
             return config["rows"] * std::max<std::int64_t>(1, config.valueOr("rows_each", 0));
           });
}
