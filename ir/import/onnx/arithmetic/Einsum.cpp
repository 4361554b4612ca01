// Einsum: dimensions have labels, operands are multiplied pair by pair, and labels that nothing needs any more are
// summed over. A pair that shares such a label is a matrix product, as exporters of linear layers and of attention
// write it: labels of both that stay are its batch, those of one alone its rows or columns.
#include "ir/import/onnx/arithmetic/Ops.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// A letter, or of the dimensions of an ellipsis `ofEllipsis` and more, counted from the last.
using Label = int;
using Labels = llvm::SmallVector<Label, 6>;
constexpr Label ofEllipsis = 256;

struct Term {
  Value value;
  Labels labels;
};

struct Equation {
  llvm::SmallVector<std::string> operands;
  std::optional<std::string> result; ///< Nothing: what appears once, in the alphabet's order.
};

bool has(llvm::ArrayRef<Label> labels, Label label) { return llvm::is_contained(labels, label); }

Labels joined(std::initializer_list<llvm::ArrayRef<Label>> parts) {
  Labels all;
  for (llvm::ArrayRef<Label> part : parts)
    llvm::append_range(all, part);
  return all;
}

/// Those of `labels` that are in `order`, in its order.
Labels ordered(llvm::ArrayRef<Label> labels, llvm::ArrayRef<Label> order) {
  Labels result;
  llvm::copy_if(order, std::back_inserter(result), [&](Label label) { return has(labels, label); });
  return result;
}

Equation parse(llvm::StringRef text) {
  std::string dense = text.str();
  llvm::erase_if(dense, [](char one) { return one == ' '; });
  auto [left, right] = llvm::StringRef(dense).split("->");
  Equation equation;
  for (llvm::StringRef term : llvm::split(left, ','))
    equation.operands.push_back(term.str());
  if (left.size() < dense.size())
    equation.result = right.str();
  return equation;
}

class Contraction {
public:
  Contraction(Node &node, llvm::StringRef text) : node(node), emit(node.emit), text(text), equation(parse(text)) {}

  Value run() {
    if (!readOperands() || !readResult())
      return {};
    Term left = terms.front();
    sumOver(left, 1);
    for (size_t next = 1; next < terms.size() && left.value; ++next) {
      sumOver(terms[next], next + 1, left.labels);
      left = multiply(left, terms[next], next + 1);
    }
    return left.value ? arranged(left, result) : Value();
  }

private:
  Value fail(const llvm::Twine &reason) { return node.fail("equation '" + text + "': " + reason); }

  // What the equation says.
  bool readOperands();
  bool readResult();
  std::optional<Labels> labelsOf(llvm::StringRef term, std::optional<int64_t> rank);
  bool takeSizes(const Labels &labels, llvm::ArrayRef<int64_t> dims);
  /// Takes the diagonal of equal labels, so that the second is gone.
  void takeDiagonals(Term &term);
  /// Drops dimensions of 1 that broadcast to those of another operand.
  void dropBroadcast(Term &term);

  // Products.
  /// The result's labels and those of operands from `next` on.
  bool isNeeded(Label label, size_t next) const {
    return has(result, label) ||
           llvm::any_of(llvm::ArrayRef(terms).drop_front(next), [&](const Term &t) { return has(t.labels, label); });
  }
  void sumOver(Term &term, size_t next, llvm::ArrayRef<Label> kept = {});
  Term multiply(const Term &left, const Term &right, size_t next);
  Term elementwise(const Term &left, const Term &right, llvm::ArrayRef<Label> contracted);

  // Layout.
  int64_t sizeOf(llvm::ArrayRef<Label> labels) const {
    int64_t size = 1;
    for (Label label : labels)
      size *= sizes.at(label);
    return size;
  }
  Ints shapeOf(llvm::ArrayRef<Label> labels) const {
    return Ints(llvm::map_range(labels, [&](Label label) { return sizes.at(label); }));
  }
  /// Whether elements keep their places when `from` becomes `to`: dimensions of 1 may move.
  bool isInPlace(llvm::ArrayRef<Label> from, llvm::ArrayRef<Label> to) const {
    auto large = [&](Label label) { return sizes.at(label) != 1; };
    Labels a, b;
    llvm::copy_if(from, std::back_inserter(a), large);
    llvm::copy_if(to, std::back_inserter(b), large);
    return a == b;
  }
  Value arranged(const Term &term, llvm::ArrayRef<Label> order) {
    if (isInPlace(term.labels, order))
      return emit.reshape(term.value, shapeOf(order));
    Ints permutation(
        llvm::map_range(order, [&](Label label) { return llvm::find(term.labels, label) - term.labels.begin(); }));
    return emit.transpose(term.value, permutation);
  }

