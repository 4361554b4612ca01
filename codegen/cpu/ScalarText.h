// The text of functions of scalars, and of conversions from and to what memory holds.
#pragma once

#include "codegen/cpu/Kernel.h"

namespace kfuse::codegen::cpu {

/// Appends to the kernel's text, and names the values it makes.
class ScalarText {
public:
  explicit ScalarText(Kernel &kernel) : kernel(kernel), text(kernel.text) {}

  /// A value of memory as it is computed with, and back.
  std::string toCompute(const std::string &value, DType stored);
  std::string toStored(const std::string &value, DType stored);
  /// A function or a cast of operands that have these names.
  std::string apply(const ir::ScalarNode &node, const Names &operands);
  std::string combine(std::string_view reduction, DType type, const std::string &a, const std::string &b);

private:
  bool isExpBelowOne(const ir::ScalarNode &apply) const;
  /// A call of a library function; operands and their types as lists.
  std::string call(std::string_view callee, const std::string &operands, const std::string &types,
                   const std::string &result);

  Kernel &kernel;
  KernelText &text;
};

} // namespace kfuse::codegen::cpu
