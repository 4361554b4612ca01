// cuda.matmul: every way to multiply matrices, in one space that the tuner searches.
#include "codegen/cuda/matmul/Matmul.h"
#include "codegen/cuda/matmul/Templates.h"

#include <algorithm>
#include <array>

namespace kfuse::codegen::cuda {
namespace {

/// The ways, the preferred first where estimates are equal. A config's "way" is the number, which stores
/// hold: numbers are never used again for another.
struct Way {
  int64_t number;
  const MatmulWay &kernels;
};
std::span<const Way> ways() {
  static const std::array<Way, 6> all{{{1, matmulSm90Template()},
                                       {2, matmulSm90SplitTemplate()},
                                       {3, gemvTemplate()},
                                       {5, matmulStreamTemplate()},
                                       {0, matmulSm80Template()},
                                       {4, matmulSimtTemplate()}}};
  return all;
}

bool isOnTensorCores(const Way &way) {
  return &way.kernels != &gemvTemplate() && &way.kernels != &matmulSimtTemplate();
}

/// The way a config takes; null for one that this version does not have, which a store may hold.
const KernelTemplate *wayOf(const TileConfig &config) {
  if (config.has("way"))
    for (const Way &way : ways())
      if (way.number == config["way"])
        return &way.kernels;
  return nullptr;
}

/// The ways that give every block a whole tile of m x n and a part of K, read through the last-level cache past L1.
bool isTiled(const TileConfig &config) {
  constexpr std::array<int64_t, 3> tiled{0, 1, 2};
  return std::find(tiled.begin(), tiled.end(), config["way"]) != tiled.end();
}

/// Some multiprocessor runs the most tiles, at best their number over that of multiprocessors, rounded up (but for
/// tiles that they share); it works at its own rate, so that the others may as well do the same. A cluster reads what
/// its blocks share once.
TileWork tiledWork(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                   const ir::Target &target) {
  const int64_t m = config["m"], n = config["n"], parts = config.valueOr("split_k", 1) * config.valueOr("blocks_k", 1);
  const int64_t tiles = (problem.M + m - 1) / m * ((problem.N + n - 1) / n) * problem.batches * parts;
  const int64_t waves = (tiles + target.multiprocessors - 1) / target.multiprocessors;
  const int64_t workedOff = config.has("pieces") ? tiles : waves * target.multiprocessors;
  const double tileK = static_cast<double>(problem.K) / static_cast<double>(parts);
  // Rows and columns past the edge are not read.
  const int64_t tilesM = (problem.M + m - 1) / m, tilesN = (problem.N + n - 1) / n;
  const double lines = static_cast<double>(problem.M * tilesN) / static_cast<double>(config.valueOr("cluster_n", 1)) +
                       static_cast<double>(problem.N * tilesM) / static_cast<double>(config.valueOr("cluster_m", 1));
  const auto places = static_cast<double>(m * n * workedOff);
  const auto bytes =
      static_cast<double>(std::min(byteWidth(problem.elementType(0)), byteWidth(problem.elementType(1))));
  return {std::max(region.flops, 2.0 * places * tileK),
          lines * static_cast<double>(problem.K) * bytes * static_cast<double>(problem.batches)};
}

/// Tiles of one kind hold as much, share as much and split K alike. They may lie across each other, and differ in the
/// order in which they are worked off, in stages and in how warp groups take turns: most differ by 0 to 1 % in time,
/// and estimates do not tell which is ahead.
TileConfig tileKind(const TileConfig &config) {
  const auto [shortSide, longSide] = std::minmax({config["m"], config["n"]});
  const auto [fewBlocks, manyBlocks] = std::minmax({config.valueOr("cluster_m", 1), config.valueOr("cluster_n", 1)});
  return {{"way", config["way"]},
          {"m", shortSide},
          {"n", longSide},
          {"k", config["k"]},
          {"cluster_m", fewBlocks},
          {"cluster_n", manyBlocks},
          {"groups_k", config.valueOr("groups_k", 1)},
          {"blocks_k", config.valueOr("blocks_k", 1)},
          {"split_k", config.valueOr("split_k", 1)},
          {"pieces", config.valueOr("pieces", 0)}};
}

/// Warps of a row's part of K and columns that they share; in warps of a block and loads under way gemv's differ less.
TileConfig gemvKind(const TileConfig &config) {
  return {{"way", config["way"]}, {"outputs", config["outputs"]}, {"split", config["split"]}};
}

class MatmulFamily : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.matmul"; }

  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    const std::optional<MatmulProblem> problem = MatmulProblem::of(region);
    if (ir::FusionDecision counted = isCounted(problem); !counted)
      return counted;
    std::string reasons;
    for (const Way &way : ways()) {
      ir::FusionDecision decision = way.kernels.takes(region, *problem, target);
      if (decision)
        return decision;
      if (reasons.find(decision.reason()) == std::string::npos)
        reasons += (reasons.empty() ? "" : "; ") + decision.reason();
    }
    return ir::FusionDecision::no(reasons);
  }

