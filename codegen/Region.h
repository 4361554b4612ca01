// One fused region as code generation sees it.
#pragma once

#include "ir/Scalar.h"
#include "kfuse/types.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
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

} // namespace kfuse::codegen
