#include "examples/blocks/Blocks.h"
#include "examples/blocks/Layers.h"

namespace kfuse::examples {

Result<Graph> gpt2Block(std::int64_t batch, std::int64_t tokens, std::int64_t d, std::int64_t heads, DType type) {
  if (heads < 1 || d % heads != 0)
    return Error{ErrorCode::Usage, "gpt2Block: " + std::to_string(d) + " channels do not divide into " +
                                       std::to_string(heads) + " heads; give a multiple"};
  const std::int64_t headSize = d / heads;
  GraphBuilder g;
  Tensor x = g.input("x", type, {batch, tokens, d});

  Tensor qkv = projection(g, layerNorm(g, x, "ln_1", d), "attn.c_attn", d, 3 * d);
  auto third = [&](std::int64_t i) { // [batch, heads, tokens, headSize] of q, k or v.
    Tensor part = g.slice(qkv, {0, 0, i * d}, {batch, tokens, d});
    return g.transpose(g.reshape(part, {batch, tokens, heads, headSize}), {0, 2, 1, 3});
  };
  Tensor q = third(0), k = third(1), v = third(2);
  Tensor seen = attention(g, q, k, v, causalMask(g, tokens), headSize);
  Tensor merged = g.reshape(g.transpose(seen, {0, 2, 1, 3}), {batch, tokens, d});
  x = g.add(x, projection(g, merged, "attn.c_proj", d, d));

  Tensor h = geluTanh(g, projection(g, layerNorm(g, x, "ln_2", d), "mlp.c_fc", d, 4 * d));
  g.output("y", g.add(x, projection(g, h, "mlp.c_proj", 4 * d, d)));
  return g.build();
}

} // namespace kfuse::examples
