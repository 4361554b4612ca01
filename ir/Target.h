// Nominal facts of the architectures that kfuse generates code for, and of their cards.
#pragma once

#include "kfuse/types.h"

#include <span>
#include <string>
#include <string_view>

namespace kfuse::ir {

/// Plain hardware facts of an architecture, or of one card of it, from the vendors' datasheets. They drive fusion and
/// ranking on any machine, so that two machines of one kind decide alike; measured peaks
/// (tuner/peaks/Peaks.h) only prune, stop and report.
struct Target {
  std::string name;            ///< "cpu", "sm_80", "sm_90a", ...
  std::string description;     ///< Its cards, "H100, H200".
  int capability = 0;          ///< Compute capability times ten (90 for sm_90a); 0 for the CPU.
  int multiprocessors = 0;     ///< SMs, or threads on the CPU.
  int sharedBytesPerBlock = 0; ///< Opt-in maximum of shared memory for one block.
  int registersPerSm = 0;      ///< 32-bit registers.
  int threadsPerSm = 0;        ///< Resident threads.
  double l2Bytes = 0;          ///< Last-level cache.
  double memoryBytesPerUs = 0; ///< DRAM bandwidth, bytes per microsecond (1e6 = 1 TB/s).
  double launchUs = 0;         ///< Time between dependent kernels inside one graph.
  double f32FlopsPerUs = 0;    ///< Plain FMA rate, FLOP per microsecond (1e6 = 1 TFLOP/s).
  double halfFlopsPerUs = 0;   ///< Dense f16/bf16 matrix rate with f32 accumulation.
  std::string card{};          ///< "H100 PCIe": as a device of this card names itself; "" for an architecture's row.

  friend bool operator==(const Target &, const Target &) = default;
  bool isCpu() const { return capability == 0; }
  /// For people: "sm_90a", or "H20 (sm_90a)" of a card.
  std::string title() const;
  /// Matrix rate for operands of `type`: FLOP per microsecond. With `tf32` those of f32 are cut for tensor cores.
  double matmulFlopsPerUs(DType type, bool tf32 = false) const;
};

/// Every architecture known, the CPU first.
std::span<const Target> knownTargets();

/// The cards whose facts differ from their architecture's row, one architecture after the other. Their `name` is the
/// architecture's.
std::span<const Target> knownCards();

/// The architecture or the card of that name, or null. "sm_90" finds "sm_90a", "h100-pcie" the card "H100 PCIe".
const Target *findTarget(std::string_view name);

/// The row of the card that a device of the architecture says it is ("NVIDIA H100 PCIe"), else the architecture's.
const Target &targetOfDevice(const Target &architecture, std::string_view deviceName);

/// The target with so many multiprocessors, its math rates in proportion: a part of a GPU (MIG), or a card without a
/// row.
Target withMultiprocessors(Target target, int count);

} // namespace kfuse::ir
