// Model blocks as graphs: what kfuse is tuned and tested on.
//
// They carry shapes. Weights are parameters, named and laid out as the models' checkpoints have them;
// the caller gives their values. The input is "x", the output "y".
#pragma once

#include "kfuse/graph.h"

#include <cstdint>

namespace kfuse::examples {

//===- Classification heads ------------------------------------------------------------------===//

/// x [batch, hidden] through `layers` of Linear + ReLU, then Linear(hidden, 2).
Result<Graph> linearHead(std::int64_t batch, std::int64_t layers = 20, std::int64_t hidden = 1024,
                         DType type = DType::BF16);

/// `heads` linear heads of one x as batched products. y: [heads, batch, 2].
Result<Graph> stackedHeads(std::int64_t batch, std::int64_t heads = 5, std::int64_t layers = 20,
                           std::int64_t hidden = 1024, DType type = DType::BF16);

/// x [batch, hidden] at each of `positions`, through layers - 1 of Linear + LayerNorm + ReLU; the first
/// position goes through Linear(hidden, 2).
Result<Graph> seqLenHead(std::int64_t batch, std::int64_t positions = 128, std::int64_t layers = 20,
                         std::int64_t hidden = 1024, DType type = DType::BF16);

//===- Feed-forward --------------------------------------------------------------------------===//

/// LayerNorm(Linear(GELU(Linear(x)))) with x [rows, d] and `f` channels inside; GELU by tanh.
Result<Graph> ffn(std::int64_t rows, std::int64_t d = 4096, std::int64_t f = 16384, DType type = DType::BF16);

/// LayerNorm(GELU(x W + b)) with x [rows, d]; GELU by tanh.
Result<Graph> lnGelu(std::int64_t rows, std::int64_t d = 4096, DType type = DType::BF16);

//===- Transformer blocks --------------------------------------------------------------------===//

/// x [batch, tokens, d]: LayerNorm, causal self-attention from one product for q, k and v, LayerNorm,
/// 4 d wide MLP with GELU by tanh; a residual around each half. Radford et al., 2019.
Result<Graph> gpt2Block(std::int64_t batch, std::int64_t tokens, std::int64_t d = 768, std::int64_t heads = 12,
                        DType type = DType::BF16);

/// Llama-3.1-8B's unless told otherwise. `keyHeads` divides `queryHeads`.
struct LlamaDims {
  std::int64_t d = 4096;
  std::int64_t queryHeads = 32;
  std::int64_t keyHeads = 8;
  std::int64_t headSize = 128;
  std::int64_t hidden = 14336;
};

/// x [batch, tokens, d]: RMSNorm, rotary embedding, causal grouped-query attention, RMSNorm, SwiGLU; a
/// residual around each half. Touvron et al., 2023. Parameters "cos" and "sin" [tokens, headSize / 2]
/// hold the rotary angles of each position. With more than one layer, each one's names begin "layers.N.".
Result<Graph> llamaPrefill(std::int64_t batch, std::int64_t tokens, const LlamaDims &dims = {},
                           DType type = DType::BF16, std::int64_t layers = 1);

/// The same block for one token of each sequence, x [batch, 1, d], after position [batch] (i64) others.
/// States "k_cache" and "v_cache" [batch, keyHeads, cacheLength, headSize] get the token's key and value
/// at its position, in place, and are read up to it; what lies behind must be finite (zeros at first).
/// "cos" and "sin" are tables [cacheLength, headSize / 2].
Result<Graph> llamaDecode(std::int64_t batch, std::int64_t cacheLength, const LlamaDims &dims = {},
                          DType type = DType::BF16, std::int64_t layers = 1);

} // namespace kfuse::examples
