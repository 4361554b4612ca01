// The layers that the blocks share. A layer's parameters are `name`.weight and `name`.bias.
#pragma once

#include "kfuse/graph.h"

#include <cstdint>
#include <string>

namespace kfuse::examples {

enum class Bias : bool { No, Yes };

/// x W^T + b with W [outputs, inputs], as torch.nn.Linear keeps it.
Tensor linear(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t inputs, std::int64_t outputs,
              Bias bias = Bias::Yes);

/// x W + b with W [inputs, outputs], as GPT-2's checkpoints keep it.
Tensor projection(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t inputs, std::int64_t outputs);

Tensor geluTanh(GraphBuilder &g, const Tensor &x);
Tensor layerNorm(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t size);
Tensor rmsNorm(GraphBuilder &g, const Tensor &x, const std::string &name, std::int64_t size);

/// softmax(q k^T / sqrt(headSize), -infinity where `mask` is false) v. q: [..., M, headSize], k and v:
/// [..., S, headSize]; the mask broadcasts against [..., M, S].
Tensor attention(GraphBuilder &g, const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask,
                 std::int64_t headSize);

/// [tokens, tokens]: whether the row's token may see the column's.
Tensor causalMask(GraphBuilder &g, std::int64_t tokens);

} // namespace kfuse::examples
