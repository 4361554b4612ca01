// Whole random models on a device, fused and op by op, judged by the numerics policy.
#pragma once

#include "ModelRunner.h"
#include "RandomGraph.h"

#include "codegen/CostModel.h"
#include "ir/reference/Policy.h"

namespace kfuse::test {

/// What a target's templates take, but no more than one computing op a kernel.
class OpByOp : public ir::CostModel {
public:
  explicit OpByOp(const ir::Target &device) : device(device), templates(codegen::makeCostModel(device)) {}
  const ir::Target &target() const override { return device; }
  ir::Appraisal appraise(mlir::Block &region) const override {
    ir::Appraisal small = SmallRegionsOnly(device, 1).appraise(region);
    return small.decision ? templates->appraise(region) : small;
  }

private:
  const ir::Target &device;
  std::unique_ptr<ir::CostModel> templates;
};

enum class Fusion : std::uint8_t { Full, OpByOp };

/// A model in f32, or the same in bf16 (attributes stay f32) where the seed is odd.
inline std::string modelForGpu(unsigned seed) {
  std::string text = RandomGraph(seed, 10, seed % 3 == 0 ? 3 : 1).text();
  if (seed % 2 == 0)
    return text;
  for (const std::string type : {"xf32>", "tensor<f32>"})
    for (std::size_t at = 0; (at = text.find(type, at)) != std::string::npos;)
      text.replace(at + type.size() - 4, 3, "bf16");
  return text;
}

/// Compiles a model's text as `costs` has it, runs it on random arguments, and judges every result.
inline void checkModel(const std::string &text, unsigned seed, const ir::CostModel &costs, Fusion fusion,
                       ModelRunner &runner) {
  CAPTURE(text);
  ParsedModule parsed(text);
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
  Arguments arguments = randomArguments(main, seed);
  std::vector<HostTensor> ordered;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    ordered.push_back(arguments.at(nameOf(main.getArgAttrDict(i), i)));
  auto planned = tuner::planModel(*parsed.module, costs, {.simplify = fusion == Fusion::Full});
  REQUIRE_MESSAGE(planned, planned.error().message);
  std::vector<HostTensor> results = runner.run(*planned, arguments);
  auto verdicts = reference::checkOutputs(main.getBody().front(), ordered, results);
  REQUIRE_MESSAGE(verdicts, verdicts.error().message);
  // Where sums cancel, the evaluation that rounds after every op has no digit right either: no verdict.
  for (const reference::Verdict &verdict : *verdicts)
    CHECK_MESSAGE((verdict.right || verdict.limit > 1), verdict.message);
}

} // namespace kfuse::test
