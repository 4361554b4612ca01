#include "codegen/AttentionRegion.h"

#include "codegen/KeyBounds.h"
#include "codegen/MakeRegion.h"
#include "codegen/OtherDims.h"
#include "ir/IndexMath.h"
#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"
#include "ir/dialect/SinkSoftmax.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// A block of its own with the arguments of a body, and what computes one value inside or around the attention, to be
/// scalarised.
class Excerpt {
public:
  Excerpt(Block &body, ir::AttentionOp attention)
      : attention(attention), builder(attention.getContext()),
        fused(builder.create<ir::FusedOp>(attention.getLoc(), TypeRange(), ValueRange())),
        part(fused->getBody().emplaceBlock()) {
    for (BlockArgument argument : body.getArguments())
      addInput(argument);
    builder.setInsertionPointToEnd(&part);
  }
  void addInput(Value value) { mapping.map(value, part.addArgument(value.getType(), value.getLoc())); }

  Result<ir::ScalarGraph> scalarise(Value result) {
    builder.create<ir::YieldOp>(result.getLoc(), computed(result));
    return ir::scalariseRegion(part);
  }
  Result<ir::ScalarGraph> scalarise(ir::StateUpdateOp update) {
    for (Value operand : update->getOperands())
      computed(operand);
    builder.create<ir::YieldOp>(update.getLoc(), builder.clone(*update, mapping)->getResults());
    return ir::scalariseByResult(part);
  }

private:
  Value computed(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Value inside;
    if (auto argument = dyn_cast<BlockArgument>(value)) { // An argument of the attention.
      inside = computed(attention.getInputs()[argument.getArgNumber()]);
    } else if (value.getDefiningOp() == attention) {
      inside = computed(attention.getBody().front().getTerminator()->getOperand(0));
    } else if (auto update = value.getDefiningOp<ir::StateUpdateOp>()) { // The state, once it is updated.
      inside = computed(update.getState());
    } else {
      for (Value operand : value.getDefiningOp()->getOperands())
        computed(operand);
      inside = builder.clone(*value.getDefiningOp(), mapping)->getResult(0);
    }
    mapping.map(value, inside);
    return inside;
  }

  ir::AttentionOp attention;
  OpBuilder builder;
  OwningOpRef<ir::FusedOp> fused;
  Block &part;
  IRMapping mapping;
};

/// Whether `value` is the attention's result, the rows of it that a run reads, or that in another order: its heads
/// behind its rows.
bool isResultOf(Value value, ir::AttentionOp attention) {
  while (value.getDefiningOp() && isa<ir::ReshapeOp, ir::TransposeOp, ir::PrefixOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp() == attention;
}

/// Whether the results are the attention's and the updated states.
bool yieldsNothingElse(Block &body, ir::AttentionOp attention) {
  auto yielded = body.getTerminator()->getOperands();
  auto isOfAttention = [&](Value value) { return isResultOf(value, attention); };
  auto isExpected = [&](Value value) { return isOfAttention(value) || value.getDefiningOp<ir::StateUpdateOp>(); };
  return llvm::all_of(yielded, isExpected) && llvm::count_if(yielded, isOfAttention) == 1 &&
         llvm::all_of(body.getOps<ir::StateUpdateOp>(),
                      [&](ir::StateUpdateOp update) { return llvm::is_contained(yielded, update.getResult()); });
}

ir::ScalarOutput storedAsIs(Value value) {
  ir::ScalarOutput output;
  output.type = ir::dtypeOf(value.getType());
  output.shape = ir::shapeOf(value);
  output.map = AffineMap::getMultiDimIdentityMap(output.shape.size(), value.getContext());
  return output;
}

/// The sink's graph, [batch..., rows, 1], over the dimensions of the scores, [batch..., rows, keys, elements].
ir::ScalarGraph overScores(const ir::ScalarGraph &sink, ArrayRef<int64_t> scores) {
  MLIRContext *context = sink.outputs[0].map.getContext();
  SmallVector<AffineExpr> rows;
  for (unsigned dim = 0; dim + 2 < scores.size(); ++dim)
    rows.push_back(getAffineDimExpr(dim, context));
  SmallVector<AffineExpr> dims =
      ir::delinearise(ir::linearise(rows, scores.drop_back(2), context), ArrayRef(sink.domain.extents).drop_back());
  dims.push_back(getAffineConstantExpr(0, context));
  return overOtherDims(sink, scores, dims);
}

/// Which part of all scores a mask does not hide at the least, as far as it is known here: of packed sequences nothing.
double shareOfKeys(const ir::ScalarGraph &scores) {
  const ArrayRef<int64_t> extents = scores.domain.extents;
  if (scores.domain.contractionDim < 2)
    return 1;
  const KeyBounds bounds = keyBounds(scores);
  return bounds.areOfRow() ? 0 : bounds.share(extents[extents.size() - 3], extents[extents.size() - 2]);
}

/// What its parts read counts once, of a state what is written.
void countBytes(Region &region, const Attention &attention) {
  for (unsigned i = 0; i < region.graph.inputs.size(); ++i) {
    double elements = elementsRead(attention.scores, i) + elementsRead(attention.product, i);
    if (attention.sink)
      elements += elementsRead(*attention.sink, i);
    for (const ir::ScalarGraph &update : attention.updates)
      elements += elementsRead(update, i);
    const ir::ScalarInput &input = region.graph.inputs[i];
    region.bytesRead += bytesOf(std::min(elements, static_cast<double>(elementCount(input.shape))), input.type);
  }
  const ir::ScalarOutput &result = attention.product.outputs[0];
  region.bytesWritten += bytesOf(static_cast<double>(elementCount(result.shape)), result.type);
  for (const ir::ScalarGraph &update : attention.updates)
    region.bytesWritten += bytesOf(static_cast<double>(update.domain.points()), update.outputs[0].type);
}

} // namespace

