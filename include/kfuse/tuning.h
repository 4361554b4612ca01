// How long tuning may look, and how far it has come.
#pragma once

#include <cstdint>
#include <string_view>

namespace kfuse {

/// How hard a search looks, in rising order: None measures nothing and compiles the cost model's first choice, Quick
/// measures up to 8 candidates a kernel, Full up to 40.
enum class Effort : std::uint8_t { None, Quick, Full };

/// How far tuning has come, for a progress line.
struct Progress {
  std::string_view kernel; ///< The kernel that is being tuned; valid during the call.
  int kernelsDone = 0;
  int kernels = 0;
  int candidatesDone = 0; ///< Candidates of this kernel that were tried.
  int candidates = 0;     ///< Candidates of this kernel that may be tried.
  double bestUs = 0;      ///< The fastest of them, in microseconds; 0 until one was measured.
};

} // namespace kfuse
