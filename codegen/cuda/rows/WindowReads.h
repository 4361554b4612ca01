// The text by which a thread reads what its windows reduce.
#pragma once

#include "codegen/cuda/rows/WindowTiles.h"
#include "codegen/cuda/text/ChunkPrinter.h"

namespace kfuse::codegen::cuda {

/// Prints operands' elements of a row of taps: as they are loaded, and as values.
class WindowReads {
public:
  /// `first` names a tile's first point: its results, row of taps, tap and position. A strip ends behind `lanes`
  /// results where the last `isPartial`.
  WindowReads(const WindowProblem &problem, const WindowTiles &tiles, const TileConfig &config,
              const ChunkPrinter &chunk, bool isPartial, llvm::ArrayRef<std::string> first, SourceWriter &writer)
      : problem(problem), tiles(tiles), config(config), graph(problem.graph), chunk(chunk), isPartial(isPartial),
        first(first), writer(writer) {}

  std::string nameOf(const WindowOperand &operand) const { return "v" + std::to_string(operand.load.id); }
  /// Channels of an operand that a thread holds.
  int64_t widthOf(const WindowOperand &operand) const;

  void declareLoaded(const WindowOperand &operand);
  /// Declares its values.
  void declare(const WindowOperand &operand);
  /// Reads an operand's elements for a row into a member of `prefix`.
  void load(const WindowOperand &operand, const std::string &prefix, llvm::SmallVector<std::string> names);
  /// Makes values of what was loaded.
  void decode(const WindowOperand &operand, const std::string &to, const std::string &from);
  /// The value of one element, straight from memory.
  std::string element(const WindowOperand &operand, llvm::ArrayRef<std::string> names) const;

private:
  /// How an operand's elements lie in registers as they were loaded: `count` vectors of `size` elements, of which the
  /// first begins `lead` elements ahead of the first position.
  struct Pieces {
    int64_t count, size, lead;
    bool areChannels;  ///< Else positions.
    int64_t alignment; ///< In elements; 0 where channels are no neighbours.
    bool areWords;     ///< Two elements in a word, which the compiler takes apart by one instruction each.
    int64_t perWord() const { return areWords ? 2 : 1; }
  };
  Pieces piecesOf(const WindowOperand &operand) const;
  /// The type of a piece's elements.
  std::string typeOf(const WindowOperand &operand, const Pieces &pieces) const;
  /// Elements to which the address of an access to several is aligned; 1 of single ones.
  int64_t alignmentOf(const WindowOperand &operand) const {
    return widthOf(operand) > 1 ? chunk.vectorAlignment(operand.load) : 1;
  }
  int64_t countOf(const WindowOperand &operand) const;
  DType inputType(const WindowOperand &operand) const { return graph.graph.inputs[graph[operand.load].input].type; }
  std::string moved(unsigned dim, llvm::StringRef by) const { return ("(" + first[dim] + " + " + by + ")").str(); }
  std::string access(const WindowOperand &operand, mlir::AffineExpr offset, llvm::ArrayRef<std::string> names,
                     llvm::StringRef type, int64_t width, int64_t alignment, llvm::ArrayRef<std::string> when) const;
  void loadPieces(const WindowOperand &operand, const Pieces &pieces, const std::string &value,
                  llvm::ArrayRef<std::string> names, mlir::AffineExpr offset, llvm::ArrayRef<std::string> when);

  const WindowProblem &problem;
  const WindowTiles &tiles;
  const TileConfig &config;
  const LinearGraph &graph;
  const ChunkPrinter &chunk;
  const bool isPartial;
  const llvm::ArrayRef<std::string> first;
  SourceWriter &writer;
};

/// Opens a loop that is unrolled.
void openUnrolled(SourceWriter &writer, llvm::StringRef name, int64_t count);

} // namespace kfuse::codegen::cuda
