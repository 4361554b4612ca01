// Regions to measure, as text of one function.
#pragma once

#include "kfuse/types.h"

#include <string>

namespace kfuse::bench {

struct Case {
  std::string name, text;
};

/// y[M,N] = x[M,K] w, where w is stored [N,K] if `transposed`, else [K,N].
Case matmul(DType type, std::int64_t M, std::int64_t N, std::int64_t K, bool transposed);

/// One op on `operands` tensors of one type.
Case op(const std::string &name, const std::string &shape, const std::string &type, int operands,
        const std::string &attributes = "");

/// RMS or layer norm with weights over the last dimension.
Case norm(const std::string &name, const std::string &rows, const std::string &columns, const std::string &type);

Case columnSum(const std::string &rows, const std::string &columns, const std::string &type);
Case transpose(const std::string &rows, const std::string &columns, const std::string &type);

} // namespace kfuse::bench
