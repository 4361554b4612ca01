#include "examples/blocks/Layers.h"

#include <cmath>
#include <limits>

namespace kfuse::examples {

Tensor linear(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t inputs, std::int64_t outputs,
              Bias bias) {
  Tensor weight = g.parameter(name + ".weight", x.type(), {outputs, inputs});
  Tensor product = g.matmul(x, weight, {.b = true});
  return bias == Bias::Yes ? g.add(product, g.parameter(name + ".bias", x.type(), {outputs})) : product;
}

Tensor projection(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t inputs,
                  std::int64_t outputs) {
  Tensor weight = g.parameter(name + ".weight", x.type(), {inputs, outputs});
  return g.add(g.matmul(x, weight), g.parameter(name + ".bias", x.type(), {outputs}));
}

Tensor geluTanh(GraphBuilder &g, const Tensor &x) { return g.pointwise("gelu_tanh", {x}); }

Tensor layerNorm(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t size) {
  Tensor weight = g.parameter(name + ".weight", x.type(), {size});
  return g.layerNorm(x, weight, g.parameter(name + ".bias", x.type(), {size}));
}

Tensor rmsNorm(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t size) {
  return g.rmsNorm(x, g.parameter(name + ".weight", x.type(), {size}), 1e-5F);
}

Tensor attention(GraphBuilder &g, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask,
                 std::int64_t headSize) {
  Tensor scale = g.constant(1 / std::sqrt(static_cast<double>(headSize)), q.type());
  Tensor scores = g.mul(g.matmul(q, k, {.b = true}), scale);
  Tensor hidden = g.constant(-std::numeric_limits<double>::infinity(), q.type());
  return g.matmul(g.softmax(g.where(mask, scores, hidden)), v);
}

Tensor causalMask(GraphBuilder &g, std::int64_t tokens) {
  Tensor row = g.iota(DType::I32, {tokens, 1}, 0);
  Tensor column = g.iota(DType::I32, {1, tokens}, 1);
  return g.pointwise("le", {column, row});
}

} // namespace kfuse::examples
