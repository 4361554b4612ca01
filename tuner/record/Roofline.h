// The roofline: the least time a kernel can take on a device, and what limits it.
#pragma once

#include "codegen/TileWork.h"
#include "ir/Target.h"
#include "kfuse/types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kfuse::tuner {

/// What a kernel cannot avoid doing: lower bounds, so that the roofline never claims too much time.
struct Work {
  double flops = 0;
  double bytesRead = 0; ///< Each input byte needed, once.
  double bytesWritten = 0;
  DType mathType = DType::F32; ///< Operand type of the kernel's matrix product; F32 where it has none.
  bool tf32 = false;           ///< Whether f32 operands may be cut for tensor cores.
  int launches = 1;
  bool isProduct = false; ///< A matrix product, whose weights more batch would share.
};

/// Ceilings of one device. Bandwidths in bytes per microsecond (1e6 = 1 TB/s), rates in FLOP per
/// microsecond (1e6 = 1 TFLOP/s).
struct Peaks {
  double readBytesPerUs = 0;
  double writeBytesPerUs = 0;
  double copyBytesPerUs = 0; ///< Bytes read plus bytes written.
  double f32Burst = 0;       ///< At the clock of the first milliseconds.
  double f32Sustained = 0;   ///< At the clock that power allows for long.
  double halfBurst = 0;
  double halfSustained = 0;
  double launchUs = 0;     ///< Least time of any kernel.
  bool measured = false;   ///< False: the datasheet's numbers.
  std::string remark = {}; ///< What raised a ceiling last; "" when nothing did.
  friend bool operator==(const Peaks &, const Peaks &) = default;
};

/// The datasheet's ceilings, for a device that is not here.
Peaks nominalPeaks(const ir::Target &target);

enum class Regime : std::uint8_t { Compute, Memory, Launch };

/// "compute", "memory", "launch".
std::string_view toString(Regime regime);

struct Roofline {
  double boundUs = 0;
  Regime regime = Regime::Launch;

  /// Share of the ceiling that a measured time reaches, in percent.
  double percent(double measuredUs) const { return 100 * boundUs / measuredUs; }
};

/// bound = max(flops / rate, bytes / bandwidth, launches x launch time), after Williams, Waterman and
/// Patterson, "Roofline", CACM 2009. The bandwidth is the one of the kernel's kind of traffic: read
/// or write when that is at least four fifths of the bytes, else copy. The math ceiling is the burst
/// rate up to 2 ms, the sustained rate beyond.
Roofline roofline(const Work &work, const Peaks &peaks);

/// What would move the bound of a kernel that is in this regime, for people.
std::string_view whatWouldHelp(const Work &work, Regime regime);

/// A measurement that beats its bound by more than 0.5 % has found the ceiling too low, which is raised to it.
/// The remark says so; nothing when it does not. By more than 10 % the work was overcounted, or not done.
std::optional<std::string> raiseCeiling(Peaks &peaks, const Work &work, double measuredUs);

/// Each ceiling the higher of the two; the remark is the first's, if it has one.
Peaks higherOf(const Peaks &first, const Peaks &second);

/// Microseconds that one config needs at least: the roofline of `work`, the FLOPs of its tiles at 1.2 times the
/// burst rate (multiprocessors clock higher where few are busy), and what they read from the last-level cache at
/// 4 times the rate of memory (64 bytes a clock and multiprocessor on an H100 are 3.6 times).
double configBoundUs(const Work &work, const codegen::TileWork &tiles, const Peaks &peaks);

/// Microseconds that moving the work's bytes takes at least where `blocks` of a grid share them among this many
/// multiprocessors: each moves at most its part of 4 times the rate of memory, so that few blocks cannot fill it.
double gridBoundUs(const Work &work, std::uint64_t blocks, int multiprocessors, const Peaks &peaks);

} // namespace kfuse::tuner
