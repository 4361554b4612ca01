#include "codegen/KeyBounds.h"

#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cmath>
#include <string_view>

using namespace mlir;

namespace kfuse::codegen {
namespace {

using ir::Scalar;
using ir::ScalarGraph;
using ir::ScalarNode;

bool isApply(const ScalarNode &node, std::string_view function) {
  return node.kind == ScalarNode::Kind::Apply && node.function == function;
}

/// Whether an index is at least 0 everywhere.
bool isNatural(AffineExpr index, const ScalarGraph &graph) {
  SmallVector<int64_t> coefficients;
  int64_t least = 0;
  if (!ir::linearForm(index, graph.domain.rank(), coefficients, least))
    return false;
  for (auto [coefficient, extent] : llvm::zip_equal(coefficients, graph.domain.extents))
    least += std::min<int64_t>(coefficient, 0) * (extent - 1);
  return least >= 0;
}

/// The value of an integer, or of a float that is one, as an index; null for what is none.
AffineExpr indexOf(const ScalarGraph &graph, Scalar s, MLIRContext *context) {
  constexpr double mostExact = 1 << 24; // Below it f32 holds each integer.
  const ScalarNode &node = graph[s];
  switch (node.kind) {
  case ScalarNode::Kind::Index:
    return node.symbols.empty() ? node.index : AffineExpr();
  case ScalarNode::Kind::Constant:
    if (!isFloat(node.type))
      return getAffineConstantExpr(node.integer, context);
    if (node.constant == std::floor(node.constant) && std::abs(node.constant) < mostExact)
      return getAffineConstantExpr(static_cast<int64_t>(node.constant), context);
    return {};
  case ScalarNode::Kind::Cast:
    return node.type == DType::Bool ? AffineExpr() : indexOf(graph, node.operands[0], context);
  case ScalarNode::Kind::Apply: {
    if (node.operands.size() != 2)
      return {};
    const bool isQuotient = node.function == "div" && !isFloat(node.type);
    if (!isQuotient && node.function != "add" && node.function != "sub")
      return {};
    const AffineExpr a = indexOf(graph, node.operands[0], context), b = indexOf(graph, node.operands[1], context);
    if (!a || !b)
      return {};
    if (!isQuotient)
      return node.function == "add" ? a + b : a - b;
    auto by = dyn_cast<AffineConstantExpr>(b); // Rounds down, since nothing here is negative.
    return by && by.getValue() > 0 && isNatural(a, graph) ? a.floorDiv(by) : AffineExpr();
  }
  default:
    return {};
  }
}

/// An index and what is added to it at run time.
struct IndexSum {
  AffineExpr index;
  SmallVector<ReadBound::Term, 2> terms;
};

/// What `graph` says of a head without bounds.
KeyBounds unbounded(Scalar root) { return {.lowest = {}, .highest = {}, .chunks = {}, .seen = root}; }

/// The bounds of a mask, found part by part.
class Finder {
public:
  explicit Finder(const ScalarGraph &graph)
      : graph(graph), dimRow(graph.domain.rank() - 3), dimKey(graph.domain.rank() - 2) {}

  KeyBounds find() {
    const Scalar root = graph.outputs[0].value;
    KeyBounds found;
    found.seen = root;
    while (std::optional<Scalar> inner = unmasked(found.seen, found))
      found.seen = *inner;
    // Where the lowest float stands for -inf, a row that sees no key has the mean of all values.
    const int64_t rows = graph.domain.extents[dimRow], keys = graph.domain.extents[dimKey];
    auto seesNone = [&](int64_t row) { return found.firstKey(row) >= found.endKey(row, keys); };
    if (isFinite && (isPartial || found.areRead() || llvm::any_of(llvm::seq<int64_t>(0, rows), seesNone)))
      return unbounded(root);
    return found;
  }

private:
  /// The score of a key that is seen where `s` is that and a mask, whose bounds join `bounds`.
  std::optional<Scalar> unmasked(Scalar s, KeyBounds &bounds) {
    const ScalarNode &node = graph[s];
    if (isApply(node, "where"))
      for (bool holds : {true, false})
        if (hides(node.operands[holds ? 2 : 1]))
          return addMask(node.operands[0], holds, bounds) ? std::make_optional(node.operands[holds ? 1 : 2])
                                                          : std::nullopt;
    if (!isApply(node, "add"))
      return std::nullopt;
    for (unsigned side : {0, 1})
      if (const ScalarNode &mask = graph[node.operands[side]]; isApply(mask, "where"))
        for (bool holds : {true, false})
          if (isZero(mask.operands[holds ? 1 : 2]) && hides(mask.operands[holds ? 2 : 1]))
            return addMask(mask.operands[0], holds, bounds) ? std::make_optional(node.operands[1 - side])
                                                            : std::nullopt;
    return std::nullopt;
  }
  bool addMask(Scalar condition, bool holds, KeyBounds &bounds) {
    const bool isWhole = addBounds(condition, holds, bounds);
    isPartial |= !isWhole;
    return isWhole;
  }

