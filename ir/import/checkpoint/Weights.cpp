#include "ir/import/checkpoint/Weights.h"

#include "ir/dialect/Kfuse.h"
#include "ir/reference/Attributes.h"
#include "ir/reference/Parallel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>

using namespace mlir;

namespace kfuse::ir {
namespace {

using checkpoint::LayerTensor;
using checkpoint::QuantisedMatrix;

constexpr llvm::StringLiteral weightSuffix = ".weight";

Error usage(const Twine &message) { return {ErrorCode::Usage, message.str()}; }

bool isPlainFloat(Type tensor) {
  const DType type = dtypeOf(tensor);
  return isFloat(type) && !isFloat8(type);
}

/// An argument, and what the checkpoint holds for it: a tensor, or a layer's quantised weight.
struct Match {
  unsigned argument;
  std::string name; ///< In the checkpoint: of the tensor, or of the layer.
  bool isQuantised;
  std::shared_ptr<const QuantisedMatrix> matrix{};
};

class WeightTaker {
public:
  WeightTaker(Model &model, const Checkpoint &checkpoint, llvm::StringRef prefix)
      : model(model), checkpoint(checkpoint), prefix(prefix), main(model.module->lookupSymbol<func::FuncOp>("main")),
        builder(OpBuilder::atBlockBegin(&main.getBody().front())) {}

  Result<void> run() {
    std::vector<Match> matches = findMatches();
    if (matches.empty())
      return noneFound();
    for (const Match &match : matches)
      if (Result<void> fits = check(match); !fits)
        return fits;
    if (Result<void> read = readMatrices(matches); !read)
      return read;
    for (const Match &match : llvm::reverse(matches)) // Arguments before it keep their numbers.
      if (Result<void> taken = match.isQuantised ? takeQuantised(match) : takeTensor(match); !taken)
        return taken;
    return {};
  }

private:
  llvm::StringRef nameOf(unsigned argument) {
    return main.getArgAttrOfType<StringAttr>(argument, nameAttrName).getValue();
  }

  std::vector<Match> findMatches() {
    std::vector<Match> matches;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      if (main.getArgAttrOfType<StringAttr>(i, roleAttrName).getValue() == "state")
        continue;
      std::string name = (prefix + nameOf(i)).str();
      llvm::StringRef layer = name;
      if (layer.consume_back(weightSuffix) && checkpoint.quantises(layer))
        matches.push_back({i, layer.str(), true});
      else if (checkpoint.holds(name))
        matches.push_back({i, std::move(name), false});
    }
    return matches;
  }

  Error noneFound() {
    const std::vector<std::string> tensors = checkpoint.tensors();
    return usage("checkpoint " + checkpoint.name() + " has no tensor of an argument's name: it holds " +
                 (tensors.empty() ? "none" : "'" + tensors.front() + "'") + ", the model takes " +
                 (main.getNumArguments() == 0 ? "none" : "'" + nameOf(0) + "'") +
                 "; export the model with the names of its parameters, or give what they begin with in the checkpoint "
                 "by --checkpoint-prefix");
  }

  Result<void> check(const Match &match) {
    auto type = cast<RankedTensorType>(main.getArgument(match.argument).getType());
    if (match.isQuantised && (type.getRank() != 2 || !isPlainFloat(type)))
      return usage("the checkpoint quantises '" + match.name + weightSuffix +
                   "', which is no matrix of floats in the model but " + std::string(kfuse::toString(dtypeOf(type))) +
                   " " + kfuse::toString(Shape(type.getShape())));
    return {};
  }

