#include "passes/lengths/Probes.h"

#include "ir/dialect/Kfuse.h"
#include "passes/fuse/OpNames.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::passes {
namespace {

Error badModel(const std::string &what) { return {ErrorCode::BadModel, what}; }

/// Whether two ops may be the same for two sizes: what they are called and read. What else differs the rules look at.
bool areAlike(Operation &a, Operation &b, const DenseMap<Value, Value> &values) {
  if (a.getName() != b.getName() || a.getNumRegions() != 0 || b.getNumRegions() != 0 ||
      a.getNumOperands() != b.getNumOperands() || a.getNumResults() != b.getNumResults())
    return false;
  for (auto [mine, other] : llvm::zip_equal(a.getOperands(), b.getOperands()))
    if (values.lookup(mine) != other)
      return false;
  return llvm::all_of(llvm::zip_equal(a.getResults(), b.getResults()), [](auto pair) {
    return ir::dimsOf(std::get<0>(pair)).size() == ir::dimsOf(std::get<1>(pair)).size();
  });
}

} // namespace

std::pair<int64_t, int64_t> probeSizes(int64_t bound) {
  return bound >= 4 ? std::pair(bound - 1, bound - 2) : std::pair(bound + 1, bound + 2);
}

Result<Probes> Probes::match(func::FuncOp main, const std::vector<Length> &lengths,
                             const std::vector<LengthProbe> &given) {
  Probes matched;
  matched.dims = lengths;
  for (const LengthProbe &probe : given) {
    Probe one;
    one.dim = probe.dim;
    for (auto [dim, length] : llvm::enumerate(lengths))
      one.sizes.push_back(dim == probe.dim ? probe.size : length.bound);
    func::FuncOp other = probe.main;
    auto differs = [&](const std::string &where) {
      return badModel("the model for " + std::to_string(probe.size) + " of '" + lengths[probe.dim].name +
                      "' is another graph than for " + std::to_string(lengths[probe.dim].bound) + where +
                      "; compile a program for each length");
    };
    Block &a = main.getBody().front(), &b = other.getBody().front();
    if (a.getNumArguments() != b.getNumArguments() || a.getOperations().size() != b.getOperations().size())
      return differs("");
    for (auto [mine, theirs] : llvm::zip_equal(a.getArguments(), b.getArguments()))
      one.values[mine] = theirs;
    for (auto [mine, theirs] : llvm::zip_equal(a, b)) {
      if (!areAlike(mine, theirs, one.values))
        return differs(", from " + nameOf(&mine) + " on");
      for (auto [value, same] : llvm::zip_equal(mine.getResults(), theirs.getResults()))
        one.values[value] = same;
    }
    matched.probes.push_back(std::move(one));
  }
  return matched;
}

std::optional<Factor> Probes::fit(Value value, llvm::function_ref<int64_t(Value)> read) const {
  Factor factor{read(value)};
  for (const Probe &probe : probes) {
    const int64_t there = read(probe.values.lookup(value));
    const int64_t bound = dims[probe.dim].bound, step = bound - probe.sizes[probe.dim];
    const int dim = static_cast<int>(probe.dim);
    if (there != factor.size && factor.isFixed()) {
      if ((factor.size - there) % step != 0)
        return std::nullopt;
      factor.dim = dim;
      factor.times = (factor.size - there) / step;
      factor.plus = factor.size - factor.times * bound;
    }
    if (factor.at(probe.sizes) != there)
      return std::nullopt;
  }
  // A probe before the first that differs had the same dimension, and would have to differ, too.
  for (const Probe &probe : probes)
    if (factor.at(probe.sizes) != read(probe.values.lookup(value)))
      return std::nullopt;
  return factor;
}

std::optional<Factor> Probes::fitSize(Value value, unsigned dim) const {
  return fit(value, [&](Value there) { return ir::dimsOf(there)[dim]; });
}

bool Probes::agree(Value value, llvm::ArrayRef<Axis> axes) const {
  if (axes.size() != ir::dimsOf(value).size())
    return false;
  for (auto [axis, size] : llvm::zip_equal(axes, ir::dimsOf(value)))
    if (axis.size() != size)
      return false;
  for (const Probe &probe : probes)
    for (auto [axis, size] : llvm::zip_equal(axes, ir::dimsOf(probe.values.lookup(value))))
      if (axis.at(probe.sizes) != size)
        return false;
  return true;
}

llvm::SmallVector<Value> Probes::in(Value value) const {
  llvm::SmallVector<Value> found;
  for (const Probe &probe : probes)
    found.push_back(probe.values.lookup(value));
  return found;
}

int64_t Probes::least(const Factor &factor) const {
  return factor.isFixed() ? factor.size : factor.times * dims[factor.dim].low + factor.plus;
}

} // namespace kfuse::passes
