#include "codegen/KernelLimits.h"
#include "codegen/LinearGraph.h"
#include "codegen/cpu/ScalarFunctions.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/text/IndexText.h"
#include "codegen/cuda/text/LaneForm.h"
#include "codegen/cuda/text/ScalarFunctions.h"
#include "codegen/cuda/text/ValuePrinter.h"
#include "tests/cuda/TemplateCases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::codegen::cuda;

namespace {

const ir::Target &ampere() { return *ir::findTarget("sm_80"); }

RegionCase region(const std::string &text) { return RegionCase({"case", text}); }

std::string refusal(const codegen::KernelTemplate &source, const RegionCase &given) {
  return source.match(given.region, ampere()).reason();
}

const char *softmax = R"(
func.func @f(%a: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %0 = kfuse.softmax %a : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
  return %0 : tensor<4x64xbf16>
})";
const char *product = R"(
func.func @f(%a: tensor<64x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<64x512xbf16> {
  %0 = kfuse.matmul %a, %b : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  return %0 : tensor<64x512xbf16>
})";

/// The offset of the first load, linearised and collapsed with `fixedDims` dimensions kept.
std::string firstOffset(const RegionCase &given, unsigned fixedDims) {
  codegen::LinearGraph graph = codegen::linearised(given.region.graph, fixedDims);
  IndexNames names;
  for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
    names.dims.push_back("d" + std::to_string(dim));
  for (const ir::ScalarNode &node : graph.graph.nodes)
    if (node.kind == ir::ScalarNode::Kind::Load)
      return indexText(node.map.getResult(0), names);
  return "";
}

} // namespace

TEST_CASE("CUDA gelu: results of bf16 take the short form, and neighbours of a product's tile share a reciprocal") {
  auto sourceOf = [](const std::string &function, const std::string &type, bool isProduct) {
    const std::string x = "tensor<512x512x" + type + ">", of = " : (" + x + ", " + x + ") -> " + x;
    const RegionCase given = region("func.func @f(%a: " + x + ", %b: " + x + ") -> " + x + " { %0 = kfuse." +
                                    (isProduct ? "matmul" : "add") + " %a, %b" + of + " %1 = kfuse." + function +
                                    " %0 : (" + x + ") -> " + x + " return %1 : " + x + " }");
    const codegen::KernelTemplate &source = isProduct ? matmulSm90Template() : pointwiseTemplate();
    const ir::Target &hopper = *ir::findTarget("sm_90a");
    Result<codegen::KernelPlan> plan =
        source.emit(given.region, source.estimated(given.region, hopper).front().config, hopper);
    REQUIRE_MESSAGE(plan, plan.error().message);
    return plan->source;
  };
  auto has = [](const std::string &source, const char *text) { return source.find(text) != std::string::npos; };
  for (bool isProduct : {false, true}) {
    CHECK(has(sourceOf("gelu", "bf16", isProduct), "= narrow::gelu("));
    CHECK(has(sourceOf("gelu", "f16", isProduct), "= gelu("));
  }
  CHECK(has(sourceOf("gelu_tanh", "bf16", true), "y0 = geluTanh(y0);"));
  CHECK(has(sourceOf("gelu_tanh", "bf16", false), "= geluTanh("));
}

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

TEST_CASE("CUDA templates: each refuses what another takes, and says why") {
  RegionCase rows = region(softmax), matmul = region(product);
  CHECK(refusal(pointwiseTemplate(), rows) == "holds a row reduction");
  CHECK(refusal(pointwiseTemplate(), matmul) == "holds a matrix product");
  CHECK(refusal(rowsTemplate(), matmul) == "holds a matrix product");
  CHECK(refusal(rowsTemplate(), region(pointwiseCases()[0].text)) == "holds no row reduction");
  CHECK(refusal(matmulSm80Template(), rows) ==
        "holds no matrix product, or several that do not share their left operand");
  CHECK(refusal(matmulSm80Template(), matmul).empty());
  CHECK(refusal(matmulSimtTemplate(), matmul) == "a large product of bf16 belongs on tensor cores");
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
      &matmulTemplate(),          &gemvTemplate(),       &matmulStreamTemplate(), &matmulLowBitsTemplate(),
      &matmulSm90SplitTemplate(), &matmulSm80Template(), &matmulSm90Template(),   &matmulSimtTemplate()};
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

