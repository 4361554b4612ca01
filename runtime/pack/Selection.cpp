#include "runtime/pack/Selection.h"

#include "runtime/CudaTarget.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace kfuse::runtime {
namespace {

std::string cudaName(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Drivers load every cubin of a CUDA major version that they serve, but no PTX that is newer than they are.
int neededCuda(const PackVariant &variant) { return variant.isPtx() ? variant.cuda : variant.cuda / 1000 * 1000; }

/// Why a variant does not run on a device; "" where it does.
std::string refusal(const PackVariant &variant, const DeviceKind &device) {
  if (!runsOn(variant.target, device.target))
    return "for another device";
  if (variant.multiprocessors > device.multiprocessors)
    return "counts on " + std::to_string(variant.multiprocessors) + " multiprocessors";
  if (variant.sharedBytes > device.sharedBytes)
    return "takes " + std::to_string(variant.sharedBytes) + " bytes of shared memory";
  if (neededCuda(variant) > device.cuda)
    return "needs a driver for " + cudaName(neededCuda(variant));
  for (const std::string &feature : variant.features)
    if (std::ranges::find(device.features, feature) == device.features.end())
      return "needs " + feature;
  return "";
}

/// What makes a variant better than others that run, most important first.
auto rank(const PackVariant &variant, const DeviceKind &device) {
  const bool isOwnSku = variant.sku == device.sku && variant.target == device.target;
  const std::optional<CudaTarget> target = parseCudaTarget(variant.target);
  // Among those for other SKUs the one that was tuned on none comes first, then what fills most of the device.
  return std::tuple(isOwnSku, !variant.isPtx(), target ? target->capability : 0, variant.sku.empty(),
                    variant.multiprocessors, variant.features.size());
}

std::string describe(const DeviceKind &device) {
  if (device.cuda == 0)
    return device.sku;
  return device.sku + " (" + device.target + ", " + std::to_string(device.multiprocessors) + " multiprocessors, " +
         cudaName(device.cuda) + ")";
}

bool isNamed(const PackVariant &variant, std::string_view name) {
  return name.empty() || variant.target == name || variant.sku == name;
}

} // namespace

Result<std::size_t> selectVariant(const Manifest &manifest, const DeviceKind &device, std::string_view forced) {
  std::optional<std::size_t> best;
  std::string refusals;
  for (std::size_t i = 0; i < manifest.variants.size(); ++i) {
    const PackVariant &variant = manifest.variants[i];
    const std::string refused = isNamed(variant, forced) ? refusal(variant, device) : "not the one that is forced";
    refusals += (refusals.empty() ? "" : "; ") + variant.title() + " (" + refused + ")";
    if (refused.empty() && (!best || rank(variant, device) > rank(manifest.variants[*best], device)))
      best = i;
  }
  if (best)
    return *best;
  if (!forced.empty())
    return Error{ErrorCode::Usage, "no program for '" + std::string(forced) + "' runs on " + describe(device) +
                                       "; the pack holds " + refusals};
  return Error{ErrorCode::NoDevice, "the pack holds no program that runs on " + describe(device) + ": " + refusals +
                                        "; make one with kfuse pack --target " + device.target};
}

} // namespace kfuse::runtime
