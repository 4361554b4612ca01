#include "ir/import/onnx/file/InputShapes.h"

#include "ir/import/Limits.h"
#include "ir/import/onnx/file/TensorReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kfuse::ir::onnx {

using ::onnx::TensorShapeProto;
using ::onnx::ValueInfoProto;

namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

/// "[batch, 128, ?]".
std::string wordsOf(const TensorShapeProto &shape) {
  std::string text;
  for (const TensorShapeProto::Dimension &dim : shape.dim()) {
    text += text.empty() ? "" : ", ";
    text += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param();
  }
  return "[" + text + "]";
}

const TensorShapeProto &shapeOf(const ValueInfoProto &input) { return input.type().tensor_type().shape(); }

/// The size that `name` stands for: a number, a symbol, or a sum of them, as exporters name what a cache grows to.
/// Symbols that `sizeOf` does not know leave it open.
std::optional<std::int64_t> evaluate(llvm::StringRef name,
                                     llvm::function_ref<std::optional<std::int64_t>(llvm::StringRef)> sizeOf) {
  if (std::optional<std::int64_t> size = sizeOf(name.trim()))
    return size;
  std::int64_t number = 0;
  if (!name.trim().getAsInteger(10, number))
    return number >= 0 && number <= maxTensorBytes ? std::optional(number) : std::nullopt;
  if (!name.contains('+'))
    return std::nullopt;
  auto [first, rest] = name.split('+');
  std::optional<std::int64_t> a = evaluate(first, sizeOf), b = evaluate(rest, sizeOf);
  return a && b && *a <= maxTensorBytes && *b <= maxTensorBytes ? std::optional(*a + *b) : std::nullopt;
}

/// Sizes that a model may well have, for an example: equal where names are, and sums where names say so.
class PlausibleSizes {
public:
  PlausibleSizes(const std::vector<const ValueInfoProto *> &inputs, const std::map<std::string, std::int64_t> &known)
      : sizes(known.begin(), known.end()) {
    for (const ValueInfoProto *input : inputs)
      for (const TensorShapeProto::Dimension &dim : shapeOf(*input).dim())
        hasPast |= llvm::StringRef(dim.dim_param()).contains_insensitive("past");
  }

  std::int64_t of(const TensorShapeProto::Dimension &dim, std::size_t i) {
    if (dim.has_dim_value())
      return dim.dim_value();
    const std::string &name = dim.dim_param();
    if (name.empty())
      return guess("", i);
    std::int64_t size = evaluate(name, [&](llvm::StringRef symbol) -> std::optional<std::int64_t> {
                          if (auto known = sizes.find(symbol.str()); known != sizes.end())
                            return known->second;
                          if (symbol.contains('+') || symbol.find_first_not_of("0123456789") == symbol.npos)
                            return std::nullopt;
                          return guess(symbol, i);
                        }).value_or(1);
    return sizes.try_emplace(name, size).first->second;
  }

private:
  /// A decoder with a past of 127 tokens takes the next one; without one, 128 tokens.
  std::int64_t guess(llvm::StringRef name, std::size_t i) const {
    auto says = [&](std::initializer_list<llvm::StringRef> words) {
      return llvm::any_of(words, [&](llvm::StringRef word) { return name.contains_insensitive(word); });
    };
    constexpr std::int64_t tokens = 128, pixels = 224;
    if (says({"batch", "num_images", "beam"}))
      return 1;
    if (says({"past", "cache"}))
      return tokens - 1;
    if (says({"height", "width"}))
      return pixels;
    if (says({"channel"}))
      return 3;
    if (says({"total", "encoder", "key", "kv", "max"}))
      return tokens;
    if (says({"seq", "len", "tok"}))
      return hasPast ? 1 : tokens;
    return i == 0 ? 1 : tokens; // The first dimension is a batch as a rule.
  }

  std::map<std::string, std::int64_t> sizes;
  bool hasPast = false;
};

/// `text` as one word of a shell's command line.
std::string shellWord(const std::string &text) {
  bool isPlain =
      llvm::all_of(text, [](char one) { return llvm::isAlnum(one) || llvm::StringRef("_-./:=,@%+").contains(one); });
  if (isPlain)
    return text;
  std::string quoted = "'";
  for (char one : text)
    quoted += one == '\'' ? std::string("'\\''") : std::string(1, one);
  return quoted + "'";
}

/// Whether a dimension's name is one that a range may be given for: no sum, and no number.
bool isName(llvm::StringRef name) {
  return !name.empty() && !name.contains('+') && name.find_first_not_of("0123456789") != name.npos;
}

class Binder {
public:
  explicit Binder(const std::map<std::string, Shape> &given) : given(given) {}

