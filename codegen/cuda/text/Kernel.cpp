#include "codegen/cuda/text/Kernel.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "codegen/cuda/text/ScalarFunctions.h"
#include "codegen/cuda/text/ValuePrinter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <set>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

ir::FusionDecision printable(const ir::ScalarGraph &graph) {
  for (const ScalarNode &node : graph.nodes)
    if (node.kind == ScalarNode::Kind::Apply && !hasScalarFunction(node.function))
      return ir::FusionDecision::no("no CUDA text for the scalar function '" + node.function + "'");
  return ir::FusionDecision::yes();
}

ir::FusionDecision printable(const Region &region) {
  return region.isOneGraph() ? printable(region.graph) : ir::FusionDecision::no("holds attention, or several regions");
}

void writeHead(SourceWriter &writer, const Region &region, const TileConfig &config, const ir::Target &target,
               llvm::StringRef header) {
  double bytes = region.bytesRead + region.bytesWritten;
  double memory = bytes / target.memoryBytesPerUs,
         math = region.flops / target.matmulFlopsPerUs(region.mathType, region.tf32);
  writer.comment(region.ops);
  writer.comment(region.text);
  writer.comment("config: " + config.str());
  writer.comment(llvm::formatv("bound on {0}: {1:f2} us; {2:f2} us for {3:f3} MB, {4:f2} us for {5:f3} GFLOP",
                               target.name, std::max(memory, math), memory, bytes / 1e6, math, region.flops / 1e9)
                     .str());
  writer.line(("#include <kfuse/" + header + ">").str());
  writer.line();
  writer.line("using namespace kfuse;");
  writer.line();
}

/// Inputs whose memory output `number` may take: the same elements, each read only where it is then written.
static int aliasOf(const LinearGraph &graph, unsigned number) {
  const ir::ScalarOutput &output = graph.graph.outputs[number];
  if (output.inPlace >= 0)
    return output.inPlace;
  for (auto [i, input] : llvm::enumerate(graph.graph.inputs)) {
    auto readsElsewhere = [&, i = i](const ScalarNode &node) {
      return node.kind == ScalarNode::Kind::Load && node.input == i &&
             (node.map.getResult(0) != output.map.getResult(0) || !node.guards.empty() || !node.symbols.empty());
    };
    auto reads = [i = i](const ScalarNode &node) { return node.kind == ScalarNode::Kind::Load && node.input == i; };
    if (input.type == output.type && elementCount(input.shape) == elementCount(output.shape) &&
        llvm::any_of(graph.graph.nodes, reads) && llvm::none_of(graph.graph.nodes, readsElsewhere))
      return static_cast<int>(i);
  }
  return -1;
}

static std::string pointer(bool isConst, DType type, bool isRestrict, const std::string &name) {
  return (isConst ? "const " : "") + storedType(type).str() + (isRestrict ? " *__restrict__ " : " *") + name;
}

std::string bufferParameters(const Region &region, const LinearGraph &graph) {
  llvm::SmallVector<std::string> parameters;
  // What is constant and __restrict__ is read past the caches' coherence (ld.global.nc), and ptxas moves that in front
  // of griddepcontrol.wait. Fixed inputs are there by then, but for a state that this kernel updates: 20 products with
  // biases and norms behind them take 110.5 us instead of 117.3. Any other the kernel ahead may still write. That
  // outputs are __restrict__ says as much about which stores may change what is read.
  auto isUpdated = [&](size_t input) {
    return llvm::any_of(graph.graph.outputs,
                        [&](const ir::ScalarOutput &output) { return output.inPlace == static_cast<int>(input); });
  };
  for (auto [i, input] : llvm::enumerate(graph.graph.inputs))
    parameters.push_back(pointer(true, input.type, region.isFixed[i] && !isUpdated(i), "in" + std::to_string(i)));
  for (auto [i, output] : llvm::enumerate(graph.graph.outputs))
    parameters.push_back(pointer(false, output.type, aliasOf(graph, i) < 0, "out" + std::to_string(i)));
  return llvm::join(parameters, ", ");
}

std::vector<unsigned> inputsRead(const LinearGraph &graph, llvm::ArrayRef<Scalar> values) {
  std::set<unsigned> inputs;
  std::set<int> seen;
  auto visit = [&](auto &self, Scalar s) -> void {
    const ScalarNode &node = graph[s];
    if (!seen.insert(s.id).second)
      return;
    if (node.kind == ScalarNode::Kind::Load)
      inputs.insert(node.input);
    for (Scalar operand : node.operands)
      self(self, operand);
    for (Scalar symbol : node.symbols)
      self(self, symbol);
  };
  for (Scalar value : values)
    visit(visit, value);
  return {inputs.begin(), inputs.end()};
}

