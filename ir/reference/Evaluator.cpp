#include "ir/reference/Evaluator.h"

#include "ir/dialect/Kfuse.h"
#include "ir/reference/Attributes.h"
#include "ir/reference/OpTable.h"
#include "ir/reference/Parallel.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <numeric>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;
using Handle = std::shared_ptr<const Values>;

Error noReference(mlir::Operation *op) {
  return {ErrorCode::BadModel,
          op->getName().getStringRef().str() + " has no reference: the evaluator knows the ops of the kfuse dialect"};
}

/// `mayRepeat`: fewer bytes than a tensor takes are the first of it, again and again.
Result<void> checkArguments(mlir::TypeRange types, std::span<const HostTensor> tensors, bool mayRepeat = false) {
  if (types.size() != tensors.size())
    return Error{ErrorCode::Usage,
                 "got " + std::to_string(tensors.size()) + " tensors, expected " + std::to_string(types.size())};
  for (auto [i, type] : llvm::enumerate(types)) {
    auto expected = mlir::cast<mlir::RankedTensorType>(type);
    const HostTensor &tensor = tensors[i];
    const std::size_t width = byteWidth(tensor.type), bytes = byteSize(tensor.type, tensor.shape);
    const bool isPiece =
        mayRepeat && !tensor.bytes.empty() && tensor.bytes.size() < bytes && tensor.bytes.size() % width == 0;
    if (tensor.type != ir::dtypeOf(expected) || llvm::ArrayRef(tensor.shape) != expected.getShape() ||
        (tensor.bytes.size() != bytes && !isPiece))
      return Error{ErrorCode::Usage, "tensor " + std::to_string(i) + " is " + toString(tensor.shape) + " " +
                                         std::string(toString(tensor.type)) + " of " +
                                         std::to_string(tensor.bytes.size()) + " bytes, expected " +
                                         toString(Shape(expected.getShape())) + " " +
                                         std::string(toString(ir::dtypeOf(expected)))};
  }
  return {};
}

bool isRegion(mlir::Operation &op) { return op.getNumRegions() == 1 && llvm::hasSingleElement(op.getRegion(0)); }

//===- Whole tensors -------------------------------------------------------------------------===//

Handle wholeResult(const ReferenceOp &row, mlir::Operation *op, Operands operands, Mode mode) {
  LazyArena arena(mode);
  LazyTensor &lazy = makeLazy(row, op, operands, arena);
  auto values = std::make_shared<Values>(Values{lazy.type, lazy.shape, {}});
  LazyTensor *source = &lazy;
  if (row.whole) {
    values->numbers = row.whole(op, operands, mode);
    // Read back through itself, for the rounding.
    source = &arena.make<WholeTensor>(values);
    source->rounds = lazy.rounds;
    if (!source->rounds)
      return values;
  }
  values->numbers.resize(elementCount(lazy.shape));
  // Pieces of whole rows, about 64 KB each.
  Int rowLength = lazy.shape.empty() ? 1 : std::max<Int>(1, lazy.shape.back());
  parallelFor(values->size(), std::max<Int>(1, 8192 / rowLength) * rowLength,
              [&](Int begin, Int end) { source->read({begin, 1, end - begin}, values->numbers.data() + begin); });
  return values;
}

/// Evaluates a block op by op; a value is freed after its last use.
class BlockEvaluator {
public:
  BlockEvaluator(mlir::Block &block, Mode mode) : block(block), mode(mode) {
    for (mlir::Operation &op : block)
      for (mlir::Value operand : op.getOperands())
        ++usesLeft[operand];
  }

