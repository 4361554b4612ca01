// Random inputs for one fused region, and the check of a kernel's outputs against the reference.
#pragma once

#include "ir/reference/Evaluator.h"
#include "tuner/model/Noise.h"
#include "tuner/search/TuningTask.h"

#include "mlir/IR/Block.h"

#include <memory>
#include <mutex>
#include <optional>

namespace kfuse::tuner {

/// The oracle of one region. It samples: up to 32 runs of 32 elements of each result, the first and
/// the last included, evaluated in f64 by the reference evaluator; a 2048 x 4096 x 16384 product costs
/// 16 M multiply-adds that way instead of 137 G. (The tuner itself looks at every element: none is
/// left poisoned, and all candidates agree.) It also looks at what the update of a state writes.
class RegionOracle : public Oracle {
public:
  /// `body` must outlive the oracle. `large` is that of other regions, too, or null.
  explicit RegionOracle(mlir::Block &body, std::shared_ptr<LargeNoise> large = {})
      : body(body), large(std::move(large)) {}

  /// Normal noise for floats, for integers what Noise.h says; the same bytes at each call. Large tensors have their
  /// first elements alone, which repeat.
  HostBuffers makeInputs() const override;
  /// Evaluates what check() compares with, ahead of it.
  Result<void> expect(const HostBuffers &inputs) override;
  /// WrongResult names the result, its error and the limit.
  Result<void> check(const HostBuffers &inputs, const ReadOutput &read) override;
  /// Looks at these elements of a result, too, from now on.
  Result<void> checkAlso(const HostBuffers &inputs, std::size_t result, std::vector<std::int64_t> offsets) override;

private:
  struct Sample {
    unsigned result = 0;
    std::vector<std::int64_t> offsets;
    reference::Values expected;
    std::optional<reference::Values>
        rounded; ///< What the evaluator that rounds after every op gives; made when needed.
  };
  Result<void> takeSamples(const HostBuffers &inputs);
  Result<void> takeSample(std::span<const reference::HostTensor> arguments, unsigned result,
                          std::vector<std::int64_t> offsets);
  Result<void> checkSample(Sample &sample, const HostBuffers &inputs, const ReadOutput &read);

  mlir::Block &body;
  std::shared_ptr<LargeNoise> large;
  std::mutex mutex;
  std::vector<Sample> samples; ///< None before the first of expect() and check().
};

} // namespace kfuse::tuner
