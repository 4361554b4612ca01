#include "ir/Printable.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Unicode.h"

namespace kfuse::ir {
namespace {

std::string writtenOut(llvm::UTF32 character) {
  if (character == '\n')
    return "\\n";
  return character < 0x80 ? llvm::formatv("\\x{0:x-2}", character).str()
                          : llvm::formatv("\\u{{{0:x-}}", character).str();
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  const auto *at = reinterpret_cast<const llvm::UTF8 *>(text.data()), *const end = at + text.size();
  while (at != end) {
    const llvm::UTF8 *const start = at;
    llvm::UTF32 character = 0;
    if (llvm::convertUTF8Sequence(&at, end, &character, llvm::strictConversion) != llvm::conversionOK) {
      at = start + 1;
      shown += llvm::formatv("\\x{0:x-2}", static_cast<unsigned>(*start));
    } else if (llvm::sys::unicode::isPrintable(static_cast<int>(character))) {
      shown.append(reinterpret_cast<const char *>(start), reinterpret_cast<const char *>(at));
    } else {
      shown += writtenOut(character);
    }
  }
  return shown;
}

} // namespace kfuse::ir
