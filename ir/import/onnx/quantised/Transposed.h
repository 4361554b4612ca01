// A matrix of a file with its rows as columns.
#pragma once

#include "ir/import/Model.h"

namespace kfuse::ir::onnx {

/// The transposed matrix, of any type; integers of 4 bits again in rows of whole bytes.
ParameterData transposed(const ParameterData &matrix);

} // namespace kfuse::ir::onnx
