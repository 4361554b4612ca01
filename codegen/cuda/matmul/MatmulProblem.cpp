#include "codegen/cuda/matmul/MatmulProblem.h"

#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

static std::vector<const ScalarNode *> contractionsOf(const ir::ScalarGraph &graph) {
  std::vector<const ScalarNode *> contractions;
  for (const ScalarNode &node : graph.nodes)
    if (node.kind == ScalarNode::Kind::Contract)
      contractions.push_back(&node);
  return contractions;
}

/// Whether the left operand's few rows walk memory by other than strides, as windows do.
static bool readsWindows(const ir::ScalarGraph &graph) {
  constexpr int64_t fewRows = 256; // Up to which the last tile's missing rows are more than a few percent.
  return graph.domain.extents.end()[-3] < fewRows &&
         llvm::any_of(
             contractionsOf(graph),
             [&](const ScalarNode *product) {
               const ScalarNode &left = graph[product->operands[0]];
               return left.kind == ScalarNode::Kind::Load &&
                      (!left.guards.empty() ||
                       !ir::isStrided(left.map, graph.inputs[left.input].shape, graph.domain.extents));
             });
}

/// The batches that share the right operand as rows of one product: the images and lines of a convolution, of which
/// each alone would fill no tile. What walked them by strides divides a row's number.
static ir::ScalarGraph withSharingBatchesAsRows(const ir::ScalarGraph &source) {
  const SmallVector<int64_t> extents(source.domain.extents);
  const std::vector<const ScalarNode *> products = contractionsOf(source);
  const unsigned rows = extents.size() - 3;
  unsigned first = rows;
  while (first > 0 && llvm::none_of(products, [&](const ScalarNode *product) {
           return source.dependsOn(product->operands[1], first - 1);
         }))
    --first;
  if (first == rows)
    return source;
  ir::ScalarGraph graph = source;
  MLIRContext *context = source.outputs.front().map.getContext();
  const ArrayRef<int64_t> folded = ArrayRef(extents).slice(first, rows - first + 1);
  graph.domain.extents.assign(extents.begin(), extents.begin() + first);
  graph.domain.extents.append({ir::elementsIn(folded), extents[rows + 1], extents[rows + 2]});
  SmallVector<AffineExpr> replacement;
  for (unsigned dim = 0; dim < first; ++dim)
    replacement.push_back(getAffineDimExpr(dim, context));
  llvm::append_range(replacement, ir::delinearise(getAffineDimExpr(first, context), folded));
  for (unsigned dim : {first + 1, first + 2})
    replacement.push_back(getAffineDimExpr(dim, context));
  for (int *dim : {&graph.domain.reductionDim, &graph.domain.contractionDim})
    *dim -= *dim >= 0 ? static_cast<int>(rows - first) : 0;

  auto inRows = [&](AffineMap map) {
    return map.replaceDimsAndSymbols(replacement, {}, graph.domain.rank(), map.getNumSymbols());
  };
  for (ScalarNode &node : graph.nodes) {
    if (node.kind == ScalarNode::Kind::Load)
      node.map = inRows(node.map);
    if (node.kind == ScalarNode::Kind::Index)
      node.index = node.index.replaceDims(replacement);
    for (ir::Guard &guard : node.guards)
      guard.index = guard.index.replaceDims(replacement);
  }
  for (ir::ScalarOutput &output : graph.outputs)
    output.map = inRows(output.map);
  return graph;
}

