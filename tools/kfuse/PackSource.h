// A pack as C, for programs that have it inside.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kfuse::tools {

/// Whether what it names can begin C's identifiers.
bool isIdentifier(std::string_view name);

/// NAME.h: NAME_load(), NAME_prepare() and NAME_run(), and what they take, over kfuse/runtime.h; sizes as macros. C11
/// and C++. BadModel where the bytes are no pack.
Result<std::string> headerOf(std::span<const std::byte> pack, const std::string &name);

/// NAME_pack: what the header takes from the object, as it calls it.
std::string packSymbol(const std::string &name);
/// NAME.c, which defines it.
std::string sourceOf(std::span<const std::byte> pack, const std::string &name);

} // namespace kfuse::tools
