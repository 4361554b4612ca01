// The blocking of Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008:
//
//   blocks of C, one task each:  M x N  ->  blockM x blockN
//     panels along K:            blockK columns of A and rows of B, packed so that tiles read in order
//       tiles of C in registers: rows x columns, one multiply-add per element and step of K
#include "ir/reference/Product.h"

#include "ir/reference/Parallel.h"

#include <algorithm>
#include <cstring>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

//===- Tiles ---------------------------------------------------------------------------------===//

/// c (rows x columns, rows `stride` apart) += a b over `depth`; a holds `rows` and b `columns`
/// elements for each step.
template <class T> using TileFunction = void (*)(Int depth, const T *a, const T *b, T *c, Int stride);

template <class T> struct Tile {
  Int rows, columns;
  TileFunction<T> run;
};

template <class T, int vectorBytes, int rows, int vectors>
[[gnu::always_inline]] inline void tile(Int depth, const T *a, const T *b, T *c, Int stride) {
  typedef T Vector __attribute__((vector_size(vectorBytes)));
  constexpr int lanes = vectorBytes / sizeof(T);
  Vector sums[rows][vectors] = {};
  for (Int k = 0; k < depth; ++k, a += rows, b += vectors * lanes) {
    Vector columns[vectors];
    std::memcpy(columns, b, sizeof(columns));
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j)
        sums[i][j] += a[i] * columns[j];
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    Vector row[vectors];
    std::memcpy(row, c + i * stride, sizeof(row));
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      row[j] += sums[i][j];
    std::memcpy(c + i * stride, row, sizeof(row));
  }
}

template <class T> void plainTile(Int depth, const T *a, const T *b, T *c, Int stride) {
  tile<T, 16, 4, 2>(depth, a, b, c, stride);
}

#if defined(__x86_64__)
// 24 of 32 registers hold sums; three vectors of b and a broadcast take four more.
template <class T>
[[gnu::target("avx512f,avx2,fma")]] void avx512Tile(Int depth, const T *a, const T *b, T *c, Int stride) {
  tile<T, 64, 8, 3>(depth, a, b, c, stride);
}
template <class T> [[gnu::target("avx2,fma")]] void avx2Tile(Int depth, const T *a, const T *b, T *c, Int stride) {
  tile<T, 32, 4, 3>(depth, a, b, c, stride);
}
#endif

template <class T> Tile<T> chooseTile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return {8, 3 * 64 / sizeof(T), avx512Tile<T>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {4, 3 * 32 / sizeof(T), avx2Tile<T>};
#endif
  return {4, 2 * 16 / sizeof(T), plainTile<T>};
}

//===- Blocks --------------------------------------------------------------------------------===//

// Multiples of every tile. In f64 a block of A takes 768 KB, of B and of C 768 KB and 1.1 MB.
constexpr Int blockM = 384, blockN = 384, blockK = 256;

Int roundUp(Int value, Int multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Packs `width` x `depth` elements as panels of `panel` columns, each read step by step; what lies
/// beyond the edge is 0.
template <class T>
void pack(const Number *from, Int widthStride, Int depthStride, Int width, Int depth, Int panel, T *to) {
  for (Int begin = 0; begin < width; begin += panel)
    for (Int k = 0; k < depth; ++k)
      for (Int i = begin; i < begin + panel; ++i)
        *to++ = i < width ? static_cast<T>(from[i * widthStride + k * depthStride].real) : T(0);
}

template <class T> class BlockedProduct {
public:
  BlockedProduct(const MatrixBatch &a, const MatrixBatch &b, Int m, Int n, Int k)
      : a(a), b(b), m(m), n(n), k(k), blocksM((m + blockM - 1) / blockM), blocksN((n + blockN - 1) / blockN) {}

  std::vector<Number> run() const {
    auto batch = static_cast<Int>(a.offsets.size());
    std::vector<Number> c(batch * m * n);
    parallelFor(batch * blocksM * blocksN, 1, [&](Int task, Int) {
      Int matrix = task / (blocksM * blocksN), row = task / blocksN % blocksM * blockM,
          column = task % blocksN * blockN;
      computeBlock(matrix, row, column, c.data() + matrix * m * n);
    });
    return c;
  }

private:
  void computeBlock(Int matrix, Int row, Int column, Number *c) const {
    Int rows = std::min(blockM, m - row), columns = std::min(blockN, n - column),
        stride = roundUp(columns, tile.columns);
    const Number *fromA = a.data + a.offsets[matrix] + row * a.rowStride;
    const Number *fromB = b.data + b.offsets[matrix] + column * b.columnStride;
    std::vector<T> packedA(roundUp(rows, tile.rows) * blockK), packedB(stride * blockK);
    std::vector<T> sums(roundUp(rows, tile.rows) * stride);
    for (Int begin = 0; begin < k; begin += blockK) {
      Int depth = std::min(blockK, k - begin);
      pack(fromA + begin * a.columnStride, a.rowStride, a.columnStride, rows, depth, tile.rows, packedA.data());
      pack(fromB + begin * b.rowStride, b.columnStride, b.rowStride, columns, depth, tile.columns, packedB.data());
      for (Int j = 0; j < columns; j += tile.columns)
        for (Int i = 0; i < rows; i += tile.rows)
          tile.run(depth, packedA.data() + i * depth, packedB.data() + j * depth, sums.data() + i * stride + j, stride);
    }
    for (Int i = 0; i < rows; ++i)
      for (Int j = 0; j < columns; ++j)
        c[(row + i) * n + column + j].real = sums[i * stride + j];
  }

  const MatrixBatch &a, &b;
  Int m, n, k, blocksM, blocksN;
  Tile<T> tile = chooseTile<T>();
};

} // namespace

template <class Accumulator>
std::vector<Number> product(const MatrixBatch &a, const MatrixBatch &b, Int m, Int n, Int k) {
  return BlockedProduct<Accumulator>(a, b, m, n, k).run();
}

template std::vector<Number> product<double>(const MatrixBatch &, const MatrixBatch &, Int, Int, Int);
template std::vector<Number> product<float>(const MatrixBatch &, const MatrixBatch &, Int, Int, Int);

} // namespace kfuse::reference
