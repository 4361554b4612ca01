#include "codegen/cuda/chain/RunRows.h"

#include "codegen/cuda/text/Kernel.h"
#include "codegen/cuda/text/ValuePrinter.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::codegen::cuda {

std::string runRowsOf(const MatmulProblem &layer, SourceWriter &writer,
                      const std::function<std::string(unsigned input)> &address) {
  if (!layer.endsRows())
    return "";
  for (unsigned input : inputsRead(layer.graph, layer.graph.graph.runExtent->count)) {
    const std::string type = storedType(layer.graph.graph.inputs[input].type).str();
    writer.line("const auto *in" + llvm::Twine(input) + " = (const " + type + " *)" + address(input) + ";");
  }
  return runExtent(layer.graph, layer.dimM, writer);
}

std::optional<size_t> layerGivenAway(const Chain &chain) {
  std::optional<size_t> found;
  for (auto [number, layer] : llvm::enumerate(chain.layers)) {
    if (llvm::none_of(layer.outputs, [](int output) { return output >= 0; }))
      continue;
    if (found)
      return std::nullopt;
    found = number;
  }
  return found;
}

bool endsWithRun(const Chain &chain) {
  const std::optional<size_t> last = layerGivenAway(chain);
  return last && MatmulProblem::of(chain.layers[*last].region)->endsRows();
}

} // namespace kfuse::codegen::cuda
