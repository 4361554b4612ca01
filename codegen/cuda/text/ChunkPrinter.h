// Prints the work on one chunk of points: vector loads, one loop over its lanes, vector stores.
#pragma once

#include "codegen/cuda/text/ValuePrinter.h"

namespace kfuse::codegen::cuda {

/// A chunk is `vector` neighbouring points along dimension `dim`, from a multiple of `vector` on. The
/// last chunk of a row is `partial` when the extent is no multiple: the variable `lanes` counts its points.
///
/// Each load gets the widest access its address allows: one vector where it is dense and aligned,
/// one element where the whole chunk shares it, else a gather by lane.
class ChunkPrinter {
public:
  ChunkPrinter(const LinearGraph &graph, unsigned dim, int64_t vector);

  bool isPartial() const { return partial; }
  /// How many times more bytes than it uses a load moves when `neighbours` lanes next to each other
  /// read along dimension 0..dim-1 instead: 1 for vectors, up to 32-byte sectors for single elements.
  double sectorWaste(const ir::ScalarNode &load, int64_t neighbours) const;
  /// Loads that `roots` need, in order, not counting those behind `given` values and inside symbols.
  std::vector<ir::Scalar> loadsOf(llvm::ArrayRef<ir::Scalar> roots, llvm::ArrayRef<ir::Scalar> given = {}) const;

  /// Elements that each access of a load may hold where the chunk is dense; 0 where it is not.
  int64_t vectorAlignment(ir::Scalar load) const;
  /// The same of the stores of an output.
  int64_t storeAlignment(unsigned number) const;
  /// Whether every output is stored in vectors of the whole chunk.
  bool storesWholeVectors() const;

  /// Declares a variable or field v<id> for each load: `Vector<bf16, 8> v3;`.
  void declare(SourceWriter &writer, llvm::ArrayRef<ir::Scalar> loads) const;
  /// sizeof a struct of what `declare` writes.
  int64_t bytesOf(llvm::ArrayRef<ir::Scalar> loads) const;
  /// Whether loaded elements are computed with next, or put elsewhere as they are.
  enum class Use { Computed, Moved };
  /// Fills them: `x.v3 = loadVector<8, 8>(in0 + ...);` for the prefix "x.".
  void load(ValuePrinter scope, llvm::ArrayRef<ir::Scalar> loads, llvm::StringRef prefix,
            Use use = Use::Computed) const;
  /// Fills variables of `declare` from others in shared memory.
  void read(SourceWriter &writer, llvm::ArrayRef<ir::Scalar> loads, llvm::StringRef prefix,
            llvm::StringRef fromPrefix) const;
  /// The text of a load's stored element at lane j: "x.v3[j]", or "x.v3" where the chunk shares it.
  std::string element(ir::Scalar load, llvm::StringRef prefix) const;
  /// Starts copies to shared memory instead; each load must be one aligned access of 4, 8 or 16 bytes.
  void startCopies(ValuePrinter scope, llvm::ArrayRef<ir::Scalar> loads, llvm::StringRef prefix) const;
  bool canCopy(ir::Scalar load) const;
  /// A loop over the lanes j, `body` printing inside with every load read from its variable.
  void lanes(const ValuePrinter &scope, std::function<std::string(ir::Scalar)> prefixOf,
             llvm::function_ref<void(ValuePrinter &)> body) const;
  /// Stores the lanes of y<number> as output `number`.
  void store(ValuePrinter &scope, unsigned number) const;
  /// Computes `results`, all outputs in order, and stores them. What that loads, `loads`, comes first.
  void storeResults(ValuePrinter scope, llvm::ArrayRef<ir::Scalar> results, llvm::ArrayRef<ir::Scalar> loads) const;

private:
  struct Access {
    enum class Kind { Vector, Uniform, Gather } kind;
    int64_t alignment = 1; ///< In elements, of a Vector.
  };
  Access access(mlir::AffineExpr offset, llvm::ArrayRef<ir::Guard> guards, llvm::ArrayRef<ir::Scalar> symbols) const;
  Access access(ir::Scalar load) const;
  std::string vectorArguments(int64_t alignment, llvm::StringRef more = "") const;
  std::string laneName(const ValuePrinter &scope) const;
  void forEachLane(SourceWriter &writer, llvm::function_ref<void()> body) const;
  void gather(const ValuePrinter &scope, ir::Scalar load, llvm::StringRef variable) const;

  const LinearGraph &graph;
  unsigned dim;
  int64_t vector;
  bool partial;
};

} // namespace kfuse::codegen::cuda
