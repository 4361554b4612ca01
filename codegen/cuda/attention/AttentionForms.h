// What the templates of attention ask of its scalar forms.
#pragma once

#include "codegen/KeyBounds.h"
#include "codegen/LinearGraph.h"
#include "codegen/cuda/text/Kernel.h"
#include "codegen/cuda/text/ValuePrinter.h"

#include <string>

namespace kfuse::codegen::cuda {

/// With every dimension as it is.
LinearGraph uncollapsed(const ir::ScalarGraph &graph);

/// With every dimension as it is; nothing where there is none.
std::optional<LinearGraph> uncollapsed(const std::optional<ir::ScalarGraph> &graph);

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

/// Finds the operands of both products of a problem, whose queries may be computed. Why they are none, or "".
template <class Problem> std::string findProducts(Problem &p) {
  p.scoreProduct = contractionOf(p.scores), p.valueProduct = contractionOf(p.product);
  if (!p.scoreProduct || !p.valueProduct)
    return "its products are not its anchors";
  p.query = p.scores[p.scoreProduct].operands[0], p.key = p.scores[p.scoreProduct].operands[1];
  p.value = p.product[p.valueProduct].operands[1];
  p.probabilities = probabilitiesOf(p.product, p.product[p.valueProduct].operands[0]);
  p.emptyIsZero = p.probabilities && p.probabilities != p.product[p.valueProduct].operands[0];
  if (!isPlainLoad(p.scores, p.key) || !isPlainLoad(p.product, p.value) || !p.probabilities)
    return "keys and values are not plain tensors";
  for (const LinearGraph *graph : {&p.scores, &p.product, p.sink ? &*p.sink : &p.scores})
    if (ir::FusionDecision decision = printable(graph->graph); !decision)
      return decision.reason();
  if (p.sink && undefinedIn(*p.sink, p.sink->graph.outputs[0].value))
    return "its sink is a sum, which is a kernel before it";
  const std::string reason = whyNotEpilogue(p.scores, p.scoreProduct, "its mask or scale");
  return reason.empty() ? whyNotEpilogue(p.product, p.valueProduct, "its result") : reason;
}

/// Whether chunks of eight along `dim` are dense and aligned.
bool isAligned(const LinearGraph &graph, ir::Scalar load, unsigned dim);

/// Text of an Index: the terms of `bound` and `more`, brought into [least, most]; the lines before it are printed.
std::string keyText(ValuePrinter &scope, const ReadBound &bound, int64_t more, int64_t least, int64_t most);

/// The text of four Indexes, for `rows` and `keys` of a problem: the largest first key that is read, of those that stay
/// and of those that move with the row, and the smallest end of the last ones likewise. `areOfRow`: those that are read
/// for each row, else the others.
/// The lines before it are printed.
std::string boundsText(ValuePrinter &scope, const KeyBounds &bounds, bool areOfRow, int64_t rows, int64_t keys);

} // namespace kfuse::codegen::cuda
