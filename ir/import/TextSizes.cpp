#include "ir/import/TextSizes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <optional>
#include <set>

namespace kfuse::ir {
namespace {

/// Reads one ${...}, its brackets left out.
class SizeExpression {
public:
  SizeExpression(llvm::StringRef text, const std::map<std::string, std::int64_t> &sizes, std::set<std::string> &used)
      : all(text), rest(text), sizes(sizes), used(used) {}

  Result<std::int64_t> value() {
    std::int64_t sum = product();
    while (!isMalformed && !unknown && (skipSpace(), !rest.empty()))
      if (rest.consume_front("+"))
        isMalformed |= llvm::AddOverflow(sum, product(), sum) != 0;
      else
        isMalformed = true;
    if (unknown)
      return Error{ErrorCode::Usage,
                   "has the size '" + *unknown + "', of which no range is given; give --dims " + *unknown + "=1..N"};
    if (isMalformed)
      return Error{ErrorCode::BadModel, "has the size '${" + all.str() +
                                            "}', which is no sum of products; write ${tokens} or ${2 * tokens + 1}"};
    return sum;
  }

private:
  void skipSpace() { rest = rest.ltrim(' '); }

  std::int64_t product() {
    std::int64_t product = factor();
    while (!isMalformed && (skipSpace(), rest.consume_front("*")))
      isMalformed |= llvm::MulOverflow(product, factor(), product) != 0;
    return product;
  }

  std::int64_t factor() {
    skipSpace();
    const llvm::StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(word.size());
    std::int64_t number = 0;
    if (word.empty() || (llvm::isDigit(word.front()) && word.getAsInteger(10, number)))
      isMalformed = true;
    if (word.empty() || llvm::isDigit(word.front()))
      return number;
    used.insert(word.str());
    const auto known = sizes.find(word.str());
    if (known == sizes.end())
      unknown = unknown.value_or(word.str());
    return known == sizes.end() ? 0 : known->second;
  }

  llvm::StringRef all, rest;
  const std::map<std::string, std::int64_t> &sizes;
  std::set<std::string> &used;
  bool isMalformed = false;
  std::optional<std::string> unknown;
};

} // namespace

Result<std::string> withSizes(llvm::StringRef text, const std::map<std::string, std::int64_t> &sizes) {
  std::string numbers;
  std::set<std::string> used;
  for (llvm::StringRef rest = text; !rest.empty();) {
    const std::size_t begin = std::min(rest.find("${"), rest.size());
    numbers += rest.take_front(begin);
    rest = rest.drop_front(begin);
    if (rest.empty())
      break;
    const std::string line = "line " + std::to_string(1 + llvm::StringRef(numbers).count('\n')) + " ";
    const std::size_t end = rest.find_first_of("}\n");
    if (end == rest.npos || rest[end] == '\n')
      return Error{ErrorCode::BadModel, line + "begins a size with '${' that no '}' ends"};
    Result<std::int64_t> size = SizeExpression(rest.slice(2, end), sizes, used).value();
    if (!size)
      return Error{size.error().code, line + size.error().message};
    numbers += std::to_string(*size);
    rest = rest.drop_front(end + 1);
  }
  for (const auto &[name, size] : sizes)
    if (!used.contains(name))
      return Error{ErrorCode::Usage, "--dims " + name + " names no size of the text; it has " +
                                         (used.empty() ? "none: write ${" + name + "} for the numbers that follow it"
                                                       : llvm::join(used, ", "))};
  return numbers;
}

} // namespace kfuse::ir
