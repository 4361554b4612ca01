// The oracle: what a graph computes, in f64 and in plain C++ that shares nothing with code generation.
#pragma once

#include "ir/reference/Tensor.h"
#include "kfuse/error.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mlir {
class Block;
class Operation;
} // namespace mlir

namespace kfuse::reference {

/// - Exact: floats are f64 from the inputs as stored to the results; casts between float types keep
///   them so. Integers are exact.
/// - RoundEachOp: the result of every op is rounded to its tensor's type, and matrix products and
///   row reductions accumulate in f32, as a framework does that fuses nothing.
/// - Shaken: as Exact, and every result of an elementwise op errs at random, by up to its type's tolerance.
/// In all, integer arithmetic wraps: it counts modulo 2^32 or 2^64. What is divided by zero gives 0, as its
/// remainder does. A float that becomes an integer saturates, NaN becomes 0.
enum class Mode : std::uint8_t { Exact, RoundEachOp, Shaken };

/// The results of a block: a function's body, or a region's. `arguments` are its arguments in order.
/// Uses all cores. BadModel for an op that has no reference, Usage for arguments that do not fit.
Result<std::vector<Values>> evaluate(mlir::Block &block, std::span<const HostTensor> arguments, Mode mode);

/// The one result of `op` from its operands, rounded to its type: constant folding.
Result<HostTensor> evaluateOp(mlir::Operation *op, std::span<const HostTensor> operands);

/// Elements of one result of a block at row-major offsets, computing only what they need: a product
/// costs a dot product each, a row reduction its row. Returned with the shape {offsets.size()}. `bytes` of an argument
/// that repeats itself may hold the first elements alone. `seed` says which errors Mode::Shaken makes.
Result<Values> evaluateAt(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result,
                          std::span<const std::int64_t> offsets, Mode mode, std::uint64_t seed = 0);

/// Whether the evaluator knows the op of this name ("kfuse.add").
bool hasReference(std::string_view opName);

} // namespace kfuse::reference
