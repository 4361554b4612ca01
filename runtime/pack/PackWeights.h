// The parameters that come with a pack: inside it, or in a safetensors file.
#pragma once

#include "runtime/Safetensors.h"
#include "runtime/pack/Pack.h"

#include <memory>
#include <optional>
#include <string>

namespace kfuse::runtime {

/// Where parameters are looked for that the caller of a run does not give.
struct WeightsSource {
  std::string file;       ///< A safetensors file in place of the one that the pack names; "": that one.
  bool isChecked = false; ///< Their SHA-256 has to be what the pack says, which takes 3 s a GB.
};

/// Mapped: their bytes are read when they are looked at.
class PackWeights {
public:
  /// Errors of Safetensors::open().
  static Result<PackWeights> open(std::shared_ptr<const Pack> pack, const WeightsSource &source);

  /// The bytes of a parameter, none where the caller gives them. Usage names one that the file lacks, or has in another
  /// type or shape; BadModel one that was altered, where that is checked.
  Result<std::span<const std::byte>> find(std::size_t parameter) const;

private:
  explicit PackWeights(std::shared_ptr<const Pack> pack) : pack(std::move(pack)) {}
  Result<std::span<const std::byte>> findInFile(std::size_t parameter) const;

  std::shared_ptr<const Pack> pack;
  std::shared_ptr<const Safetensors> file; ///< Null where there is none.
  bool isOther = false;                    ///< It is not the one that the pack names.
  bool isChecked = false;
};

} // namespace kfuse::runtime
