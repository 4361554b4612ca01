#include "IrText.h"

#include "passes/MemoryPlan.h"
#include "tuner/model/ProgramBuilder.h"

#include <malloc.h>

#include <string>

using namespace kfuse;
using runtime::BufferRef;

namespace {

/// While it lives, freed memory is overwritten: what still reads it sees nonsense.
struct OverwriteFreed {
  OverwriteFreed() { mallopt(M_PERTURB, 170); }
  ~OverwriteFreed() { mallopt(M_PERTURB, 0); }
};

/// Kernels that each read a view of their own of one argument, and the result of the kernel before.
std::string manyViews(int kernels) {
  const std::string x = "tensor<1x4xf32>";
  std::string text = "func.func @main(%x: tensor<4xf32> {kfuse.role = \"input\"}, %r0: " + x +
                     " {kfuse.role = \"input\"}) -> " + x + " {\n";
  for (int i = 0; i < kernels; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "%v" + n + " = kfuse.reshape %x : (tensor<4xf32>) -> " + x + "\n";
    text += "%r" + next + " = kfuse.fused %v" + n + ", %r" + n + " : (" + x + ", " + x + ") -> " + x +
            " {\n^bb0(%a: " + x + ", %b: " + x + "):\n%s = kfuse.add %a, %b : (" + x + ", " + x + ") -> " + x +
            "\nkfuse.yield %s : " + x + "\n}\n";
  }
  return text + "return %r" + std::to_string(kernels) + " : " + x + "\n}\n";
}

} // namespace

TEST_CASE("a program of many views and reused buffers keeps its places while the tables of places grow") {
  for (int kernels : {10, 100, 400}) {
    CAPTURE(kernels);
    test::ParsedModule parsed(manyViews(kernels));
    REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
    auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
    const OverwriteFreed overwrite;

    passes::MemoryPlan memory = passes::planMemory(main);
    CHECK(memory.arenaBytes == passes::arenaAlignment); // Each kernel writes where it reads.
    runtime::ProgramKernel kernel;
    kernel.plan.inputs = {{DType::F32, {1, 4}}, {DType::F32, {1, 4}}};
    kernel.plan.outputs = {{DType::F32, {1, 4}}};
    llvm::DenseMap<mlir::Operation *, unsigned> kernelOf;
    for (auto fused : main.getOps<ir::FusedOp>())
      kernelOf[fused] = 0;
    Result<runtime::Program> program = tuner::buildProgram(main, memory, kernelOf, {kernel}, "cpu");
    REQUIRE_MESSAGE(program, program.error().message);
    REQUIRE(program->steps.size() == static_cast<size_t>(kernels));
    for (const runtime::Step &step : program->steps)
      CHECK((step.buffers[0] == BufferRef{BufferRef::Space::Argument, 0, 0}));
  }
}

TEST_CASE("a program that kfuse itself built wrongly is an internal error, not advice to compile it again") {
  test::ParsedModule parsed(manyViews(2));
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
  llvm::DenseMap<mlir::Operation *, unsigned> kernelOf;
  for (auto fused : main.getOps<ir::FusedOp>())
    kernelOf[fused] = 0;
  Result<runtime::Program> program =
      tuner::buildProgram(main, passes::planMemory(main), kernelOf, {runtime::ProgramKernel{}}, "cpu");
  REQUIRE_FALSE(program);
  CHECK(program.error().code == ErrorCode::Internal);
  CHECK(program.error().message ==
        "internal error: program 'main' is inconsistent: step 0 binds 3 buffers, kernel '' has 0; this is a bug of "
        "kfuse, report it with the model");
}
