// The partition that fusion chooses, beside the best of all.
#include "PassHarness.h"
#include "RandomGraph.h"

#include "codegen/CostModel.h"
#include "examples/blocks/Catalogue.h"
#include "ir/GraphModule.h"
#include "passes/Passes.h"
#include "passes/fuse/LayoutPlan.h"
#include "passes/fuse/Partition.h"

#include <bit>
#include <limits>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::string listed(llvm::ArrayRef<mlir::Operation *> ops, double us) {
  std::string text = "  " + std::to_string(us) + " us:";
  llvm::raw_string_ostream os(text);
  for (mlir::Operation *op : ops) {
    os << " ";
    op->getResult(0).printAsOperand(os, {});
    os << "=" << op->getName().stripDialect();
  }
  return text + "\n";
}

/// The least estimated time of all partitions of a block into regions that templates take, by trying them
/// all: f(done) = min over the next region of cost(region) + f(done + region).
class ExhaustiveSearch {
public:
  ExhaustiveSearch(mlir::Block &block, const ir::CostModel &model)
      : transparency(block), regions(transparency), costs(regions, model), layout(block, transparency, regions, costs) {
    mlir::ScopedDiagnosticHandler quiet(block.getParentOp()->getContext(),
                                        [](mlir::Diagnostic &) { return mlir::success(); });
    if (succeeded(layout.run())) // Some rows are longer than the GPU's kernels hold.
      units.assign(layout.units().begin(), layout.units().end());
  }

  size_t size() const { return units.size(); }

  std::string text; ///< The regions of the best partition.

  /// Also over every choice of values with several readers that each of them computes again.
  double bestUs() {
    std::vector<mlir::Operation *> shared;
    for (mlir::Operation *unit : units)
      if (isCheap(unit) && readersOf(unit) > 1)
        shared.push_back(unit);
    if (shared.size() > 5)
      shared.resize(5);
    const std::vector<mlir::Operation *> all = units;
    double best = std::numeric_limits<double>::infinity();
    for (unsigned choice = 0; choice < 1U << shared.size(); ++choice) {
      units = all;
      for (size_t i = 0; i < shared.size(); ++i)
        if (choice >> i & 1U) {
          transparency.absorb(shared[i]);
          std::erase(units, shared[i]);
        }
      costs.forget();
      if (double us = bestPartitionUs(); us < best) {
        best = us;
        text = bestText;
      }
      for (mlir::Operation *op : shared)
        transparency.materialise(op);
    }
    return best;
  }

private:
  static bool isReturned(mlir::Value value) {
    return llvm::any_of(value.getUsers(), [](mlir::Operation *user) {
      return user->hasTrait<mlir::OpTrait::IsTerminator>() ||
             (mlir::isa<ir::ReshapeOp>(user) && isReturned(user->getResult(0)));
    });
  }

  static bool isCheap(mlir::Operation *op) {
    auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op);
    return fusable && fusable.getOpKind() == ir::OpKind::Pointwise && !isReturned(op->getResult(0));
  }

  size_t readersOf(mlir::Operation *op) {
    size_t count = 0;
    for (mlir::Operation *unit : units)
      count += llvm::is_contained(producersOf(unit), op);
    return count;
  }

  llvm::SmallVector<mlir::Operation *> producersOf(mlir::Operation *unit) {
    llvm::SmallVector<mlir::Operation *> producers;
    for (mlir::Value operand : unit->getOperands())
      transparency.forEachSource(operand, [&](mlir::Value source) { producers.push_back(source.getDefiningOp()); });
    return producers;
  }

  double bestPartitionUs() {
    const unsigned count = units.size(), everything = (1U << count) - 1;
    std::vector<unsigned> needs(count, 0);
    for (unsigned i = 0; i < count; ++i)
      for (mlir::Operation *producer : producersOf(units[i]))
        for (unsigned j = 0; j < count; ++j)
          if (units[j] == producer)
            needs[i] |= 1U << j;
    auto isClosed = [&](unsigned done) {
      for (unsigned i = 0; i < count; ++i)
        if ((done >> i & 1U) && (needs[i] & ~done))
          return false;
      return true;
    };
    std::vector<double> cost(everything + 1, -1), best(everything + 1, std::numeric_limits<double>::infinity());
    auto costOf = [&](unsigned region) {
      if (cost[region] < 0) {
        cost[region] = costs.of(membersOf(region)).us;
      }
      return cost[region];
    };
    std::vector<unsigned> last(everything + 1, 0);
    best[0] = 0;
    for (unsigned done = 0; done < everything; ++done) {
      if (best[done] == std::numeric_limits<double>::infinity())
        continue;
      const unsigned left = everything & ~done;
      for (unsigned region = left; region != 0; region = (region - 1) & left)
        if (isClosed(done | region) && best[done] + costOf(region) < best[done | region]) {
          best[done | region] = best[done] + costOf(region);
          last[done | region] = region;
        }
    }
    bestText.clear();
    for (unsigned done = everything; last[done] != 0; done &= ~last[done])
      bestText = listed(membersOf(last[done]), cost[last[done]]) + bestText;
    return best[everything];
  }

  llvm::SmallVector<mlir::Operation *> membersOf(unsigned region) const {
    llvm::SmallVector<mlir::Operation *> members;
    for (size_t i = 0; i < units.size(); ++i)
      if (region >> i & 1U)
        members.push_back(units[i]);
    return members;
  }

  std::string bestText;
  passes::Transparency transparency;
  passes::RegionBuilder regions;
  passes::RegionCosts costs;
  passes::LayoutPlan layout;
  std::vector<mlir::Operation *> units;
};

