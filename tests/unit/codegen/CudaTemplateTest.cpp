// Which regions the CUDA templates take, and which configs they offer.
#include "CudaRegions.h"

#include "codegen/KernelLimits.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/text/ValuePrinter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::codegen::cuda;

TEST_CASE("CUDA templates: each refuses what another takes, and says why") {
  RegionCase rows = region(softmax), matmul = region(product);
  CHECK(refusal(pointwiseTemplate(), rows) == "holds a row reduction");
  CHECK(refusal(pointwiseTemplate(), matmul) == "holds a matrix product");
  CHECK(refusal(rowsTemplate(), matmul) == "holds a matrix product");
  CHECK(refusal(rowsTemplate(), region(pointwiseCases()[0].text)) == "holds no row reduction");
  CHECK(refusal(matmulSm80Template(), rows) == "holds no matrix product");
  auto refusalOfSum = [](const std::string &products) {
    return refusal(matmulTemplate(), region("func.func @f(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>) -> "
                                            "tensor<8x8xbf16> {\n" +
                                            products + "return %y : tensor<8x8xbf16>\n}"));
  };
  const std::string operands = " : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>\n",
                    left = "%0 = kfuse.matmul %a, %b" + operands, right = "%1 = kfuse.matmul %b, %a" + operands;
  CHECK(refusalOfSum(left + right + "%y = kfuse.add %0, %1" + operands) ==
        "holds two matrix products of different left operands");
  CHECK(refusalOfSum(left + "%1 = kfuse.matmul %a, %a" + operands + "%2 = kfuse.matmul %a, %b {transpose_b}" +
                     operands + "%3 = kfuse.add %0, %1" + operands + "%y = kfuse.add %3, %2" + operands) ==
        "holds 3 matrix products, at most two are multiplied together");
  CHECK(refusal(matmulSm80Template(), matmul).empty());
  CHECK(refusal(matmulSimtTemplate(), matmul) == "a large product of bf16 belongs on tensor cores");
}

TEST_CASE(
    "CUDA templates: decode attention has its fix-up within clusters, but where tiles are loaded ahead of the wait") {
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

TEST_CASE("CUDA templates: the partials that a cluster's block holds in decode attention fit static shared memory") {
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

TEST_CASE("Regions: an update writes the elements of its rows, wherever they go") {
  for (const char *at : {"tensor<i64>", "tensor<6xi64>"}) {
    const std::string types = std::string("(tensor<64x8xf32>, tensor<6x8xf32>, ") + at + ") -> tensor<64x8xf32>";
    RegionCase update =
        region(std::string("func.func @f(%s: tensor<64x8xf32>, %x: tensor<6x8xf32>, %at: ") + at +
               ") -> tensor<64x8xf32> {\n%0 = kfuse.state_update %s, %x, %at {axis = 0 : i64} : " + types +
               "\nreturn %0 : tensor<64x8xf32>\n}");
    INFO(at);
    CHECK(update.region.bytesWritten == 6 * 8 * 4);
  }
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
      {pointwiseTemplate(), unary("gelu", "32768x8192"), "threads=128,unroll=2,vector=8"},
      {pointwiseTemplate(), unary("gelu", "4096x4096"), "threads=128,unroll=2,vector=8"}};
  for (const Known &one : known) {
    const RegionCase given = region(one.text);
    std::vector<codegen::TileConfig> configs = one.kernel.candidates(given.region, *ir::findTarget("sm_90a"));
    REQUIRE(configs.size() > 8);
    configs.resize(8);
    INFO(one.text);
    CHECK(std::any_of(configs.begin(), configs.end(), [&](const auto &config) { return config.str() == one.best; }));
  }
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
