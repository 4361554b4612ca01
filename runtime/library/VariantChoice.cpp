#include "runtime/library/VariantChoice.h"

#include "runtime/Device.h"
#include "runtime/pack/Selection.h"

#include <algorithm>
#include <cstdlib>

namespace kfuse::runtime {

Result<VariantChoice> chooseVariant(const Manifest &manifest, const VariantWish &wish) {
  if (wish.target != "auto" && wish.target != "cpu" && wish.target != "gpu")
    return Error{ErrorCode::Usage, "a pack runs on auto, cpu or gpu, not '" + wish.target + "'"};
  const char *environment = std::getenv("KFUSE_VARIANT");
  const std::string forced = wish.variant.empty() && environment ? environment : wish.variant;
  auto on = [&](const DeviceKind &device) -> Result<VariantChoice> {
    Result<std::size_t> chosen = selectVariant(manifest, device, forced);
    if (!chosen)
      return chosen.error();
    return VariantChoice{*chosen, device.target == "cpu"};
  };
  auto isForCpu = [](const PackVariant &variant) { return variant.target == "cpu"; };
  const bool hasCpu = std::ranges::any_of(manifest.variants, isForCpu);
  const bool hasGpu = !std::ranges::all_of(manifest.variants, isForCpu);
  if (wish.target == "cpu" || (wish.target == "auto" && !hasGpu))
    return on(cpuKind());
  Result<DeviceKind> gpu = cudaKind(wish.device);
  Result<VariantChoice> onGpu = gpu ? on(*gpu) : gpu.error();
  return onGpu || wish.target == "gpu" || !hasCpu ? onGpu : on(cpuKind());
}

} // namespace kfuse::runtime
