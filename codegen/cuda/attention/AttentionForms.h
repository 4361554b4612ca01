// What the templates of attention ask of its scalar forms.
#pragma once

#include "codegen/LinearGraph.h"

#include <string>

namespace kfuse::codegen::cuda {

/// With every dimension as it is.
LinearGraph uncollapsed(const ir::ScalarGraph &graph);

/// The first product; none where there is none.
ir::Scalar contractionOf(const LinearGraph &graph);

bool isPlainLoad(const LinearGraph &graph, ir::Scalar s);

/// A reduction or product that `roots` use, symbols included, but for what is behind `given`: nothing in the kernel
/// says what it is.
ir::Scalar undefinedIn(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> roots, ir::Scalar given = {});

/// Why what becomes of `product` is not computed, or "".
std::string whyNotEpilogue(const LinearGraph &graph, ir::Scalar product, const std::string &what);

/// The load of the probabilities that `s` is, or of which it is where(is_nan(p), 0, p).
ir::Scalar probabilitiesOf(const LinearGraph &graph, ir::Scalar s);

/// Whether chunks of eight along `dim` are dense and aligned.
bool isAligned(const LinearGraph &graph, ir::Scalar load, unsigned dim);

} // namespace kfuse::codegen::cuda
