#include "codegen/cpu/TileAccess.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace kfuse::codegen::cpu {
namespace {

/// What is known of a value: it is `rest` modulo `modulus`; modulus 0 means exactly `rest`.
struct Residue {
  int64_t modulus;
  int64_t rest;
};

Residue reduced(int64_t modulus, int64_t rest) {
  return {modulus, modulus ? ((rest % modulus) + modulus) % modulus : rest};
}

Residue residueAtBase(AffineExpr expr, ArrayRef<TileDim> tile) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return {0, constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    for (const TileDim &tiled : tile)
      if (tiled.dim == dim.getPosition())
        return {tiled.alignment, 0};
    return {1, 0};
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return {1, 0};
  Residue lhs = residueAtBase(binary.getLHS(), tile), rhs = residueAtBase(binary.getRHS(), tile);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return reduced(std::gcd(lhs.modulus, rhs.modulus), lhs.rest + rhs.rest);
  case AffineExprKind::Mul:
    return rhs.modulus == 0 ? reduced(lhs.modulus * std::abs(rhs.rest), lhs.rest * rhs.rest) : Residue{1, 0};
  case AffineExprKind::Mod:
    return rhs.modulus == 0 ? reduced(std::gcd(lhs.modulus, rhs.rest), lhs.rest) : Residue{1, 0};
  case AffineExprKind::FloorDiv:
    if (rhs.modulus == 0 && lhs.modulus % rhs.rest == 0 && lhs.rest >= 0)
      return reduced(lhs.modulus / rhs.rest, lhs.rest / rhs.rest);
    return {1, 0};
  default:
    return {1, 0};
  }
}

/// Largest value above the base in the tile; nothing when strides go down.
std::optional<int64_t> spanOf(const TileIndex &index, ArrayRef<TileDim> tile) {
  int64_t span = 0;
  for (auto [stride, dim] : llvm::zip_equal(index.strides, tile)) {
    if (stride < 0)
      return std::nullopt;
    span += stride * (dim.size - 1);
  }
  return span;
}

/// Whether the index stays between two neighbouring multiples of `by` over the whole tile.
bool staysWithin(const TileIndex &index, int64_t by, ArrayRef<TileDim> tile) {
  std::optional<int64_t> span = spanOf(index, tile);
  Residue base = residueAtBase(index.base, tile);
  int64_t unit = std::gcd(base.modulus, by);
  return span && reduced(unit, base.rest).rest + *span < unit;
}

std::optional<TileIndex> linearQuotient(const TileIndex &index, AffineExprKind kind, int64_t by,
                                        ArrayRef<TileDim> tile) {
  bool isMod = kind == AffineExprKind::Mod;
  TileIndex result{isMod ? index.base % by : index.base.floorDiv(by), index.strides};
  if (index.isUniform())
    return result;
  if (llvm::all_of(index.strides, [by](int64_t stride) { return stride % by == 0; })) {
    for (int64_t &stride : result.strides)
      stride = isMod ? 0 : stride / by;
    return result;
  }
  if (!staysWithin(index, by, tile))
    return std::nullopt;
  if (!isMod)
    result.strides.assign(tile.size(), 0);
  return result;
}

} // namespace

std::optional<TileIndex> linearInTile(AffineExpr expr, ArrayRef<TileDim> tile) {
  TileIndex leaf{expr, SmallVector<int64_t, 2>(tile.size(), 0)};
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    for (auto [stride, tiled] : llvm::zip_equal(leaf.strides, tile))
      stride = tiled.dim == dim.getPosition();
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return leaf;
  std::optional<TileIndex> lhs = linearInTile(binary.getLHS(), tile), rhs = linearInTile(binary.getRHS(), tile);
  if (!lhs || !rhs)
    return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) {
    TileIndex sum{lhs->base + rhs->base, lhs->strides};
    for (auto [stride, more] : llvm::zip_equal(sum.strides, rhs->strides))
      stride += more;
    return sum;
  }
  auto constant = dyn_cast<AffineConstantExpr>(rhs->base);
  if (lhs->isUniform() && rhs->isUniform())
    return leaf;
  if (!constant || !rhs->isUniform())
    return std::nullopt;
  int64_t by = constant.getValue();
  if (binary.getKind() == AffineExprKind::Mul) {
    TileIndex product{lhs->base * by, lhs->strides};
    for (int64_t &stride : product.strides)
      stride *= by;
    return product;
  }
  if (binary.getKind() == AffineExprKind::Mod || binary.getKind() == AffineExprKind::FloorDiv)
    return linearQuotient(*lhs, binary.getKind(), by, tile);
  return std::nullopt;
}

