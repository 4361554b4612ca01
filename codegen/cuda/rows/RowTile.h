// Which tensors of a region with row reductions move as whole rows of a block.
#pragma once

#include "codegen/cuda/text/Kernel.h"

namespace kfuse::codegen::cuda {

/// The tensors whose rows a block holds in shared memory (device/rows/row_tile.cuh): those that are read and written
/// row by row and densely, so that the rows of a block are one piece of memory. A result takes the place of an operand
/// as wide as itself: an element is read, by the thread that writes it, before it is written.
class RowTile {
public:
  explicit RowTile(const LinearGraph &graph);

  bool isEmpty() const { return held.empty(); }
  /// Whether tiles of so many rows are whole pieces of 16 bytes of each tensor, so that the next one begins aligned.
  bool isWhole(int64_t rows) const;
  /// Shared memory of a tile of so many rows.
  int64_t bytesOf(int64_t rows) const { return rows * bytesOfRow; }
  bool holds(BufferName buffer) const { return find(buffer) != nullptr; }
  /// How often the banks of shared memory take turns when a warp reads vectors of so many columns, `threads` of each
  /// row; of the widest tensor.
  double bankTurns(int64_t threads, int64_t vector) const;

  /// Members of the struct that works on a row, called as its statements call them: of what is held, a `HeldRow`.
  void writeMembers(SourceWriter &writer) const;
  /// The entry's statements: `Body`, such a struct, works on each row of a tile.
  void writeEntry(SourceWriter &writer, int64_t rows, int64_t rowsEach) const;

private:
  struct Held {
    BufferName buffer;
    DType type;
    int64_t place; ///< What lies in front of it, in bytes of a row.
  };
  const Held *find(BufferName buffer) const;
  static std::string nameOf(BufferName buffer) { return "tile_" + buffer.str(); }
  bool isDense(mlir::AffineExpr offset) const;
  bool isReadByRows(unsigned input) const;

  const LinearGraph &graph;
  std::vector<BufferName> buffers; ///< All, in the order of members.
  std::vector<Held> held;
  int64_t columns, bytesOfRow = 0;
};

} // namespace kfuse::codegen::cuda