  /// Where the types are those of tensor cores and the rows not few, what multiplies if not the target's best
  /// instruction, and why that one does not.
  std::string remark(const Region &region, const ir::Target &target) const override {
    const bool isForTensorCores = isFloat(region.mathType) && (region.mathType != DType::F32 || region.tf32);
    if (!isForTensorCores || gemvTemplate().match(region, target))
      return "";
    std::string refusals;
    for (const KernelTemplate *way : {&matmulSm90Template(), &matmulSm80Template()}) {
      const bool isWgmma = way == &matmulSm90Template();
      if (isWgmma && target.capability != 90)
        continue;
      const std::string instruction = isWgmma ? "wgmma" : "mma.sync";
      const ir::FusionDecision decision = way->match(region, target);
      if (decision)
        return refusals.empty() ? "" : "on " + instruction + refusals;
      refusals += (refusals.empty() ? ", not on " : "; not on ") + instruction + ": " + decision.reason();
    }
    return "on plain FMAs" + refusals;
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const MatmulProblem problem = *MatmulProblem::of(region);
    std::vector<EstimatedConfig> all;
    // Plain FMAs of f32 are more exact: what is compared with another candidate must not mix both.
    const bool cutsOperands = region.tf32 && matmulSm80Template().takes(region, problem, target);
    for (const Way &way : ways())
      if ((!cutsOperands || isOnTensorCores(way)) && way.kernels.takes(region, problem, target))
        for (auto &[us, config] : way.kernels.configsOf(region, problem, target))
          all.emplace_back(us, std::move(config).with("way", way.number));
    return all;
  }

  std::function<TileWork(const TileConfig &)> leastWork(const Region &region, const ir::Target &target) const override {
    return [&region, &target, problem = *MatmulProblem::of(region)](const TileConfig &config) {
      return isTiled(config) ? tiledWork(region, problem, config, target) : TileWork{region.flops, 0};
    };
  }
  /// Tiles of mma.sync that split K are a way of their own: where they alone take a product of few rows (the five
  /// heads' last, on an H200), 4.4 us come of an estimate of 6.0, and 5.0 at best of the 40 without a split that are
  /// estimated at 4.8 to 5.2.
  std::int64_t way(const TileConfig &config) const override {
    return 2 * config["way"] + (config["way"] == 0 && config.valueOr("split_k", 1) > 1 ? 1 : 0);
  }
  TileConfig kind(const TileConfig &config) const override {
    return isTiled(config) ? tileKind(config) : config["way"] == 3 ? gemvKind(config) : config;
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    if (const KernelTemplate *kernels = wayOf(config))
      return kernels->emit(region, config, target);
    return Error{ErrorCode::Internal, "no way to multiply matrices takes the config " + config.str()};
  }
};

} // namespace

const KernelTemplate &matmulTemplate() {
  static const MatmulFamily instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
