#include "codegen/ChainRegion.h"

#include "codegen/MakeRegion.h"
#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// A region of regions: its layers in order, and what each reads.
class ChainBuilder {
public:
  explicit ChainBuilder(Block &body) : body(body), fixed(fixedInputs(body)) {}

  Result<Region> run() {
    for (BlockArgument argument : body.getArguments()) {
      sources[argument] = {-1, argument.getArgNumber()};
      region.graph.inputs.push_back({ir::dtypeOf(argument.getType()), ir::shapeOf(argument)});
    }
    for (Operation &op : body.without_terminator()) {
      if (auto view = dyn_cast<ir::ReshapeOp>(op)) {
        sources[view.getResult()] = sources.lookup(view.getOperand());
        continue;
      }
      auto fused = dyn_cast<ir::FusedOp>(op);
      if (!fused)
        return Error{ErrorCode::BadModel, op.getName().getStringRef().str() + " cannot be a layer of a chain"};
      if (Result<void> added = addLayer(fused); !added)
        return added.error();
    }
    for (auto [i, yielded] : llvm::enumerate(body.getTerminator()->getOperands())) {
      ChainLayer::Source source = sources.lookup(yielded);
      if (!source.isResult())
        return Error{ErrorCode::BadModel, "a chain yields results of its layers alone"};
      chain.layers[source.layer].outputs[source.index] = static_cast<int>(i);
      addOutput(yielded);
    }
    region.graph.domain.extents.assign(region.graph.outputs[0].shape.begin(), region.graph.outputs[0].shape.end());
    region.name = "chain_of_" + std::to_string(chain.layers.size());
    region.ops = opsOf(chain);
    region.form = std::make_shared<const Chain>(std::move(chain));
    return std::move(region);
  }

private:
  Result<void> addLayer(ir::FusedOp fused) {
    Result<Region> made = makeRegion(fused.getBody().front());
    if (!made)
      return made.error();
    ChainLayer layer;
    for (auto [i, input] : llvm::enumerate(fused.getInputs())) {
      ChainLayer::Source source = sources.lookup(input);
      layer.inputs.push_back(source);
      made->isFixed[i] = !source.isResult() && fixed[source.index];
      if (source.isResult())
        continue;
      // Each once: layers may share an input.
      auto bytes = static_cast<double>(ir::bytesOf(input));
      if (read.insert(source.index).second)
        region.bytesRead += std::min(bytes, elementsRead(made->graph, i) * byteWidth(made->graph.inputs[i].type));
    }
    const auto number = static_cast<int>(chain.layers.size());
    for (auto [i, output] : llvm::enumerate(fused.getOutputs()))
      sources[output] = {number, static_cast<unsigned>(i)};
    layer.outputs.assign(fused.getNumResults(), -1);
    region.flops += made->flops;
    if (made->graph.domain.contractionDim >= 0)
      region.mathType = made->mathType;
    layer.region = std::move(*made);
    chain.layers.push_back(std::move(layer));
    return {};
  }

  /// "matmul + relu (20 times) -> matmul".
  static std::string opsOf(const Chain &chain) {
    std::string text;
    for (size_t first = 0, end = 0; first < chain.layers.size(); first = end) {
      const std::string &ops = chain.layers[first].region.ops;
      while (end < chain.layers.size() && chain.layers[end].region.ops == ops)
        ++end;
      text += (first > 0 ? " -> " : "") + ops;
      if (end - first > 1)
        text += " (" + std::to_string(end - first) + " times)";
    }
    return text;
  }

  void addOutput(Value yielded) {
    ir::ScalarOutput output;
    output.type = ir::dtypeOf(yielded.getType());
    output.shape = ir::shapeOf(yielded);
    region.bytesWritten += static_cast<double>(ir::bytesOf(yielded));
    region.graph.outputs.push_back(std::move(output));
  }

  Block &body;
  std::vector<bool> fixed;
  llvm::DenseMap<Value, ChainLayer::Source> sources;
  std::set<unsigned> read;
  Region region;
  Chain chain;
};

} // namespace

Result<Region> makeChainRegion(Block &body) { return ChainBuilder(body).run(); }

} // namespace kfuse::codegen
