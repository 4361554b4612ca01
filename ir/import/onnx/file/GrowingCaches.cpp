#include "ir/import/onnx/file/GrowingCaches.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace kfuse::ir::onnx {

using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorShapeProto;
using ::onnx::ValueInfoProto;

namespace {

Error usage(const StatePair &pair, const std::string &reason) {
  return {ErrorCode::Usage, "--state " + pair.option + ": " + reason};
}

const ValueInfoProto *find(const google::protobuf::RepeatedPtrField<ValueInfoProto> &values, const std::string &name) {
  auto found = llvm::find_if(values, [&](const ValueInfoProto &value) { return value.name() == name; });
  return found == values.end() ? nullptr : &*found;
}

const TensorShapeProto &shapeOf(const ValueInfoProto &value) { return value.type().tensor_type().shape(); }

class Finder {
public:
  explicit Finder(const GraphProto &graph) : graph(graph) {
    for (const NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        producers[output] = &node;
  }

  Result<GrowingCache> cacheOf(const StatePair &pair) const {
    std::optional<std::int64_t> axis = joiningAxis(pair);
    if (!axis)
      return usage(pair, "output '" + pair.output + "' is not input '" + pair.input +
                             "' with rows joined to it (Concat), so that a capacity means nothing; a cache of one "
                             "shape before and after takes none");
    const ValueInfoProto &input = *find(graph.input(), pair.input);
    const int rank = shapeOf(input).dim_size();
    if (!input.type().tensor_type().has_shape() || *axis < -rank || *axis >= rank)
      return usage(pair, "input '" + pair.input + "' has no dimension " + std::to_string(*axis) + " in the file");
    const int dim = static_cast<int>(*axis < 0 ? *axis + rank : *axis);
    if (shapeOf(input).dim(dim).has_dim_value())
      return usage(pair, "the past of input '" + pair.input + "' has " +
                             std::to_string(shapeOf(input).dim(dim).dim_value()) +
                             " rows in the file, on which positions and masks in it may rest; export it with "
                             "dimension " +
                             std::to_string(dim) + " dynamic");
    return GrowingCache{pair.input, pair.output, dim};
  }

private:
  /// Along which the input and new rows are joined to the output.
  std::optional<std::int64_t> joiningAxis(const StatePair &pair) const {
    const std::string output = origin(pair.output);
    const NodeProto *node = producers.lookup(output);
    if (!node)
      return std::nullopt;
    if (node->op_type() == "Concat" && node->input_size() == 2 && origin(node->input(0)) == pair.input)
      for (const ::onnx::AttributeProto &attribute : node->attribute())
        if (attribute.name() == "axis")
          return attribute.i();
    // Attention of opset 23: past_key and past_value to present_key and present_value.
    for (int i = 1; i <= 2; ++i)
      if (node->op_type() == "Attention" && node->domain().empty() && node->output_size() > i &&
          node->output(i) == output && node->input_size() > 3 + i && origin(node->input(3 + i)) == pair.input)
        return 2;
    return std::nullopt;
  }

  /// Behind nodes that hand a value on. A cast to another type is found out by the value that it gives.
  std::string origin(std::string name) const {
    for (int steps = 0; steps < graph.node_size(); ++steps) {
      const NodeProto *node = producers.lookup(name);
      const bool handsOn = node && node->input_size() == 1 && node->output_size() == 1 &&
                           (node->op_type() == "Identity" || node->op_type() == "Cast" || node->op_type() == "Concat");
      if (!handsOn)
        break;
      name = node->input(0);
    }
    return name;
  }

  const GraphProto &graph;
  llvm::StringMap<const NodeProto *> producers;
};

/// The name of a dimension, or "".
std::string symbolOf(const ValueInfoProto &value, int dim) {
  return dim < shapeOf(value).dim_size() ? shapeOf(value).dim(dim).dim_param() : "";
}

} // namespace

const GrowingCache *GrowingCaches::of(const std::string &input) const {
  auto found = llvm::find_if(caches, [&](const GrowingCache &cache) { return cache.past == input; });
  return found == caches.end() ? nullptr : &*found;
}

void GrowingCaches::setSizes(GraphProto &graph, std::int64_t count) const {
  for (const Dimension &dimension : dimensions)
    graph.mutable_input(dimension.input)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(dimension.dim)
        ->set_dim_value(dimension.isOfPresent ? capacity : capacity - count);
}

Result<GrowingCaches> findGrowingCaches(const GraphProto &graph, const std::vector<StatePair> &pairs) {
  GrowingCaches growing;
  const Finder finder(graph);
  llvm::StringMap<bool> isOfPresent; // Named dimensions.
  for (const StatePair &pair : pairs) {
    if (pair.capacity == 0)
      continue;
    if (growing.capacity != 0 && growing.capacity != pair.capacity)
      return usage(pair, "a capacity of " + std::to_string(pair.capacity) + " beside one of " +
                             std::to_string(growing.capacity) + "; the caches of a model grow together, give one");
    growing.capacity = pair.capacity;
    Result<GrowingCache> cache = finder.cacheOf(pair);
    if (!cache)
      return cache.error();
    isOfPresent[symbolOf(*find(graph.output(), pair.output), cache->axis)] = true;
    isOfPresent[symbolOf(*find(graph.input(), pair.input), cache->axis)] = false;
    growing.caches.push_back(std::move(*cache));
  }
  isOfPresent.erase("");
  for (int input = 0; input < graph.input_size(); ++input)
    for (int dim = 0; dim < shapeOf(graph.input(input)).dim_size(); ++dim) {
      const GrowingCache *cache = growing.of(graph.input(input).name());
      const auto named = isOfPresent.find(symbolOf(graph.input(input), dim));
      if ((cache && cache->axis == dim) || named != isOfPresent.end())
        growing.dimensions.push_back({input, dim, !(cache && cache->axis == dim) && named->second});
    }
  return growing;
}

} // namespace kfuse::ir::onnx