  Node &node;
  Emitter &emit;
  std::string text;
  Equation equation;
  llvm::SmallVector<Term> terms;
  Labels result;
  std::map<Label, int64_t> sizes;
  int ellipsisRank = 0;
};

/// The labels of one operand, or of the result where `rank` is not given.
std::optional<Labels> Contraction::labelsOf(llvm::StringRef term, std::optional<int64_t> rank) {
  Labels labels;
  auto [before, after] = term.split("...");
  bool hasEllipsis = before.size() < term.size();
  int64_t hidden = rank ? *rank - static_cast<int64_t>(before.size() + after.size()) : ellipsisRank;
  if (rank && (hidden < 0 || (!hasEllipsis && hidden != 0))) {
    fail("'" + term + "' for an operand of " + llvm::Twine(*rank) + " dimensions");
    return std::nullopt;
  }
  for (char letter : before)
    labels.push_back(letter);
  if (hasEllipsis) {
    for (int64_t i = hidden; i-- > 0;)
      labels.push_back(ofEllipsis + static_cast<int>(i));
    ellipsisRank = std::max(ellipsisRank, static_cast<int>(hidden));
  }
  for (char letter : after)
    labels.push_back(letter);
  for (Label label : labels)
    if (label < ofEllipsis && !llvm::isAlpha(static_cast<char>(label))) {
      fail("'" + term + "' has more than letters and one ellipsis");
      return std::nullopt;
    }
  return labels;
}

bool Contraction::takeSizes(const Labels &labels, llvm::ArrayRef<int64_t> dims) {
  for (auto [label, size] : llvm::zip_equal(labels, dims)) {
    int64_t &known = sizes.try_emplace(label, size).first->second;
    if (known == 1)
      known = size;
    if (size != 1 && size != known) {
      fail("one label is of size " + llvm::Twine(known) + " and " + llvm::Twine(size));
      return false;
    }
  }
  return true;
}

bool Contraction::readOperands() {
  if (equation.operands.size() != node.inputCount()) {
    fail("it has " + llvm::Twine(equation.operands.size()) + " terms for " + llvm::Twine(node.inputCount()) +
         " operands");
    return false;
  }
  for (auto [i, term] : llvm::enumerate(equation.operands)) {
    std::optional<Labels> labels = labelsOf(term, node.rank(i));
    if (!labels || !takeSizes(*labels, node.dims(i)))
      return false;
    terms.push_back({node.input(i), *labels});
  }
  for (Term &term : terms) {
    takeDiagonals(term);
    dropBroadcast(term);
    if (!term.value)
      return false;
  }
  return true;
}

bool Contraction::readResult() {
  if (equation.result) {
    std::optional<Labels> labels = labelsOf(*equation.result, std::nullopt);
    if (!labels)
      return false;
    result = *labels;
  } else {
    std::map<Label, int> counts;
    for (llvm::StringRef term : equation.operands)
      for (char letter : term)
        counts[letter] += letter != '.';
    for (int i = ellipsisRank; i-- > 0;)
      result.push_back(ofEllipsis + i);
    for (auto [label, count] : counts)
      if (count == 1)
        result.push_back(label);
  }
  for (auto [i, label] : llvm::enumerate(result))
    if (!sizes.count(label) || has(llvm::ArrayRef(result).take_front(i), label)) {
      fail("a label of the result is there twice, or in no operand");
      return false;
    }
  return true;
}

