#include "tuner/Roofline.h"

#include <algorithm>
#include <array>

namespace kfuse::tuner {
namespace {

constexpr double burstUs = 2000;
constexpr double oneSided = 0.8;

double mathUs(const Work &work, const Peaks &peaks) {
  bool full = (work.mathType == DType::F32 && !work.tf32) || !isFloat(work.mathType);
  // Tensor cores take twice as many 8-bit floats as 16-bit ones, and half as many of tf32.
  double pace = isFloat8(work.mathType) ? 2 : work.tf32 ? 0.5 : 1;
  double atBurst = work.flops / (pace * (full ? peaks.f32Burst : peaks.halfBurst));
  return atBurst <= burstUs ? atBurst : work.flops / (pace * (full ? peaks.f32Sustained : peaks.halfSustained));
}

double memoryUs(const Work &work, const Peaks &peaks) {
  double bytes = work.bytesRead + work.bytesWritten;
  if (work.bytesRead >= oneSided * bytes)
    return bytes / peaks.readBytesPerUs;
  if (work.bytesWritten >= oneSided * bytes)
    return bytes / peaks.writeBytesPerUs;
  return bytes / peaks.copyBytesPerUs;
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
  const std::array<Roofline, 3> ceilings{{{mathUs(work, peaks), Regime::Compute},
                                          {memoryUs(work, peaks), Regime::Memory},
                                          {work.launches * peaks.launchUs, Regime::Launch}}};
  return *std::max_element(ceilings.begin(), ceilings.end(),
                           [](const Roofline &a, const Roofline &b) { return a.boundUs < b.boundUs; });
}

} // namespace kfuse::tuner
