// What a preparation computes, told apart by how it is computed: programs that prepare the same share it.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace kfuse::tuner {

/// A key of each result of @prepare: equal where the same ops compute it from parameters of the same names, whatever
/// kernels they are part of.
std::vector<std::string> preparedKeys(mlir::func::FuncOp prepare);

} // namespace kfuse::tuner
