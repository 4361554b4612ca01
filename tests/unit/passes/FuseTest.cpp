#include "PassHarness.h"
#include "RandomGraph.h"

#include "codegen/CostModel.h"
#include "passes/MemoryPlan.h"
#include "passes/Passes.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Every op of a compiled function is a kernel, a constant or a view; every kernel is accepted.
void checkCovered(mlir::ModuleOp module, const ir::CostModel &model) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (mlir::Operation &op : function.getBody().front().without_terminator()) {
      bool isExpected = mlir::isa<ir::FusedOp, ir::ConstantOp, ir::ReshapeOp>(op);
      CHECK_MESSAGE(isExpected, op.getName().getStringRef().str());
      if (auto fused = mlir::dyn_cast<ir::FusedOp>(op))
        CHECK(model.appraise(fused.getBody().front()).decision);
    }
}

/// @prepare runs once per weight set: it may read nothing else.
void checkPreparesParametersAlone(mlir::ModuleOp module) {
  if (auto prepare = module.lookupSymbol<mlir::func::FuncOp>("prepare"))
    for (unsigned i = 0; i < prepare.getNumArguments(); ++i)
      CHECK(prepare.getArgAttrOfType<mlir::StringAttr>(i, ir::roleAttrName).getValue() == "parameter");
}

/// A template that takes attention whole.
class TakesAttention : public passes::ScalarFormCostModel {
public:
  using ScalarFormCostModel::ScalarFormCostModel;
  ir::Appraisal appraise(mlir::Block &region) const override {
    bool isAttention =
        llvm::hasSingleElement(region.without_terminator()) && mlir::isa<ir::AttentionOp>(region.front());
    return {isAttention ? ir::FusionDecision::yes() : accepts(region), cost(region)};
  }
};

/// A template that takes every chain for nothing.
class TakesChains : public passes::ScalarFormCostModel {
public:
  using ScalarFormCostModel::ScalarFormCostModel;
  ir::Appraisal appraise(mlir::Block &region) const override {
    if (isChain(region))
      return {};
    ir::Appraisal found = ScalarFormCostModel::appraise(region);
    if (!found.decision && isLayer(region))
      found = {.decision = {}, .cost = {.us = 1}};
    return found;
  }
  /// A product, or one with a norm of its rows: what chains are made of.
  static bool isLayer(mlir::Block &region) {
    int products = 0, others = 0;
    for (auto op : region.getOps<ir::FusableOpInterface>()) {
      products += op.getOpKind() == ir::OpKind::Contraction;
      others += op.getOpKind() != ir::OpKind::Contraction && op.getOpKind() != ir::OpKind::RowReduction &&
                op.getOpKind() != ir::OpKind::Pointwise;
    }
    return products == 1 && others == 0;
  }
  static bool isChain(mlir::Block &region) { return !region.getOps<ir::FusedOp>().empty(); }
};

const char *const attentionText = R"(
func.func @main(%q: tensor<4x6x8xf32>, %k: tensor<4x6x8xf32>, %v: tensor<4x6x8xf32>) -> tensor<4x6x8xf32> {
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x6xf32>
  %1 = kfuse.softmax %0 : (tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %2 = kfuse.matmul %1, %v : (tensor<4x6x6xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %3 = kfuse.relu %2 : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %3 : tensor<4x6x8xf32>
})";

} // namespace

TEST_CASE("attention is one kernel where a template takes it whole, and its parts where none does") {
  TakesAttention whole(cpuTarget());
  passes::ScalarFormCostModel parts(cpuTarget());
  for (auto [model, kernels, attentions] :
       {std::tuple<const ir::CostModel *, int, int>(&whole, 2, 1), {&parts, 3, 0}}) {
    ParsedModule parsed(attentionText);
    REQUIRE(runPasses(*parsed.module, [&, model = model](mlir::PassManager &manager) {
              passes::buildPipeline(manager, *model);
            }) == "");
    int foundKernels = 0, foundAttentions = 0;
    parsed.module->walk([&](mlir::Operation *op) {
      foundKernels += mlir::isa<ir::FusedOp>(op);
      foundAttentions += mlir::isa<ir::AttentionOp>(op);
    });
    CHECK(foundKernels == kernels);
    CHECK(foundAttentions == attentions);
  }
}

