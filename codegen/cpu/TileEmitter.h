// Writes the values of a tile of the iteration space as one linalg.generic.
#pragma once

#include "codegen/cpu/Kernel.h"
#include "codegen/cpu/ScalarText.h"
#include "codegen/cpu/TileAccess.h"

#include <map>

namespace kfuse::codegen::cpu {

/// Memory that holds a value for every point of a tile: dimension i of the view is tile dimension
/// `dims[i]`. Tile dimensions that are not named have the same value everywhere.
struct TileView {
  View view;
  llvm::SmallVector<unsigned, 2> dims;
  DType type = DType::F32; ///< As stored.
};

/// A value's destination. With `reduction`, what is there is combined with the value.
struct TileStore {
  ir::Scalar value;
  TileView to;
  std::string_view reduction{};
};

/// One tile. What is the same for all its points (scalars: loads that do not move, gathered positions,
/// finished reductions) is computed before the linalg.generic; what moves linearly becomes strided
/// operands; loads that move otherwise are staged through a small buffer, element by element.
class TileEmitter {
public:
  /// `base` names the tile's first point: an SSA value per domain dimension ("" where none is needed).
  TileEmitter(Kernel &kernel, Names base, llvm::ArrayRef<TileDim> tile)
      : kernel(kernel), text(kernel.text), scalarText(kernel), base(std::move(base)), tile(tile) {}
  /// A tile inside this one's scope, which knows the same scalars.
  TileEmitter inner(Names innerBase, llvm::ArrayRef<TileDim> innerTile) const;

  /// The node has this value, the same at every point.
  void bind(ir::Scalar node, std::string value) { scalars[node.id] = std::move(value); }
  /// The node's values are in this memory already.
  void bind(ir::Scalar node, TileView view) { views[node.id] = std::move(view); }

  /// The SSA value of a node that does not vary in the tile.
  std::string scalar(ir::Scalar node);
  /// The same of an integer, as an index.
  std::string index(ir::Scalar node);
  bool varies(ir::Scalar node) const;

  /// Computes and stores values.
  void store(llvm::ArrayRef<TileStore> stores);
  /// Computes outputs of the region and stores them where they belong; of a tile without dimensions,
  /// its one element.
  void storeOutputs(llvm::ArrayRef<unsigned> outputs);

private:
  /// A point of the tile, which knows what memory holds of it.
  TileEmitter atPoint(const Names &point, const Names &steps);

  struct Body;
  struct Reciprocal;

  const ir::ScalarNode &node(ir::Scalar s) const { return kernel.graph[s]; }
  bool dependsOnTile(mlir::AffineExpr expr) const;
  bool readsView(ir::Scalar node) const;
  Names symbolNames(llvm::ArrayRef<ir::Scalar> symbols);
  /// An i1 that is true where all guards hold; "" for none.
  std::string conditionOf(llvm::ArrayRef<ir::Guard> guards, const Names &symbols);
  std::string scalarLoad(const ir::ScalarNode &load);
  std::string scalarNode(const ir::ScalarNode &node);

  std::optional<TileView> stridedView(const View &flat, DType type, mlir::AffineExpr offset, const Names &symbols,
                                      const std::string &condition, bool bypassesCache = false);
  /// Memory of the frame for a value at every point.
  TileView buffer(DType type);
  /// The values of a node that only element by element access reaches, gathered in a buffer.
  TileView stage(ir::Scalar node);
  void forEachPoint(llvm::function_ref<void(const Names &point, const Names &steps)> body);
  void scatter(unsigned output, const TileView &from);
  void storeScalar(unsigned output);

  void prepare(ir::Scalar node, Body &body);
  void stageWhereNoOperandSpans(llvm::ArrayRef<TileStore> stores, Body &body);
  void prepareLoad(ir::Scalar node, Body &body);
  bool isDividedByScalar(const ir::ScalarNode &node) const;
  Reciprocal reciprocalOf(ir::Scalar divisor);
  std::string inBody(ir::Scalar node, Body &body);

  Kernel &kernel;
  KernelText &text;
  ScalarText scalarText;
  Names base;
  llvm::SmallVector<TileDim, 2> tile;
  std::map<int, std::string> scalars;
  std::map<int, TileView> views;
};

} // namespace kfuse::codegen::cpu
