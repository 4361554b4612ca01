// The three classification heads.
#include "examples/blocks/Blocks.h"
#include "examples/blocks/Layers.h"

namespace kfuse::examples {
namespace {

constexpr std::int64_t classes = 2;

std::string numbered(const char *name, std::int64_t i) { return name + ("." + std::to_string(i)); }

} // namespace

Result<Graph> linearHead(std::int64_t batch, std::int64_t layers, std::int64_t hidden, DType type) {
  GraphBuilder g;
  Tensor h = g.input("x", type, {batch, hidden});
  for (std::int64_t i = 0; i < layers; ++i)
    h = g.relu(linear(g, h, numbered("layers", i), hidden, hidden));
  g.output("y", linear(g, h, "out", hidden, classes));
  return g.build();
}

Result<Graph> stackedHeads(std::int64_t batch, std::int64_t heads, std::int64_t layers, std::int64_t hidden,
                           DType type) {
  GraphBuilder g;
  Tensor h = g.input("x", type, {batch, hidden}); // Broadcasts over the heads in the first product.
  for (std::int64_t i = 0; i < layers; ++i) {
    Tensor weight = g.parameter(numbered("w", i), type, {heads, hidden, hidden});
    Tensor bias = g.parameter(numbered("b", i), type, {heads, 1, hidden});
    h = g.relu(g.add(g.matmul(h, weight), bias));
  }
  g.output("y", g.matmul(h, g.parameter("out", type, {heads, hidden, classes})));
  return g.build();
}

Result<Graph> seqLenHead(std::int64_t batch, std::int64_t positions, std::int64_t layers, std::int64_t hidden,
                         DType type) {
  GraphBuilder g;
  Tensor x = g.input("x", type, {batch, hidden});
  Tensor h = g.broadcast(g.reshape(x, {batch, 1, hidden}), {batch, positions, hidden});
  for (std::int64_t i = 0; i + 1 < layers; ++i)
    h = g.relu(layerNorm(g, linear(g, h, numbered("lin", i), hidden, hidden), numbered("norm", i), hidden));
  Tensor first = g.slice(h, {0, 0, 0}, {batch, 1, hidden});
  g.output("y", linear(g, g.reshape(first, {batch, hidden}), "out", hidden, classes));
  return g.build();
}

} // namespace kfuse::examples