Result<Region> makeAttentionRegion(Block &body) {
  auto attentions = body.getOps<ir::AttentionOp>();
  ir::AttentionOp attention = *attentions.begin();
  auto softmaxes = attention.getBody().getOps<ir::SoftmaxOp>();
  if (!llvm::hasSingleElement(softmaxes))
    return Error{ErrorCode::BadModel, "an attention holds one softmax"};
  if (!llvm::hasSingleElement(attentions) || !yieldsNothingElse(body, attention))
    return Error{ErrorCode::BadModel, "a kernel of attention gives nothing else but the states that it updates"};
  const ir::SinkSoftmax softmax(*softmaxes.begin());

  Region region;
  Result<ir::ScalarGraph> scores = Excerpt(body, attention).scalarise(softmax.scores);
  if (!scores)
    return scores.error();
  std::optional<ir::ScalarGraph> sink;
  if (softmax.sink) {
    Result<ir::ScalarGraph> graph = Excerpt(body, attention).scalarise(softmax.sink);
    if (!graph)
      return graph.error();
    sink = overScores(*graph, scores->domain.extents);
  }
  Excerpt after(body, attention);
  after.addInput(softmax.weights);
  Result<ir::ScalarGraph> product = after.scalarise(*llvm::find_if(
      body.getTerminator()->getOperands(), [&](Value yielded) { return isResultOf(yielded, attention); }));
  if (!product)
    return product.error();
  std::vector<ir::ScalarGraph> updates;
  for (Value yielded : body.getTerminator()->getOperands()) {
    auto update = yielded.getDefiningOp<ir::StateUpdateOp>();
    if (!update) {
      region.graph.outputs.push_back(product->outputs[0]);
      continue;
    }
    Result<ir::ScalarGraph> graph = Excerpt(body, attention).scalarise(update);
    if (!graph)
      return graph.error();
    region.graph.outputs.push_back(storedAsIs(yielded));
    region.graph.outputs.back().inPlace = graph->outputs[0].inPlace;
    updates.push_back(std::move(*graph));
  }

  if (Result<void> described = describe(region, body); !described)
    return described.error();
  const double seen = shareOfKeys(*scores);
  attention.walk([&](ir::FusableOpInterface inner) { region.flops += seen * static_cast<double>(inner.getFlops()); });
  region.mathType = ir::dtypeOf(softmax.scores.getType());
  region.graph.domain.extents.assign(product->outputs[0].shape.begin(), product->outputs[0].shape.end());
  region.graph.inputs = scores->inputs;
  auto form = std::make_shared<Attention>(std::move(*scores), std::move(sink), std::move(*product), std::move(updates));
  countBytes(region, *form);
  region.form = std::move(form);
  return region;
}

} // namespace kfuse::codegen
