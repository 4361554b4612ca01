#include "codegen/cpu/Kernel.h"

#include "codegen/cpu/Panels.h"
#include "codegen/cpu/ScalarFunctions.h"
#include "codegen/cpu/TileAccess.h"
#include "codegen/cpu/TileEmitter.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::codegen::cpu {

View Kernel::pointer(KernelArg arg, const std::string &name, llvm::StringRef element, int64_t elements, bool isShared) {
  auto [found, isNew] = pointers.try_emplace({arg.kind, arg.index});
  if (isNew) {
    found->second = text.argument(name, element, elements, isShared ? "" : "llvm.noalias");
    arguments.push_back(arg);
  }
  return found->second;
}

bool Kernel::isReadInPlace(unsigned input) const {
  bool isWritten = llvm::any_of(
      graph.graph.outputs, [&](const ir::ScalarOutput &output) { return output.inPlace == static_cast<int>(input); });
  return isWritten && llvm::any_of(graph.graph.nodes, [&](const ir::ScalarNode &node) {
           return node.kind == ir::ScalarNode::Kind::Load && node.input == input;
         });
}

View Kernel::input(unsigned i) {
  const ir::ScalarInput &input = graph.graph.inputs[i];
  return pointer({KernelArg::Kind::Buffer, i}, "in" + std::to_string(i), storedTypeName(input.type),
                 elementCount(input.shape), isReadInPlace(i));
}

View Kernel::output(unsigned i) {
  const ir::ScalarOutput &output = graph.graph.outputs[i];
  bool isShared = output.inPlace >= 0 && isReadInPlace(output.inPlace);
  return pointer({KernelArg::Kind::Buffer, graph.graph.inputs.size() + i}, "out" + std::to_string(i),
                 storedTypeName(output.type), elementCount(output.shape), isShared);
}

bool Kernel::outgrowsCache(unsigned i) const {
  const ir::ScalarOutput &output = graph.graph.outputs[i];
  return static_cast<double>(elementCount(output.shape)) * byteWidth(output.type) > cacheBytes;
}

View Kernel::workspace(std::uint64_t offset, int64_t elements) {
  return pointer({KernelArg::Kind::Workspace, offset}, "scratch" + std::to_string(offset), "f32", elements, false);
}

void Kernel::forItems(llvm::ArrayRef<int64_t> grid, llvm::function_ref<int64_t(unsigned dim)> size,
                      llvm::function_ref<void(const std::string &item, const Names &place)> body) {
  const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
  const bool mayEnd = end && grid[end->dim] > 1;
  std::string count;
  if (mayEnd) {
    const std::string value = TileEmitter(*this, {}, {}).scalar(end->count);
    count =
        text.let("end", "arith.index_cast " + value + " : " + computeTypeName(graph[end->count].type) + " to index");
  }
  text.loop("%begin", "%end", 1, [&](const std::string &item) {
    const Names place = text.delinearise(item, grid);
    if (!mayEnd)
      return body(item, place);
    const std::string first = times(text, place[end->dim], size(end->dim));
    text.when(text.let("needed", "arith.cmpi slt, " + first + ", " + count + " : index"), [&] { body(item, place); });
  });
}

Launch Kernel::launch(int64_t items, int64_t grain) const {
  Launch launch;
  launch.entry = entry;
  launch.items = items;
  launch.grain = grain;
  launch.args = arguments;
  return launch;
}

ir::FusionDecision canWrite(const ir::ScalarGraph &graph) {
  using Kind = ir::ScalarNode::Kind;
  for (const ir::ScalarNode &node : graph.nodes) {
    DType from = node.operands.empty() ? node.type : graph[node.operands.back()].type;
    bool isWritten = node.kind == Kind::Apply    ? findFunction(node.function, from) != nullptr
                     : node.kind == Kind::Cast   ? findCast(from, node.type) != nullptr
                     : node.kind == Kind::Reduce ? findReduction(node.function) != nullptr
                                                 : true;
    if (!isWritten)
      return ir::FusionDecision::no("'" + (node.kind == Kind::Cast ? "cast" : node.function) + "' of " +
                                    std::string(toString(from)) + " is not written for the CPU");
  }
  return ir::FusionDecision::yes();
}

unsigned densestDim(const LinearGraph &graph, unsigned candidates) {
  std::vector<double> bytes(candidates, 0);
  auto count = [&](mlir::AffineExpr offset, DType type) {
    for (unsigned dim = 0; dim < candidates; ++dim) {
      TileDim chunk{dim, std::min<int64_t>(graph.extents()[dim], 16), 16};
      std::optional<TileIndex> index = linearInTile(offset, chunk);
      if (index && index->strides[0] == 1)
        bytes[dim] += static_cast<double>(byteWidth(type)) * (graph.extents()[dim] > 1);
    }
  };
  for (const ir::ScalarNode &node : graph.graph.nodes)
    if (node.kind == ir::ScalarNode::Kind::Load)
      count(node.map.getResult(0), graph.graph.inputs[node.input].type);
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    count(output.map.getResult(0), output.type);
  unsigned best = candidates - 1;
  for (unsigned dim = candidates; dim-- > 0;)
    if (bytes[dim] > bytes[best])
      best = dim;
  return best;
}

int64_t grainOf(const LinearGraph &graph, llvm::ArrayRef<int64_t> grid) {
  constexpr int64_t pointsPerGrain = 1 << 15; // About 10 us of work: a thread is woken for no less.
  int64_t points = std::max<int64_t>(graph.graph.domain.points(), 1);
  return std::max<int64_t>(1, pointsPerGrain * ir::elementsIn(grid) / points);
}

KernelPlan planOf(const Region &region, const ir::Target &target) {
  KernelPlan plan;
  plan.name = region.name;
  plan.target = target.name;
  for (const ir::ScalarInput &input : region.graph.inputs)
    plan.inputs.push_back({input.type, input.shape});
  for (const ir::ScalarOutput &output : region.graph.outputs) {
    plan.outputs.push_back({output.type, output.shape});
    plan.inPlace.push_back(output.inPlace);
  }
  return plan;
}

std::string moduleText(const Region &region, llvm::StringRef templateName, const TileConfig &config,
                       llvm::ArrayRef<const Kernel *> kernels) {
  std::set<std::string_view> callees;
  std::string functions;
  for (const Kernel *kernel : kernels) {
    callees.insert(kernel->callees.begin(), kernel->callees.end());
    functions += kernel->text.str();
  }
  return "// " + region.ops + "\n// " + templateName.str() + " " + config.str() + "\nmodule {\n" +
         libraryText(callees) + functions + "}\n";
}

} // namespace kfuse::codegen::cpu
