#include "runtime/pack/Manifest.h"

#include "runtime/PlainCbor.h"
#include "runtime/PlanJson.h"

#include <set>
#include <stdexcept>
#include <string_view>

namespace kfuse {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Dim, name, low, high)
}

namespace kfuse::runtime {

// Fields that a later minor version adds have defaults (WITH_DEFAULT), so that packs without them are read.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedProgram, section, code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LengthFactor, size, dim, times, plus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LengthEdges, readsLengths, storedInPlace, inputs, results)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedBucket, main, prepare, edges, preparedKeys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PackVariant, target, sku, multiprocessors, sharedBytes, cuda, features,
                                                compiler, nanoseconds, plan, main, prepare, rungs, buckets)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Manifest, model, tool, inputs, parameters, states, outputs,
                                                updatedStates, weights, variants, dims, inputDims, outputDims,
                                                weightsFile, weightSeals)

namespace {

constexpr std::int64_t mostLength = std::int64_t(1) << 31;

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

void checkDims(const Manifest &manifest, const std::vector<TensorDesc> &tensors,
               const std::vector<std::vector<Dim>> &dims) {
  require(dims.size() == (manifest.dims.empty() ? 0 : tensors.size()), "it describes lengths of other tensors");
  for (std::size_t i = 0; i < dims.size(); ++i)
    require(dims[i].empty() || dims[i].size() == tensors[i].shape.size(), "it describes lengths of other sizes");
}

/// A run reads its lengths by these axes.
void check(const std::vector<LengthAxes> &tensors, std::size_t expected, std::size_t dims) {
  require(tensors.size() == expected, "a program's lengths are of other tensors");
  for (const LengthAxes &axes : tensors)
    for (const std::vector<LengthFactor> &axis : axes)
      for (const LengthFactor &factor : axis)
        require(factor.size >= 0 && factor.dim >= -1 && factor.dim < static_cast<std::int64_t>(dims) &&
                    factor.times >= 0 && factor.times <= mostLength && factor.plus >= -mostLength &&
                    factor.plus <= mostLength,
                "a size follows no length that there is");
}

void check(const Manifest &manifest, const PackVariant &variant) {
  require(variant.prepare.size() <= 1, variant.title() + " prepares in several programs");
  require(variant.buckets.empty() == manifest.dims.empty(), variant.title() + " is not of the pack's lengths");
  for (const PackedBucket &bucket : variant.buckets) {
    require(bucket.prepare.size() <= 1, variant.title() + " prepares in several programs");
    require(bucket.edges.storedInPlace.size() == manifest.outputs.size(), "a program's lengths are of other outputs");
    check(bucket.edges.inputs, manifest.inputs.size(), manifest.dims.size());
    check(bucket.edges.results, manifest.outputs.size(), manifest.dims.size());
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
  require(manifest.weightSeals.empty() || manifest.weightSeals.size() == manifest.parameters.size(),
          "it has seals of " + std::to_string(manifest.weightSeals.size()) + " of its " +
              std::to_string(manifest.parameters.size()) + " parameters");
  require(manifest.weightSeals.empty() == manifest.weightsFile.empty(), "it has a file of weights, or seals, alone");
  for (const Dim &dim : manifest.dims)
    require(dim.low >= 1 && dim.low <= dim.high && dim.high <= mostLength, "no run can have its lengths");
  checkDims(manifest, manifest.inputs, manifest.inputDims);
  checkDims(manifest, manifest.outputs, manifest.outputDims);
  require(!manifest.variants.empty(), "it holds no program");
  for (const PackVariant &variant : manifest.variants)
    check(manifest, variant);
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
