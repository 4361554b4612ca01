// An ONNX model with its weights in few bits, rounded to the nearest.
#pragma once

#include "kfuse/error.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kfuse::ir {

struct RoundingOptions {
  std::int64_t bits = 4;    ///< 4 or 8.
  std::int64_t group = 128; ///< Elements of K that share a scale: a power of two, 16 or more.
  bool symmetric = false;   ///< No zeros: codes lie around 2^(bits - 1).
};

/// What rounding did to the weights of one product.
struct RoundedLayer {
  std::string node;
  std::int64_t n = 0, k = 0;
  double error = 0; ///< Relative, L2 norms over the matrix.
};

/// Writes `from` as `to`, with com.microsoft.MatMulNBits in place of each MatMul, and each Gemm that is one with a
/// bias, whose right operand is an initializer of floats of two dimensions. Usage for options that are none; BadModel
/// for a file without such products; Io. A model of more than 1 GiB keeps its data in a file of its own, `to` with
/// ".data".
Result<std::vector<RoundedLayer>> roundWeights(const std::filesystem::path &from, const std::filesystem::path &to,
                                               const RoundingOptions &options);

} // namespace kfuse::ir
