// Weights in the safetensors format: 8 bytes with the length of a JSON header, the header, the tensors' bytes.
#pragma once

#include "ir/MappedFile.h"
#include "kfuse/error.h"
#include "kfuse/types.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kfuse::runtime {

struct StoredTensor {
  std::string type; ///< As the file spells it: "BF16". kfuse has not all of them.
  Shape shape;
  std::span<const std::byte> bytes; ///< Row-major; begins anywhere in memory.
};

/// kfuse's type of that name in the format; none where it has no such type.
std::optional<DType> typeStoredAs(std::string_view name);

/// The tensors of a file. What the format's own reader refuses is refused: a header beyond 100 MB, a name given twice,
/// bytes that no tensor or several have, a size that is not that of type and shape.
class Safetensors {
public:
  /// Io for a file that cannot be read, BadModel with the first thing that is wrong in it.
  static Result<Safetensors> open(const std::string &path);
  /// `file` must outlive what is made of it; `name` is what errors call it.
  static Result<Safetensors> parse(std::span<const std::byte> file, std::string name);

  const std::map<std::string, StoredTensor, std::less<>> &all() const { return tensors; }
  const std::string &fileName() const { return name; }
  bool holds(std::string_view name) const { return tensors.contains(name); }
  /// The bytes of a tensor of that name, type and shape; Usage says what the file holds instead.
  Result<std::span<const std::byte>> find(const TensorDesc &wanted) const;

private:
  explicit Safetensors(std::string name) : name(std::move(name)) {}

  std::string name;
  MappedFile file; ///< Empty where the caller holds the bytes.
  std::map<std::string, StoredTensor, std::less<>> tensors;
};

} // namespace kfuse::runtime