  /// `argument(i)` gives the i-th argument when it is first used.
  Result<std::vector<Handle>> run(llvm::function_ref<Handle(unsigned)> argument) {
    for (mlir::Operation &op : block) {
      std::vector<Handle> operands;
      for (mlir::Value operand : op.getOperands())
        operands.push_back(take(operand, argument));
      if (op.hasTrait<mlir::OpTrait::IsTerminator>())
        return operands;
      Result<std::vector<Handle>> results = evaluate(op, operands);
      if (!results)
        return results;
      for (auto [value, handle] : llvm::zip_equal(op.getResults(), *results))
        if (!value.use_empty())
          known[value] = handle;
    }
    return std::vector<Handle>{};
  }

private:
  Handle take(mlir::Value value, llvm::function_ref<Handle(unsigned)> argument) {
    Handle &slot = known[value];
    if (!slot)
      slot = argument(mlir::cast<mlir::BlockArgument>(value).getArgNumber());
    return --usesLeft[value] == 0 ? std::move(slot) : slot;
  }

  Result<std::vector<Handle>> evaluate(mlir::Operation &op, const std::vector<Handle> &operands) {
    if (isRegion(op))
      return BlockEvaluator(op.getRegion(0).front(), mode).run([&](unsigned i) { return operands[i]; });
    if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op)) {
      Result<HostTensor> tensor = tensorOf(constant.getValue());
      if (!tensor)
        return tensor.error();
      return std::vector<Handle>{std::make_shared<Values>(toValues(*tensor))};
    }
    const ReferenceOp *row = findReferenceOp(op.getName().getStringRef());
    if (!row)
      return noReference(&op);
    LazyArena sources(mode);
    std::vector<LazyTensor *> lazy;
    lazy.reserve(operands.size());
    for (const Handle &operand : operands)
      lazy.push_back(&sources.make<WholeTensor>(operand));
    return std::vector<Handle>{wholeResult(*row, &op, lazy, mode)};
  }

  mlir::Block &block;
  Mode mode;
  llvm::DenseMap<mlir::Value, Int> usesLeft;
  llvm::DenseMap<mlir::Value, Handle> known;
};

//===- Sampled elements ----------------------------------------------------------------------===//

/// The lazy form of a block and of the regions inside it.
class LazyBlock {
public:
  LazyBlock(std::span<const HostTensor> arguments, Mode mode, std::uint64_t seed)
      : arguments(arguments), arena(mode, seed) {}

  Result<std::vector<LazyTensor *>> build(mlir::Block &block) {
    std::vector<LazyTensor *> lazy;
    for (const HostTensor &argument : arguments)
      lazy.push_back(&arena.make<CallersTensor>(argument));
    return build(block, lazy);
  }

private:
  using LazyResults = Result<std::vector<LazyTensor *>>;

  LazyResults build(mlir::Block &block, const std::vector<LazyTensor *> &lazyArguments) {
    llvm::DenseMap<mlir::Value, LazyTensor *> known;
    for (auto [value, lazy] : llvm::zip_equal(block.getArguments(), lazyArguments))
      known[value] = lazy;
    for (mlir::Operation &op : block) {
      std::vector<LazyTensor *> operands;
      for (mlir::Value operand : op.getOperands())
        operands.push_back(known[operand]);
      if (op.hasTrait<mlir::OpTrait::IsTerminator>())
        return operands;
      LazyResults results = buildOp(op, operands);
      if (!results)
        return results;
      for (auto [value, lazy] : llvm::zip_equal(op.getResults(), *results))
        known[value] = lazy;
    }
    return std::vector<LazyTensor *>{};
  }

  LazyResults buildOp(mlir::Operation &op, const std::vector<LazyTensor *> &operands) {
    if (isRegion(op))
      return build(op.getRegion(0).front(), operands);
    if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op)) {
      Result<HostTensor> tensor = tensorOf(constant.getValue());
      if (!tensor)
        return tensor.error();
      return std::vector<LazyTensor *>{&arena.make<WholeTensor>(std::make_shared<Values>(toValues(*tensor)))};
    }
    const ReferenceOp *row = findReferenceOp(op.getName().getStringRef());
    if (!row)
      return noReference(&op);
    return std::vector<LazyTensor *>{&makeLazy(*row, &op, operands, arena)};
  }

  std::span<const HostTensor> arguments;
  LazyArena arena;
};

} // namespace

