#include "ir/import/onnx/InputShapes.h"

#include "ir/import/Limits.h"
#include "ir/import/onnx/TensorReader.h"

#include "llvm/ADT/STLExtras.h"
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

/// "BATCHx128": what to write after --shape NAME=.
std::string example(const TensorShapeProto &shape) {
  std::string text;
  for (auto [i, dim] : llvm::enumerate(shape.dim())) {
    std::string symbol = dim.dim_param().empty() ? "D" + std::to_string(i) : llvm::StringRef(dim.dim_param()).upper();
    text += (i > 0 ? "x" : "") + (dim.has_dim_value() ? std::to_string(dim.dim_value()) : symbol);
  }
  return text;
}

class Binder {
public:
  explicit Binder(const std::map<std::string, Shape> &given) : given(given) {}

  Result<void> bindSymbols(const std::vector<const ValueInfoProto *> &inputs);
  Result<TensorDesc> describe(const ValueInfoProto &input) const;

private:
  struct Symbol {
    std::int64_t size = 0;
    std::string from; ///< The option that gave it.
  };

  Result<void> bind(const std::string &symbol, std::int64_t size, const std::string &from);
  Result<void> bindInput(const ValueInfoProto &input, const Shape &shape);
  std::optional<std::int64_t> sizeOf(const TensorShapeProto::Dimension &dim, const Shape *shape, int i) const;

  const std::map<std::string, Shape> &given;
  std::map<std::string, Symbol> symbols;
};

const TensorShapeProto &shapeOf(const ValueInfoProto &input) { return input.type().tensor_type().shape(); }

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

Result<void> Binder::bindSymbols(const std::vector<const ValueInfoProto *> &inputs) {
  std::map<std::string, const ValueInfoProto *> byName;
  std::map<std::string, bool> isSymbol;
  for (const ValueInfoProto *input : inputs) {
    byName[input->name()] = input;
    for (const TensorShapeProto::Dimension &dim : shapeOf(*input).dim())
      isSymbol[dim.dim_param()] = true;
  }
  for (const auto &[name, shape] : given) {
    bool namesInput = byName.count(name) > 0;
    if (!namesInput && !(isSymbol.count(name) && shape.size() == 1)) {
      std::string known;
      for (const ValueInfoProto *input : inputs)
        known += (known.empty() ? "" : ", ") + input->name() + " " + wordsOf(shapeOf(*input));
      return usage("--shape " + name + "=" + kfuse::toString(shape) + " names no input; the model has " + known);
    }
    Result<void> bound =
        namesInput ? bindInput(*byName[name], shape) : bind(name, shape[0], name + "=" + std::to_string(shape[0]));
    if (!bound)
      return bound;
  }
  return {};
}

std::optional<std::int64_t> Binder::sizeOf(const TensorShapeProto::Dimension &dim, const Shape *shape, int i) const {
  if (dim.has_dim_value())
    return dim.dim_value();
  if (shape)
    return (*shape)[i];
  auto symbol = symbols.find(dim.dim_param());
  return symbol == symbols.end() ? std::nullopt : std::optional(symbol->second.size);
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
                     "; kfuse has FLOAT, FLOAT16, BFLOAT16, INT32, INT64 and BOOL");

  auto found = given.find(input.name());
  const Shape *shape = found == given.end() ? nullptr : &found->second;
  TensorDesc desc{input.name(), *type, {}};
  if (shape && !input.type().tensor_type().has_shape())
    desc.shape = *shape;
  else if (!input.type().tensor_type().has_shape())
    return usage("input '" + input.name() + "' has no shape in the file; give it: --shape " + input.name() + "=1x128");
  for (auto [i, dim] : llvm::enumerate(shapeOf(input).dim())) {
    std::optional<std::int64_t> size = sizeOf(dim, shape, static_cast<int>(i));
    if (!size)
      return usage("input '" + input.name() + "' is " + wordsOf(shapeOf(input)) +
                   " in the file; give every size: --shape " + input.name() + "=" + example(shapeOf(input)));
    desc.shape.push_back(*size);
  }
  if (!checkedElementCount(desc.shape, *type))
    return malformed("has the shape " + kfuse::toString(desc.shape) +
                     ": a negative size, over 1 TiB, or over 16 dimensions");
  return desc;
}

} // namespace

Result<std::vector<TensorDesc>> bindInputShapes(const std::vector<const ValueInfoProto *> &inputs,
                                                const std::map<std::string, Shape> &given) {
  Binder binder(given);
  if (Result<void> bound = binder.bindSymbols(inputs); !bound)
    return bound.error();
  std::vector<TensorDesc> descs;
  for (const ValueInfoProto *input : inputs) {
    Result<TensorDesc> desc = binder.describe(*input);
    if (!desc)
      return desc.error();
    descs.push_back(std::move(*desc));
  }
  return descs;
}

} // namespace kfuse::ir::onnx
