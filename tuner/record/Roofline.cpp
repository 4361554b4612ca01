#include "tuner/record/Roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kfuse::tuner {
namespace {

constexpr double burstUs = 2000;
constexpr double oneSided = 0.8;
constexpr double fewBusy = 1.2; // Clock of few busy multiprocessors over that of all.
constexpr double cacheSpeedup = 4;

/// One term of the roofline: the time that one of the device's ceilings asks for.
struct Ceiling {
  Regime regime;
  const char *name;
  double Peaks::*peak;
  double us;
};

/// Tensor cores take twice as many 8-bit floats as 16-bit ones, and half as many of tf32.
double mathPace(const Work &work) { return isFloat8(work.mathType) ? 2 : work.tf32 ? 0.5 : 1; }

double Peaks::*mathPeak(const Work &work, bool isBurst) {
  const bool isFull = (work.mathType == DType::F32 && !work.tf32) || !isFloat(work.mathType);
  if (isFull)
    return isBurst ? &Peaks::f32Burst : &Peaks::f32Sustained;
  return isBurst ? &Peaks::halfBurst : &Peaks::halfSustained;
}

Ceiling mathCeiling(const Work &work, const Peaks &peaks) {
  const double flops = work.flops / mathPace(work);
  const bool isBurst = flops / (peaks.*mathPeak(work, true)) <= burstUs;
  double Peaks::*peak = mathPeak(work, isBurst);
  return {Regime::Compute, isBurst ? "burst math rate" : "sustained math rate", peak, flops / (peaks.*peak)};
}

Ceiling memoryCeiling(const Work &work, const Peaks &peaks) {
  const double bytes = work.bytesRead + work.bytesWritten;
  if (work.bytesRead >= oneSided * bytes)
    return {Regime::Memory, "read bandwidth", &Peaks::readBytesPerUs, bytes / peaks.readBytesPerUs};
  if (work.bytesWritten >= oneSided * bytes)
    return {Regime::Memory, "write bandwidth", &Peaks::writeBytesPerUs, bytes / peaks.writeBytesPerUs};
  return {Regime::Memory, "copy bandwidth", &Peaks::copyBytesPerUs, bytes / peaks.copyBytesPerUs};
}

/// The ceiling that binds.
Ceiling lowestCeiling(const Work &work, const Peaks &peaks) {
  const std::array<Ceiling, 3> ceilings{
      {mathCeiling(work, peaks),
       memoryCeiling(work, peaks),
       {Regime::Launch, "launch time", &Peaks::launchUs, work.launches * peaks.launchUs}}};
  return *std::max_element(ceilings.begin(), ceilings.end(),
                           [](const Ceiling &a, const Ceiling &b) { return a.us < b.us; });
}

} // namespace

Peaks nominalPeaks(const ir::Target &target) {
  return {.readBytesPerUs = target.memoryBytesPerUs,
          .writeBytesPerUs = target.memoryBytesPerUs,
          .copyBytesPerUs = target.memoryBytesPerUs,
          .f32Burst = target.f32FlopsPerUs,
          .f32Sustained = target.f32FlopsPerUs,
          .halfBurst = target.halfFlopsPerUs,
          .halfSustained = target.halfFlopsPerUs,
          .launchUs = target.launchUs,
          .measured = false};
}

std::string_view toString(Regime regime) {
  constexpr std::array<std::string_view, 3> names{"compute", "memory", "launch"};
  return names[static_cast<std::size_t>(regime)];
}

Roofline roofline(const Work &work, const Peaks &peaks) {
  const Ceiling ceiling = lowestCeiling(work, peaks);
  return {ceiling.us, ceiling.regime};
}

std::string_view whatWouldHelp(const Work &work, Regime regime) {
  switch (regime) {
  case Regime::Compute:
    return "a narrower type, or fewer operations";
  case Regime::Memory:
    return work.isProduct ? "more batch, which shares its weights, or a narrower type"
                          : "fewer bytes (fusion, or a narrower type)";
  case Regime::Launch:
    break;
  }
  return "fewer launches (fusion, or more batch for each)";
}

Peaks higherOf(const Peaks &first, const Peaks &second) {
  Peaks peaks = first;
  for (double Peaks::*rate : {&Peaks::readBytesPerUs, &Peaks::writeBytesPerUs, &Peaks::copyBytesPerUs, &Peaks::f32Burst,
                              &Peaks::f32Sustained, &Peaks::halfBurst, &Peaks::halfSustained})
    peaks.*rate = std::max(first.*rate, second.*rate);
  peaks.launchUs = std::min(first.launchUs, second.launchUs);
  if (peaks.remark.empty())
    peaks.remark = second.remark;
  return peaks;
}

double configBoundUs(const Work &work, const codegen::TileWork &tiles, const Peaks &peaks) {
  const double tileUs = tiles.flops / (fewBusy * mathPace(work) * (peaks.*mathPeak(work, true)));
  const double cacheUs = tiles.cacheBytes / (cacheSpeedup * peaks.readBytesPerUs);
  return std::max({roofline(work, peaks).boundUs, tileUs, cacheUs});
}

double gridBoundUs(const Work &work, std::uint64_t blocks, int multiprocessors, const Peaks &peaks) {
  const double busy = std::min(1.0, static_cast<double>(blocks) / multiprocessors);
  return (work.bytesRead + work.bytesWritten) / (busy * cacheSpeedup * peaks.readBytesPerUs);
}

std::optional<std::string> raiseCeiling(Peaks &peaks, const Work &work, double measuredUs) {
  constexpr double noise = 1.005, believable = 1.1;
  const Ceiling ceiling = lowestCeiling(work, peaks);
  const double ratio = ceiling.us / measuredUs;
  if (!peaks.measured || ratio < noise)
    return std::nullopt;
  std::string beaten = fmt::format("{:.3g} us beats the {} by {:.1f} %", measuredUs, ceiling.name, 100 * (ratio - 1));
  if (ratio > believable)
    return beaten + ", more than can be believed: the ceiling stays";
  double &peak = peaks.*ceiling.peak;
  peak = ceiling.regime == Regime::Launch ? peak / ratio : peak * ratio;
  return beaten + ": the ceiling is raised";
}

} // namespace kfuse::tuner
