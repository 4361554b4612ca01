#include "tools/kfuse-opt/ReadLengthsPass.h"

#include "passes/Lengths.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kfuse::tools {
namespace {

struct ReadLengthsPass : PassWrapper<ReadLengthsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReadLengthsPass)
  StringRef getArgument() const override { return "kfuse-read-lengths"; }
  StringRef getDescription() const override { return "@main for all lengths, of it for some of them"; }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto ranges = main ? main->getAttrOfType<DenseI64ArrayAttr>("kfuse.lengths") : DenseI64ArrayAttr();
    if (!ranges) {
      getOperation().emitError("has no @main with kfuse.lengths");
      return signalPassFailure();
    }
    std::vector<passes::Length> lengths;
    for (int64_t i = 0; i + 1 < ranges.size(); i += 2)
      lengths.push_back({"length" + std::to_string(i / 2), ranges[i], ranges[i + 1]});
    std::vector<passes::LengthProbe> probes;
    for (auto probe : getOperation().getOps<func::FuncOp>())
      if (auto of = probe->getAttrOfType<DenseI64ArrayAttr>("kfuse.probe"); of && of.size() == 2)
        probes.push_back({static_cast<unsigned>(of[0]), of[1], probe});
    main->removeAttr("kfuse.lengths");
    Result<passes::LengthEdges> edges = passes::readLengths(main, lengths, probes);
    if (!edges) {
      main.emitError(edges.error().message);
      return signalPassFailure();
    }
    for (const passes::LengthProbe &probe : probes)
      func::FuncOp(probe.main).erase();
  }
};

} // namespace

std::unique_ptr<Pass> createReadLengthsPass() { return std::make_unique<ReadLengthsPass>(); }

} // namespace kfuse::tools
