// The caches of an ONNX graph that are joined to what is new, and which dimensions count their rows.
#pragma once

#include "ir/import/StatePatterns.h"
#include "ir/import/onnx/file/onnx.pb.h"
#include "kfuse/error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kfuse::ir::onnx {

struct GrowingCache {
  std::string past, present; ///< An input and an output, by name.
  int axis = 0;              ///< The one that grows.
};

struct GrowingCaches {
  std::int64_t capacity = 0; ///< 0: there are none.
  std::vector<GrowingCache> caches;

  /// A dimension of an input that is as long as the past or the present.
  struct Dimension {
    int input = 0, dim = 0;
    bool isOfPresent = false;
  };
  std::vector<Dimension> dimensions;

  const GrowingCache *of(const std::string &input) const;
  /// Writes the sizes into the graph's inputs: of a present that is full when `count` rows are new.
  void setSizes(::onnx::GraphProto &graph, std::int64_t count) const;
};

/// Those of `pairs` that have a capacity. Usage where the graph does not join rows to an input to make the output,
/// where the past's length is fixed in the file, and for several capacities.
Result<GrowingCaches> findGrowingCaches(const ::onnx::GraphProto &graph, const std::vector<StatePair> &pairs);

} // namespace kfuse::ir::onnx