/// [.., n, .., n, ..] -> [.., .., n n] -> every n + 1st of the last.
void Contraction::takeDiagonals(Term &term) {
  for (size_t i = 0; i < term.labels.size() && term.value; ++i) {
    Label label = term.labels[i];
    auto *second = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.labels.end(), label);
    if (second == term.labels.end())
      continue;
    auto j = static_cast<int64_t>(second - term.labels.begin());
    Ints dims(dimsOf(term.value)), order, rest;
    int64_t size = dims[i];
    if (dims[j] != size) {
      term.value = fail("a diagonal of " + llvm::Twine(size) + " x " + llvm::Twine(dims[j]));
      return;
    }
    for (int64_t dim : counted(dims.size()))
      if (dim != static_cast<int64_t>(i) && dim != j) {
        order.push_back(dim);
        rest.push_back(dims[dim]);
      }
    order.append({static_cast<int64_t>(i), j});
    Ints flat(rest), offsets(rest.size() + 1, 0), diagonal(rest), strides(rest.size() + 1, 1);
    flat.push_back(size * size);
    diagonal.push_back(size);
    strides.back() = size > 1 ? size + 1 : 1;
    term.value = emit.slice(emit.reshape(emit.transpose(term.value, order), flat), offsets, diagonal, strides);
    term.labels.erase(second);
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
    term.labels.push_back(label);
    --i; // What moved up.
  }
}

void Contraction::dropBroadcast(Term &term) {
  if (!term.value)
    return;
  Labels labels;
  Ints shape;
  for (auto [label, size] : llvm::zip_equal(term.labels, dimsOf(term.value)))
    if (size == sizes.at(label)) {
      labels.push_back(label);
      shape.push_back(size);
    }
  term = {emit.reshape(term.value, shape), labels};
}

/// Sums over what neither `kept`, the result nor an operand from `next` on has.
void Contraction::sumOver(Term &term, size_t next, llvm::ArrayRef<Label> kept) {
  Ints axes;
  Labels labels;
  for (auto [axis, label] : llvm::enumerate(term.labels))
    if (isNeeded(label, next) || has(kept, label))
      labels.push_back(label);
    else
      axes.push_back(static_cast<int64_t>(axis));
  term = {emit.reduce(term.value, "sum", axes), labels};
}

/// Products of elements, added up in f32: for integers, and where no matrix has rows.
Term Contraction::elementwise(const Term &left, const Term &right, llvm::ArrayRef<Label> contracted) {
  Labels all = ordered(joined({left.labels, right.labels}), result);
  for (Label label : joined({left.labels, right.labels}))
    if (!has(all, label) && !has(contracted, label))
      all.push_back(label);
  llvm::append_range(all, contracted);
  DType type = dtypeOf(left.value.getType());
  auto spread = [&](const Term &term) {
    Ints shape(llvm::map_range(all, [&](Label label) { return has(term.labels, label) ? sizes.at(label) : 1; }));
    Value value = emit.reshape(arranged(term, ordered(term.labels, all)), shape);
    return isFloat(type) && !contracted.empty() ? emit.cast(value, DType::F32) : value;
  };
  Value product = emit.mul(spread(left), spread(right));
  Ints axes;
  for (size_t axis = all.size() - contracted.size(); axis < all.size(); ++axis)
    axes.push_back(static_cast<int64_t>(axis));
  all.resize(all.size() - contracted.size());
  return {emit.cast(emit.reduce(product, "sum", axes), type), all};
}

/// One way to lay a pair out as [batch, rows, inner] and [batch, inner, columns].
struct Arrangement {
  const Term *left, *right;
  Labels batch, rows, inner, columns;
};