  Result<void> bindSymbols(const std::vector<const ValueInfoProto *> &inputs,
                           const std::map<std::string, std::int64_t> &sizes);
  Result<TensorDesc> describe(const ValueInfoProto &input) const;
  /// Usage, with options for the inputs whose sizes are open; nothing when there are none.
  Result<void> checkComplete(const std::vector<const ValueInfoProto *> &inputs) const;
  std::map<std::string, std::int64_t> sizes() const;

private:
  struct Symbol {
    std::int64_t size = 0;
    std::string from; ///< The option that gave it.
  };

  Result<void> bind(const std::string &symbol, std::int64_t size, const std::string &from);
  Result<void> checkSums() const;
  Result<void> bindInput(const ValueInfoProto &input, const Shape &shape);
  std::optional<std::int64_t> sizeOf(const TensorShapeProto::Dimension &dim, const Shape *shape, int i) const;

  const std::map<std::string, Shape> &given;
  std::map<std::string, Symbol> symbols;
};

Result<void> Binder::bind(const std::string &symbol, std::int64_t size, const std::string &from) {
  auto [entry, isNew] = symbols.try_emplace(symbol, Symbol{size, from});
  if (isNew || entry->second.size == size)
    return {};
  return usage("dimension '" + symbol + "' is " + std::to_string(entry->second.size) + " by --shape " +
               entry->second.from + " but " + std::to_string(size) + " by --shape " + from);
}

Result<void> Binder::bindInput(const ValueInfoProto &input, const Shape &shape) {
  std::string option = input.name() + "=" + kfuse::toString(shape);
  const TensorShapeProto &declared = shapeOf(input);
  auto mismatch = [&] {
    return usage("--shape " + option + " does not fit input '" + input.name() + "', which is " + wordsOf(declared) +
                 " in the file");
  };
  if (!input.type().tensor_type().has_shape())
    return {}; // Any rank.
  if (declared.dim_size() != static_cast<int>(shape.size()))
    return mismatch();
  for (auto [dim, size] : llvm::zip_equal(declared.dim(), shape)) {
    if (dim.has_dim_value() && dim.dim_value() != size)
      return mismatch();
    if (!dim.has_dim_value() && !dim.dim_param().empty())
      if (Result<void> bound = bind(dim.dim_param(), size, option); !bound)
        return bound;
  }
  return {};
}

Result<void> Binder::bindSymbols(const std::vector<const ValueInfoProto *> &inputs,
                                 const std::map<std::string, std::int64_t> &sizes) {
  std::map<std::string, const ValueInfoProto *> byName;
  std::map<std::string, bool> isSymbol;
  for (const ValueInfoProto *input : inputs) {
    byName[input->name()] = input;
    for (const TensorShapeProto::Dimension &dim : shapeOf(*input).dim())
      isSymbol[dim.dim_param()] = true;
  }
  auto known = [&] {
    std::string words;
    for (const ValueInfoProto *input : inputs)
      words += (words.empty() ? "" : ", ") + input->name() + " " + wordsOf(shapeOf(*input));
    return words;
  };
  for (const auto &[name, size] : sizes) {
    if (name.empty() || !isSymbol.count(name))
      return usage("--dims " + name + " names no dimension of an input; the model has " + known());
    if (Result<void> bound = bind(name, size, name + "=" + std::to_string(size)); !bound)
      return bound;
  }
  for (const auto &[name, shape] : given) {
    bool namesInput = byName.count(name) > 0;
    if (!namesInput && !(isSymbol.count(name) && shape.size() == 1))
      return usage("--shape " + name + "=" + kfuse::toString(shape) + " names no input; the model has " + known());
    Result<void> bound =
        namesInput ? bindInput(*byName[name], shape) : bind(name, shape[0], name + "=" + std::to_string(shape[0]));
    if (!bound)
      return bound;
  }
  return checkSums();
}

/// What is given for a dimension that is named like a sum is that of its parts, where they are given, too.
Result<void> Binder::checkSums() const {
  for (const auto &[name, symbol] : symbols) {
    auto sizeOfPart = [&, &whole = name](llvm::StringRef part) -> std::optional<std::int64_t> {
      auto known = symbols.find(part.str());
      return part == whole || known == symbols.end() ? std::nullopt : std::optional(known->second.size);
    };
    std::optional<std::int64_t> sum = evaluate(name, sizeOfPart);
    if (sum && *sum != symbol.size)
      return usage("dimension '" + name + "' is " + std::to_string(symbol.size) + " by --shape " + symbol.from +
                   " but " + std::to_string(*sum) + " by those of its parts");
  }
  return {};
}

std::optional<std::int64_t> Binder::sizeOf(const TensorShapeProto::Dimension &dim, const Shape *shape, int i) const {
  if (dim.has_dim_value())
    return dim.dim_value();
  if (shape)
    return (*shape)[i];
  if (dim.dim_param().empty())
    return std::nullopt;
  return evaluate(dim.dim_param(), [&](llvm::StringRef name) {
    auto symbol = symbols.find(name.str());
    return symbol == symbols.end() ? std::nullopt : std::optional(symbol->second.size);
  });
}

