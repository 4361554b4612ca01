#include "examples/blocks/Blocks.h"
#include "examples/blocks/Layers.h"

namespace kfuse::examples {

Result<Graph> ffn(std::int64_t rows, std::int64_t d, std::int64_t f, DType type) {
  GraphBuilder g;
  Tensor h = geluTanh(g, linear(g, g.input("x", type, {rows, d}), "up", d, f));
  g.output("y", layerNorm(g, linear(g, h, "down", f, d), "norm", d));
  return g.build();
}

Result<Graph> lnGelu(std::int64_t rows, std::int64_t d, DType type) {
  GraphBuilder g;
  Tensor h = geluTanh(g, projection(g, g.input("x", type, {rows, d}), "lin", d, d));
  g.output("y", layerNorm(g, h, "norm", d));
  return g.build();
}

} // namespace kfuse::examples
