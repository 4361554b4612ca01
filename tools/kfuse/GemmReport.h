// What kfuse bench gemm found: products beside cuBLASLt's, and those that could not be measured.
#pragma once

#include "GemmSweep.h"
#include "tuner/Report.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tools {

/// One line of the result.
struct GemmRow {
  Product product;
  double kfuseUs, peerUs, peerFirstUs;
  double ratio, low, high; ///< Peer's time over ours: median, 10th and 90th percentile of the pairs.
  double overlappedUs;     ///< Ours, each call free to start before the one ahead ends (dependent launch).
  double bytes, boundUs;
  std::size_t algorithms;
  tuner::KernelReport report;
};

/// A product that could not be measured.
struct MissingGemm {
  Product product;
  Error error;
};

struct GemmReport {
  std::vector<GemmRow> rows;
  std::vector<MissingGemm> missing;

  /// Of `compare` on each product in turn. One that a small GPU has no room for does not cost the others, but an error
  /// that `endsAll` does.
  static GemmReport of(std::span<const Product> products,
                       const std::function<Result<GemmRow>(const Product &)> &compare,
                       const std::function<bool(const Error &)> &endsAll);

  std::string table() const; ///< With geometric means of groups of products.
  /// `type` is of the operands.
  std::string json(const std::string &sku, const std::string &driver, const std::string &type) const;
  /// The command's: 0, or the code of a wrong result, if there is one, else of the first that went wrong.
  int status() const;
};

} // namespace kfuse::tools