TEST_CASE("CUDA templates: decode attention meets within clusters, but where tiles are loaded ahead of the wait") {
  RegionCase given(decodeCases()[0]); // 200 keys.
  auto widestCluster = [&](const char *target) {
    std::int64_t most = 1;
    for (const codegen::TileConfig &config :
         decodeAttentionTemplate().candidates(given.region, *ir::findTarget(target)))
      most = std::max(most, config["cluster"]);
    return most;
  };
  CHECK(widestCluster("sm_90a") == 2);
  CHECK(widestCluster("sm_80") == 1);
  given.region.isFixed.assign(given.region.isFixed.size(), true);
  CHECK(widestCluster("sm_90a") == 1);
}

TEST_CASE(
    "CUDA templates: decode attention computes norms of its queries, and leaves other reductions to a kernel before") {
  // There are 16 keys and heads of 16 elements, so that no length tells what a reduction runs over.
  auto reasonFor = [](const std::string &before, const std::string &query, const std::string &scores) {
    const RegionCase given(
        {"decode",
         "func.func @f(%q: tensor<2x1x16xbf16>, %k: tensor<2x16x16xbf16>, "
         "%v: tensor<2x16x16xbf16>, %m: tensor<1x16xbf16>) -> tensor<2x1x16xbf16> {\n" +
             before + "\n%r = kfuse.attention " + query +
             R"(, %k, %v, %m0 : (tensor<2x1x16xbf16>, tensor<2x16x16xbf16>, tensor<2x16x16xbf16>, tensor<1x16xbf16>) -> tensor<2x1x16xbf16> {
  ^bb0(%a: tensor<2x1x16xbf16>, %b: tensor<2x16x16xbf16>, %c: tensor<2x16x16xbf16>, %d: tensor<1x16xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x1x16xbf16>, tensor<2x16x16xbf16>) -> tensor<2x1x16xbf16>
    )" + scores +
             R"(
    %2 = kfuse.softmax %1 : (tensor<2x1x16xbf16>) -> tensor<2x1x16xbf16>
    %3 = kfuse.matmul %2, %c : (tensor<2x1x16xbf16>, tensor<2x16x16xbf16>) -> tensor<2x1x16xbf16>
    kfuse.yield %3 : tensor<2x1x16xbf16>
  }
  return %r : tensor<2x1x16xbf16>
})"});
    return decodeAttentionTemplate().match(given.region, *ir::findTarget("sm_90a")).reason();
  };
  const std::string plainMask = "%m0 = kfuse.neg %m : (tensor<1x16xbf16>) -> tensor<1x16xbf16>",
                    softmaxMask = "%m0 = kfuse.softmax %m : (tensor<1x16xbf16>) -> tensor<1x16xbf16>",
                    norm = "\n%n = kfuse.rms_norm %q {epsilon = 1.0e-6 : f32} : (tensor<2x1x16xbf16>) -> "
                           "tensor<2x1x16xbf16>",
                    masked = "%1 = kfuse.add %0, %d : (tensor<2x1x16xbf16>, tensor<1x16xbf16>) -> tensor<2x1x16xbf16>",
                    multiplied = "%x = kfuse.neg %a : (tensor<2x1x16xbf16>) -> tensor<2x1x16xbf16>\n"
                                 "%y = kfuse.matmul %x, %b {transpose_b} : (tensor<2x1x16xbf16>, "
                                 "tensor<2x16x16xbf16>) -> tensor<2x1x16xbf16>\n"
                                 "%1 = kfuse.mul %0, %y : (tensor<2x1x16xbf16>, tensor<2x1x16xbf16>) -> "
                                 "tensor<2x1x16xbf16>";
  CHECK(reasonFor(plainMask + norm, "%n", masked) == "");
  CHECK(reasonFor(softmaxMask, "%q", masked) ==
        "its mask or scale takes a reduction (sum), which is a kernel before it");
  CHECK(reasonFor(plainMask, "%q", multiplied) ==
        "its mask or scale takes another product, which is a kernel before it");
}

TEST_CASE("CUDA templates: what a template cannot print, though it matched, is an error that names it") {
  class Faulty : public codegen::KernelTemplate {
  public:
    std::string_view name() const override { return "cuda.faulty"; }
    ir::FusionDecision match(const codegen::Region &, const ir::Target &) const override {
      return ir::FusionDecision::yes();
    }
    std::vector<codegen::EstimatedConfig> estimated(const codegen::Region &, const ir::Target &) const override {
      return {};
    }

  private:
    Result<codegen::KernelPlan> print(const codegen::Region &region, const codegen::TileConfig &,
                                      const ir::Target &) const override {
      const codegen::LinearGraph graph = codegen::linearised(region.graph, 1);
      codegen::cuda::SourceWriter writer;
      ValuePrinter(graph, writer, {"d0"}).value(graph.graph.outputs[0].value);
      return codegen::KernelPlan{};
    }
  };
  const RegionCase given({"sum", R"(
func.func @f(%a: tensor<16xf32>) -> tensor<f32> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
  return %0 : tensor<f32>
})"});
  const Result<codegen::KernelPlan> plan = Faulty().emit(given.region, {{"m", 16}}, ampere());
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::Internal);
  CHECK(plan.error().message == "cuda.faulty of 'reduce' (m=16): nothing defines %1, a reduction (sum); this is a bug "
                                "of kfuse");
}