Term Contraction::multiply(const Term &left, const Term &right, size_t next) {
  if (!left.value || !right.value)
    return {};
  Labels batch, inner, leftAlone, rightAlone;
  for (Label label : left.labels)
    (!has(right.labels, label) ? leftAlone : isNeeded(label, next) ? batch : inner).push_back(label);
  for (Label label : right.labels)
    if (!has(left.labels, label))
      rightAlone.push_back(label);
  if (inner.empty() || (leftAlone.empty() && rightAlone.empty()) || !isFloat(dtypeOf(left.value.getType())))
    return elementwise(left, right, inner);

  // What is transposed least, of the orders that an operand or the result has already.
  Labels target = result;
  for (Label label : joined({left.labels, right.labels}))
    if (!has(target, label))
      target.push_back(label);
  auto plain = [&](const Arrangement &one) { return joined({one.batch, one.rows, one.inner}); };
  auto turned = [&](const Arrangement &one) { return joined({one.batch, one.inner, one.rows}); };
  auto columnsLast = [&](const Arrangement &one) { return joined({one.batch, one.inner, one.columns}); };
  auto columnsFirst = [&](const Arrangement &one) { return joined({one.batch, one.columns, one.inner}); };
  auto made = [&](const Arrangement &one) { return joined({one.batch, one.rows, one.columns}); };
  auto costOf = [&](const Arrangement &one) {
    Labels product = made(one), wanted = ordered(product, target);
    int64_t cost = isInPlace(product, wanted) ? 0 : sizeOf(product);
    if (!isInPlace(one.left->labels, plain(one)) && !isInPlace(one.left->labels, turned(one)))
      cost += sizeOf(one.left->labels);
    if (!isInPlace(one.right->labels, columnsLast(one)) && !isInPlace(one.right->labels, columnsFirst(one)))
      cost += sizeOf(one.right->labels);
    return cost;
  };
  std::optional<Arrangement> best;
  int64_t leastCost = 0;
  for (bool isSwapped : {false, true}) {
    const Term &a = isSwapped ? right : left, &b = isSwapped ? left : right;
    const Labels &aAlone = isSwapped ? rightAlone : leftAlone, &bAlone = isSwapped ? leftAlone : rightAlone;
    for (llvm::ArrayRef<Label> ofBatch : {llvm::ArrayRef(target), llvm::ArrayRef(a.labels), llvm::ArrayRef(b.labels)})
      for (llvm::ArrayRef<Label> ofInner : {llvm::ArrayRef(a.labels), llvm::ArrayRef(b.labels)})
        for (llvm::ArrayRef<Label> ofRows : {llvm::ArrayRef(target), llvm::ArrayRef(a.labels)})
          for (llvm::ArrayRef<Label> ofColumns : {llvm::ArrayRef(target), llvm::ArrayRef(b.labels)}) {
            Arrangement one{&a,
                            &b,
                            ordered(batch, ofBatch),
                            ordered(aAlone, ofRows),
                            ordered(inner, ofInner),
                            ordered(bAlone, ofColumns)};
            int64_t cost = costOf(one);
            if (!best || cost < leastCost) {
              best = one;
              leastCost = cost;
            }
          }
  }

  bool turnsLeft = !isInPlace(best->left->labels, plain(*best)) && isInPlace(best->left->labels, turned(*best));
  bool turnsRight =
      !isInPlace(best->right->labels, columnsLast(*best)) && isInPlace(best->right->labels, columnsFirst(*best));
  int64_t rows = sizeOf(best->rows), depth = sizeOf(best->inner), columns = sizeOf(best->columns);
  auto matrix = [&](const Term &term, const Labels &order, llvm::ArrayRef<Label> leading, int64_t a, int64_t b) {
    Ints shape = shapeOf(leading);
    shape.append({a, b});
    return emit.reshape(arranged(term, order), shape);
  };
  // A plain left operand keeps its rows' dimensions where there is no batch: a linear layer of [batch, tokens, width].
  bool keepsRows = best->batch.empty() && !turnsLeft && !best->rows.empty();
  llvm::ArrayRef<Label> leading = keepsRows ? llvm::ArrayRef(best->rows).drop_back() : llvm::ArrayRef(best->batch);
  Value a = turnsLeft   ? matrix(*best->left, turned(*best), leading, depth, rows)
            : keepsRows ? matrix(*best->left, plain(*best), leading, sizes.at(best->rows.back()), depth)
                        : matrix(*best->left, plain(*best), leading, rows, depth);
  Value b = turnsRight ? matrix(*best->right, columnsFirst(*best), best->batch, columns, depth)
                       : matrix(*best->right, columnsLast(*best), best->batch, depth, columns);
  Labels labels = made(*best);
  return {emit.reshape(emit.matmul(a, b, turnsLeft, turnsRight), shapeOf(labels)), labels};
}

Values einsum(Node &node) {
  if (!node.has("equation"))
    return node.fail("has no equation");
  for (unsigned i = 0; i < node.inputCount(); ++i)
    if (node.type(i) != node.type(0) || node.type(i) == DType::Bool)
      return node.fail("its operands are not numbers of one type");
  return Contraction(node, node.text("equation", "")).run();
}

constexpr OnnxOp table[] = {{"Einsum", 1, anyNumber, einsum, "equation"}};

} // namespace

llvm::ArrayRef<OnnxOp> einsumOps() { return table; }

} // namespace kfuse::ir::onnx
