#include "passes/fuse/Window.h"

#include "ir/RegionKey.h"

using namespace mlir;

namespace kfuse::passes {

/// Sets of ops are bits.
using Set = unsigned;

const WindowPartition &WindowSearch::best(ArrayRef<Operation *> ops,
                                          llvm::function_ref<bool(Operation *)> mayRecompute) {
  SmallVector<unsigned> shared;
  const SmallVector<Set> needed = needs(ops);
  for (auto [i, op] : llvm::enumerate(ops)) {
    Value value = op->getResult(0);
    int readers = llvm::count_if(needed, [&, i = i](Set before) { return before >> i & 1U; });
    constexpr size_t mostRecomputed = 3; // Each doubles the search.
    if (readers > 1 && shared.size() < mostRecomputed && mayRecompute(op) && !transparency.isReadOutside(value, ops))
      shared.push_back(i);
  }
  BuiltRegion whole = regions.build(ops);
  std::string key = ir::regionKey(whole.body()) + ";" + std::to_string(ops.size());
  for (unsigned i : shared)
    key += "," + std::to_string(i);
  auto [found, isNew] = known.try_emplace(key);
  constexpr size_t mostInputs = 64; // Eight ops read 24, but for joins; up to 256 sets of them may read as many each.
  if (!isNew || whole.inputs.size() > mostInputs)
    return found->second;

  for (Set choice = 0; choice < 1U << shared.size(); ++choice) {
    SmallVector<unsigned> recomputed;
    for (auto [bit, i] : llvm::enumerate(shared))
      if (choice >> bit & 1U)
        recomputed.push_back(i);
    search(ops, recomputed, found->second);
  }
  return found->second;
}

/// For each op, the ops of the window that must be done before it.
SmallVector<Set> WindowSearch::needs(ArrayRef<Operation *> ops) const {
  SmallVector<Set> needed(ops.size(), 0);
  auto sources = [&](Operation *op, llvm::function_ref<void(Value)> visit) {
    for (Value operand : op->getOperands())
      transparency.forEachSource(operand, visit);
  };
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto update = dyn_cast<ir::StateUpdateOp>(op);
    sources(op, [&, i = i](Value source) {
      if (const auto *producer = llvm::find(ops, source.getDefiningOp()); producer != ops.end())
        needed[i] |= 1U << (producer - ops.begin());
    });
    if (!update)
      continue;
    for (auto [j, other] : llvm::enumerate(ops)) // Whoever reads the old value comes first.
      if (j != i)
        sources(other, [&, i = i, j = j](Value source) {
          if (source == peelReshapes(update.getState()))
            needed[i] |= 1U << j;
        });
  }
  return needed;
}

/// Sets of ops that hang together by what they read and give: others are no kernel.
std::vector<bool> WindowSearch::connectedSets(ArrayRef<Operation *> ops) const {
  SmallVector<llvm::DenseSet<Value>> values(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    values[i].insert(op->result_begin(), op->result_end());
    for (Value operand : op->getOperands())
      transparency.forEachSource(operand, [&, i = i](Value source) { values[i].insert(source); });
  }
  SmallVector<Set> neighbours(ops.size(), 0);
  for (unsigned i = 0; i < ops.size(); ++i)
    for (unsigned j = 0; j < ops.size(); ++j)
      if (llvm::any_of(values[i], [&](Value value) { return values[j].contains(value); }))
        neighbours[i] |= 1U << j;
  std::vector<bool> connected(1U << ops.size());
  for (Set set = 1; set < connected.size(); ++set) {
    Set reached = set & -set; // From the first op on.
    for (Set before = 0; before != reached;) {
      before = reached;
      for (unsigned i = 0; i < ops.size(); ++i)
        if (before >> i & 1U)
          reached |= neighbours[i] & set;
    }
    connected[set] = reached == set;
  }
  return connected;
}

void WindowSearch::search(ArrayRef<Operation *> ops, ArrayRef<unsigned> recomputed, WindowPartition &best) {
  for (unsigned i : recomputed)
    transparency.absorb(ops[i]);
  RegionCosts costs(regions, model);
  const SmallVector<Set> needed = needs(ops);
  Set everything = (1U << ops.size()) - 1;
  for (unsigned i : recomputed)
    everything &= ~(1U << i);

  auto members = [&](Set set) {
    SmallVector<Operation *> list;
    for (auto [i, op] : llvm::enumerate(ops))
      if (set >> i & 1U)
        list.push_back(op);
    return list;
  };
  auto isClosed = [&](Set done) {
    for (unsigned i = 0; i < ops.size(); ++i)
      if ((done >> i & 1U) && (needed[i] & everything & ~done))
        return false;
    return true;
  };
  struct State {
    Spent spent{std::numeric_limits<double>::infinity()};
    Set last = 0;
  };
  std::vector<State> states(everything + 1);
  states[0].spent = {};
  const std::vector<bool> connected = connectedSets(ops);
  for (Set done = 0; done < everything; ++done) {
    if (states[done].spent.us >= best.spent.us)
      continue;
    const Set left = everything & ~done;
    for (Set region = left; region != 0; region = (region - 1) & left) {
      if (!connected[region] || !isClosed(done | region))
        continue;
      Spent all = states[done].spent;
      all += spent(costs.of(members(region)));
      if (all.us < states[done | region].spent.us)
        states[done | region] = {all, region};
    }
  }
  if (states[everything].spent.us < best.spent.us) {
    best = {states[everything].spent, {}, SmallVector<unsigned>(recomputed)};
    for (Set done = everything; done != 0; done &= ~states[done].last) {
      SmallVector<unsigned> region;
      for (unsigned i = 0; i < ops.size(); ++i)
        if (states[done].last >> i & 1U)
          region.push_back(i);
      best.regions.insert(best.regions.begin(), region);
    }
  }
  for (unsigned i : recomputed)
    transparency.materialise(ops[i]);
}

} // namespace kfuse::passes
