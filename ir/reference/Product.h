// Blocked matrix products on the host.
#pragma once

#include "ir/reference/Tensor.h"

#include <cstdint>
#include <vector>

namespace kfuse::reference {

/// Matrices in memory, one per batch index: element (i, j) of matrix b lies at
/// data[offsets[b] + i * rowStride + j * columnStride].
struct MatrixBatch {
  const Number *data = nullptr;
  std::vector<std::int64_t> offsets;
  std::int64_t rowStride = 0;
  std::int64_t columnStride = 0;
};

/// a (batch x M x K) times b (batch x K x N), dense batch x M x N, on all cores. Accumulates in
/// `Accumulator`: double or float.
template <class Accumulator>
std::vector<Number> product(const MatrixBatch &a, const MatrixBatch &b, std::int64_t m, std::int64_t n, std::int64_t k);

extern template std::vector<Number> product<double>(const MatrixBatch &, const MatrixBatch &, std::int64_t,
                                                    std::int64_t, std::int64_t);
extern template std::vector<Number> product<float>(const MatrixBatch &, const MatrixBatch &, std::int64_t, std::int64_t,
                                                   std::int64_t);

} // namespace kfuse::reference