TEST_CASE("CUDA templates: the parts that a cluster's block holds in decode attention fit static shared memory") {
  RegionCase given(decodeCases().back()); // 16 rows of 128.
  const std::int64_t partialBytes = 16 * (128 + 2) * 4;
  std::int64_t widest = 1;
  for (const codegen::TileConfig &config :
       decodeAttentionTemplate().candidates(given.region, *ir::findTarget("sm_90a"))) {
    CHECK(config["cluster"] * partialBytes <= mostStaticShared);
    widest = std::max(widest, config["cluster"]);
  }
  CHECK(widest == 4);
}

TEST_CASE("CUDA templates: a row chain's first config has tiles of 128 rows, and each link but the last saves time") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto best = [&](int links) {
    RegionCase given(normedLayers(links, 32768, 1024, true, "bf16"));
    return rowChainTemplate().estimated(given.region, hopper).front();
  };
  const codegen::EstimatedConfig two = best(2), four = best(4);
  CHECK(two.config["m"] == 128);
  CHECK(four.us < 2 * two.us);
}

TEST_CASE("CUDA templates: a chain of large layers of rows is worth 3 % of its links' time, others only a quarter") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto profitabilityThreshold = [&](const TemplateCase &chain) {
    RegionCase given(chain);
    const codegen::KernelTemplate &source = *codegen::templateFor(given.region, hopper);
    return source.profitabilityThreshold(given.region, source.estimated(given.region, hopper).front().us);
  };
  CHECK(profitabilityThreshold(normedLayers(2, 32768, 1024, true, "bf16")) == 0.97);
  CHECK(profitabilityThreshold(normedLayers(2, 4096, 1024, true, "bf16")) == 0.75);
  CHECK(profitabilityThreshold(layers(2, 0, 256, 1024, 1024, true, "bf16")) == 0.75);
}

TEST_CASE("CUDA templates: a chain reads weights that its layers share again where they outgrow the last-level cache") {
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  auto sharing = [&](int batches, bool share) {
    const std::string x = "tensor<" + std::to_string(batches) + "x16x2048xbf16>",
                      w = "tensor<" + std::to_string(batches) + "x2048x2048xbf16>";
    std::string parameters, links;
    for (int i = 0; i < 4; ++i) {
      const std::string number = std::to_string(i);
      parameters += ", %w" + number + ": " + w;
      links += "%y" + std::to_string(i + 1) + " = kfuse.fused %y" + number + ", %w" + (share ? "0" : number) + " : (" +
               x + ", " + w + ") -> " + x + " {\n^bb0(%a: " + x + ", %b: " + w +
               "):\n%r = kfuse.matmul %a, %b {transpose_b} : (" + x + ", " + w + ") -> " + x +
               "\nkfuse.yield %r : " + x + "\n}\n";
    }
    return region("func.func @f(%y0: " + x + parameters + ") -> " + x + " {\n" + links + "return %y4 : " + x + "\n}");
  };
  auto bestUs = [&](int batches, bool share) {
    return chainTemplate().estimated(sharing(batches, share).region, hopper).front().us;
  };
  CHECK(bestUs(8, true) == doctest::Approx(bestUs(8, false)));
  CHECK(bestUs(5, true) < bestUs(5, false)); // 42 of its 50 MB.
}

TEST_CASE("CUDA templates: candidates fit the device and are few") {
  for (const char *name : {"sm_80", "sm_86", "sm_90a", "sm_120a"}) {
    const ir::Target &target = *ir::findTarget(name);
    for (const char *text : {softmax, product}) {
      RegionCase given = region(text);
      const codegen::KernelTemplate &source = text == product ? matmulSm80Template() : rowsTemplate();
      const std::vector<codegen::EstimatedConfig> configs = source.estimated(given.region, target);
      CHECK(configs.size() > 1);
      CHECK(configs.size() <= 60);
      for (const auto &[us, config] : configs) {
        CAPTURE(config.str());
        Result<codegen::KernelPlan> plan = source.emit(given.region, config, target);
        REQUIRE(plan);
        for (const codegen::Launch &launch : plan->launches) {
          CHECK(launch.sharedBytes <= static_cast<std::uint32_t>(target.sharedBytesPerBlock));
          CHECK(launch.block[0] <= 1024);
        }
        CHECK(us > 0);
      }
    }
  }
}