std::map<std::string, std::int64_t> Binder::sizes() const {
  std::map<std::string, std::int64_t> all;
  for (const auto &[name, symbol] : symbols)
    all[name] = symbol.size;
  return all;
}

Result<void> Binder::checkComplete(const std::vector<const ValueInfoProto *> &inputs) const {
  PlausibleSizes plausible(inputs, sizes());
  std::string open, options;
  for (const ValueInfoProto *input : inputs) {
    if (!input->type().has_tensor_type() || given.count(input->name()))
      continue;
    const bool hasShape = input->type().tensor_type().has_shape();
    Shape shape = hasShape ? Shape() : Shape{1, 128};
    bool isOpen = !hasShape;
    for (auto [i, dim] : llvm::enumerate(shapeOf(*input).dim())) {
      std::optional<std::int64_t> size = sizeOf(dim, nullptr, static_cast<int>(i));
      isOpen |= !size;
      shape.push_back(size ? *size : plausible.of(dim, i));
    }
    if (!isOpen)
      continue;
    open += (open.empty() ? "" : ", ") + input->name() + (hasShape ? " " + wordsOf(shapeOf(*input)) : " of any shape");
    options += " --shape " + shellWord(input->name() + "=" + kfuse::toString(shape));
  }
  if (open.empty())
    return {};
  std::string ranges;
  for (const ValueInfoProto *input : inputs)
    for (const TensorShapeProto::Dimension &dim : shapeOf(*input).dim())
      if (const std::string range = " --dims " + shellWord(dim.dim_param() + "=1..") + "N";
          isName(dim.dim_param()) && !symbols.count(dim.dim_param()) && ranges.find(range) == std::string::npos)
        ranges += range;
  return usage("the file leaves sizes of its inputs open: " + open + "; give them, as in" + options +
               (ranges.empty() ? "" : ", or ranges for programs of any length, as in" + ranges));
}

Result<TensorDesc> Binder::describe(const ValueInfoProto &input) const {
  auto malformed = [&](const std::string &reason) {
    return Error{ErrorCode::BadModel, "input '" + input.name() + "' " + reason};
  };
  if (!input.type().has_tensor_type())
    return malformed("is no tensor");
  int elementType = input.type().tensor_type().elem_type();
  std::optional<DType> type = dtypeOfOnnx(elementType);
  if (!type)
    return malformed("is of type " + nameOfOnnxType(elementType) +
                     "; kfuse has FLOAT, FLOAT16, BFLOAT16, INT32, INT64, INT8, UINT8, INT4, UINT4 and BOOL");

  auto found = given.find(input.name());
  const Shape *shape = found == given.end() ? nullptr : &found->second;
  TensorDesc desc{input.name(), *type, {}};
  if (shape && !input.type().tensor_type().has_shape())
    desc.shape = *shape;
  for (auto [i, dim] : llvm::enumerate(shapeOf(input).dim())) {
    desc.shape.push_back(sizeOf(dim, shape, static_cast<int>(i)).value_or(0)); // None is open: checkComplete.
  }
  if (!checkedElementCount(desc.shape, *type))
    return malformed("has the shape " + kfuse::toString(desc.shape) +
                     ": a negative size, over 1 TiB, or over 16 dimensions");
  return desc;
}

} // namespace

Result<InputShapes> bindInputShapes(const std::vector<const ValueInfoProto *> &inputs,
                                    const std::map<std::string, Shape> &given,
                                    const std::map<std::string, std::int64_t> &sizes) {
  Binder binder(given);
  if (Result<void> bound = binder.bindSymbols(inputs, sizes); !bound)
    return bound.error();
  if (Result<void> complete = binder.checkComplete(inputs); !complete)
    return complete.error();
  InputShapes shapes;
  shapes.symbols = binder.sizes();
  for (const ValueInfoProto *input : inputs) {
    Result<TensorDesc> desc = binder.describe(*input);
    if (!desc)
      return desc.error();
    shapes.inputs.push_back(std::move(*desc));
  }
  return shapes;
}

std::optional<llvm::SmallVector<std::int64_t, 6>> boundShape(const ValueInfoProto &info,
                                                             const std::map<std::string, std::int64_t> &symbols) {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
    return std::nullopt;
  llvm::SmallVector<std::int64_t, 6> shape;
  for (const TensorShapeProto::Dimension &dim : shapeOf(info).dim()) {
    std::optional<std::int64_t> size;
    if (dim.has_dim_value())
      size = dim.dim_value();
    else if (!dim.dim_param().empty())
      size = evaluate(dim.dim_param(), [&](llvm::StringRef name) {
        auto symbol = symbols.find(name.str());
        return symbol == symbols.end() ? std::nullopt : std::optional(symbol->second);
      });
    if (!size || *size < 0 || *size > maxTensorBytes)
      return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

} // namespace kfuse::ir::onnx