  /// Whether a score of this value, or one that it is added to, has weight 0 beside any other.
  bool hides(Scalar s) {
    const double lowest = isOfF16() ? -65504 : -3e38; // Those of f32 and bf16 are -3.40e38 and -3.39e38.
    const ScalarNode &node = graph[s];
    if (node.kind != ScalarNode::Kind::Constant || !isFloat(node.type) || !(node.constant <= lowest))
      return false;
    isFinite |= !std::isinf(node.constant);
    return true;
  }
  /// Whether scores are products of f16, and masks as low as that goes.
  bool isOfF16() const {
    for (const ScalarNode &node : graph.nodes)
      if (node.kind == ScalarNode::Kind::Contract) {
        const ScalarNode &query = graph[node.operands[0]];
        return query.kind == ScalarNode::Kind::Load && graph.inputs[query.input].type == DType::F16;
      }
    return false;
  }
  bool isZero(Scalar s) const {
    return graph[s].kind == ScalarNode::Kind::Constant && isFloat(graph[s].type) && graph[s].constant == 0;
  }

  /// Adds what a condition, or with `holds` false its opposite, says of bounds; whether it says nothing else.
  bool addBounds(Scalar condition, bool holds, KeyBounds &bounds) const {
    const ScalarNode &node = graph[condition];
    if (isApply(node, "not"))
      return addBounds(node.operands[0], !holds, bounds);
    if (isApply(node, holds ? "and" : "or")) {
      bool isWhole = true;
      for (Scalar part : node.operands)
        isWhole &= addBounds(part, holds, bounds);
      return isWhole;
    }
    if (node.kind != ScalarNode::Kind::Apply || node.operands.size() != 2)
      return false;
    if (node.function == (holds ? "eq" : "ne"))
      return addChunks(node.operands[0], node.operands[1], bounds) ||
             addChunks(node.operands[1], node.operands[0], bounds);
    const bool isLess = node.function == "le" || node.function == "lt";
    if (!isLess && node.function != "ge" && node.function != "gt")
      return false;
    const bool isStrict = (node.function == "lt" || node.function == "gt") == holds;
    const std::optional<IndexSum> left = sumOf(node.operands[isLess == holds ? 0 : 1], false),
                                  right = sumOf(node.operands[isLess == holds ? 1 : 0], true);
    SmallVector<int64_t> coefficients;
    int64_t offset = 0;
    if (!left || !right || !ir::linearForm(left->index + right->index, graph.domain.rank(), coefficients, offset))
      return false;
    offset += isStrict;
    for (unsigned dim = 0; dim < coefficients.size(); ++dim)
      if (dim != dimRow && dim != dimKey && coefficients[dim] != 0)
        return false;
    if (!left->terms.empty() || !right->terms.empty())
      return addRead(coefficients, offset, *left, *right, bounds);
    if (coefficients[dimKey] == 1 && coefficients[dimRow] == -1) // key - row + offset <= 0
      bounds.highest = std::min(bounds.highest.value_or(-offset), -offset);
    else if (coefficients[dimKey] == -1 && coefficients[dimRow] == 1)
      bounds.lowest = std::max(bounds.lowest.value_or(offset), offset);
    else
      return addRead(coefficients, offset, *left, *right, bounds); // A number for all rows.
    return true;
  }

  /// Adds the bound that key * coefficient + row * coefficient + offset + terms <= 0 is.
  bool addRead(ArrayRef<int64_t> coefficients, int64_t offset, const IndexSum &left, const IndexSum &right,
               KeyBounds &bounds) const {
    const int64_t ofKey = coefficients[dimKey], ofRow = coefficients[dimRow];
    if ((ofKey != 1 && ofKey != -1) || (ofRow != 0 && ofRow != -ofKey))
      return false;
    ReadBound bound{.terms = left.terms, .offset = offset * -ofKey, .movesWithRow = ofRow != 0};
    llvm::append_range(bound.terms, right.terms);
    bound.isOfRow =
        llvm::any_of(bound.terms, [&](ReadBound::Term term) { return graph.dependsOn(term.value, dimRow); });
    if (ofKey == 1)
      for (ReadBound::Term &term : bound.terms)
        term.isSubtracted = !term.isSubtracted;
    (ofKey == 1 ? bounds.lasts : bounds.firsts).push_back(std::move(bound));
    return true;
  }

