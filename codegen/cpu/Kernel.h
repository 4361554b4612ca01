// A kernel being written: its text, the graph it computes and the memory it reaches.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/KernelTemplate.h"
#include "codegen/LinearGraph.h"
#include "codegen/Ranking.h"
#include "codegen/cpu/KernelText.h"

#include <map>
#include <set>

namespace kfuse::codegen::cpu {

/// One function of a plan's source, `void entry(pointers..., begin, end)`. Pointers become arguments
/// when they are first asked for.
class Kernel {
public:
  /// Entries are called "kfuse_NAME", which no library function is.
  Kernel(const std::string &name, const LinearGraph &graph, const ir::Target &target)
      : text("kfuse_" + name), graph(graph), ranks(ranksComputed(graph.graph)), cacheBytes(target.l2Bytes),
        entry("kfuse_" + name) {}

  View input(unsigned i);
  View output(unsigned i);
  /// Whether the output is larger than the last-level cache, so that no later kernel finds it there.
  bool outgrowsCache(unsigned output) const;
  /// `elements` f32 from `offset` bytes into the workspace.
  View workspace(std::uint64_t offset, int64_t elements);

  /// Does `body` for each item of a launch, given its number and its place in a grid of items, each of which has
  /// `size(dim)` elements of a dimension. Items that are all behind a run's end (ir::RunExtent) are left out.
  void forItems(llvm::ArrayRef<int64_t> grid, llvm::function_ref<int64_t(unsigned dim)> size,
                llvm::function_ref<void(const std::string &item, const Names &place)> body);
  /// The launch over `items` items.
  Launch launch(int64_t items, int64_t grain) const;

  KernelText text;
  const LinearGraph &graph;
  const bool ranks;                   ///< An element is computed in the same way each time (codegen/Ranking.h).
  std::set<std::string_view> callees; ///< Library functions that the text calls.

private:
  View pointer(KernelArg arg, const std::string &name, llvm::StringRef element, int64_t elements, bool isShared);
  /// State that is also read: the output and that input are one memory.
  bool isReadInPlace(unsigned input) const;

  double cacheBytes;
  std::string entry;
  std::map<std::pair<KernelArg::Kind, std::uint64_t>, View> pointers;
  std::vector<KernelArg> arguments;
};

/// Whether every scalar function of the graph can be written for the CPU; the first that cannot.
ir::FusionDecision canWrite(const ir::ScalarGraph &graph);

/// The dimension along which most bytes of the region lie next to each other, among the first
/// `candidates` ones: the last of equals.
unsigned densestDim(const LinearGraph &graph, unsigned candidates);

/// Items handed to a thread at a time, when the domain is cut into a grid of items.
int64_t grainOf(const LinearGraph &graph, llvm::ArrayRef<int64_t> grid);

/// A plan for the region with everything but source, launches and workspace.
KernelPlan planOf(const Region &region, const ir::Target &target);
/// The module of those functions and of the library functions they call.
std::string moduleText(const Region &region, llvm::StringRef templateName, const TileConfig &config,
                       llvm::ArrayRef<const Kernel *> kernels);

} // namespace kfuse::codegen::cpu
