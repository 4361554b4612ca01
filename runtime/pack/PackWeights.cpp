#include "runtime/pack/PackWeights.h"

#include "runtime/pack/Sha256.h"

namespace kfuse::runtime {
namespace {

/// The file that a pack names is seen from the pack's folder.
std::string besidePack(const Pack &pack, const std::string &file) {
  const std::string &name = pack.file().fileName();
  const std::size_t slash = name.rfind('/');
  return file.starts_with('/') || slash == name.npos ? file : name.substr(0, slash + 1) + file;
}

} // namespace

Result<PackWeights> PackWeights::open(std::shared_ptr<const Pack> pack, const WeightsSource &source) {
  PackWeights weights(std::move(pack));
  weights.isChecked = source.isChecked;
  weights.isOther = !source.file.empty();
  const std::string &named = weights.pack->manifest().weightsFile;
  if (!weights.isOther && named.empty())
    return weights;
  Result<Safetensors> opened = Safetensors::open(weights.isOther ? source.file : besidePack(*weights.pack, named));
  if (!opened)
    return opened.error();
  weights.file = std::make_shared<const Safetensors>(std::move(*opened));
  return weights;
}

Result<std::span<const std::byte>> PackWeights::find(std::size_t parameter) const {
  Result<std::span<const std::byte>> inside = pack->weights(parameter);
  if (!inside)
    return inside;
  const Manifest &manifest = pack->manifest();
  const TensorDesc &desc = manifest.parameters[parameter];
  const bool isInFile = isOther ? file->holds(desc.name) || inside->empty() : !manifest.sealOf(parameter).empty();
  if (isInFile)
    return findInFile(parameter);
  if (isChecked && !inside->empty())
    if (Result<void> sealed = pack->file().verify(manifest.weights[parameter]); !sealed)
      return sealed.error();
  return inside;
}

Result<std::span<const std::byte>> PackWeights::findInFile(std::size_t parameter) const {
  const TensorDesc &desc = pack->manifest().parameters[parameter];
  Result<std::span<const std::byte>> found = file->find(desc);
  const std::string_view seal = pack->manifest().sealOf(parameter);
  if (found && isChecked && !seal.empty() && toHex(sha256(*found)) != seal)
    return Error{ErrorCode::BadModel, file->fileName() + ": '" + desc.name +
                                          "' was altered: its SHA-256 is not that which the pack was made with"};
  return found;
}

} // namespace kfuse::runtime
