// A family of kernels: which regions it takes, its tuning space, and how it is written out.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/TileConfig.h"
#include "codegen/TileWork.h"
#include "ir/FusionDecision.h"
#include "ir/Scalar.h"
#include "ir/Target.h"
#include "kfuse/error.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kfuse::codegen {

/// Scaled dot product attention in scalar forms, all of which read the region's inputs by their numbers.
struct Attention {
  ir::ScalarGraph scores; ///< What the softmax takes: q k^T scaled and masked, over [batch..., M, S, D].
  /// One score more of each row, over the same dimensions, that takes weight and has no value.
  std::optional<ir::ScalarGraph> sink;
  ir::ScalarGraph product; ///< What follows it, over [batch..., M, D, S]; its last input are the probabilities.
  /// State updates that come before it, in the order of the region's results: scores and product read the states as
  /// these leave them.
  std::vector<ir::ScalarGraph> updates;
};

struct Region;

/// One of several regions that share a launch. Its inputs are those of the whole, under the same numbers.
struct Part {
  std::shared_ptr<const Region> region;
  std::vector<unsigned> outputs; ///< The number of each of its results among those of the whole.
};

struct Chain;

/// What a region is: one graph (std::monostate), an attention, kernels in a row, or several regions that have nothing
/// to do with each other.
using RegionForm =
    std::variant<std::monostate, std::shared_ptr<const Attention>, std::shared_ptr<const Chain>, std::vector<Part>>;

/// One fused region as code generation sees it.
struct Region {
  std::string name; ///< Identifier for people and entry points: "matmul_add_gelu".
  std::string ops;  ///< "matmul + add + gelu".
  std::string text; ///< The kfuse.fused op's text, for the header comment of generated source.
  RegionForm form;
  ir::ScalarGraph graph;       ///< It has inputs and outputs in every form, nodes where the region is one graph.
  double flops = 0;            ///< A lower bound of the work, as are the bytes.
  double bytesRead = 0;        ///< Each input element that is needed, once.
  double bytesWritten = 0;     ///< Each result element once.
  DType mathType = DType::F32; ///< Operand type of its contraction, else f32.
  bool tf32 = false;           ///< Whether f32 operands may be cut for tensor cores.
  /// Per input of the graph: no kernel of a run writes it before this one (a parameter or what is prepared from such,
  /// a state's old value, integers that come in), so that it may be read before the kernel's predecessor ends.
  std::vector<bool> isFixed;
  bool programmaticLaunch = false; ///< A run launches it behind another kernel, which may still run when it starts.

  bool isOneGraph() const { return std::holds_alternative<std::monostate>(form); }
  /// Null where the region is none.
  const Attention *attention() const {
    auto held = std::get_if<std::shared_ptr<const Attention>>(&form);
    return held ? held->get() : nullptr;
  }
  /// Null where the region is none.
  const Chain *chain() const {
    auto held = std::get_if<std::shared_ptr<const Chain>>(&form);
    return held ? held->get() : nullptr;
  }
  /// Empty where the region is not several.
  std::span<const Part> parts() const {
    auto held = std::get_if<std::vector<Part>>(&form);
    return held ? std::span<const Part>(*held) : std::span<const Part>();
  }
};

/// Kernels in a row as one: each after the first reads a result of the one before it.
struct ChainLayer {
  /// What an input is: input `index` of the chain, or result `index` of the earlier layer `layer`.
  struct Source {
    int layer = -1;
    unsigned index = 0;
    bool isResult() const { return layer >= 0; }
  };
  Region region; ///< Inputs that are results of other layers are not fixed.
  std::vector<Source> inputs;
  std::vector<int> outputs; ///< Per result: the chain's output that it is, or -1.
};
struct Chain {
  std::vector<ChainLayer> layers;
};

class KernelTemplate {
public:
  virtual ~KernelTemplate() = default;
  /// The target's language and what it computes: "cuda.rows", "cpu.matmul".
  virtual std::string_view name() const = 0;
  /// Whether this template takes the region; the reason when not. A region that it takes it must compute right.
  virtual ir::FusionDecision match(const Region &region, const ir::Target &target) const = 0;
  /// What people should know about how it takes a region that matches: a faster variant that is closed to it; or "".
  virtual std::string remark(const Region &, const ir::Target &) const { return ""; }
  /// Every legal config for a region that matches (fits shared memory, registers and threads), and its modelled
  /// microseconds, for ranking. About a millisecond for all: what depends on the region alone is found out once.
  virtual std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const = 0;
  /// The configs of estimated() alone.
  std::vector<TileConfig> candidates(const Region &region, const ir::Target &target) const;
  /// A chain that takes `us` by its first config is worth its launch below this share of its layers' time in launches
  /// of their own, for all the two estimates err (ir::KernelCost::profitabilityThreshold).
  virtual double profitabilityThreshold(const Region &, double /*us*/) const { return 1; }
  /// A function of a config: the least work that its kernel does. The region and the target must outlive it. A config
  /// that cannot win even so is never compiled, so this must not exceed what the kernel really does.
  virtual std::function<TileWork(const TileConfig &)> leastWork(const Region &region, const ir::Target &) const {
    return [flops = region.flops](const TileConfig &) { return TileWork{flops, 0}; };
  }
  /// Configs of one group have estimates that err alike, so a search tries the best of each group before the second
  /// best of any.
  virtual std::int64_t estimateGroup(const TileConfig &) const { return 0; }
  /// What a config has in common with its near-duplicates, which differ in what changes the time by a per cent or two
  /// that estimates do not know: a search looks further before it tries a second of them.
  virtual TileConfig kind(const TileConfig &config) const { return config; }
  /// Source and launches. Deterministic: the same region and config give the same text. Internal where the template
  /// took a region that it cannot print.
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const;

private:
  virtual Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const = 0;
};

/// The templates of a target, most specific first: the first that matches a region takes it.
std::span<const KernelTemplate *const> templatesFor(const ir::Target &target);

/// The template that takes the region, or null with every template's reason in `reasons`.
const KernelTemplate *templateFor(const Region &region, const ir::Target &target, std::string *reasons = nullptr);

} // namespace kfuse::codegen
