// Models of lengths that a run gives, to test them on any device.
#pragma once

#include "ir/reference/Policy.h"
#include "kfuse/kfuse.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::test {

using Build = std::function<void(GraphBuilder &, DType, std::span<const std::int64_t>)>;

inline Model modelOf(const Build &build, const std::vector<Dim> &dims, DType type) {
  auto graphAt = [build, type](std::span<const std::int64_t> lengths) {
    GraphBuilder g;
    build(g, type, lengths);
    return g.build();
  };
  Result<Model> model = Model::fromGraphs(graphAt, dims);
  REQUIRE_MESSAGE(model, model.error().message);
  return *model;
}

inline reference::HostTensor randomTensor(const TensorDesc &desc, std::uint64_t seed, Role role) {
  if (!isFloat(desc.type))
    return reference::integers(desc.type, desc.shape, seed, 0, desc.type == DType::Bool ? 2 : 7);
  return reference::normal(desc.type, desc.shape, seed,
                           role == Role::Parameter ? reference::weightDeviation(desc.shape) : 1);
}

inline Tensor linear(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t outputs) {
  Tensor w = g.parameter(name, x.type(), {x.shape().back(), outputs});
  return g.add(g.matmul(x, w), g.parameter(name + "_bias", x.type(), {outputs}));
}

