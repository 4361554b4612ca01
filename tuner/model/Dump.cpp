#include "tuner/model/Dump.h"

#include "tuner/record/Key.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace mlir;

namespace kfuse::tuner {
namespace {

namespace fs = std::filesystem;

/// The folder; nothing when it is not asked for.
std::optional<fs::path> dumpFolder() {
  const char *folder = std::getenv("KFUSE_DUMP_DIR");
  return folder && *folder ? std::optional<fs::path>(folder) : std::nullopt;
}

void write(const fs::path &path, const std::string &text) {
  if (!text.empty())
    std::ofstream(path, std::ios::binary) << text;
}

class PassDump : public PassInstrumentation {
public:
  explicit PassDump(fs::path folder) : folder(std::move(folder)) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    Operation *module = op;
    while (module->getParentOp())
      module = module->getParentOp();
    std::string text;
    llvm::raw_string_ostream os(text);
    module->print(os);
    if (text == last || pass->getArgument().empty()) // The adaptor that runs nested passes has no name.
      return;
    write(folder / fmt::format("{:02}-{}.mlir", ++count, pass->getArgument().str()), text);
    last = std::move(text);
  }

private:
  fs::path folder;
  std::string last;
  int count = 0;
};

class DumpingCompiler final : public runtime::KernelCompiler {
public:
  DumpingCompiler(std::unique_ptr<runtime::KernelCompiler> inner, fs::path folder)
      : inner(std::move(inner)), folder(std::move(folder)) {}

  std::string version() const override { return inner->version(); }
  Result<runtime::CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    fs::path stem = folder / (plan.name + "-" + stableHash({plan.source}).substr(0, 8));
    write(fs::path(stem) += plan.target == "cpu" ? ".mlir" : ".cu", plan.source);
    Result<runtime::CompiledKernel> compiled = inner->compile(plan);
    write(fs::path(stem) += ".log", compiled ? compiled->log : compiled.error().message + "\n");
    if (compiled)
      write(fs::path(stem) += ".ptx", compiled->assembly);
    return compiled;
  }

private:
  std::unique_ptr<runtime::KernelCompiler> inner;
  fs::path folder;
};

} // namespace

Result<void> makeDumpFolder() {
  std::optional<fs::path> folder = dumpFolder();
  std::error_code error;
  if (folder)
    fs::create_directories(*folder, error);
  if (error)
    return Error{ErrorCode::Io, fmt::format("the folder {} that KFUSE_DUMP_DIR names cannot be made: {}",
                                            folder->string(), error.message())};
  return {};
}

void dumpAfterPasses(PassManager &manager) {
  if (std::optional<fs::path> folder = dumpFolder())
    manager.addInstrumentation(std::make_unique<PassDump>(*folder));
}

std::unique_ptr<runtime::KernelCompiler> dumping(std::unique_ptr<runtime::KernelCompiler> compiler) {
  std::optional<fs::path> folder = dumpFolder();
  if (!folder)
    return compiler;
  return std::make_unique<DumpingCompiler>(std::move(compiler), *folder);
}

} // namespace kfuse::tuner