/// Inputs that a struct of these loads and all stores reads.
static std::vector<unsigned> inputsOf(const LinearGraph &graph, llvm::ArrayRef<Scalar> loads) {
  std::vector<Scalar> values = loads;
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    values.insert(values.end(), output.symbols.begin(), output.symbols.end());
  return inputsRead(graph, values);
}

std::vector<std::string> bufferMembers(const LinearGraph &graph, llvm::ArrayRef<Scalar> loads) {
  std::vector<std::string> members;
  for (unsigned input : inputsOf(graph, loads))
    members.push_back(pointer(true, graph.graph.inputs[input].type, false, "in" + std::to_string(input)) + ";");
  for (auto [i, output] : llvm::enumerate(graph.graph.outputs))
    members.push_back(pointer(false, output.type, false, "out" + std::to_string(i)) + ";");
  return members;
}

std::vector<BufferName> buffersOf(const LinearGraph &graph, llvm::ArrayRef<Scalar> loads) {
  std::vector<BufferName> buffers;
  for (unsigned input : inputsOf(graph, loads))
    buffers.push_back({true, input});
  for (unsigned output = 0; output < graph.graph.outputs.size(); ++output)
    buffers.push_back({false, output});
  return buffers;
}

std::string bufferNames(const LinearGraph &graph, llvm::ArrayRef<Scalar> loads, llvm::ArrayRef<unsigned> outputs) {
  llvm::SmallVector<std::string> names;
  for (BufferName buffer : buffersOf(graph, loads)) {
    if (!buffer.isInput && !outputs.empty())
      buffer.number = outputs[buffer.number];
    names.push_back(buffer.str());
  }
  return llvm::join(names, ", ");
}

KernelPlan planOf(const Region &region, const LinearGraph &graph, const ir::Target &target) {
  KernelPlan plan;
  plan.name = region.name;
  plan.target = target.name;
  for (const ir::ScalarInput &input : region.graph.inputs)
    plan.inputs.push_back({input.type, input.shape});
  for (auto [i, output] : llvm::enumerate(region.graph.outputs)) {
    plan.outputs.push_back({output.type, output.shape});
    plan.inPlace.push_back(aliasOf(graph, i));
  }
  return plan;
}

void giveSource(KernelPlan &plan, std::string source) {
  plan.options.push_back("--define-macro=KFUSE_DEVICE_LIBRARY=" + deviceLibraryDigest(source));
  plan.source = std::move(source);
}

Launch launchOf(const KernelPlan &plan, std::string entry, const ir::Target &target) {
  Launch launch;
  launch.programmaticLaunch = target.capability >= 90;
  launch.entry = std::move(entry);
  for (std::uint64_t i = 0; i < plan.inputs.size() + plan.outputs.size(); ++i)
    launch.args.push_back({KernelArg::Kind::Buffer, i});
  return launch;
}

void openEntry(SourceWriter &writer, const llvm::Twine &threads, const std::string &name,
               const std::string &parameters) {
  writer.open("extern \"C\" __global__ void __launch_bounds__(" + threads + ") " + name + "(" + parameters + ")");
  writer.line("waitForPredecessor();");
}

std::string runExtent(ValuePrinter &scope, const LinearGraph &graph, unsigned dim) {
  const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
  return end && end->dim == dim ? "Index(" + scope.value(end->count) + ")" : "";
}

std::string runExtent(const LinearGraph &graph, unsigned dim, SourceWriter &writer) {
  const std::vector<std::string> noDims(graph.extents().size(), "0"); // It is the same everywhere.
  ValuePrinter scope(graph, writer, noDims);
  return runExtent(scope, graph, dim);
}

int64_t printedExtent(const LinearGraph &graph, unsigned dim, int64_t block) {
  constexpr int64_t any = 1 << 20;
  const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
  const int64_t extent = graph.extents()[dim];
  return end && end->dim == dim && extent % block == 0 && extent <= any ? any : extent;
}

double instructionsOf(const LinearGraph &graph, llvm::ArrayRef<Scalar> roots,
                      llvm::function_ref<bool(Scalar)> isGiven) {
  const Accuracy accuracy = accuracyOf(graph.graph);
  std::set<int> seen;
  double count = 0;
  auto visit = [&](auto &self, Scalar s) -> void {
    if (isGiven(s) || !seen.insert(s.id).second)
      return;
    const ScalarNode &node = graph[s];
    count += node.kind == ScalarNode::Kind::Apply ? scalarCost(node.function, accuracy)
                                                  : node.kind != ScalarNode::Kind::Constant;
    for (Scalar operand : node.operands)
      self(self, operand);
  };
  for (Scalar root : roots)
    visit(visit, root);
  return count;
}

} // namespace kfuse::codegen::cuda
