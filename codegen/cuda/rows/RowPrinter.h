// Prints passes over one row.
#pragma once

#include "codegen/cuda/rows/RowPasses.h"

namespace kfuse::codegen::cuda {

/// The statements of a row's passes, in a function that has a `Row` (device/rows/rows.cuh) called row: what several
/// passes need comes to `cache` first, each reduction leaves its total in a variable, and the last pass computes
/// elements.
class RowPrinter {
public:
  static constexpr int64_t chunksInFlight = 4;

  /// `config` names the struct that `writeConfig` writes; `names` are those of the dimensions. The graph, the passes
  /// and the writer must outlive the printer.
  RowPrinter(const LinearGraph &graph, const RowPasses &passes, RowStorage storage, int64_t vector, std::string config,
             llvm::ArrayRef<std::string> names, SourceWriter &writer);

  const ChunkPrinter &chunks() const { return chunk; }
  const std::vector<ir::Scalar> &kept() const { return loads.kept; }
  /// Name of the first column of a chunk.
  const std::string &columnName() const { return names[columnDim]; }

  void writeConfig(int64_t threads, int64_t rows, int64_t cluster, int64_t rowCount);
  /// Ends `struct Operands` of what is kept; asserts its size, on which a launch's shared memory rests.
  void declareKept();
  /// Declares `cache` and fills it, if anything is kept.
  void writeCache(const ValuePrinter &scope);
  /// With spreads of the next pass, which then has nothing to print.
  void writeReductions(ValuePrinter &scope, size_t pass);
  /// The pass behind all reductions: y<i> of each element output, then what `after` prints.
  void writeElements(ValuePrinter &scope, llvm::function_ref<void(ValuePrinter &)> after);

private:
  void writeLanes();
  void writeOperands(const ValuePrinter &scope, size_t pass);
  void writeFetch(const ValuePrinter &scope, size_t totalsOf);
  void writePartials(ValuePrinter &scope, size_t pass, llvm::ArrayRef<Spread> spreads);
  void writeTotals(ValuePrinter &scope, size_t pass, llvm::ArrayRef<Spread> spreads);
  void writeSpread(ValuePrinter &scope, size_t pass, const Spread &spread);
  bool dividesElements(ir::Scalar value) const;
  void writePass(ValuePrinter &scope, size_t pass, llvm::function_ref<void(ValuePrinter &)> body,
                 llvm::function_ref<void(ValuePrinter &)> after);

  const LinearGraph &graph;
  const RowPasses &passes;
  RowStorage storage;
  int64_t vector;
  std::string config;
  bool ranks; ///< An element is computed in the same way each time (codegen/Ranking.h).
  unsigned columnDim;
  ChunkPrinter chunk;
  RowLoads loads;
  llvm::SmallVector<std::string> names;
  SourceWriter &writer;
  bool isShared = false;  ///< Whether the blocks of a cluster share a row.
  bool isFetched = false; ///< The first operands of the elements' pass are called `ahead`.
};

} // namespace kfuse::codegen::cuda
