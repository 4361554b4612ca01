// What kfuse bench gemm found: products beside cuBLASLt's, and those that could not be measured.
#pragma once

#include "tools/kfuse/bench/GemmSweep.h"
#include "tuner/report/Report.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tools {

/// cuBLASLt's best algorithm, interleaved with ours.
struct PeerTimes {
  double us, firstUs;      ///< The second: of the algorithm that its heuristic offers first.
  double ratio, low, high; ///< Its time over ours: median, 10th and 90th percentile of the pairs.
  std::size_t algorithms;
};

/// One line of the result.
struct GemmRow {
  Product product;
  double kfuseUs;
  double overlappedUs;           ///< Ours, each call free to start before the one ahead ends (dependent launch).
  std::optional<PeerTimes> peer; ///< Nothing where cuBLASLt has no algorithm for the product.
  double bytes, boundUs;
  Rotation rotation; ///< How the operands are rotated.
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

  /// What `compare` gives for each product in turn. One that a small GPU has no room for does not cost the others, but
  /// an error that `endsAll` does.
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
