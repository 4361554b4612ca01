#include "runtime/cpu/Jit.h"

#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <atomic>
#include <mutex>

namespace kfuse::runtime::cpu {
namespace {

Error jitError(const std::string &what, llvm::Error error) {
  return Error{ErrorCode::Compile, what + ": " + llvm::toString(std::move(error))};
}

} // namespace

LoadedObject::~LoadedObject() {
  // Failure leaves the code mapped, which harms nobody.
  llvm::consumeError(jit.getExecutionSession().removeJITDylib(library));
}

Result<void *> LoadedObject::address(const std::string &symbol) {
  llvm::Expected<llvm::orc::ExecutorAddr> found = jit.lookup(library, symbol);
  if (!found)
    return jitError("cannot link '" + symbol + "'", found.takeError());
  return found->toPtr<void *>();
}

Result<std::unique_ptr<Jit>> Jit::make() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> made =
      llvm::orc::LLJITBuilder().setPlatformSetUp(llvm::orc::setUpInactivePlatform).create();
  if (!made)
    return jitError("cannot start the linker for CPU kernels", made.takeError());
  return std::unique_ptr<Jit>(new Jit(std::move(*made)));
}

Result<std::unique_ptr<LoadedObject>> Jit::load(std::span<const std::byte> object, const std::string &name) {
  static std::atomic<std::uint64_t> loads{0}; // Library names must differ.
  std::string unique = name + "." + std::to_string(loads++);
  llvm::Expected<llvm::orc::JITDylib &> library = jit->getExecutionSession().createJITDylib(unique);
  if (!library)
    return jitError("cannot load '" + name + "'", library.takeError());
  auto loaded = std::make_unique<LoadedObject>(*jit, *library);
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit->getDataLayout().getGlobalPrefix());
  if (!process)
    return jitError("cannot read this process's symbols", process.takeError());
  library->addGenerator(std::move(*process));
  llvm::StringRef bytes(reinterpret_cast<const char *>(object.data()), object.size());
  if (llvm::Error error = jit->addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(bytes, unique)))
    return jitError("cannot load '" + name + "'", std::move(error));
  return loaded;
}

} // namespace kfuse::runtime::cpu