std::optional<MatmulProblem> MatmulProblem::of(const Region &region) {
  if (region.graph.domain.contractionDim < 0)
    return std::nullopt;
  MatmulProblem problem{
      linearised(readsWindows(region.graph) ? withSharingBatchesAsRows(region.graph) : region.graph, 3),
      {},
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      region.isFixed};
  problem.reducesRows = region.graph.domain.reductionDim >= 0;
  for (auto [id, node] : llvm::enumerate(problem.graph.graph.nodes)) {
    if (node.kind != ScalarNode::Kind::Contract)
      continue;
    problem.products.push_back({static_cast<int>(id)});
  }
  if (problem.products.empty() || problem.count() > 2 || problem.operand(0) != problem.operand(0, problem.count() - 1))
    return std::nullopt;
  problem.tf32 =
      llvm::all_of(problem.products, [&](Scalar product) { return problem.graph[product].function == "tf32"; });
  // Batches that share the right operand are rows of one product; rows that are all the same are better a batch.
  while (problem.graph.extents().size() > 3) {
    unsigned innermost = problem.graph.extents().size() - 4, rows = innermost + 1;
    bool isShared = llvm::none_of(problem.products, [&](Scalar product) {
      return problem.graph.dependsOn(problem.graph[product].operands[1], innermost);
    });
    if (isShared && problem.graph.dependsOn(problem.operand(0), innermost) &&
        !problem.graph.dependsOn(problem.operand(0), rows))
      interchange(problem.graph, innermost, rows);
    if (!isShared || !mergeWithNext(problem.graph, innermost))
      break;
  }
  ArrayRef<int64_t> extents = problem.graph.extents();
  problem.dimK = extents.size() - 1, problem.dimN = extents.size() - 2, problem.dimM = extents.size() - 3;
  problem.M = extents[problem.dimM], problem.N = extents[problem.dimN], problem.K = extents[problem.dimK];
  problem.batches = ir::elementsIn(extents.drop_back(3));
  return problem;
}

ir::FusionDecision isCounted(const Region &region, const std::optional<MatmulProblem> &problem) {
  if (!problem) {
    const size_t products = contractionsOf(region.graph).size();
    return ir::FusionDecision::no(products == 0  ? "holds no matrix product"
                                  : products > 2 ? "holds " + std::to_string(products) +
                                                       " matrix products, at most two are multiplied together"
                                                 : "holds two matrix products of different left operands");
  }
  const std::pair<const char *, int64_t> extents[] = {
      {"M", problem->M}, {"N", problem->N}, {"K", problem->K}, {"batches", problem->batches}};
  for (auto [name, extent] : extents)
    if (extent > mostExtent)
      return ir::FusionDecision::no("multiplies matrices of " + std::string(name) + " = " + std::to_string(extent) +
                                    ", at most " + std::to_string(mostExtent) + " are counted in 32 bits");
  return ir::FusionDecision::yes();
}

DType storedTypeOf(const LinearGraph &graph, Scalar value) {
  const ScalarNode &node = graph[value];
  return node.kind == ScalarNode::Kind::Load ? graph.graph.inputs[node.input].type : DType::F32;
}

bool MatmulProblem::readsBeside(unsigned input) const {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Load && node.input == input && !isOperand({static_cast<int>(id)}))
      return true;
  return false;
}

bool MatmulProblem::readsRows() const {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (const Scalar load{static_cast<int>(id)};
        node.kind == ScalarNode::Kind::Load && !isOperand(load) && graph.dependsOn(load, dimM))
      return true;
  return false;
}

bool MatmulProblem::endsRows() const {
  const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
  return end && end->dim == dimM;
}

DType MatmulProblem::elementType(unsigned side) const { return storedTypeOf(graph, operand(side)); }

bool MatmulProblem::isRightType(DType type) const {
  return llvm::all_of(products,
                      [&](Scalar product) { return storedTypeOf(graph, graph[product].operands[1]) == type; });
}

bool MatmulProblem::isOperand(Scalar node) const {
  return llvm::any_of(products, [&](Scalar product) { return llvm::is_contained(graph[product].operands, node); });
}

ir::FusionDecision takenByMmaSync(const MatmulProblem &problem, const ir::Target &target) {
  if (problem.reducesRows)
    return ir::FusionDecision::no(holdsTiles);
  if (target.capability < 80)
    return ir::FusionDecision::no("needs sm_80, the target is " + target.name);
  return ir::FusionDecision::yes();
}

ir::FusionDecision multipliedByMmaSync(const MatmulProblem &problem, bool takesTf32) {
  const DType left = problem.elementType(0), right = problem.elementType(1);
  const bool areHalf = left == right && (left == DType::F16 || left == DType::BF16),
             areTf32 = takesTf32 && problem.tf32 && left == right && left == DType::F32;
  if ((areHalf || areTf32 || (isFloat8(left) && isFloat8(right))) && problem.isRightType(right))
    return ir::FusionDecision::yes();
  return ir::FusionDecision::no(
      "multiplies " + std::string(toString(left)) + " by " + std::string(toString(right)) +
      ", tensor cores take pairs of f16, of bf16" +
      (takesTf32 ? ", of 8-bit floats or, where tf32 is allowed, f32" : " or of 8-bit floats from registers"));
}

} // namespace kfuse::codegen::cuda
