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

/// How many points of dimension `dim` the text of a kernel has whose blocks compute `block` of them. Where a run ends
/// it, and all of it is whole blocks, the text needs no number of them: all extents have the same one, so that
/// neighbouring buckets of lengths have one code.
int64_t printedExtent(const LinearGraph &graph, unsigned dim, int64_t block);

inline std::string entryName(const Region &region) { return "kfuse_" + region.name; }
inline llvm::StringRef indexType(const LinearGraph &graph) { return graph.fits32Bits() ? "int" : "long long"; }

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// About how many instructions the values of `roots` take at one point, not counting nodes for which
/// `isGiven` holds.
double instructionsOf(const LinearGraph &graph, llvm::ArrayRef<ir::Scalar> roots,
                      llvm::function_ref<bool(ir::Scalar)> isGiven);

} // namespace kfuse::codegen::cuda
