// kfuse-opt: kfuse's passes on the dialect's text, one by one or as the pipeline.
#include "codegen/CostModel.h"
#include "ir/dialect/Kfuse.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "passes/ScalarFormCostModel.h"
#include "tools/kfuse-opt/ReadLengthsPass.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace kfuse;

namespace {

/// Text nested deeper than this overflows the stack of MLIR's recursive descent parser.
constexpr int deepestNesting = 200;
constexpr size_t largestFile = size_t{1} << 30;

bool isParsable(llvm::StringRef text) {
  int depth = 0;
  for (char c : text) {
    depth += llvm::StringRef("([{<").contains(c) ? 1 : llvm::StringRef(")]}>").contains(c) ? -1 : 0;
    if (depth > deepestNesting)
      return false;
  }
  return text.size() <= largestFile;
}

/// The cost model of --target, made when a pipeline is built.
class ChosenTarget {
public:
  llvm::cl::opt<std::string> name{
      "target", llvm::cl::init("any"),
      llvm::cl::desc("Device whose kernel templates decide what fuses: cpu, sm_80, ...; any: "
                     "what has a scalar form")};

  const ir::CostModel &costModel() {
    const ir::Target *target = ir::findTarget(name == "any" ? "cpu" : llvm::StringRef(name));
    if (!target)
      llvm::report_fatal_error(llvm::Twine("no target is called '") + name + "'; run kfuse targets", false);
    if (name == "any")
      model = std::make_unique<passes::ScalarFormCostModel>(*target);
    else
      model = codegen::makeCostModel(*target);
    return *model;
  }

private:
  std::unique_ptr<ir::CostModel> model;
};

} // namespace

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ir::KfuseDialect, mlir::func::FuncDialect>();
  ChosenTarget target;
  mlir::registerPass(tools::createReadLengthsPass);
  mlir::registerPass(passes::createExpandSequencesPass);
  mlir::registerPass(passes::createSimplifyPass);
  mlir::registerPass([] { return passes::createInlineAttentionPass(); });
  mlir::registerPass([&] { return passes::createMergeProductsPass(target.costModel()); });
  mlir::registerPass([&] { return passes::createFoldNormsPass(target.costModel()); });
  mlir::registerPass([&] { return passes::createOrientWeightsPass(target.costModel()); });
  mlir::registerPass(passes::createSplitPreparePass);
  mlir::registerPass([&] { return passes::createFusePass(target.costModel()); });
  mlir::registerPass(passes::createTrimRowsPass);
  mlir::registerPass(passes::createPlanMemoryPass);
  mlir::PassPipelineRegistration<> pipeline(
      "kfuse-pipeline", "From an imported graph to planned kernels",
      [&](mlir::OpPassManager &manager) { passes::buildPipeline(manager, target.costModel()); });

  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "kfuse-opt: kfuse's passes on text\n", registry);
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &error);
  std::unique_ptr<llvm::ToolOutputFile> out = file ? mlir::openOutputFile(output, &error) : nullptr;
  if (!out) {
    llvm::errs() << "kfuse-opt: " << error << "\n";
    return EXIT_FAILURE;
  }
  if (!isParsable(file->getBuffer())) {
    llvm::errs() << "kfuse-opt: " << input << ": is over 1 GiB or nests brackets over " << deepestNesting
                 << " deep; is it the dialect's text?\n";
    return EXIT_FAILURE;
  }
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return EXIT_FAILURE;
  out->keep();
  return EXIT_SUCCESS;
}
