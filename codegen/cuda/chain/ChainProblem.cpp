#include "codegen/cuda/chain/ChainProblem.h"

#include "codegen/MakeRegion.h"
#include "codegen/cuda/matmul/RowEpilogue.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

/// Whether results are stored row by row, and read so where a layer reads them beside its product.
std::string whyNotRowMajor(const Layer &layer) {
  const MatmulProblem &product = layer.product;
  const LinearGraph &graph = product.graph;
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    if (output.inPlace >= 0 || !output.symbols.empty() ||
        !isRowMajor(graph, output.map.getResult(0), product.dimM, product.dimN))
      return "does not store its results row by row";
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes)) {
    if (node.kind != ir::ScalarNode::Kind::Load || !layer.from.inputs[node.input].isResult())
      continue;
    const bool isTokens = product.operand(0).id == static_cast<int>(id);
    if (!node.guards.empty() || !node.symbols.empty() ||
        !isRowMajor(graph, node.map.getResult(0), product.dimM, isTokens ? product.dimK : product.dimN))
      return "does not read an earlier result row by row";
  }
  return graph.fits32Bits() ? "" : "takes tensors of 2^30 elements or more";
}

/// A layer, or why the region is none.
Result<Layer> layerOf(const ChainLayer &from, int number, const ir::Target &target) {
  auto no = [](const std::string &reason) { return Error{ErrorCode::BadModel, reason}; };
  std::optional<MatmulProblem> product = MatmulProblem::of(from.region);
  if (!product)
    return no("is no matrix product");
  if (ir::FusionDecision taken = takenByWgmma(from.region, *product, target); !taken)
    return no(taken.reason());
  if (product->count() != 1)
    return no("is two products at once");
  int64_t reductions = 0;
  if (product->reducesRows) {
    const RowEpilogue epilogue(*product);
    if (std::string reason = epilogue.refusal(); !reason.empty())
      return no(reason);
    reductions = static_cast<int64_t>(epilogue.reductionCount());
  }
  if (byteWidth(product->elementType(0)) != 2)
    return no("multiplies other than f16 or bf16");
  const TmaOperand weights = TmaOperand::of(*product, 1), tokens = TmaOperand::of(*product, 0);
  Layer layer{from, std::move(*product), weights, tokens, reductions};
  auto isOfTheOneBefore = [&](const ChainLayer::Source &source) { return source.layer == number - 1; };
  if (from.inputs[layer.weights.matrix.input].isResult() || !isOfTheOneBefore(from.inputs[layer.tokensInput()]))
    return no("is no product of the result before it with an input");
  if (!layer.tokens.matrix.contiguousK)
    return no("its rows are not contiguous along K");
  if (std::string reason = whyNotRowMajor(layer); !reason.empty())
    return no(reason);
  return layer;
}

/// An input that several layers read counts once for the region.
double bytesReadAgain(const Chain &chain) {
  double bytes = 0;
  std::set<unsigned> known;
  for (const ChainLayer &layer : chain.layers)
    for (auto [input, source] : llvm::enumerate(layer.inputs))
      if (const ir::ScalarGraph &graph = layer.region.graph; !source.isResult() && !known.insert(source.index).second)
        bytes += elementsRead(graph, input) * static_cast<double>(byteWidth(graph.inputs[input].type));
  return bytes;
}

} // namespace

Result<ChainProblem> ChainProblem::of(const Region &region, const ir::Target &target) {
  auto no = [](const std::string &reason) { return Error{ErrorCode::BadModel, reason}; };
  if (!region.chain())
    return no("is no chain of kernels");
  if (target.capability != 90)
    return no("a chain needs sm_90a, the target is " + target.name);
  ChainProblem chain;
  for (auto [number, from] : llvm::enumerate(region.chain()->layers)) {
    const std::string name = "layer " + std::to_string(number) + " ";
    Result<Layer> layer = layerOf(from, static_cast<int>(number), target);
    if (!layer)
      return no(name + layer.error().message);
    if (const MatmulProblem &product = layer->product; number == 0)
      chain.M = product.M, chain.batches = product.batches;
    else if (product.M != chain.M || product.batches != chain.batches)
      return no(name + "has other rows than the first one");
    chain.layers.push_back(std::move(*layer));
  }
  if (chain.layers.size() < 2)
    return no("one product is no chain");
  chain.memoryBytes = region.bytesRead + region.bytesWritten;
  if (region.bytesRead > target.l2Bytes)
    chain.memoryBytes += bytesReadAgain(*region.chain());
  return chain;
}

int64_t ChainProblem::mostColumns() const {
  int64_t most = 0;
  for (const Layer &layer : layers)
    most = std::max(most, layer.product.N);
  return most;
}

int64_t ChainProblem::reductions() const {
  int64_t all = 0;
  for (const Layer &layer : layers)
    all += layer.reductions;
  return all;
}

int64_t ChainProblem::buffers() const {
  size_t most = 1;
  for (const Layer &layer : layers)
    most = std::max(most, layer.from.inputs.size() + layer.from.outputs.size());
  return static_cast<int64_t>(most);
}

} // namespace kfuse::codegen::cuda
