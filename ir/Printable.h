// Names come from models, and may hold anything: what of them a terminal or a page may be shown.
#pragma once

#include <string>
#include <string_view>

namespace kfuse::ir {

/// `text` with every character that has no shape, such as the escape that begins a terminal's commands, and every byte
/// that is no UTF-8 written out: "\n", "\x1b", "\u{202e}".
std::string printable(std::string_view text);

} // namespace kfuse::ir