TEST_CASE("CUDA templates: the best config measured on an H200 is among the first eight of kernels bound by memory") {
  auto withNorm = [](const std::string &op, const std::string &shape, const std::string &operands = "") {
    const std::string type = "tensor<" + shape + "xbf16>";
    return "func.func @f(%x: " + type + operands + ") -> " + type + " { " + op + " : (" + type;
  };
  const std::string weights = ", %w: tensor<4096xbf16>, %b: tensor<4096xbf16>";
  auto rmsNorm = [&](const std::string &shape) {
    return withNorm("%r = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32}", shape) + ") -> tensor<" + shape +
           "xbf16> return %r : tensor<" + shape + "xbf16> }";
  };
  auto unary = [&](const std::string &op, const std::string &shape) {
    return withNorm("%r = kfuse." + op + " %x", shape) + ") -> tensor<" + shape + "xbf16> return %r : tensor<" + shape +
           "xbf16> }";
  };
  struct Known {
    const codegen::KernelTemplate &kernel;
    std::string text, best;
  };
  const Known known[] = {
      {rowsTemplate(), rmsNorm("32x4096"), "cluster=1,rows=1,storage=1,threads=256,vector=4"},
      {rowsTemplate(), rmsNorm("1024x4096"), "cluster=1,rows=1,storage=1,threads=128,vector=2"},
      {rowsTemplate(), rmsNorm("4096x4096"), "cluster=1,rows=1,storage=1,threads=128,vector=2"},
      {rowsTemplate(),
       withNorm(
           "%r = \"kfuse.layer_norm\"(%x, %w, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, "
           "1>}>",
           "2048x4096", weights) +
           ", tensor<4096xbf16>, tensor<4096xbf16>) -> tensor<2048x4096xbf16> return %r : tensor<2048x4096xbf16> }",
       "cluster=1,rows=1,storage=3,threads=256,vector=8"},
      {rowsTemplate(), unary("softmax", "65536x4096"), "cluster=1,rows=2,storage=1,threads=64,vector=4"},
      {rowsTemplate(), unary("softmax", "684784x49"), "cluster=1,rows=16,rows_each=4,storage=1,threads=8,vector=1"},
      {rowsTemplate(), unary("softmax", "260111x129"), "cluster=1,rows=8,rows_each=2,storage=1,threads=16,vector=1"},
      {pointwiseTemplate(), unary("gelu", "32768x8192"), "persistent=0,threads=128,unroll=2,vector=8"},
      {pointwiseTemplate(), unary("gelu", "4096x4096"), "persistent=0,threads=128,unroll=2,vector=8"}};
  for (const Known &one : known) {
    const RegionCase given = region(one.text);
    std::vector<codegen::TileConfig> configs = one.kernel.candidates(given.region, *ir::findTarget("sm_90a"));
    REQUIRE(configs.size() > 8);
    configs.resize(8);
    INFO(one.text);
    CHECK(std::any_of(configs.begin(), configs.end(), [&](const auto &config) { return config.str() == one.best; }));
  }
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

TEST_CASE("CUDA templates: an output may take the memory of an input that is read where it is written") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = kfuse.add %b, %a : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
})");
  auto config = pointwiseTemplate().candidates(given.region, ampere()).front();
  CHECK(pointwiseTemplate().emit(given.region, config, ampere())->inPlace == std::vector<int>{0});

  RegionCase turned = region(R"(
func.func @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = kfuse.add %a, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
})");
  CHECK(pointwiseTemplate().emit(turned.region, config, ampere())->inPlace == std::vector<int>{-1});
}

TEST_CASE("LinearGraph: contiguous dimensions collapse, fixed ones stay") {
  RegionCase dense = region(R"(
func.func @f(%a: tensor<2x3x1x8xf32>) -> tensor<2x3x1x8xf32> {
  %0 = kfuse.exp %a : (tensor<2x3x1x8xf32>) -> tensor<2x3x1x8xf32>
  return %0 : tensor<2x3x1x8xf32>
})");
  CHECK(codegen::linearised(dense.region.graph, 0).extents() == llvm::ArrayRef<int64_t>({48}));
  CHECK(firstOffset(dense, 0) == "d0");
  CHECK(codegen::linearised(region(softmax).region.graph, 1).extents() == llvm::ArrayRef<int64_t>({4, 64}));

  RegionCase split = region(R"(
func.func @f(%a: tensor<2x5x12xf32>) -> tensor<2x3x5x4xf32> {
  %0 = kfuse.reshape %a : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %1 = kfuse.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  return %1 : tensor<2x3x5x4xf32>
})");
  CHECK(firstOffset(split, 0) == "d0 * 60 + d2 * 12 + d1 * 4 + d3");
}

