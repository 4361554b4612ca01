#include "codegen/cuda/attention/DecodeProblem.h"

#include "codegen/cuda/attention/AttentionForms.h"
#include "codegen/cuda/attention/HeadChunk.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <numeric>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostRows = 16;  ///< The rows of one mma fragment.
constexpr int64_t mostSize = 128; ///< The largest head: accumulators of 16 rows take 64 registers.

/// What `dim` is divided by, everywhere in `expr`: 0 where it does not occur, 1 where it is used as it is.
int64_t divisorOf(AffineExpr expr, unsigned dim) {
  if (!expr.isFunctionOfDim(dim))
    return 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return 1;
  auto by = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (binary.getKind() == AffineExprKind::FloorDiv && by && binary.getLHS() == getAffineDimExpr(dim, expr.getContext()))
    return by.getValue();
  if (binary.getKind() != AffineExprKind::Add && binary.getKind() != AffineExprKind::Mul)
    return 1;
  return std::gcd(divisorOf(binary.getLHS(), dim), divisorOf(binary.getRHS(), dim));
}

//===- States that are written -----------------------------------------------------------------===//

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
bool arePairs(const DecodeProblem &p, const NewRows &rows) {
  MLIRContext *context = rows.index.front().getContext();
  AffineExpr offset = getAffineConstantExpr(0, context), pair = offset;
  int64_t leads = 1;
  for (unsigned dim = 0; dim + 1 < rows.index.size(); ++dim)
    if (dim != rows.axis) {
      leads *= rows.graph.extents()[dim];
      offset = offset * rows.graph.extents()[dim] + rows.index[dim];
    }
  for (unsigned dim = 0; dim < p.dimM; ++dim) {
    bool isHead = dim == p.headDim();
    int64_t extent = p.scores.extents()[dim] / (isHead ? p.group : 1);
    AffineExpr index = getAffineDimExpr(dim, context);
    pair = pair * extent + (extent == 1 ? getAffineConstantExpr(0, context) : isHead ? index.floorDiv(p.group) : index);
  }
  AffineExpr difference = simplifyAffineExpr(offset - pair, p.scores.extents().size(), 0);
  return leads == p.pairs() && difference == getAffineConstantExpr(0, context);
}

/// The new rows that `update` writes into what `load` of `source` (scores or product) reads: [lead..., key, element].
std::optional<NewRows> newRowsOf(const DecodeProblem &p, const ir::ScalarGraph &update, const ir::ScalarGraph &source,
                                 Scalar load, unsigned dimKey, unsigned dimElement) {
  MLIRContext *context = update.outputs[0].map.getContext();
  NewRows rows;
  rows.index.assign(source[load].map.getResults().begin(), source[load].map.getResults().end());
  const auto *axis = llvm::find(rows.index, getAffineDimExpr(dimKey, context));
  rows.axis = axis - rows.index.begin();
  if (axis == rows.index.end() || rows.index.back() != getAffineDimExpr(dimElement, context) ||
      !writesRows(update, rows.axis))
    return std::nullopt;
  rows.graph = uncollapsed(update);
  bool isWhole = rows.graph.extents().back() == source.domain.extents[dimElement];
  return isWhole && rows.count() <= mostRows && arePairs(p, rows) ? std::make_optional(std::move(rows)) : std::nullopt;
}

/// Whether a graph reads `input` in other ways than by `load`.
bool readsOtherwise(const ir::ScalarGraph &graph, unsigned input, Scalar load) {
  return llvm::any_of(llvm::enumerate(graph.nodes), [&](auto node) {
    return node.value().kind == ScalarNode::Kind::Load && node.value().input == input &&
           static_cast<int>(node.index()) != load.id;
  });
}

