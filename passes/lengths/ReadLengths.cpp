#include "passes/Lengths.h"

#include "passes/Passes.h"
#include "passes/lengths/Rules.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Importers share constants that happen to be equal, which another size need not be: one for each use.
void giveEachUseItsConstant(Block &block) {
  for (ConstantOp constant : llvm::SmallVector<ConstantOp>(block.getOps<ConstantOp>())) {
    llvm::SmallVector<OpOperand *> uses;
    for (OpOperand &use : constant->getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses) {
      OpBuilder builder(use->getOwner());
      use->set(builder.clone(*constant)->getResult(0));
    }
    constant.erase();
  }
}

/// Uses of one owner come in the order of its operands, so that graphs that are alike stay alike.
void sortConstants(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    for (OpOperand &operand : op.getOpOperands())
      if (auto constant = operand.get().getDefiningOp<ConstantOp>())
        constant->moveBefore(&op);
}

void shareConstants(Block &block) {
  llvm::DenseMap<Attribute, ConstantOp> first;
  for (ConstantOp constant : llvm::make_early_inc_range(block.getOps<ConstantOp>())) {
    auto [found, isNew] = first.try_emplace(constant.getValueAttr(), constant);
    if (isNew)
      continue;
    constant.getResult().replaceAllUsesWith(found->second.getResult());
    constant.erase();
  }
}

std::string attributeOf(BlockArgument argument, StringRef name) {
  auto main = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto attribute = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), name);
  return attribute ? attribute.str() : "";
}

LengthEdges fixedEdges(func::FuncOp main) {
  LengthEdges edges{false, std::vector<bool>(main.getNumResults()), {}, {}};
  auto add = [](std::vector<Axes> &to, Value value) {
    Axes &axes = to.emplace_back();
    for (int64_t size : dimsOf(value))
      axes.push_back(Axis::fixed(size));
  };
  for (BlockArgument argument : main.getBody().front().getArguments())
    if (attributeOf(argument, roleAttrName) == "input")
      add(edges.inputs, argument);
  for (Value result : main.getBody().front().getTerminator()->getOperands())
    add(edges.results, result);
  return edges;
}

class Reader {
public:
  Reader(func::FuncOp main, const Probes &probes, Value lengths)
      : main(main), block(main.getBody().front()), math(OpBuilder::atBlockBegin(&block), lengths), rules(probes, math) {
  }

  Result<LengthEdges> run(unsigned arguments) {
    llvm::SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (unsigned i = 0; i < arguments; ++i)
      if (Result<void> read = readArgument(block.getArgument(i)); !read)
        return read.error();
    for (Operation *op : ops)
      if (Result<void> visited = rules.visit(op); !visited)
        return visited.error();
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      writeResult(i);
    eraseDead(block);
    shareConstants(block);
    llvm::SmallVector<Type> results(block.getTerminator()->getOperandTypes());
    main.setFunctionType(FunctionType::get(main.getContext(), block.getArgumentTypes(), results));
    return std::move(edges);
  }

private:
  Result<void> readArgument(BlockArgument argument) {
    Result<Axes> axes = rules.axesBySize(argument);
    const std::string name = attributeOf(argument, nameAttrName), role = attributeOf(argument, roleAttrName);
    if (!axes)
      return Error{ErrorCode::BadModel, role + " '" + name + "': " + axes.error().message};
    rules.set(argument, *axes);
    if (role == "input")
      edges.inputs.push_back(*axes);
    if (rules.isFixed(argument))
      return {};
    if (role == "state" && followsFirstDimAlone(*axes)) // It is whole in memory, and a run's sequences come first.
      return {};
    if (role != "input")
      return Error{ErrorCode::BadModel,
                   role + " '" + name + "' follows a length" +
                       (role == "state" ? " behind its first dimension" : ", which parameters may not") +
                       "; give its size with --shape"};
    const Rows rows(*axes);
    auto type = cast<RankedTensorType>(argument.getType());
    OpBuilder &builder = math.ops();
    builder.setInsertionPointToStart(&block);
    auto flat = builder.create<ReshapeOp>(argument.getLoc(), type.clone({rows.count, rows.inner}), argument);
    Value read = builder.create<GatherOp>(argument.getLoc(), flat.getType(), flat, math.rowsToRead(rows), 0);
    read = math.reshape(read, type.getShape());
    argument.replaceAllUsesExcept(read, flat);
    rules.set(read, std::move(*axes));
    return {};
  }

