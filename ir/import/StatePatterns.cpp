#include "ir/import/StatePatterns.h"

#include "ir/import/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kfuse::ir {
namespace {

using llvm::StringRef;

Error usage(const std::string &pattern, const llvm::Twine &reason) {
  return {ErrorCode::Usage, ("--state " + pattern + " " + reason).str()};
}

std::string namesOf(llvm::ArrayRef<std::string> names) { return names.empty() ? "none" : llvm::join(names, ", "); }

/// One side of a pattern: texts with a `*` between each two.
using Side = llvm::SmallVector<StringRef, 2>;

struct Pattern {
  Side input, output;
  std::int64_t capacity = 0;
};

Side sideOf(StringRef text) {
  Side side;
  text.split(side, '*');
  return side;
}

/// Digits behind the last ':' are a number of rows.
Result<Pattern> parse(const std::string &text) {
  Pattern pattern;
  StringRef names = text;
  auto [before, rows] = names.rsplit(':');
  if (!rows.empty() && llvm::all_of(rows, [](char c) { return c >= '0' && c <= '9'; })) {
    if (rows.getAsInteger(10, pattern.capacity) || pattern.capacity < 2 || pattern.capacity > maxTensorBytes)
      return usage(text, "gives a capacity of " + rows + " rows; from 2 on");
    names = before;
  }
  auto [input, output] = names.split('=');
  if (input.empty() || output.empty() || output.contains('='))
    return usage(text, "is not of the form 'past*=present*' or, for a cache that grows, 'past*=present*:4096'");
  pattern.input = sideOf(input), pattern.output = sideOf(output);
  if (pattern.input.size() != pattern.output.size())
    return usage(text, "has " + llvm::Twine(pattern.input.size() - 1) + " '*' on the left and " +
                           llvm::Twine(pattern.output.size() - 1) + " on the right; each stands for the same text");
  return pattern;
}

/// What the stars of `side` stand for in `name`; each takes as little as it can.
std::optional<llvm::SmallVector<StringRef, 2>> match(const Side &side, StringRef name) {
  llvm::SmallVector<StringRef, 2> stars;
  if (!name.consume_front(side.front()))
    return std::nullopt;
  for (auto [i, text] : llvm::enumerate(llvm::drop_begin(side))) {
    const bool isLast = i + 2 == side.size();
    if (isLast && !name.ends_with(text))
      return std::nullopt;
    const std::size_t at = isLast ? name.size() - text.size() : name.find(text);
    if (at == StringRef::npos)
      return std::nullopt;
    stars.push_back(name.take_front(at));
    name = name.drop_front(at + text.size());
  }
  return name.empty() ? std::optional(stars) : std::nullopt;
}

std::string filledIn(const Side &side, llvm::ArrayRef<StringRef> stars) {
  std::string name = side.front().str();
  for (auto [star, text] : llvm::zip_equal(stars, llvm::drop_begin(side)))
    name += star.str() + text.str();
  return name;
}

} // namespace

Result<std::vector<StatePair>> pairStates(const std::vector<std::string> &patterns, llvm::ArrayRef<std::string> inputs,
                                          llvm::ArrayRef<std::string> outputs) {
  std::vector<StatePair> pairs;
  for (const std::string &text : patterns) {
    Result<Pattern> pattern = parse(text);
    if (!pattern)
      return pattern.error();
    const std::size_t before = pairs.size();
    for (const std::string &input : inputs) {
      std::optional<llvm::SmallVector<StringRef, 2>> stars = match(pattern->input, input);
      if (!stars)
        continue;
      std::string output = filledIn(pattern->output, *stars);
      if (!llvm::is_contained(outputs, output))
        return usage(text, "takes input '" + input + "' for output '" + output +
                               "', which there is not; the model has " + namesOf(outputs));
      for (const StatePair &other : pairs)
        if (other.input == input || other.output == output)
          return usage(text, "takes input '" + input + "' for output '" + output + "', but --state " + other.option +
                                 " takes '" + other.input + "' for '" + other.output + "'; name each once");
      pairs.push_back({input, std::move(output), pattern->capacity, text});
    }
    if (pairs.size() == before)
      return usage(text, "names no input; the model has " + namesOf(inputs));
  }
  return pairs;
}

} // namespace kfuse::ir