/// Finds what is written into the states that keys and values are read from; why that is not possible, or "".
std::string findNewRows(const Region &region, DecodeProblem &p) {
  const Attention &attention = *region.attention();
  unsigned next = 0;
  for (auto [i, output] : llvm::enumerate(region.graph.outputs)) {
    if (output.inPlace < 0) {
      p.output = i;
      continue;
    }
    const ir::ScalarGraph &update = attention.updates[next++];
    unsigned state = output.inPlace;
    bool holdsKeys = p.scores[p.key].input == state, holdsValues = p.product[p.value].input == state;
    bool isMixed =
        holdsKeys == holdsValues || readsOtherwise(attention.scores, state, holdsKeys ? p.key : Scalar{}) ||
        readsOtherwise(attention.product, state, holdsValues ? p.value : Scalar{}) ||
        llvm::any_of(attention.updates, [&](const ir::ScalarGraph &graph) { return readsOtherwise(graph, state, {}); });
    if (isMixed)
      return "a state that it updates is not that of keys or values alone";
    if (ir::FusionDecision decision = printable(update); !decision)
      return decision.reason();
    std::optional<NewRows> &rows = holdsKeys ? p.newKeys : p.newValues;
    rows = holdsKeys ? newRowsOf(p, update, attention.scores, p.key, p.dimS(), p.dimS() + 1)
                     : newRowsOf(p, update, attention.product, p.value, p.dimS() + 1, p.dimS());
    if (!rows)
      return "new keys and values are not whole rows of the cache, up to " + std::to_string(mostRows) + " of each pair";
    if (std::string reason = whyNotRow(rows->graph, rows->graph.graph.outputs[0].value,
                                       rows->graph.extents().size() - 1, holdsKeys ? "new keys" : "new values");
        !reason.empty())
      return reason;
    rows->output = i;
  }
  return "";
}

//===- What a pair's rows share ----------------------------------------------------------------===//

/// What uses the product does so also where there is but one row and one key.
bool differsAmongRows(const DecodeProblem &p, Scalar s) {
  return undefinedIn(p.scores, s) || p.scores.dependsOn(s, p.dimS()) || p.scores.dependsOn(s, p.dimM) ||
         p.scores.dependsOn(s, p.dimS() + 1) || (p.group > 1 && p.scores.dependsOn(s, p.headDim()));
}

/// Adds to `p.fixed` what `s` is computed from.
void findFixed(DecodeProblem &p, Scalar s, std::set<int> &seen) {
  const ScalarNode &node = p.scores[s];
  if (s == p.scoreProduct || node.kind == ScalarNode::Kind::Constant || !seen.insert(s.id).second)
    return;
  if (!differsAmongRows(p, s)) {
    p.fixed.push_back(s);
    return;
  }
  for (ArrayRef<Scalar> used : {ArrayRef<Scalar>(node.operands), ArrayRef<Scalar>(node.symbols)})
    for (Scalar next : used)
      findFixed(p, next, seen);
}

std::optional<KeyBound> keyBound(const DecodeProblem &p) {
  const ScalarNode &root = p.scores[p.scores.graph.outputs[0].value];
  if (root.kind != ScalarNode::Kind::Apply || root.function != "where")
    return std::nullopt;
  const ScalarNode &condition = p.scores[root.operands[0]], &otherwise = p.scores[root.operands[2]];
  const bool hides =
      otherwise.kind == ScalarNode::Kind::Constant && std::isinf(otherwise.constant) && otherwise.constant < 0;
  if (!hides || condition.kind != ScalarNode::Kind::Apply)
    return std::nullopt;
  const std::string &compares = condition.function;
  const bool isMirrored = compares == "ge" || compares == "gt"; // last >= key
  if (!isMirrored && compares != "le" && compares != "lt")
    return std::nullopt;
  const ScalarNode &index = p.scores[condition.operands[isMirrored ? 1 : 0]];
  const KeyBound bound{condition.operands[isMirrored ? 0 : 1], compares == "le" || compares == "ge"};
  const bool isKey =
      index.kind == ScalarNode::Kind::Index && index.index == getAffineDimExpr(p.dimS(), index.index.getContext());
  return isKey && !differsAmongRows(p, bound.last) ? std::make_optional(bound) : std::nullopt;
}

bool readsAhead(const Region &region, const DecodeProblem &p) {
  std::vector<unsigned> inputs = inputsRead(p.scores, p.fixed);
  inputs.push_back(p.scores[p.key].input);
  inputs.push_back(p.product[p.value].input);
  if (p.bound)
    llvm::append_range(inputs, inputsRead(p.scores, p.bound->last));
  for (const std::optional<NewRows> *rows : {&p.newKeys, &p.newValues})
    if (*rows)
      llvm::append_range(inputs, inputsRead((*rows)->graph, (*rows)->graph.graph.outputs[0].symbols));
  return llvm::all_of(inputs, [&](unsigned input) { return region.isFixed[input]; });
}

