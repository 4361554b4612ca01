// One variant of matrix products: how it multiplies, and what it says of itself.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

struct MatmulProblem;

/// What multiplies and adds.
enum class MultiplyUnit { Fma, MmaSync, Wgmma };

/// How many rows of a product a variant is for.
enum class RowCount {
  Few,  ///< It reads the weights once, at the rate of memory: no unit would be faster.
  Some, ///< More, up to a bound.
  Any
};

/// What a variant says of itself.
struct MatmulTraits {
  std::int64_t number;        ///< A config's "variant", which stores hold: never used again for another.
  std::size_t mostCandidates; ///< It offers the fastest so many configs of its space, by estimate.
  MultiplyUnit unit;
  RowCount rows;
  bool isForLowBits = false; ///< It multiplies weights of few bits and nothing else.

  bool usesTensorCores() const { return unit != MultiplyUnit::Fma; }
};

/// A template of matrix products. All variants look at a region's one problem, which takes longer to find than they
/// take to refuse it.
class MatmulVariant : public KernelTemplate {
public:
  explicit MatmulVariant(const MatmulTraits &traits) : traits(traits) {}

  const MatmulTraits traits;

  ir::FusionDecision match(const Region &region, const ir::Target &target) const final;
  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const final;
  /// Those of a bounded number of rows take the time of their weights, whatever the run.
  bool endsWithRun(const Region &region, const TileConfig &) const final;

  /// match() of a region with this problem.
  virtual ir::FusionDecision takes(const Region &region, const MatmulProblem &problem,
                                   const ir::Target &target) const = 0;
  /// Every config for a region with this problem, and its estimate.
  virtual std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                             const ir::Target &target) const = 0;
  /// estimated() of a region with this problem.
  std::vector<EstimatedConfig> configsOf(const Region &region, const MatmulProblem &problem,
                                         const ir::Target &target) const;
  /// leastWork() of a config.
  virtual TileWork leastWorkOf(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                               const ir::Target &target) const;
};

/// A variant that gives every block a whole tile of m x n and a split of K, read through the last-level cache past L1.
class TiledMatmulVariant : public MatmulVariant {
public:
  using MatmulVariant::MatmulVariant;

  TileWork leastWorkOf(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                       const ir::Target &target) const final;
  TileConfig kind(const TileConfig &config) const final;
};

} // namespace kfuse::codegen::cuda