  /// Those of all layers at once: unpacking is most of the time that an import takes.
  Result<void> readMatrices(std::vector<Match> &matches) {
    std::vector<std::optional<Error>> errors(matches.size());
    reference::parallelFor(static_cast<int64_t>(matches.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!matches[i].isQuantised)
          continue;
        llvm::ArrayRef<int64_t> dims = dimsOf(main.getArgument(matches[i].argument));
        Result<std::shared_ptr<const QuantisedMatrix>> read = checkpoint.matrix(matches[i].name, dims[0], dims[1]);
        if (read)
          matches[i].matrix = *read;
        else
          errors[i] = read.error();
      }
    });
    for (auto [match, error] : llvm::zip(matches, errors))
      if (error)
        return Error{error->code, error->message + "; the model's weight of it is " +
                                      kfuse::toString(shapeOf(main.getArgument(match.argument))) +
                                      ", which is taken for [N, K]"};
    return {};
  }

  /// An argument of @main in front of number `at`, with its data.
  Result<Value> addParameter(unsigned at, llvm::StringRef name, const ParameterData &data) {
    if (!model.parameters.try_emplace(name.str(), data).second ||
        llvm::any_of(llvm::seq<unsigned>(0, main.getNumArguments()), [&](unsigned i) { return nameOf(i) == name; }))
      return usage("the model has an argument '" + name + "' of its own, as a tensor of the checkpoint is called");
    MLIRContext *context = main.getContext();
    auto attributes =
        DictionaryAttr::get(context, {builder.getNamedAttr(roleAttrName, builder.getStringAttr("parameter")),
                                      builder.getNamedAttr(nameAttrName, builder.getStringAttr(name))});
    main.insertArgument(at, RankedTensorType::get(data.shape, elementTypeOf(data.type, context)), attributes,
                        main.getLoc());
    return Value(main.getArgument(at));
  }

  Result<void> takeTensor(const Match &match) {
    BlockArgument argument = main.getArgument(match.argument);
    const std::string name = nameOf(match.argument).str();
    Result<ParameterData> data = checkpoint.tensor(match.name);
    if (!data)
      return data.error();
    const DType wanted = dtypeOf(argument.getType());
    const Shape shape = shapeOf(argument);
    const bool isCast = data->type != wanted && isFloat(data->type) && isPlainFloat(argument.getType());
    if (data->shape != shape || (data->type != wanted && !isCast))
      return usage("checkpoint " + checkpoint.name() + ": '" + match.name + "' is " +
                   std::string(kfuse::toString(data->type)) + " " + kfuse::toString(data->shape) + ", the model's is " +
                   std::string(kfuse::toString(wanted)) + " " + kfuse::toString(shape));
    model.parameters.insert_or_assign(name, *data);
    main.setArgAttr(match.argument, roleAttrName, builder.getStringAttr("parameter"));
    if (!isCast)
      return {};
    // The argument is of the file's type from here on.
    auto stored = cast<RankedTensorType>(argument.getType()).clone(elementTypeOf(data->type, main.getContext()));
    Value cast = builder.create<CastOp>(main.getLoc(), argument.getType(), argument);
    argument.replaceAllUsesExcept(cast, cast.getDefiningOp());
    setType(argument, stored);
    return {};
  }

  void setType(BlockArgument argument, Type type) {
    argument.setType(type);
    main.setType(FunctionType::get(main.getContext(), main.getBody().front().getArgumentTypes(),
                                   main.getFunctionType().getResults()));
  }

  Result<void> takeQuantised(const Match &match) {
    const QuantisedMatrix &matrix = *match.matrix;
    const unsigned place = match.argument;
    llvm::SmallVector<const LayerTensor *, 3> tensors{&matrix.codes, &matrix.scales};
    if (matrix.zeros)
      tensors.push_back(&*matrix.zeros);
    llvm::SmallVector<Value, 3> operands;
    for (auto [i, tensor] : llvm::enumerate(tensors)) {
      const std::string stored = match.name + "." + tensor->name;
      llvm::StringRef name = stored;
      name.consume_front(prefix);
      Result<Value> added = addParameter(place + 1 + static_cast<unsigned>(i), name, tensor->data);
      if (!added)
        return added.error();
      operands.push_back(*added);
    }
    BlockArgument argument = main.getArgument(place);
    Value weights = dequantised(operands, matrix, cast<RankedTensorType>(argument.getType()));
    replaceUses(argument, weights, matrix.order);
    model.parameters.erase(nameOf(place).str());
    main.eraseArgument(place);
    return {};
  }

  /// In `type`, with its columns in the order of the codes.
  Value dequantised(llvm::SmallVectorImpl<Value> &operands, const QuantisedMatrix &matrix, RankedTensorType type) {
    Location location = main.getLoc();
    Value codes = operands[0], scales = operands[1];
    if (operands.size() < 3) {
      auto zeros = cast<RankedTensorType>(scales.getType()).clone(getElementTypeOrSelf(codes));
      const reference::HostTensor zero = reference::tensorOf(matrix.codes.data.type, {}, {matrix.zero});
      operands.push_back(
          builder.create<ConstantOp>(location, reference::attributeOf(zero, builder.getContext()).resizeSplat(zeros)));
    }
    Type scaleType = getElementTypeOrSelf(scales);
    Value weights = builder.create<DequantizeOp>(location, cast<RankedTensorType>(codes.getType()).clone(scaleType),
                                                 codes, scales, operands[2], matrix.blocks);
    if (dimsOf(weights) != type.getShape())
      weights = builder.create<ReshapeOp>(location, type.clone(scaleType), weights);
    if (weights.getType() != type)
      weights = builder.create<CastOp>(location, type, weights);
    return weights;
  }

  /// Products take their left operand's columns in the weights' order; what else reads the weights has them in their
  /// own.
  void replaceUses(BlockArgument argument, Value weights, llvm::ArrayRef<int64_t> order) {
    if (order.empty())
      return argument.replaceAllUsesWith(weights);
    Value columns = indices(order);
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses())) {
      auto transpose = dyn_cast<TransposeOp>(use.getOwner());
      if (transpose && llvm::all_of(transpose->getUses(), [](OpOperand &one) { return isRightOf(one, false); }))
        for (OpOperand &one : transpose->getUses())
          orderLeft(cast<MatmulOp>(one.getOwner()), columns);
      else if (isRightOf(use, true))
        orderLeft(cast<MatmulOp>(use.getOwner()), columns);
      else
        continue;
      use.set(weights);
    }
    if (argument.use_empty())
      return;
    llvm::SmallVector<int64_t> inverse(order.size());
    for (auto [place, column] : llvm::enumerate(order))
      inverse[column] = static_cast<int64_t>(place);
    argument.replaceAllUsesWith(
        builder.create<GatherOp>(main.getLoc(), weights.getType(), weights, indices(inverse), 1));
  }

  /// Whether `use` is the right operand of a product, transposed or not.
  static bool isRightOf(OpOperand &use, bool isTransposed) {
    auto product = dyn_cast<MatmulOp>(use.getOwner());
    return product && use.getOperandNumber() == 1 && product.getLhs() != use.get() &&
           product.getTransposeB() == isTransposed;
  }

  void orderLeft(MatmulOp product, Value columns) {
    OpBuilder before(product);
    Value left = product.getLhs();
    const auto axis = static_cast<int64_t>(dimsOf(left).size()) - (product.getTransposeA() ? 2 : 1);
    product.getLhsMutable().assign(before.create<GatherOp>(product.getLoc(), left.getType(), left, columns, axis));
  }

  Value indices(llvm::ArrayRef<int64_t> values) {
    auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
    return builder.create<ConstantOp>(main.getLoc(), DenseElementsAttr::get(type, values));
  }

  Model &model;
  const Checkpoint &checkpoint;
  llvm::StringRef prefix;
  func::FuncOp main;
  OpBuilder builder;
};

} // namespace

Result<void> takeWeights(Model &model, const Checkpoint &checkpoint, const std::string &prefix) {
  return WeightTaker(model, checkpoint, prefix).run();
}

} // namespace kfuse::ir
