#include "codegen/cuda/attention/NewRows.h"

#include "codegen/cuda/attention/AttentionForms.h"

#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

/// Whether an update writes the rows [lead..., position, 0...] of its state, over which it runs as they lie.
bool writesRows(const ir::ScalarGraph &update, unsigned axis) {
  const ir::ScalarOutput &output = update.outputs[0];
  MLIRContext *context = output.map.getContext();
  for (unsigned dim = 0; dim < output.shape.size(); ++dim) {
    bool isOne = dim < update.domain.rank() && update.domain.extents[dim] == 1; // Its index is 0.
    AffineExpr expected = isOne ? getAffineConstantExpr(0, context) : getAffineDimExpr(dim, context);
    if (dim == axis)
      expected = expected + getAffineSymbolExpr(0, context);
    if (update.domain.rank() != output.shape.size() || output.map.getResult(dim) != expected)
      return false;
  }
  return axis + 1 < output.shape.size() && output.symbols.size() == 1;
}

/// Whether each pair has rows of its own, and the pairs have all.
bool arePairs(const Pairs &p, const NewRows &rows) {
  MLIRContext *context = rows.index.front().getContext();
  AffineExpr offset = getAffineConstantExpr(0, context), pair = offset;
  int64_t leads = 1;
  for (unsigned dim = 0; dim + 1 < rows.index.size(); ++dim)
    if (dim != rows.axis) {
      leads *= rows.graph.extents()[dim];
      offset = offset * rows.graph.extents()[dim] + rows.index[dim];
    }
  for (unsigned dim = 0; dim < p.dims(); ++dim) {
    bool isHead = dim == p.groupDim;
    int64_t extent = p.extents[dim] / (isHead ? p.group : 1);
    AffineExpr index = getAffineDimExpr(dim, context);
    pair = pair * extent + (extent == 1 ? getAffineConstantExpr(0, context) : isHead ? index.floorDiv(p.group) : index);
  }
  AffineExpr difference = simplifyAffineExpr(offset - pair, p.extents.size(), 0);
  return leads == p.count() && difference == getAffineConstantExpr(0, context);
}

/// The new rows that `update` writes into what `load` of `source` (scores or product) reads: [lead..., key, element].
std::optional<NewRows> newRowsOf(const Pairs &p, const ir::ScalarGraph &update, const ir::ScalarGraph &source,
                                 Scalar load, unsigned dimKey, unsigned dimElement, int64_t most) {
  MLIRContext *context = update.outputs[0].map.getContext();
  NewRows rows;
  for (AffineExpr index : source[load].map.getResults())
    rows.index.push_back(ir::simplifyIndex(index, source.domain.extents));
  const auto *axis = llvm::find(rows.index, getAffineDimExpr(dimKey, context));
  rows.axis = axis - rows.index.begin();
  if (axis == rows.index.end() || rows.index.back() != getAffineDimExpr(dimElement, context) ||
      !writesRows(update, rows.axis))
    return std::nullopt;
  rows.graph = uncollapsed(update);
  bool isWhole = rows.graph.extents().back() == source.domain.extents[dimElement];
  return isWhole && rows.count() <= most && arePairs(p, rows) ? std::make_optional(std::move(rows)) : std::nullopt;
}

/// Whether a graph reads `input` in other ways than by `load`.
bool readsOtherwise(const ir::ScalarGraph &graph, unsigned input, Scalar load) {
  return llvm::any_of(llvm::enumerate(graph.nodes), [&](auto node) {
    return node.value().kind == ScalarNode::Kind::Load && node.value().input == input &&
           static_cast<int>(node.index()) != load.id;
  });
}

} // namespace

std::string findNewRows(const Region &region, const AttentionScalars &of, const Pairs &pairs, int64_t most,
                        CacheUpdate &found) {
  const Attention &attention = *region.attention();
  unsigned next = 0;
  for (auto [i, output] : llvm::enumerate(region.graph.outputs)) {
    if (output.inPlace < 0) {
      found.output = i;
      continue;
    }
    const ir::ScalarGraph &update = attention.updates[next++];
    const unsigned state = output.inPlace;
    const bool holdsKeys = of.scores[of.key].input == state, holdsValues = of.product[of.value].input == state;
    const bool isMixed =
        holdsKeys == holdsValues || readsOtherwise(of.scores, state, holdsKeys ? of.key : Scalar{}) ||
        readsOtherwise(of.product, state, holdsValues ? of.value : Scalar{}) ||
        llvm::any_of(attention.updates, [&](const ir::ScalarGraph &graph) { return readsOtherwise(graph, state, {}); });
    if (isMixed)
      return "a state that it updates is not that of keys or values alone";
    if (ir::FusionDecision decision = printable(update); !decision)
      return decision.reason();
    std::optional<NewRows> &rows = holdsKeys ? found.newKeys : found.newValues;
    const unsigned dimColumn = pairs.dims() + 1, dimLast = dimColumn + 1; // Keys of scores, elements of the product.
    rows = holdsKeys ? newRowsOf(pairs, update, of.scores, of.key, dimColumn, dimLast, most)
                     : newRowsOf(pairs, update, of.product, of.value, dimLast, dimColumn, most);
    if (!rows)
      return "new keys and values are not whole rows of the cache, up to " + std::to_string(most) + " of each pair";
    rows->output = i;
  }
  return "";
}

} // namespace kfuse::codegen::cuda
