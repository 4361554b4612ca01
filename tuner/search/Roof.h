// What a kernel's time is bounded by, on this device.
#pragma once

#include "tuner/record/Roofline.h"

#include <algorithm>
#include <optional>
#include <string>

namespace kfuse::tuner {

class Roof {
public:
  /// Times within the share `tie` count as equal.
  Roof(const Work &work, const Peaks &peaks, double tie)
      : work(work), ceilings(peaks), lower(roofline(work, peaks)), tie(tie) {}

  const Peaks &peaks() const { return ceilings; }
  const Roofline &bound() const { return lower; }

  /// Whether looking further cannot pay. Nominal peaks prove nothing.
  bool isReachedBy(double us) const {
    constexpr double goodEnough = 0.97;
    return ceilings.measured && lower.boundUs >= goodEnough * us;
  }
  /// Whether something with this bound may still win, be it a tie. A best time that beats the region's bound shows that
  /// this is too high, and those of the configs with it.
  bool mayWin(double boundUs, double fastestUs) const {
    return !ceilings.measured || boundUs < (1 + tie) * std::max(fastestUs, lower.boundUs);
  }
  /// Raises the ceiling that kernel `name` has found too low, and says so; nothing where it has not.
  std::optional<std::string> raise(const std::string &name, double measuredUs) {
    const std::optional<std::string> remark = raiseCeiling(ceilings, work, measuredUs);
    if (!remark)
      return std::nullopt;
    ceilings.remark = name + ": " + *remark;
    lower = roofline(work, ceilings);
    return ceilings.remark;
  }

private:
  Work work;
  Peaks ceilings;
  Roofline lower;
  double tie;
};

} // namespace kfuse::tuner
