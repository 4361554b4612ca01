// The readers of each format: a layer's tensors as one matrix.
#pragma once

#include "ir/import/checkpoint/Scheme.h"

namespace kfuse::ir::checkpoint {

/// Packed along K; zeros along N; g_idx says to which group each column belongs. Of AutoGPTQ and GPTQModel.
QuantisedMatrix readGptq(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k);
/// Packed along N, eight columns of it in an order of their own: AutoAWQ's "gemm".
QuantisedMatrix readAwq(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k);
/// Packed along K in rows of N, around the middle code: compressed-tensors' "pack-quantized".
QuantisedMatrix readCompressedTensors(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k);
/// Parts of the rows of a matrix of groups in the high and low bits of bytes; zeros are floats.
QuantisedMatrix readHqq(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k);

} // namespace kfuse::ir::checkpoint