  /// Whether the first elements of the largest are the elements of a shorter one.
  static bool followsFirstDimAlone(ArrayRef<Axis> axes) {
    return !axes.empty() && axes.front().factors().size() == 1 &&
           llvm::all_of(axes.drop_front(), [](const Axis &axis) { return axis.isFixed(); });
  }

  /// That of the result, unless an argument has it.
  std::string nameOfMemory(unsigned i) {
    auto name = main.getResultAttrOfType<StringAttr>(i, nameAttrName);
    const bool isTaken = !name || llvm::any_of(block.getArguments(), [&](BlockArgument argument) {
      return attributeOf(argument, nameAttrName) == name.getValue();
    });
    return isTaken ? "kfuse.result." + std::to_string(i) : name.str();
  }

  /// What follows no length is an output like any other, and an updated state is the state.
  void writeResult(unsigned i) {
    Operation *terminator = block.getTerminator();
    const Value value = terminator->getOperand(i);
    const bool isWritten = !rules.isFixed(value) && !value.getDefiningOp<StateUpdateOp>();
    edges.storedInPlace.push_back(isWritten);
    edges.results.emplace_back(rules.axesOf(value));
    if (!isWritten)
      return;
    math.before(terminator);
    const Rows rows(rules.axesOf(value));
    const Type element = cast<RankedTensorType>(value.getType()).getElementType();
    const llvm::SmallVector<int64_t> shape = rows.lieInOrder() ? llvm::SmallVector<int64_t>{rows.count, 1, rows.inner}
                                                               : llvm::SmallVector<int64_t>{rows.count, rows.inner};
    auto type = RankedTensorType::get(shape, element);
    auto attributes = DictionaryAttr::get(
        main.getContext(), {math.ops().getNamedAttr(roleAttrName, math.ops().getStringAttr("state")),
                            math.ops().getNamedAttr(nameAttrName, math.ops().getStringAttr(nameOfMemory(i)))});
    main.insertArgument(block.getNumArguments(), type, attributes, terminator->getLoc());
    const Value memory = block.getArguments().back();
    const Value position = rows.lieInOrder() ? math.whetherToWrite(rows) : math.rowsToWrite(rows, rows.count);
    Axes ofRows(shape.size());
    for (const Factor &factor : rows.factors)
      ofRows[0].append(factor);
    const Value read = math.prefix(math.reshape(math.prefix(value, edges.results.back()), shape), ofRows);
    const Value written =
        math.ops().create<StateUpdateOp>(math.where(), type, memory, read, position, rows.lieInOrder() ? 1 : 0);
    terminator->setOperand(i, written);
  }

  func::FuncOp main;
  Block &block;
  LengthMath math;
  LengthRules rules;
  LengthEdges edges;
};

} // namespace

bool isLengths(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto main = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  auto name = main ? main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttrName) : StringAttr();
  return name && name.getValue() == LengthEdges::lengthsName;
}

Result<LengthEdges> readLengths(func::FuncOp main, const std::vector<Length> &lengths,
                                const std::vector<LengthProbe> &probes) {
  if (llvm::all_of(lengths, [](const Length &length) { return length.isFixed(); }))
    return fixedEdges(main);
  auto canonical = [](func::FuncOp function) {
    Block &block = function.getBody().front();
    eraseDead(block);
    giveEachUseItsConstant(block);
    sortConstants(block);
  };
  canonical(main);
  for (const LengthProbe &probe : probes)
    canonical(probe.main);
  Result<Probes> matched = Probes::match(main, lengths, probes);
  if (!matched)
    return matched.error();
  const unsigned arguments = main.getNumArguments();
  OpBuilder builder(main.getContext());
  auto type = RankedTensorType::get({static_cast<int64_t>(lengths.size())}, builder.getI64Type());
  auto attributes =
      builder.getDictionaryAttr({builder.getNamedAttr(roleAttrName, builder.getStringAttr("input")),
                                 builder.getNamedAttr(nameAttrName, builder.getStringAttr(LengthEdges::lengthsName))});
  main.insertArgument(arguments, type, attributes, main.getLoc());
  Reader reader(main, *matched, main.getArgument(arguments));
  Result<LengthEdges> edges = reader.run(arguments);
  if (edges)
    edges->readsLengths = true;
  return edges;
}

} // namespace kfuse::passes
