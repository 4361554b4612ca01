// The matrix products that kfuse bench gemm compares.
#pragma once

#include "kfuse/error.h"
#include "tools/kfuse/bench/CublasLt.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tools {

struct Product : Products {
  double flops() const {
    return 2.0 * static_cast<double>(batches * M) * static_cast<double>(N) * static_cast<double>(K);
  }
  std::string str() const; ///< "MxNxK", or "BxMxNxK" for B of them.
  /// [rows, columns], of each batch where there are several.
  Shape shape(std::int64_t rows, std::int64_t columns) const {
    return batches > 1 ? Shape{batches, rows, columns} : Shape{rows, columns};
  }
};

/// The sets of operands that calls go through in turn, so that none finds its own in the L2.
struct Rotation {
  int sets;
  double bytes;  ///< The bytes of all sets.
  bool isPastL2; ///< They leave the L2 before their turn comes again; else, of tiny products, some may not.

  /// The rotation of sets of `setBytes` each; a call may take as many launches as there are `batches`.
  static Rotation of(double setBytes, std::int64_t batches, double l2Bytes);
};

/// The products that `texts` name (Product::str()); without any, eight layers of transformers with `rows` rows each,
/// or, without any of these either, with 1 to 32768 and four batches of squares. Usage errors name the text
/// or the rows.
Result<std::vector<Product>> sweptProducts(std::span<const std::string> texts, std::span<const std::int64_t> rows);

} // namespace kfuse::tools
