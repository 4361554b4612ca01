// The dialect's text for regions that tests make.
#pragma once

#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {

/// "tensor<4x8xbf16>" for ("4x8", "bf16").
std::string tensor(const std::string &shape, const std::string &type);

/// That of a matrix, which lies in memory transposed or not.
std::string matrixType(int rows, int columns, bool transposed, const std::string &type);

/// The attributes of a matmul.
std::string flagsOf(bool transposeA, bool transposeB);

/// A function of a, b, ... of the given types with the given body, which defines %r.
std::string function(const std::vector<std::string> &arguments, const std::string &result, const std::string &body);

/// One op of one operand.
TemplateCase unary(const std::string &op, const std::string &shape, const std::string &type);

/// A product of two matrices alone.
TemplateCase matmul(int m, int n, int k, bool transposeA, bool transposeB, const std::string &type);

} // namespace kfuse::test
