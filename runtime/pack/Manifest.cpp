#include "runtime/pack/Manifest.h"

#include "runtime/PlainCbor.h"
#include "runtime/PlanJson.h"

#include <set>
#include <stdexcept>
#include <string_view>

namespace kfuse::runtime {

// Fields that a later minor version adds have defaults (WITH_DEFAULT), so that packs without them are read.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedProgram, section, code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackVariant, target, sku, multiprocessors, sharedBytes, cuda, features, compiler,
                                   nanoseconds, plan, main, prepare)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Manifest, model, tool, inputs, parameters, states, outputs, updatedStates, weights,
                                   variants)

namespace {

void require(bool holds, const std::string &what) {
  if (!holds)
    throw std::runtime_error(what);
}

void checkTensors(const std::vector<TensorDesc> &tensors) {
  std::set<std::string_view> names;
  for (const TensorDesc &tensor : tensors) {
    require(tensor.type <= lastDType, "'" + tensor.name + "' has an unknown type");
    require(names.insert(tensor.name).second, "two tensors of a kind are named '" + tensor.name + "'");
  }
}

void check(const Manifest &manifest) {
  for (const auto *tensors : {&manifest.inputs, &manifest.parameters, &manifest.states, &manifest.outputs})
    checkTensors(*tensors);
  require(manifest.updatedStates.size() == manifest.outputs.size(), "it does not say of each output what state it is");
  for (std::int32_t state : manifest.updatedStates)
    require(state >= -1 && state < static_cast<std::int64_t>(manifest.states.size()),
            "an output is state " + std::to_string(state) + " of " + std::to_string(manifest.states.size()));
  require(manifest.weights.empty() || manifest.weights.size() == manifest.parameters.size(),
          "it holds weights of " + std::to_string(manifest.weights.size()) + " of its " +
              std::to_string(manifest.parameters.size()) + " parameters");
  require(!manifest.variants.empty(), "it holds no program");
  for (const PackVariant &variant : manifest.variants)
    require(variant.prepare.size() <= 1, variant.title() + " prepares in several programs");
}

} // namespace

std::string PackVariant::title() const { return sku.empty() ? target : target + " for " + sku; }

std::vector<std::byte> Manifest::serialise() const {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(*this);
  const auto *first = reinterpret_cast<const std::byte *>(bytes.data());
  return {first, first + bytes.size()};
}

Result<Manifest> Manifest::deserialise(std::span<const std::byte> bytes) {
  if (!isPlainCbor(bytes))
    return Error{ErrorCode::BadModel, "its manifest is no plain CBOR"};
  try {
    const auto *first = reinterpret_cast<const std::uint8_t *>(bytes.data());
    auto manifest = nlohmann::json::from_cbor(first, first + bytes.size()).get<Manifest>();
    check(manifest);
    return manifest;
  } catch (const std::exception &error) {
    return Error{ErrorCode::BadModel, std::string("its manifest is wrong: ") + error.what()};
  }
}

} // namespace kfuse::runtime
