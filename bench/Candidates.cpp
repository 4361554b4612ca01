#include "bench/Candidates.h"

#include "bench/Bench.h"
#include "codegen/cuda/Templates.h"
#include "tuner/model/RegionConfigs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

namespace kfuse::bench {

ParsedRegion parseRegion(mlir::MLIRContext &context, const Case &given) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(given.text, &context);
  if (!module)
    std::exit(1);
  codegen::Region region = take(codegen::makeRegion((*module->getOps<mlir::func::FuncOp>().begin()).getBody().front()));
  return {std::move(module), std::move(region)};
}

Case readCase(const std::string &path) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    succeed(Error{ErrorCode::Io, path + ": " + file.getError().message()});
  return {path, (*file)->getBuffer().str()};
}

std::vector<tuner::Candidate> candidatesOf(const codegen::Region &region, const ir::Target &target,
                                           const std::string &compilerVersion, const std::string &sku,
                                           const CandidateFilter &filter) {
  std::string reasons;
  const codegen::KernelTemplate *chosen = codegen::templateFor(region, target, &reasons);
  if (!chosen)
    succeed(Error{ErrorCode::BadModel, "no template takes the region: " + reasons});
  tuner::TuningTask task;
  task.space = std::make_shared<tuner::RegionConfigs>(region, *chosen, target);
  tuner::CandidateQueue queue(task, target, tuner::nominalPeaks(target), compilerVersion, sku);
  std::vector<tuner::Candidate> all;
  while (std::optional<tuner::Candidate> next = queue.next()) {
    const std::string text = next->config.str();
    const bool isLeftOut = !filter.without.empty() && text.find(filter.without) != std::string::npos;
    if (isLeftOut || text.find(filter.only) == std::string::npos)
      continue;
    all.push_back(std::move(*next));
    if (all.size() == filter.most)
      break;
  }
  if (all.empty())
    succeed(Error{ErrorCode::Usage, "no config of the region holds '" + filter.only + "'"});
  return all;
}

std::vector<Result<runtime::CompiledKernel>> compileAll(runtime::KernelCompiler &compiler,
                                                        const std::vector<codegen::KernelPlan> &plans) {
  std::vector<Result<runtime::CompiledKernel>> compiled(plans.size(), Error{});
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < plans.size(); i = next++)
        compiled[i] = compiler.compile(plans[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  return compiled;
}

} // namespace kfuse::bench
