// How indices, chunks and scalar functions read as CUDA C++.
#include "CudaRegions.h"

#include "codegen/LinearGraph.h"
#include "codegen/cpu/ScalarFunctions.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/text/IndexText.h"
#include "codegen/cuda/text/LaneForm.h"
#include "codegen/cuda/text/ScalarFunctions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::codegen::cuda;

namespace {

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
  const std::set<std::string> others{"softmax", "layer_norm", "rms_norm",   "reduce",       "matmul",
                                     "reshape", "transpose",  "broadcast",  "slice",        "concat",
                                     "gather",  "constant",   "iota",       "state_update", "cast",
                                     "rotary",  "window",     "dequantize", "prefix"};
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
