#include "runtime/cpu/DataObject.h"
#include "runtime/cpu/Lowering.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <mutex>

namespace kfuse::runtime::cpu {
namespace {

Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const HostCpu &cpu, bool contracts) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser(); // For inline assembly.
  });
  std::string triple = llvm::sys::getProcessTriple(), message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return Error{ErrorCode::NoDevice, "LLVM has no back end for " + triple + ": " + message};
  llvm::TargetOptions options;
  // a * b + c in one rounding is only closer.
  options.AllowFPOpFusion = contracts ? llvm::FPOpFusion::Fast : llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, cpu.model, cpu.features, options,
                                                                          llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                          llvm::CodeGenOptLevel::Aggressive));
}

void targetCpu(llvm::Module &module, const llvm::TargetMachine &machine, const HostCpu &cpu) {
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu.model);
    function.addFnAttr("target-features", cpu.features);
    // Without it LLVM takes half-wide registers on some AVX-512 processors.
    function.addFnAttr("prefer-vector-width", std::to_string(cpu.vectorBits));
    function.addFnAttr("min-legal-vector-width", std::to_string(cpu.vectorBits));
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  // Tiles are unrolled already: unrolling more costs compile time and buys nothing.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

Result<std::vector<std::byte>> assemble(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return Error{ErrorCode::Internal, "LLVM cannot write objects for " + machine.getTargetTriple().str()};
  passes.run(module);
  const auto *bytes = reinterpret_cast<const std::byte *>(object.data());
  return std::vector<std::byte>(bytes, bytes + object.size());
}

} // namespace

Result<std::vector<std::byte>> emitObject(mlir::ModuleOp module, const HostCpu &cpu, bool contracts) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = mlir::translateModuleToLLVMIR(module, context);
  if (!translated)
    return Error{ErrorCode::Internal, "a lowered kernel does not translate to LLVM IR"};
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine(cpu, contracts);
  if (!machine)
    return machine.error();
  targetCpu(*translated, **machine, cpu);
  optimise(*translated, **machine);
  return assemble(*translated, **machine);
}

Result<std::vector<std::byte>> dataObject(const std::string &symbol, std::span<const std::byte> bytes) {
  constexpr std::uint64_t alignment = 256;
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine(hostCpu(), /*contracts=*/false);
  if (!machine)
    return machine.error();
  llvm::LLVMContext context;
  llvm::Module module(symbol, context);
  const llvm::StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  llvm::Constant *data = llvm::ConstantDataArray::getRaw(text, text.size(), llvm::Type::getInt8Ty(context));
  auto *variable = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::ExternalLinkage, data, symbol); // The module's.
  variable->setAlignment(llvm::Align(alignment));
  targetCpu(module, **machine, hostCpu());
  return assemble(module, **machine);
}

} // namespace kfuse::runtime::cpu
