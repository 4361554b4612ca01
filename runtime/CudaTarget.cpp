#include "runtime/CudaTarget.h"

#include <charconv>

namespace kfuse::runtime {

std::optional<CudaTarget> parseCudaTarget(std::string_view name) {
  CudaTarget target;
  target.isPtx = name.starts_with("compute_");
  if (!target.isPtx && !name.starts_with("sm_"))
    return std::nullopt;
  const char *digits = name.data() + name.find('_') + 1, *last = name.data() + name.size();
  const auto [end, failure] = std::from_chars(digits, last, target.capability);
  if (failure != std::errc() || target.capability <= 0)
    return std::nullopt;
  target.isExact = end != last;
  return target;
}

bool runsOn(std::string_view program, std::string_view device) {
  const std::optional<CudaTarget> built = parseCudaTarget(program), here = parseCudaTarget(device);
  if (!built || !here)
    return program == device;
  if (built->isExact)
    return built->capability == here->capability;
  return built->capability <= here->capability && (built->isPtx || built->capability / 10 == here->capability / 10);
}

} // namespace kfuse::runtime