bool startsAtMultiple(const TileIndex &index, int64_t unit, ArrayRef<TileDim> tile) {
  Residue base = residueAtBase(index.base, tile);
  return base.modulus % unit == 0 && base.rest % unit == 0;
}

bool isUniformInTile(const ir::Guard &guard, ArrayRef<TileDim> tile) {
  std::optional<TileIndex> index = linearInTile(guard.index, tile);
  if (!index)
    return false;
  if (index->isUniform())
    return true;
  // Within [g n, g (n + 1)) no bound is crossed that is a multiple of g.
  int64_t unit = residueAtBase(index->base, tile).modulus;
  for (int64_t bound : {guard.low, guard.high})
    unit = std::gcd(unit, bound);
  return unit > 0 && staysWithin(*index, unit, tile);
}

std::optional<StridedAccess> stridedAccess(AffineExpr offset, ArrayRef<TileDim> tile) {
  std::optional<TileIndex> index = linearInTile(offset, tile);
  if (!index)
    return std::nullopt;
  SmallVector<unsigned, 2> dims;
  for (unsigned i = 0; i < tile.size(); ++i) {
    // Dimensions of size 1 come first, with any stride: linalg wants every dimension in some operand.
    if (tile[i].size == 1)
      index->strides[i] = 1;
    if (index->strides[i] != 0)
      dims.push_back(i);
  }
  llvm::sort(dims, [&](unsigned a, unsigned b) {
    return std::pair(tile[a].size == 1, index->strides[a]) > std::pair(tile[b].size == 1, index->strides[b]);
  });
  if (!dims.empty() && index->strides[dims.back()] != 1)
    return std::nullopt;
  return StridedAccess{*index, dims};
}

int stagedAccesses(const LinearGraph &graph, ArrayRef<TileDim> tile) {
  int staged = 0;
  for (const ir::ScalarNode &node : graph.graph.nodes) {
    bool isUniform = llvm::all_of(node.guards, [&](const ir::Guard &guard) { return isUniformInTile(guard, tile); }) &&
                     llvm::none_of(node.symbols, [&](ir::Scalar symbol) {
                       return llvm::any_of(tile, [&](const TileDim &dim) { return graph.dependsOn(symbol, dim.dim); });
                     });
    if (node.kind == ir::ScalarNode::Kind::Load)
      staged += !isUniform || !stridedAccess(node.map.getResult(0), tile);
    if (node.kind == ir::ScalarNode::Kind::Index)
      staged += !linearInTile(node.index, tile);
  }
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    staged += !stridedAccess(output.map.getResult(0), tile);
  return staged;
}

bool coversLines(const StridedAccess &access, DType type, ArrayRef<TileDim> tile) {
  constexpr int64_t lineBytes = 64;
  int64_t line = lineBytes / byteWidth(type);
  auto stride = [&](unsigned dim) { return access.index.strides[dim]; };
  return !access.dims.empty() && tile[access.dims.back()].size % line == 0 &&
         llvm::all_of(ArrayRef(access.dims).drop_back(), [&](unsigned dim) { return stride(dim) % line == 0; }) &&
         startsAtMultiple(access.index, line, tile);
}

} // namespace kfuse::codegen::cpu