/// [..., tokens, heads * size] -> [..., heads, tokens, size].
inline Tensor toHeads(GraphBuilder &g, const Tensor &x, std::int64_t heads) {
  const Shape &s = x.shape();
  return g.transpose(g.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

inline Tensor attend(GraphBuilder &g, const Tensor &x, std::int64_t heads, const std::function<Tensor(Tensor)> &mask) {
  const std::int64_t size = x.shape()[2] / heads;
  Tensor q = toHeads(g, linear(g, x, "q", x.shape()[2]), heads), k = toHeads(g, linear(g, x, "k", x.shape()[2]), heads),
         v = toHeads(g, linear(g, x, "v", x.shape()[2]), heads);
  Tensor scores = g.matmul(q, k, {.b = true});
  scores = mask(g.mul(scores, g.constant(1 / std::sqrt(double(size)), x.type())));
  return linear(g, g.reshape(g.transpose(g.matmul(g.softmax(scores), v), {0, 2, 1, 3}), x.shape()), "o", x.shape()[2]);
}

inline Tensor norm(GraphBuilder &g, const Tensor &x, const std::string &name) {
  return g.layerNorm(x, g.parameter(name, x.type(), {x.shape().back()}),
                     g.parameter(name + "_bias", x.type(), {x.shape().back()}));
}

inline void feedForward(GraphBuilder &g, DType type, std::span<const std::int64_t> n) {
  Tensor x = g.input("x", type, {n[0], 24});
  g.output("y", norm(g, g.add(x, linear(g, g.gelu(linear(g, x, "up", 56)), "down", 24)), "norm"));
}

/// Tokens of several sequences with a mask of keys, and the mean of each sequence.
inline void bert(GraphBuilder &g, DType type, std::span<const std::int64_t> n) {
  Tensor ids = g.input("ids", DType::I64, {n[0], n[1]}), mask = g.input("mask", type, {n[0], n[1]});
  Tensor x = g.gather(g.parameter("table", type, {13, 32}), ids);
  x = g.add(x, g.slice(g.parameter("positions", type, {64, 32}), {0, 0}, {n[1], 32}));
  Tensor attended = attend(g, x, 4, [&](Tensor scores) { return g.add(scores, g.reshape(mask, {n[0], 1, 1, n[1]})); });
  x = norm(g, g.add(x, attended), "norm");
  g.output("hidden", x);
  g.output("mean", g.reduce("mean", x, {1}));
  g.output("largest", g.reduce("max", x, {1}));
  g.output("first", g.tanh(linear(g, g.reshape(g.slice(x, {0, 0, 0}, {n[0], 1, 32}), {n[0], 32}), "pool", 8)));
  g.output("last", g.reshape(g.slice(x, {0, n[1] - 1, 0}, {n[0], 1, 32}), {n[0], 32}));
}

/// Causal, with rotary embeddings and heads that share keys, and rows of all sequences as one dimension.
struct CausalBlock {
  std::int64_t heads = 4, shared = 2, size = 8, wide = 72;

  void operator()(GraphBuilder &g, DType type, std::span<const std::int64_t> n) const {
    const std::int64_t hidden = heads * size;
    Tensor x = g.input("x", type, {1, n[0], hidden});
    Tensor cos = g.input("cos", type, {n[0], size}), sin = g.input("sin", type, {n[0], size});
    Tensor h = g.rmsNorm(x, g.parameter("norm", type, {hidden}));
    auto project = [&](const char *name, std::int64_t count) {
      return toHeads(g, g.matmul(h, g.parameter(name, type, {hidden, count * size})), count);
    };
    auto repeated = [&](const Tensor &t) {
      Tensor apart = g.broadcast(g.reshape(t, {1, shared, 1, n[0], size}), {1, shared, heads / shared, n[0], size});
      return g.reshape(apart, {1, heads, n[0], size});
    };
    Tensor q = g.rotary(project("q", heads), cos, sin), k = repeated(g.rotary(project("k", shared), cos, sin)),
           v = repeated(project("v", shared));
    Tensor scores = g.mul(g.matmul(q, k, {.b = true}), g.constant(1 / std::sqrt(double(size)), type));
    Tensor sees = g.pointwise("le", {g.iota(DType::I64, {n[0], n[0]}, 1), g.iota(DType::I64, {n[0], n[0]}, 0)});
    Tensor weights = g.softmax(g.where(sees, scores, g.constant(-INFINITY, type)));
    Tensor out = g.reshape(g.transpose(g.matmul(weights, v), {0, 2, 1, 3}), {n[0], hidden});
    h = g.add(g.reshape(x, {n[0], hidden}), g.matmul(out, g.parameter("o", type, {hidden, hidden})));
    Tensor m = g.rmsNorm(h, g.parameter("norm2", type, {hidden}));
    Tensor gate = g.silu(g.matmul(m, g.parameter("gate", type, {hidden, wide})));
    Tensor up = g.mul(gate, g.matmul(m, g.parameter("up", type, {hidden, wide})));
    g.output("y", g.reshape(g.add(h, g.matmul(up, g.parameter("down", type, {wide, hidden}))), {1, n[0], hidden}));
  }
};
inline void llama(GraphBuilder &g, DType type, std::span<const std::int64_t> n) { CausalBlock()(g, type, n); }

/// Tokens of several sequences behind those in their caches, into which they are written from a position of each on;
/// all of them in rows of a table that they name; and what is left of each sequence's tokens for its next run.
inline void cached(GraphBuilder &g, DType type, std::span<const std::int64_t> n) {
  constexpr std::int64_t heads = 2, size = 8, capacity = 24, hidden = heads * size, most = 21;
  Tensor x = g.input("x", type, {n[0], n[1], hidden}), at = g.input("at", DType::I64, {n[0]});
  auto written = [&](const char *name) {
    Tensor state = g.state(std::string(name) + "s", type, {n[0], heads, capacity, size});
    return g.updateState(state, toHeads(g, linear(g, x, name, hidden), heads), at, 2);
  };
  Tensor keys = written("key"), values = written("value"), q = toHeads(g, linear(g, x, "q", hidden), heads);
  Tensor scores = g.mul(g.matmul(q, keys, {.b = true}), g.constant(1 / std::sqrt(double(size)), type));
  Tensor last = g.add(g.reshape(at, {n[0], 1, 1, 1}), g.iota(DType::I64, {1, 1, n[1], 1}, 2));
  Tensor sees = g.pointwise("le", {g.iota(DType::I64, {1, 1, 1, capacity}, 3), last});
  Tensor weights = g.softmax(g.where(sees, scores, g.constant(-INFINITY, type)));
  g.output("y", linear(g, g.reshape(g.transpose(g.matmul(weights, values), {0, 2, 1, 3}), x.shape()), "o", hidden));
  Tensor sequence = g.mul(g.iota(DType::I64, {n[0], n[1]}, 0), g.constant(double(most), DType::I64));
  Tensor row = g.reshape(g.add(sequence, g.iota(DType::I64, {n[0], n[1]}, 1)), {n[0] * n[1]});
  g.updateState(g.state("table", type, {4 * most, hidden}), g.reshape(x, {n[0] * n[1], hidden}), row, 0);
  Tensor left = g.state("left", type, {n[0], hidden});
  g.updateState(left, g.tanh(g.add(left, g.reduce("mean", x, {1}))), g.constant(0, DType::I64), 0);
  g.output("cache", keys); // That of the values is read in the graph alone.
}

/// A token of its own in front of an image's, and of all the first one is taken.
inline void vit(GraphBuilder &g, DType type, std::span<const std::int64_t> n) {
  Tensor patches = linear(g, g.input("patches", type, {n[0], n[1], 12}), "embed", 32);
  Tensor token = g.broadcast(g.parameter("token", type, {1, 1, 32}), {n[0], 1, 32});
  Tensor x = g.concat({token, patches}, 1);
  x = g.add(x, attend(g, norm(g, x, "norm"), 2, [](Tensor scores) { return scores; }));
  g.output("class", linear(g, g.reshape(g.slice(x, {0, 0, 0}, {n[0], 1, 32}), {n[0], 32}), "head", 10));
  g.output("swapped", g.concat({patches, token}, 1));
}

} // namespace kfuse::test
