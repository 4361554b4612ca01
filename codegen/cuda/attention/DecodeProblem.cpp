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

/// Finds what is written into the states; why that is not possible, or "".
std::string findUpdate(const Region &region, DecodeProblem &p) {
  const Attention &attention = *region.attention();
  const Pairs pairs{p.scores.extents(), p.group, p.hasHeads() ? p.headDim() : 0};
  std::string reason =
      findNewRows(region, {attention.scores, attention.product, p.key, p.value}, pairs, mostRows, p.update);
  for (bool holdsKeys : {true, false})
    if (const std::optional<NewRows> &rows = holdsKeys ? p.update.newKeys : p.update.newValues; rows && reason.empty())
      reason = whyNotRow(rows->graph, rows->graph.graph.outputs[0].value, rows->graph.extents().size() - 1,
                         holdsKeys ? "new keys" : "new values");
  return reason;
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

/// The bounds that are the same for all rows of a pair but for the row's own number.
SmallVector<ReadBound, 1> lastsOf(const DecodeProblem &p) {
  SmallVector<ReadBound, 1> lasts = keyBounds(p.scores.graph).lasts;
  llvm::erase_if(lasts, [&](const ReadBound &last) {
    return llvm::any_of(last.terms, [&](ReadBound::Term term) { return differsAmongRows(p, term.value); });
  });
  return lasts;
}

bool readsAhead(const Region &region, const DecodeProblem &p) {
  std::vector<unsigned> inputs = inputsRead(p.scores, p.fixed);
  inputs.push_back(p.scores[p.key].input);
  inputs.push_back(p.product[p.value].input);
  for (const ReadBound &last : p.lasts)
    for (ReadBound::Term term : last.terms)
      llvm::append_range(inputs, inputsRead(p.scores, term.value));
  for (const std::optional<NewRows> *rows : {&p.update.newKeys, &p.update.newValues})
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
  const Attention &attention = *region.attention();
  DecodeProblem p{uncollapsed(attention.scores), uncollapsed(attention.product), uncollapsed(attention.sink)};
  std::string reason = findOperands(p);
  if (reason.empty())
    reason = findSizes(p);
  if (reason.empty())
    reason = whyNotElements(p);
  if (reason.empty())
    reason = findGroup(p);
  if (reason.empty())
    reason = findUpdate(region, p);
  if (!reason.empty())
    return Error{ErrorCode::BadModel, reason};
  std::set<int> seen;
  findFixed(p, p.scores.graph.outputs[0].value, seen);
  p.lasts = lastsOf(p);
  p.readsAhead = readsAhead(region, p);
  return p;
}

} // namespace kfuse::codegen::cuda
