// Relocatable objects of kernels made callable, without a linker.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace kfuse::runtime {

/// The code of an ELF object for x86-64, mapped to be run. Besides itself an object may call what a kernel needs of
/// libc and libm, and nothing else.
class ObjectCode {
public:
  /// BadModel with what is wrong in the object; OutOfMemory.
  static Result<std::unique_ptr<ObjectCode>> load(std::span<const std::byte> object);
  ~ObjectCode();
  ObjectCode(const ObjectCode &) = delete;
  ObjectCode &operator=(const ObjectCode &) = delete;

  /// Where a function begins that the object defines for others; null where it defines none of that name.
  void *find(const std::string &function) const;

private:
  class Linker;
  ObjectCode() = default;

  std::byte *memory = nullptr;
  std::size_t bytes = 0;
  std::map<std::string, void *> functions;
};

} // namespace kfuse::runtime
