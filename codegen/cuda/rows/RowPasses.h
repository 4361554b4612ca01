// How a region with row reductions passes over its rows.
#pragma once

#include "codegen/cuda/text/ChunkPrinter.h"

namespace kfuse::codegen::cuda {

/// Where the operands that several passes need stay between them. With Stream, in shared memory where the next row
/// arrives meanwhile.
enum class RowStorage : int64_t { Reload = 0, Registers = 1, Shared = 2, Stream = 3 };

/// The struct of device/base/reduce.cuh that computes a reduction; "" for one that none does.
llvm::StringRef reductionTypeName(llvm::StringRef function);

/// A sum of squared differences between values and their mean, as a variance has it. Where the mean is not large beside
/// them it is sum(value^2) - mean * sum(value), and known a pass earlier.
struct Spread {
  ir::Scalar reduction, sum, mean, value;
};

/// One pass over the row for each stage of reductions, one more for results per element: softmax takes
/// three, for its maximum, its sum and its result. The same for every config.
struct RowPasses {
  std::vector<std::vector<ir::Scalar>> reductions; ///< Per pass: Reduce nodes it computes.
  std::vector<unsigned> elementOutputs, rowOutputs;
  std::vector<ir::Scalar> elementValues;
  std::vector<Spread> spreads; ///< Those of passes that compute nothing else, of sums of the pass before.

  explicit RowPasses(const LinearGraph &graph);
  size_t count() const { return reductions.size() + !elementOutputs.empty(); }
  /// Whether what this pass computes is mostly known a pass earlier.
  bool isOfSpreads(size_t number) const;
  /// Passes that must end before a node is known.
  size_t passesBefore(ir::Scalar s) const { return stage[static_cast<size_t>(s.id)]; }
  /// Nodes that pass `number` evaluates at each column.
  std::vector<ir::Scalar> roots(const LinearGraph &graph, size_t number) const;

private:
  std::vector<size_t> stage; ///< passesBefore of each node.
};

/// Nodes without columns that `roots` use, not counting those behind `given` values: values of the whole row, computed
/// before the pass.
std::vector<ir::Scalar> rowValues(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> roots,
                                  llvm::ArrayRef<ir::Scalar> given = {});

/// Reductions that `roots` use, those that others read first, not counting those behind `given` values and inside
/// symbols.
std::vector<ir::Scalar> reductionsOf(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> roots,
                                     llvm::ArrayRef<ir::Scalar> given = {});

/// Which loads stay between passes, and which belong to one.
struct RowLoads {
  std::vector<ir::Scalar> kept;
  std::vector<std::vector<ir::Scalar>> own; ///< Per pass.

  RowLoads(const LinearGraph &graph, const RowPasses &passes, const ChunkPrinter &chunk, RowStorage storage);
};

} // namespace kfuse::codegen::cuda
