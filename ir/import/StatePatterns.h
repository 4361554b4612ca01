// Which input becomes which output's memory: "past*=present*", "past*=present*:4096".
#pragma once

#include "kfuse/error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kfuse::ir {

/// An input that is written and returned, by name.
struct StatePair {
  std::string input, output;
  std::int64_t capacity = 0; ///< Rows of a cache that grows by what is joined to it; 0: the shapes are the same.
  std::string option;        ///< What named it, for errors.
};

/// The pairs that `patterns` name among a model's inputs and outputs, in the inputs' order. A `*` stands for any text,
/// and the k-th on the right for what the k-th on the left stands for. Usage for a pattern that is none, names no
/// input, an output that there is not, or what another pattern names too.
Result<std::vector<StatePair>> pairStates(const std::vector<std::string> &patterns, llvm::ArrayRef<std::string> inputs,
                                          llvm::ArrayRef<std::string> outputs);

} // namespace kfuse::ir