struct Chosen {
  double us = 0;
  std::string text;
};
Chosen chosen(mlir::Block &block, const ir::CostModel &model) {
  passes::Partition partition(block, model);
  REQUIRE(succeeded(partition.run()));
  Chosen result{partition.totals().us, ""};
  for (auto group : partition.groups().order())
    result.text += listed(partition.groups().opsOf(group),
                          model.appraise(partition.regionOf(passes::LayerGroups{group}).body()).cost.us);
  return result;
}

/// Whether the block was small enough to compare with the best of all partitions.
bool checkNearBest(mlir::Block &block, const ir::CostModel &model) {
  ExhaustiveSearch search(block, model);
  if (search.size() < 2 || search.size() > 12)
    return false;
  Chosen ours = chosen(block, model);
  double best = search.bestUs();
  CAPTURE("\n" + ours.text);
  CAPTURE("\n" + search.text);
  CHECK(std::isfinite(best));
  CHECK(ours.us <= 1.02 * best);
  return true;
}

void simplify(mlir::ModuleOp module) {
  REQUIRE(runPasses(module, [](mlir::PassManager &manager) {
            manager.addNestedPass<mlir::func::FuncOp>(passes::createSimplifyPass());
            manager.addNestedPass<mlir::func::FuncOp>(passes::createInlineAttentionPass());
          }) == "");
}

/// Leaves the computing ops [first, first + count) of a function; what they need from before becomes arguments,
/// what they give is returned.
void cutDown(mlir::func::FuncOp function, size_t first, size_t count) {
  mlir::Block &block = function.getBody().front();
  llvm::SmallVector<mlir::Operation *> before, after;
  size_t computing = 0;
  for (mlir::Operation &op : block.without_terminator()) {
    auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op);
    bool moves = fusable && (fusable.getOpKind() == ir::OpKind::Layout || fusable.getOpKind() == ir::OpKind::Generator);
    if (computing >= first + count)
      after.push_back(&op);
    else if (computing < first && op.getNumOperands() > 0)
      before.push_back(&op);
    computing += !moves;
  }
  block.getTerminator()->setOperands({});
  for (mlir::Operation *op : llvm::reverse(after))
    op->erase();
  for (mlir::Operation *op : llvm::reverse(before)) {
    for (mlir::Value result : op->getResults())
      if (!result.use_empty())
        result.replaceAllUsesWith(block.addArgument(result.getType(), result.getLoc()));
    op->erase();
  }
  llvm::SmallVector<mlir::Value> returned;
  for (mlir::Operation &op : block.without_terminator())
    for (mlir::Value result : op.getResults())
      if (result.use_empty() && op.getNumOperands() > 0)
        returned.push_back(result);
  block.getTerminator()->setOperands(returned);
  function.removeArgAttrsAttr();
  function.removeResAttrsAttr();
  function.setType(
      mlir::FunctionType::get(function.getContext(), block.getArgumentTypes(), mlir::ValueRange(returned).getTypes()));
}

} // namespace

TEST_CASE("fusion of random graphs of up to 12 ops is within 2 % of the best partition") {
  for (const char *target : {"cpu", "sm_90a"})
    for (int scale : {1, 16}) {
      std::unique_ptr<ir::CostModel> model = codegen::makeCostModel(*ir::findTarget(target));
      int graphs = 0;
      for (unsigned seed = 0; graphs < 100; ++seed) {
        std::string text = RandomGraph(seed, 12, scale).text();
        ParsedModule parsed(text);
        REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
        simplify(*parsed.module);
        CAPTURE(std::string(target));
        CAPTURE(scale);
        CAPTURE(seed);
        CAPTURE(text);
        auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
        graphs += checkNearBest(main.getBody().front(), *model);
      }
    }
}

TEST_CASE("fusion of parts of the example blocks is within 2 % of the best partition") {
  int parts = 0;
  for (const char *target : {"cpu", "sm_90a"}) {
    std::unique_ptr<ir::CostModel> model = codegen::makeCostModel(*ir::findTarget(target));
    for (const examples::Example &example : examples::catalogue()) {
      Result<Graph> graph = example.build();
      REQUIRE(graph);
      mlir::ModuleOp whole = graph->internals().module.get();
      for (size_t first = 0; first < 24; first += 5) {
        CAPTURE(std::string(target));
        CAPTURE(example.name);
        CAPTURE(first);
        mlir::OwningOpRef<mlir::ModuleOp> module = whole.clone();
        simplify(*module);
        auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
        cutDown(main, first, 10);
        parts += checkNearBest(main.getBody().front(), *model);
      }
    }
  }
  CHECK(parts >= 60);
}