TEST_CASE("small kernels share a launch where none needs the other, large ones and those in a row do not") {
  auto kernelsOf = [](const std::string &text) {
    ParsedModule parsed(text);
    REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
    std::unique_ptr<ir::CostModel> model = codegen::makeCostModel(*ir::findTarget("sm_90a"));
    REQUIRE(runPasses(*parsed.module, [&](mlir::PassManager &manager) { passes::buildPipeline(manager, *model); }) ==
            "");
    checkCovered(*parsed.module, *model);
    std::vector<std::size_t> ops;
    parsed.module->walk([&](ir::FusedOp fused) { ops.push_back(llvm::range_size(fused.getOps<ir::GeluOp>())); });
    return ops;
  };
  auto two = [](const std::string &type) {
    return "func.func @main(%a: " + type + ", %b: tensor<40xf32>) -> (" + type + ", tensor<40xf32>) {\n" +
           "  %0 = kfuse.gelu %a : (" + type + ") -> " + type + "\n" +
           "  %1 = kfuse.gelu %b : (tensor<40xf32>) -> tensor<40xf32>\n  return %0, %1 : " + type +
           ", tensor<40xf32>\n}";
  };
  CHECK(kernelsOf(two("tensor<3x100xf32>")) == std::vector<std::size_t>{2});
  CHECK(kernelsOf(two("tensor<8192x8192xf32>")) == std::vector<std::size_t>{1, 1});
  // Between the first and the last lies a product that needs the one and gives the other.
  CHECK(kernelsOf(R"(
func.func @main(%a: tensor<64x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = kfuse.gelu %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = kfuse.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = kfuse.reduce %1 {function = "sum", axes = array<i64: 0>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %3 = kfuse.gelu %2 : (tensor<64xf32>) -> tensor<64xf32>
  %4 = kfuse.gelu %b : (tensor<64xf32>) -> tensor<64xf32>
  return %1, %3, %4 : tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>
})") == std::vector<std::size_t>{2, 0, 1});
}

TEST_CASE("a random model computes the same after the whole pipeline") {
  passes::ScalarFormCostModel any(cpuTarget());
  SmallRegionsOnly small(cpuTarget(), 2);
  TakesChains chains(cpuTarget());
  int chainsSeen = 0;
  for (unsigned seed = 0; seed < 600; ++seed) { // Products in a row are rare among them.
    CAPTURE(seed);
    std::string text = RandomGraph(seed).text();
    CAPTURE(text);
    ParsedModule before(text);
    REQUIRE_MESSAGE(before.module, before.diagnostic);
    Arguments arguments = randomArguments(before.module->lookupSymbol<mlir::func::FuncOp>("main"), seed);
    std::vector<Values> expected = evaluateModel(*before.module, arguments);
    for (const ir::CostModel *model :
         {static_cast<const ir::CostModel *>(&any), static_cast<const ir::CostModel *>(&small),
          static_cast<const ir::CostModel *>(&chains)})
      for (bool simplify : {true, false}) {
        ParsedModule after(text);
        REQUIRE(runPasses(*after.module, [&](mlir::PassManager &manager) {
                  passes::buildPipeline(manager, *model, {.simplify = simplify});
                }) == "");
        checkCovered(*after.module, *model);
        after.module->walk([&](ir::FusedOp fused) { chainsSeen += TakesChains::isChain(fused.getBody().front()); });
        checkPreparesParametersAlone(*after.module);
        // Prepared values are rounded to f32.
        checkSame(evaluateModel(*after.module, arguments), expected, 1e-5);
      }
  }
  CHECK(chainsSeen > 20);
}
