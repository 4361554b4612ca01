// Sizes by name in the dialect's text: tensor<1x${tokens}x4096xbf16>.
#pragma once

#include "kfuse/error.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <string>

namespace kfuse::ir {

/// The text with a number for each ${...}, which is a sum of products of names and numbers: ${tokens},
/// ${batch * tokens + 1}. It may stand wherever an integer may. Usage for a name without a size, and for sizes where no
/// ${...} names any; BadModel for what is none.
Result<std::string> withSizes(llvm::StringRef text, const std::map<std::string, std::int64_t> &sizes);

} // namespace kfuse::ir
