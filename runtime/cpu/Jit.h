// Relocatable objects made callable.
#pragma once

#include "kfuse/error.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kfuse::runtime::cpu {

/// A loaded object; its code is unmapped with it.
class LoadedObject {
public:
  LoadedObject(llvm::orc::LLJIT &jit, llvm::orc::JITDylib &library) : jit(jit), library(library) {}
  ~LoadedObject();
  LoadedObject(const LoadedObject &) = delete;
  LoadedObject &operator=(const LoadedObject &) = delete;

  /// Address of a symbol the object defines.
  Result<void *> address(const std::string &symbol);

private:
  llvm::orc::LLJIT &jit;
  llvm::orc::JITDylib &library;
};

/// ORC's linker. Thread-safe. It outlives the objects it loaded.
class Jit {
public:
  static Result<std::unique_ptr<Jit>> make();
  /// Links an object against the process's own symbols (memcpy and the like).
  Result<std::unique_ptr<LoadedObject>> load(std::span<const std::byte> object, const std::string &name);

private:
  explicit Jit(std::unique_ptr<llvm::orc::LLJIT> jit) : jit(std::move(jit)) {}
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace kfuse::runtime::cpu
