// Regions to measure, as text of one function.
#pragma once

#include "kfuse/types.h"

#include <string>
#include <vector>

namespace kfuse::bench {

struct Case {
  std::string name, text;
};

/// y[M,N] = x[M,K] w, where w is stored [N,K] if `transposed`, else [K,N].
Case matmul(DType type, std::int64_t M, std::int64_t N, std::int64_t K, bool transposed);

/// x[M,K] w[N,K]^T in bf16 with "bias_gelu", "residual", or "swiglu": silu(x w^T) * (x e^T).
Case matmulWith(const std::string &epilogue, std::int64_t M, std::int64_t N, std::int64_t K);

/// One op on `operands` tensors of one type.
Case op(const std::string &name, const std::string &shape, const std::string &type, int operands,
        const std::string &attributes = "");

/// RMS or layer norm with weights over the last dimension.
Case norm(const std::string &name, const std::string &rows, const std::string &columns, const std::string &type);

/// x + residual and its RMS norm, both written.
Case addRmsNorm(const std::string &rows, const std::string &columns, const std::string &type);
/// silu(x) * y.
Case swiglu(const std::string &rows, const std::string &columns, const std::string &type);
/// Rotary embedding of [batch, heads, tokens, size].
Case rope(const std::string &batch, const std::string &heads, const std::string &tokens, const std::string &size,
          const std::string &type);
/// `rows` rows of a table of 65536, at random.
Case gatherRows(const std::string &rows, const std::string &columns, const std::string &type);
/// [a, b, c, d] -> [a, c, d, b].
Case transposeInner(const std::string &a, const std::string &b, const std::string &c, const std::string &d,
                    const std::string &type);

/// What the memory-bound templates are judged by: 256 MB and more moved; 32 to 128 MB; rows of 131072.
std::vector<Case> memoryBoundCases();
/// softmax and norms of rows of 33 to 300 elements, 128 MB moved.
std::vector<Case> shortRowCases();

/// Queries, keys and values of [heads, rows, size], and what an attention is made of where no kernel takes it whole:
/// its masked scores, their softmax and the sums of values.
struct AttentionCases {
  Case whole;
  std::vector<Case> parts;
};
AttentionCases attention(int64_t heads, int64_t rows, int64_t size, const std::string &type, bool isCausal);

/// One query row of each of 32 heads against a cache of `keys` keys of 8 heads, heads of 128.
Case decodeAttention(const std::string &batch, const std::string &keys);

/// `count` layers relu(x w + b) of rows x width in bf16 and a last one of `last` columns, as one chain; of `heads`
/// heads with weights [heads, K, N], or of one with weights [N, K].
Case layers(int count, int heads, int rows, int width, int last);

Case columnSum(const std::string &rows, const std::string &columns, const std::string &type);
Case transpose(const std::string &rows, const std::string &columns, const std::string &type);

} // namespace kfuse::bench
