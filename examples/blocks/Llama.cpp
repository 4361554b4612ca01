// Llama decoder blocks, one or a stack: over a whole prompt, and over one token with a cache.
//
// Attention is grouped: dimension keyHeads runs beside dimension `group`, the query heads that share one
// key head, so that no key or value is ever copied per query head.
#include "examples/blocks/Blocks.h"
#include "examples/blocks/Layers.h"

#include <utility>
#include <vector>

namespace kfuse::examples {
namespace {

class LlamaBlocks {
public:
  LlamaBlocks(const LlamaDims &dims, DType type) : dims(dims), type(type), group(dims.queryHeads / dims.keyHeads) {}

  Result<Graph> prefill(std::int64_t batch, std::int64_t tokens, std::int64_t layers) {
    Tensor x = g.input("x", type, {batch, tokens, dims.d});
    Tensor cos = table("cos", tokens), sin = table("sin", tokens);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      beginLayer(layer, layers);
      x = prefillLayer(x, cos, sin, batch, tokens);
    }
    g.output("y", x);
    return g.build();
  }

  Result<Graph> decode(std::int64_t batch, std::int64_t cacheLength, std::int64_t layers) {
    Tensor x = g.input("x", type, {batch, 1, dims.d});
    Tensor position = g.input("position", DType::I64, {batch});
    auto here = [&](const Tensor &angles) { // The angles at each sequence's position.
      return g.reshape(g.gather(angles, position), {batch, 1, 1, dims.headSize / 2});
    };
    Tensor cos = here(table("cos", cacheLength)), sin = here(table("sin", cacheLength));
    std::vector<std::pair<std::string, Tensor>> caches;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      beginLayer(layer, layers);
      x = decodeLayer(x, cos, sin, position, batch, cacheLength, caches);
    }
    g.output("y", x);
    for (const auto &[name, cache] : caches)
      g.output(name, cache);
    return g.build();
  }

private:
  /// One block has its checkpoint's names, a stack has them per layer.
  void beginLayer(std::int64_t layer, std::int64_t layers) {
    prefix = layers == 1 ? "" : "layers." + std::to_string(layer) + ".";
  }

  Tensor prefillLayer(const Tensor &x, const Tensor &cos, const Tensor &sin, std::int64_t batch, std::int64_t tokens) {
    Tensor h = rmsNorm(g, x, prefix + "input_layernorm", dims.d);
    auto heads = [&](const Tensor &rows, std::int64_t perKey) { // [batch, keyHeads, perKey, tokens, headSize]
      Tensor split = g.reshape(rows, {batch, tokens, dims.keyHeads, perKey, dims.headSize});
      return g.transpose(split, {0, 2, 3, 1, 4});
    };
    Tensor q = g.rotary(heads(queries(h), group), cos, sin);
    Tensor k = g.rotary(heads(keys(h), 1), cos, sin);
    Tensor v = heads(values(h), 1);
    Tensor seen = attention(g, q, k, v, causalMask(g, tokens), dims.headSize);
    Tensor merged = g.reshape(g.transpose(seen, {0, 3, 1, 2, 4}), {batch, tokens, dims.queryHeads * dims.headSize});
    return finish(x, merged);
  }

  Tensor decodeLayer(const Tensor &x, const Tensor &cos, const Tensor &sin, const Tensor &position, std::int64_t batch,
                     std::int64_t cacheLength, std::vector<std::pair<std::string, Tensor>> &caches) {
    const Shape cacheShape{batch, dims.keyHeads, cacheLength, dims.headSize};
    Tensor h = rmsNorm(g, x, prefix + "input_layernorm", dims.d);
    auto heads = [&](const Tensor &row, std::int64_t perKey) {
      return g.reshape(row, {batch, dims.keyHeads, perKey, dims.headSize});
    };
    Tensor q = g.rotary(heads(queries(h), group), cos, sin);
    Tensor kRow = g.rotary(heads(keys(h), 1), cos, sin), vRow = heads(values(h), 1);
    Tensor k = g.updateState(g.state(prefix + "k_cache", type, cacheShape), kRow, position, 2);
    Tensor v = g.updateState(g.state(prefix + "v_cache", type, cacheShape), vRow, position, 2);
    Tensor written = g.pointwise("le", {g.iota(DType::I64, {cacheLength}, 0), g.reshape(position, {batch, 1, 1, 1})});
    Tensor seen = attention(g, q, k, v, written, dims.headSize);
    caches.emplace_back(prefix + "k_cache", k);
    caches.emplace_back(prefix + "v_cache", v);
    return finish(x, g.reshape(seen, {batch, 1, dims.queryHeads * dims.headSize}));
  }

  Tensor table(const char *name, std::int64_t positions) {
    return g.parameter(name, type, {positions, dims.headSize / 2});
  }

  Tensor project(const Tensor &h, const std::string &name, std::int64_t heads) {
    return linear(g, h, prefix + "self_attn." + name, dims.d, heads * dims.headSize, Bias::No);
  }
  Tensor queries(const Tensor &h) { return project(h, "q_proj", dims.queryHeads); }
  Tensor keys(const Tensor &h) { return project(h, "k_proj", dims.keyHeads); }
  Tensor values(const Tensor &h) { return project(h, "v_proj", dims.keyHeads); }

  /// What follows attention: the output projection and the SwiGLU MLP.
  Tensor finish(const Tensor &x, const Tensor &seen) {
    Tensor out = linear(g, seen, prefix + "self_attn.o_proj", dims.queryHeads * dims.headSize, dims.d, Bias::No);
    Tensor y = g.add(x, out);
    Tensor h = rmsNorm(g, y, prefix + "post_attention_layernorm", dims.d);
    Tensor gate = g.silu(linear(g, h, prefix + "mlp.gate_proj", dims.d, dims.hidden, Bias::No));
    Tensor up = linear(g, h, prefix + "mlp.up_proj", dims.d, dims.hidden, Bias::No);
    return g.add(y, linear(g, g.mul(gate, up), prefix + "mlp.down_proj", dims.hidden, dims.d, Bias::No));
  }

  LlamaDims dims;
  DType type;
  std::int64_t group; ///< Query heads of one key head.
  std::string prefix; ///< Begins the names of the layer's parameters and states.
  GraphBuilder g;
};

Result<void> check(const LlamaDims &dims) {
  if (dims.keyHeads < 1 || dims.queryHeads % dims.keyHeads != 0)
    return Error{ErrorCode::Usage, "llama: " + std::to_string(dims.queryHeads) + " query heads do not share " +
                                       std::to_string(dims.keyHeads) + " key heads evenly; give a multiple"};
  return {};
}

} // namespace

Result<Graph> llamaPrefill(std::int64_t batch, std::int64_t tokens, const LlamaDims &dims, DType type,
                           std::int64_t layers) {
  if (Result<void> valid = check(dims); !valid)
    return valid.error();
  return LlamaBlocks(dims, type).prefill(batch, tokens, layers);
}

Result<Graph> llamaDecode(std::int64_t batch, std::int64_t cacheLength, const LlamaDims &dims, DType type,
                          std::int64_t layers) {
  if (Result<void> valid = check(dims); !valid)
    return valid.error();
  return LlamaBlocks(dims, type).decode(batch, cacheLength, layers);
}

} // namespace kfuse::examples
