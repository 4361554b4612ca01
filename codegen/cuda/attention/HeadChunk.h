// How eight neighbouring elements of a head come about in a kernel of attention: queries, and new rows of a cache.
#pragma once

#include "codegen/cuda/text/ChunkPrinter.h"

#include <string>

namespace kfuse::codegen::cuda {

/// Why `root`, an element of a row along `dim`, is not computed with what it needs of the whole row, or "".
std::string whyNotRow(const LinearGraph &graph, ir::Scalar root, unsigned dim, const std::string &what);

/// Prints parts of a kernel's body: a struct WHATOperands of what the elements of `root` along `dim` are computed from,
/// functions that load some of it, and one, makeWHAT, that computes and stores them. Where they need totals of the head
/// (a norm's), its parameter `lanes` are those that have the rest of the head (device/rows/row_lanes.cuh).
class HeadChunk {
public:
  using MakeScope = llvm::function_ref<ValuePrinter()>;

  /// `index` are the parameters that say which row: "Index pair, int row".
  HeadChunk(SourceWriter &writer, const LinearGraph &graph, unsigned dim, ir::Scalar root, std::string what,
            const std::string &index);

  const std::vector<ir::Scalar> &loads() const { return all; }
  /// `more` is a field of the caller's, or "".
  void writeOperands(const std::string &more = "");
  /// `first` is printed before the loads.
  void writeLoad(
      const std::string &name, llvm::ArrayRef<ir::Scalar> loads, MakeScope makeScope,
      llvm::function_ref<void(ValuePrinter &)> first = [](ValuePrinter &) {});
  /// Prints the function that makes the elements and loads the rest of `loads` first.
  void writeMake(llvm::ArrayRef<ir::Scalar> loads, MakeScope makeScope);

private:
  void writeTotals(ValuePrinter &scope);

  SourceWriter &writer;
  const LinearGraph &graph;
  ir::Scalar root;
  std::string what, parameters;
  ChunkPrinter chunk;
  std::vector<ir::Scalar> all, reductions;
};

} // namespace kfuse::codegen::cuda
