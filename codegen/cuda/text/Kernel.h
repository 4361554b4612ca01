// What the CUDA templates share: what they can print, and the frame of source and plan.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/LinearGraph.h"
#include "codegen/cuda/text/SourceWriter.h"

namespace kfuse::codegen::cuda {

class ValuePrinter;

/// Refuses a graph, and a region, that applies a function without CUDA text.
ir::FusionDecision printable(const ir::ScalarGraph &graph);
ir::FusionDecision printable(const Region &region);

/// Writes the head of a kernel's source: what it computes, its config and bound, and the one include.
void writeHead(SourceWriter &writer, const Region &region, const TileConfig &config, const ir::Target &target,
               llvm::StringRef header);

/// "const bf16 *in0, ..., bf16 *__restrict__ out0": every buffer, in the plan's order.
std::string bufferParameters(const Region &region, const LinearGraph &graph);
/// Inputs that `values` read, in order, symbols and operands included.
std::vector<unsigned> inputsRead(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> values);
/// An input or a result by the name that a kernel's text gives it: "in1", "out0".
struct BufferName {
  bool isInput;
  unsigned number;
  std::string str() const { return (isInput ? "in" : "out") + std::to_string(number); }
};
/// Those that `loads` and the outputs touch.
std::vector<BufferName> buffersOf(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> loads);
/// The same as members "const bf16 *in1;" and as their initialiser "in1, out0"; with `outputs`, output i is called by
/// the i-th of these numbers.
std::vector<std::string> bufferMembers(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> loads);
std::string bufferNames(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> loads,
                        llvm::ArrayRef<unsigned> outputs = {});

/// The plan's source, and what tells the version of the device library that it includes.
void giveSource(KernelPlan &plan, std::string source);

/// A plan of `region` without source and launches, and a launch that takes every buffer.
KernelPlan planOf(const Region &region, const LinearGraph &graph, const ir::Target &target);
/// One that may start before its predecessor ends, where the target can: every kernel waits by itself.
Launch launchOf(const KernelPlan &plan, std::string entry, const ir::Target &target);

/// Opens an entry for blocks of `threads` (any constant expression) that begins with the wait for its predecessor.
void openEntry(SourceWriter &writer, const llvm::Twine &threads, const std::string &name,
               const std::string &parameters);

/// The text of how much of dimension `dim` a run computes, after printing what reads it; "" where that is all of it.
std::string runExtent(const LinearGraph &graph, unsigned dim, SourceWriter &writer);
/// The same in a scope that prints more of the graph.
std::string runExtent(ValuePrinter &scope, const LinearGraph &graph, unsigned dim);

inline std::string entryName(const Region &region) { return "kfuse_" + region.name; }
inline llvm::StringRef indexType(const LinearGraph &graph) { return graph.fits32Bits() ? "int" : "long long"; }

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The first `most` configs by modelled time, the fastest first.
std::vector<EstimatedConfig> fastest(std::vector<EstimatedConfig> ranked, std::size_t most);

/// About how many instructions the values of `roots` take at one point, not counting nodes for which
/// `isGiven` holds.
double instructionsOf(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> roots,
                      llvm::function_ref<bool(ir::Scalar)> isGiven);
/// Microseconds to issue them on all SMs (128 lanes a clock each).
inline double issueUs(double instructions, const ir::Target &target) {
  return instructions / (target.f32FlopsPerUs / 2);
}

/// Microseconds to move `bytes` through DRAM when `inFlight` bytes are requested on each SM at a time.
/// Little's law: 4.8 TB/s times 0.7 us of latency are 25 KB on each of 132 SMs.
double memoryUs(double bytes, double inFlight, const ir::Target &target);

/// The same for kernels that stream, with `inFlight` bytes of their reads under way on each SM: the time that reads
/// wait, 1 us of latency each, and that all bytes take on the bus add up as squares. A gather of 512 MB on an H200
/// takes 368, 277 and 257 us with 16, 32 and 64 KB; this says 357, 280 and 258.
double streamUs(double read, double written, double inFlight, const ir::Target &target);

/// A grid whose blocks each load their part, work on it and store it.
struct StreamingGrid {
  double bytes = 0;        ///< All that is moved.
  double blocks = 0;       ///< Parts, one after the other on as many blocks as fit.
  double threads = 0;      ///< Threads of a block.
  double blocksPerSm = 1;  ///< How many blocks fit on one.
  double instructions = 0; ///< Instructions of a thread.
  double waitsUs = 0;      ///< What a part waits for beyond its first bytes: barriers, further passes over memory.
  bool startsOnce = false; ///< Each block takes one part after the other.
};

/// Microseconds it takes after its launch: the bus, the issue of instructions, the latency of the parts that follow
/// each other on an SM and the start of their blocks overlap but for a little, and the first part's latency shows.
/// Fitted on an H200 to 280 configs of seven row kernels (256 x 1024 to 4096 x 4096) and 480 of ten elementwise ones,
/// in bf16.
double streamingGridUs(const StreamingGrid &grid, const ir::Target &target);

} // namespace kfuse::codegen::cuda