TEST_CASE("LaneForm: strides and alignment of chunks, through quotients and remainders") {
  mlir::MLIRContext context;
  auto d = [&](unsigned i) { return mlir::getAffineDimExpr(i, &context); };
  auto form = [&](mlir::AffineExpr expr, int64_t width) {
    return laneForm(expr, 1, width, [](unsigned) { return true; });
  };
  struct Row {
    mlir::AffineExpr expr;
    int64_t width, stride, alignment;
  };
  for (const Row &row :
       {Row{d(0) * 768 + d(1), 8, 1, 8}, Row{d(0) * 33 + d(1), 8, 1, 1}, Row{d(0) * 36 + d(1), 8, 1, 4},
        Row{d(1) * 3, 4, 3, 4}, Row{d(0) * 7, 8, 0, 1}, Row{d(1) % 96, 8, 1, 8}, Row{d(1).floorDiv(96), 8, 0, 1},
        Row{(d(1) + 16) % 32, 8, 1, 8}, Row{d(1) + 3, 4, 1, 1}}) {
    auto found = form(row.expr, row.width);
    REQUIRE(found);
    CHECK(found->stride == row.stride);
    CHECK(found->alignment(row.width) == row.alignment);
  }
  CHECK_FALSE(form(d(1) % 12, 8));
  CHECK_FALSE(form(d(1).floorDiv(3), 4));
  CHECK_FALSE(laneForm(mlir::getAffineSymbolExpr(0, &context), 1, 4, [](unsigned) { return false; }));
}

TEST_CASE("IndexText: reads as C++") {
  mlir::MLIRContext context;
  mlir::AffineExpr a = mlir::getAffineDimExpr(0, &context), b = mlir::getAffineDimExpr(1, &context);
  IndexNames names{{"a", "(b + j)"}, {}};
  CHECK(indexText(a * 4 + b, names) == "a * 4 + (b + j)");
  CHECK(indexText((a * 4 + b).floorDiv(8) * 3, names) == "(a * 4 + (b + j)) / 8u * 3");
  CHECK(indexText(b % 6 - a, names) == "(b + j) % 6u - a");
  CHECK(indexText(a * 0, names) == "0");
  CHECK(splitText("i", {2, 3, 4}, {"x", "y", "z"}) == "const Index x = i / 12u, y = i / 4u % 3u, z = i % 4u;");
}

TEST_CASE("ScalarFunctions: every pointwise op of the dialect has CUDA text and a row of the CPU's table") {
  mlir::MLIRContext context;
  context.loadDialect<ir::KfuseDialect>();
  const std::set<std::string> others{"softmax",   "layer_norm",   "rms_norm", "reduce", "matmul", "reshape",
                                     "transpose", "broadcast",    "slice",    "concat", "gather", "constant",
                                     "iota",      "state_update", "cast",     "rotary", "window", "dequantize"};
  for (mlir::RegisteredOperationName op : context.getRegisteredOperations()) {
    std::string name = op.stripDialect().str();
    INFO(name);
    if (!op.hasInterface<ir::FusableOpInterface>() || others.count(name))
      continue;
    CHECK(hasScalarFunction(name));
    auto hasCpuRow = [&](DType type) { return codegen::cpu::findFunction(name, type) != nullptr; };
    CHECK(std::ranges::any_of(std::array{DType::F32, DType::I32, DType::I64, DType::Bool}, hasCpuRow));
  }
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

TEST_CASE("CUDA templates: clusters that share the last tiles have room for their sums, and no waves are rounded up") {
  RegionCase given = region(R"(
func.func @f(%a: tensor<256x8192xbf16>, %b: tensor<8192x8192xbf16>) -> tensor<256x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<256x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<256x8192xbf16>
  return %0 : tensor<256x8192xbf16>
})");
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  // 256 tiles for 132 blocks: of the last 124 the first 8 blocks help with 16 each, whose sums are of four warps.
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

TEST_CASE("CUDA templates: columns are permuted where lanes store their own sums, so that each has four neighbours") {
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
