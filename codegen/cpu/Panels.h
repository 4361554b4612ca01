// What kernels with products share: operands packed for the inner kernel, and that kernel.
#pragma once

#include "codegen/TileConfig.h"
#include "codegen/cpu/Kernel.h"
#include "codegen/cpu/TileAccess.h"

#include <utility>

namespace kfuse::codegen::cpu {

/// Rows and columns of a tile that is transposed in registers, and what blocks are multiples of.
inline constexpr int64_t square = 16;

/// Index arithmetic as text.
std::string plus(KernelText &text, const std::string &a, const std::string &b);
std::string minus(KernelText &text, const std::string &a, const std::string &b);
std::string times(KernelText &text, const std::string &a, int64_t b);
/// How much of [low, low + size) lies below `extent`.
std::string clipped(KernelText &text, const std::string &low, int64_t size, int64_t extent);

/// Whether a load that `value` is computed from is contiguous along `dim`.
bool isDenseAlong(const LinearGraph &graph, ir::Scalar value, unsigned dim);

/// An operand of a product. Its dimensions are M and K, or K and N: `dimOther` is the one that is not K.
struct ProductOperand {
  ir::Scalar value;
  unsigned dimOther, dimK;

  /// Whether it lies in memory the other way than it is packed: a left one along M, a right one along K.
  bool isDenseAlongOther(const LinearGraph &graph) const;
  bool isDenseAlongK(const LinearGraph &graph) const;
};

/// Blocks of a left operand, packed as [m, k].
class LeftPanel {
public:
  /// Rows and columns that are packed at once.
  struct Tile {
    int64_t rows, depth;
  };

  LeftPanel(Kernel &kernel, ProductOperand operand, int64_t m, int64_t k);

  static Tile tileOf(const LinearGraph &graph, const ProductOperand &operand, int64_t k);
  /// Whether such tiles of it go through a buffer, element by element.
  static bool isStaged(const LinearGraph &graph, const ProductOperand &operand, Tile tile);

  /// Packs block `blockM`, `blockK` of the item at `base`.
  void pack(const Names &base, const std::string &blockM, const std::string &blockK) const;

  const View memory;

private:
  Kernel &kernel;
  ProductOperand operand;
  int64_t m, k;
};

/// Strips of a right operand, packed as [k, nr].
class RightPanel {
public:
  RightPanel(Kernel &kernel, ProductOperand operand, int64_t k, int64_t nr);

  /// Packs the columns from `n` on, a multiple of nr, of block `blockK`. Those past the last keep what they hold.
  void pack(const Names &base, const std::string &blockK, const std::string &n) const;

  const View memory;

private:
  void packStrip(const Names &base, const std::string &blockK, const std::string &n, int64_t width) const;

  Kernel &kernel;
  ProductOperand operand;
  int64_t k, nr;
  bool isTransposed; ///< It lies along K.
};

/// A matrix in flat memory: where it begins, and how far its rows lie apart.
struct Panel {
  View memory;
  std::string at;
  int64_t pitch;
};

/// Rows and columns of accumulators that the inner kernel may have: 12 registers of 256 bits, 16 or 24 of 512 bits. No
/// estimate knows which of them the machine has, so a search tries the best of each first. On 256 bits the larger ones
/// spill: 29 GFLOP/s of attention on a core of Zen 3, where the first one reaches 79.
inline constexpr std::pair<int64_t, int64_t> accumulatorShapes[] = {{6, 16}, {8, 32}, {12, 32}};
inline int64_t accumulatorsOf(const TileConfig &config) { return config["mr"] * config["nr"]; }

/// The inner kernel: sums[mr][nr] = start + left[mr][depth] * right[depth][nr], with mr * nr accumulators in registers.
/// `start` gives the vector that the sums of a row begin with, which lie at `place`.
void multiply(KernelText &text, int64_t mr, int64_t nr, const Panel &left, const View &right, const Panel &sums,
              const std::string &depth, llvm::function_ref<std::string(int64_t row, const std::string &place)> start);

/// vector<nr x f32>, and what moves such.
std::string rowType(int64_t nr);
std::string loadRow(KernelText &text, int64_t nr, const View &from, const std::string &at);
void storeRow(KernelText &text, int64_t nr, const std::string &value, const View &to, const std::string &at);
/// A vector of one value.
std::string spread(KernelText &text, int64_t nr, const std::string &value);

} // namespace kfuse::codegen::cpu