  /// An integer, or with `isSubtracted` its opposite, as an index and what is read; nothing where that differs from key
  /// to key otherwise.
  std::optional<IndexSum> sumOf(Scalar s, bool isSubtracted) const {
    const ScalarNode &node = graph[s];
    if (AffineExpr index = indexOf(graph, s, graph.outputs[0].map.getContext()))
      return IndexSum{isSubtracted ? -index : index, {}};
    if (isFloat(node.type) || node.type == DType::Bool)
      return std::nullopt;
    if (node.kind == ScalarNode::Kind::Cast && node.type == DType::I64 && graph[node.operands[0]].type == DType::I32)
      return sumOf(node.operands[0], isSubtracted);
    if (isApply(node, "add") || isApply(node, "sub")) {
      std::optional<IndexSum> sum = sumOf(node.operands[0], isSubtracted);
      const std::optional<IndexSum> more = sumOf(node.operands[1], isSubtracted != isApply(node, "sub"));
      if (!sum || !more)
        return std::nullopt;
      sum->index = sum->index + more->index;
      llvm::append_range(sum->terms, more->terms);
      return sum;
    }
    for (unsigned dim = dimKey; dim < graph.domain.rank(); ++dim)
      if (graph.dependsOn(s, dim))
        return std::nullopt;
    return IndexSum{getAffineConstantExpr(0, graph.outputs[0].map.getContext()), {{s, isSubtracted}}};
  }

  /// Adds chunks where one is a quotient of the row and the other one that of the key.
  bool addChunks(Scalar ofRow, Scalar ofKey, KeyBounds &bounds) const {
    const std::optional<Quotient> row = quotientOf(ofRow, dimRow), key = quotientOf(ofKey, dimKey);
    if (!row || !key || row->by != key->by)
      return false;
    const KeyChunks chunks{.size = row->by, .rowOffset = row->offset, .keyOffset = key->offset};
    if (bounds.chunks && *bounds.chunks != chunks)
      return false;
    bounds.chunks = chunks;
    return true;
  }

  /// (index + offset) / by.
  struct Quotient {
    int64_t offset, by;
  };
  std::optional<Quotient> quotientOf(Scalar s, unsigned dim) const {
    auto division = dyn_cast_if_present<AffineBinaryOpExpr>(indexOf(graph, s, graph.outputs[0].map.getContext()));
    int64_t more = 0; // (index + by) / by is written as index / by + 1.
    if (division && division.getKind() == AffineExprKind::Add)
      if (auto constant = dyn_cast<AffineConstantExpr>(division.getRHS())) {
        more = constant.getValue();
        division = dyn_cast<AffineBinaryOpExpr>(division.getLHS());
      }
    auto by = division ? dyn_cast<AffineConstantExpr>(division.getRHS()) : AffineConstantExpr();
    SmallVector<int64_t> coefficients;
    int64_t offset = 0;
    if (!by || division.getKind() != AffineExprKind::FloorDiv || !isNatural(division.getLHS(), graph) ||
        !ir::linearForm(division.getLHS(), graph.domain.rank(), coefficients, offset))
      return std::nullopt;
    for (unsigned i = 0; i < coefficients.size(); ++i)
      if (coefficients[i] != (i == dim ? 1 : 0))
        return std::nullopt;
    return Quotient{offset + more * by.getValue(), by.getValue()};
  }

  const ScalarGraph &graph;
  const unsigned dimRow, dimKey;
  bool isFinite = false;  ///< The lowest float hides keys.
  bool isPartial = false; ///< A mask says more than bounds.
};

} // namespace

int64_t KeyBounds::firstKey(int64_t row) const {
  const int64_t first = lowest ? std::max<int64_t>(0, row + *lowest) : 0;
  return chunks ? std::max(first, chunks->firstKey(row)) : first;
}

int64_t KeyBounds::endKey(int64_t row, int64_t keys) const {
  const int64_t end = highest ? std::clamp<int64_t>(row + *highest + 1, 0, keys) : keys;
  return chunks ? std::clamp<int64_t>(chunks->firstKey(row) + chunks->size, 0, end) : end;
}

double KeyBounds::share(int64_t rows, int64_t keys) const {
  if (areAll())
    return 1;
  double pairs = 0;
  for (int64_t row = 0; row < rows; ++row)
    pairs += static_cast<double>(std::max<int64_t>(0, endKey(row, keys) - firstKey(row)));
  return pairs / static_cast<double>(rows * keys);
}

KeyBounds keyBounds(const ir::ScalarGraph &scores) {
  const bool areProducts = scores.domain.contractionDim >= 2; // Over rows and keys.
  return areProducts ? Finder(scores).find() : unbounded(scores.outputs[0].value);
}

} // namespace kfuse::codegen