//===- The problem -----------------------------------------------------------------------------===//

// Each finds a part of it, and says why the template does not take that, or "".

std::string findOperands(DecodeProblem &p) {
  const std::string reason = findProducts(p);
  if (!reason.empty())
    return reason;
  p.computesQuery = !isPlainLoad(p.scores, p.query);
  const unsigned dimElement = p.scores.extents().size() - 1;
  return whyNotRow(p.scores, p.query, dimElement, "queries");
}

std::string findSizes(DecodeProblem &p) {
  const ArrayRef<int64_t> extents = p.scores.extents(), ofProduct = p.product.extents();
  const unsigned rank = extents.size();
  p.dimM = rank - 3;
  p.M = extents[p.dimM], p.keys = extents[rank - 2], p.keySize = extents[rank - 1];
  if (ofProduct.size() != rank || ofProduct.drop_back(2) != extents.drop_back(2) || ofProduct[rank - 1] != p.keys ||
      !isRowMajor(p.scores, p.scores.graph.outputs[0].map.getResult(0), p.dimM, rank - 2) ||
      !isRowMajor(p.product, p.product.offset(p.probabilities), p.dimM, rank - 1))
    return "its two products run over other rows";
  p.valueSize = ofProduct[rank - 2];
  return "";
}

/// Limits of mma fragments, and of copies of 16 bytes.
std::string whyNotElements(const DecodeProblem &p) {
  const unsigned rank = p.scores.extents().size();
  const DType type = p.scores.graph.inputs[p.scores[p.key].input].type;
  auto isOther = [&](Scalar load) { return p.scores.graph.inputs[p.scores[load].input].type != type; };
  if ((type != DType::BF16 && type != DType::F16) || (!p.computesQuery && isOther(p.query)) ||
      p.product.graph.inputs[p.product[p.value].input].type != type)
    return "queries, keys and values are not bf16 or f16 alike";
  if (p.keySize % 16 || p.valueSize % 16 || p.keySize > mostSize || p.valueSize > mostSize)
    return "heads of " + std::to_string(p.keySize) + " and " + std::to_string(p.valueSize) +
           " elements; multiples of 16 up to " + std::to_string(mostSize) + " are taken";
  if (!isAligned(p.scores, p.key, rank - 1) || !isAligned(p.product, p.value, rank - 2) ||
      (!p.computesQuery && ChunkPrinter(p.scores, rank - 1, 2).vectorAlignment(p.query) != 2))
    return "a head's elements are not neighbours in memory, or unaligned";
  return "";
}

std::string findGroup(DecodeProblem &p) {
  if (p.scores.dependsOn(p.query, p.dimS()))
    return "queries depend on the key";
  if (p.scores.dependsOn(p.key, p.dimM) || p.product.dependsOn(p.value, p.dimM))
    return "rows of one head have other keys";
  if (p.hasHeads()) {
    const int64_t by =
        std::gcd(divisorOf(p.scores.offset(p.key), p.headDim()), divisorOf(p.product.offset(p.value), p.headDim()));
    const int64_t heads = p.scores.extents()[p.headDim()];
    p.group = by == 0 ? heads : by;
    if (heads % p.group)
      return "heads do not share keys evenly";
  }
  if (p.rows() > mostRows)
    return std::to_string(p.rows()) + " query rows share keys; up to " + std::to_string(mostRows) + " are taken";
  return "";
}

} // namespace

Result<DecodeProblem> decodeProblem(const Region &region) {
  if (!region.attention())
    return Error{ErrorCode::BadModel, "holds no attention"};
  DecodeProblem p{uncollapsed(region.attention()->scores), uncollapsed(region.attention()->product)};
  std::string reason = findOperands(p);
  if (reason.empty())
    reason = findSizes(p);
  if (reason.empty())
    reason = whyNotElements(p);
  if (reason.empty())
    reason = findGroup(p);
  if (reason.empty())
    reason = findNewRows(region, p);
  if (!reason.empty())
    return Error{ErrorCode::BadModel, reason};
  std::set<int> seen;
  findFixed(p, p.scores.graph.outputs[0].value, seen);
  p.bound = keyBound(p);
  p.readsAhead = readsAhead(region, p);
  return p;
}

} // namespace kfuse::codegen::cuda