Result<std::vector<Values>> evaluate(mlir::Block &block, std::span<const HostTensor> arguments, Mode mode) {
  if (Result<void> fits = checkArguments(block.getArgumentTypes(), arguments); !fits)
    return fits.error();
  auto argument = [&](unsigned i) -> Handle { return std::make_shared<Values>(toValues(arguments[i])); };
  Result<std::vector<Handle>> handles = BlockEvaluator(block, mode).run(argument);
  if (!handles)
    return handles.error();
  std::vector<Values> results;
  for (Handle &handle : *handles)
    results.push_back(*handle);
  return results;
}

Result<HostTensor> evaluateOp(mlir::Operation *op, std::span<const HostTensor> operands) {
  const ReferenceOp *row = findReferenceOp(op->getName().getStringRef());
  if (!row)
    return noReference(op);
  if (Result<void> fits = checkArguments(op->getOperandTypes(), operands); !fits)
    return fits.error();
  LazyArena sources(Mode::Exact);
  std::vector<LazyTensor *> lazy;
  for (const HostTensor &operand : operands)
    lazy.push_back(&sources.make<WholeTensor>(std::make_shared<Values>(toValues(operand))));
  return toTensor(*wholeResult(*row, op, lazy, Mode::Exact));
}

Result<Values> evaluateAt(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result,
                          std::span<const Int> offsets, Mode mode, std::uint64_t seed) {
  if (Result<void> fits = checkArguments(block.getArgumentTypes(), arguments, /*mayRepeat=*/true); !fits)
    return fits.error();
  Result<std::vector<LazyTensor *>> checked = LazyBlock(arguments, mode, seed).build(block);
  if (!checked)
    return checked.error();
  if (result >= checked->size())
    return Error{ErrorCode::Usage,
                 "result " + std::to_string(result) + " of a block of " + std::to_string(checked->size())};

  const mlir::Value wanted = block.getTerminator()->getOperand(result);
  const Shape shape = ir::shapeOf(wanted);
  const Int rowLength = shape.empty() ? 1 : std::max<Int>(1, shape.back());
  // In order of offset, neighbours in a row as one line: they share the rows that they read. One lazy block a thread.
  // All of 256 rows of two elements as one line took 7.5 s behind 20 layers of 1024 x 1024, on one thread.
  const auto count = static_cast<Int>(offsets.size());
  std::vector<Int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](Int a, Int b) { return offsets[a] < offsets[b]; });
  std::vector<Int> lines; // Where each begins in `order`.
  for (Int i = 0; i < count; ++i)
    if (i == 0 || offsets[order[i]] != offsets[order[i - 1]] + 1 || offsets[order[i]] % rowLength == 0)
      lines.push_back(i);
  const auto lineCount = static_cast<Int>(lines.size());
  lines.push_back(count);
  Values values{ir::dtypeOf(wanted.getType()), {count}, std::vector<Number>(count)};
  parallelFor(lineCount, std::max<Int>(1, (lineCount + 15) / 16), [&](Int begin, Int end) {
    LazyBlock lazy(arguments, mode, seed);
    LazyTensor &tensor = *(*lazy.build(block))[result];
    std::vector<Number> numbers;
    for (Int line = begin; line < end; ++line) {
      const Int first = lines[line];
      numbers.resize(lines[line + 1] - first);
      tensor.read({offsets[order[first]], 1, static_cast<Int>(numbers.size())}, numbers.data());
      for (auto [i, number] : llvm::enumerate(numbers))
        values.numbers[order[first + static_cast<Int>(i)]] = number;
    }
  });
  return values;
}

bool hasReference(std::string_view opName) { return findReferenceOp(opName) != nullptr; }

} // namespace kfuse::reference
