// How many rows a chain computes in a run.
#pragma once

#include "codegen/cuda/matmul/MatmulProblem.h"
#include "codegen/cuda/text/SourceWriter.h"

#include <functional>

namespace kfuse::codegen::cuda {

/// The text of how many rows a run needs of a layer's results, after printing what reads it; "" where that is all of
/// them. `address(input)` is the text of where the layer's input lies.
std::string runRowsOf(const MatmulProblem &layer, SourceWriter &writer,
                      const std::function<std::string(unsigned input)> &address);

/// The number of the one layer that gives results away; none where several do. What layers before it compute is needed
/// as far as what it computes, since rows of a chain have nothing to do with each other; what layers behind it
/// compute nobody reads.
std::optional<size_t> layerGivenAway(const Chain &chain);
/// Whether a run ends the rows that it computes.
bool endsWithRun(const Chain &chain);

} // namespace kfuse::codegen::cuda
