#include "ir/import/onnx/Functions.h"

#include "ir/import/onnx/Ops.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <map>

namespace kfuse::ir::onnx {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace {

/// Calls multiply: 20 functions that each call the next twice make a million calls out of 40.
constexpr int maxCalls = 100'000;
constexpr std::size_t maxBytes = std::size_t{1} << 30;
constexpr int maxDepth = 64;

/// Values of attributes that a call need not give: field 11 of a function, added to the schema in ONNX 1.13.
/// Older schemas keep it among the unknown fields.
std::vector<AttributeProto> defaultsOf(const FunctionProto &function) {
  constexpr std::uint32_t defaultsTag = 11 << 3 | 2;
  const std::string &unknown = function.unknown_fields();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t *>(unknown.data()),
                                                static_cast<int>(unknown.size()));
  std::vector<AttributeProto> defaults;
  while (std::uint32_t tag = stream.ReadTag()) {
    std::uint32_t length = 0;
    std::string bytes;
    if (tag != defaultsTag) {
      if (!google::protobuf::internal::WireFormatLite::SkipField(&stream, tag))
        break;
    } else if (!stream.ReadVarint32(&length) || !stream.ReadString(&bytes, static_cast<int>(length)) ||
               !defaults.emplace_back().ParseFromString(bytes)) {
      break;
    }
  }
  return defaults;
}

class Inliner {
public:
  Result<void> declare(const ::onnx::ModelProto &model);
  /// Appends `node`, or the body of the function it calls, to `graph`.
  Result<void> append(const NodeProto &node, GraphProto &graph, int depth);
  /// Expands the calls of `graph`.
  Result<void> expand(GraphProto &graph, int depth);

private:
  Result<void> appendBody(const NodeProto &call, const FunctionProto &function, GraphProto &graph, int depth);

  std::map<std::pair<std::string, std::string>, const FunctionProto *> functions;
  int calls = 0;
  std::size_t bytes = 0;
};

using Names = std::map<std::string, std::string>;
using Attributes = std::map<std::string, const AttributeProto *>;

/// A name of a function's body as it is in the caller.
std::string nameIn(const Names &names, const std::string &prefix, const std::string &name) {
  auto known = names.find(name);
  return known != names.end() ? known->second : name.empty() ? name : prefix + name;
}

void rename(GraphProto &graph, const Names &names, const Attributes &given, const std::string &prefix);

/// A node of a function's body as it stands in the caller: values renamed, attributes that refer to the
/// function's replaced by their values.
/// Graphs inside of it are instantiated, too.
NodeProto instantiate(const NodeProto &node, const Names &names, const Attributes &given, const std::string &prefix) {
  auto renamed = [&](const std::string &name) { return nameIn(names, prefix, name); };
  NodeProto result = node;
  result.set_name(prefix + node.name());
  for (std::string &name : *result.mutable_input())
    name = renamed(name);
  for (std::string &name : *result.mutable_output())
    name = renamed(name);

  result.clear_attribute();
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      AttributeProto &copy = *result.add_attribute();
      copy = attribute;
      if (attribute.has_g())
        rename(*copy.mutable_g(), names, given, prefix);
      continue;
    }
    auto value = given.find(attribute.ref_attr_name());
    if (value == given.end())
      continue; // The op's own default.
    AttributeProto &copy = *result.add_attribute();
    copy = *value->second;
    copy.set_name(attribute.name());
  }
  return result;
}

/// Renames a graph inside of a function's node: what it takes from the function, and what is its own.
void rename(GraphProto &graph, const Names &names, const Attributes &given, const std::string &prefix) {
  for (NodeProto &node : *graph.mutable_node())
    node = instantiate(node, names, given, prefix);
  for (auto *infos : {graph.mutable_input(), graph.mutable_output()})
    for (::onnx::ValueInfoProto &info : *infos)
      info.set_name(nameIn(names, prefix, info.name()));
  for (::onnx::TensorProto &tensor : *graph.mutable_initializer())
    tensor.set_name(nameIn(names, prefix, tensor.name()));
}

Result<void> Inliner::declare(const ::onnx::ModelProto &model) {
  for (const FunctionProto &function : model.functions())
    if (!functions.try_emplace({function.domain(), function.name()}, &function).second)
      return Error{ErrorCode::BadModel,
                   "function '" + function.name() + "' of domain '" + function.domain() + "' is defined twice"};
  return {};
}

Result<void> Inliner::append(const NodeProto &node, GraphProto &graph, int depth) {
  auto function = functions.find({node.domain(), node.op_type()});
  if (function != functions.end())
    return appendBody(node, *function->second, graph, depth);
  NodeProto &added = *graph.add_node();
  added = node;
  for (AttributeProto &attribute : *added.mutable_attribute())
    if (attribute.has_g())
      if (Result<void> expanded = expand(*attribute.mutable_g(), depth); !expanded)
        return expanded;
  return {};
}

Result<void> Inliner::expand(GraphProto &graph, int depth) {
  if (depth >= maxDepth)
    return Error{ErrorCode::BadModel, "graphs inside of nodes nest over 64 deep"};
  GraphProto expanded;
  for (const NodeProto &node : graph.node())
    if (Result<void> appended = append(node, expanded, depth + 1); !appended)
      return appended;
  graph.mutable_node()->Swap(expanded.mutable_node());
  return {};
}

Result<void> Inliner::appendBody(const NodeProto &call, const FunctionProto &function, GraphProto &graph, int depth) {
  if (depth >= maxDepth)
    return Error{ErrorCode::BadModel,
                 "function '" + function.name() + "' calls itself, or functions nest over 64 deep"};
  std::string prefix = labelOf(call) + "#" + std::to_string(++calls) + "/";
  Names names;
  for (int i = 0; i < function.input_size(); ++i)
    names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
  for (int i = 0; i < function.output_size() && i < call.output_size(); ++i)
    if (!call.output(i).empty())
      names[function.output(i)] = call.output(i);
  std::vector<AttributeProto> defaults = defaultsOf(function);
  Attributes attributes;
  for (const AttributeProto &given : call.attribute())
    attributes.try_emplace(given.name(), &given);
  for (const AttributeProto &otherwise : defaults)
    attributes.try_emplace(otherwise.name(), &otherwise);

  for (const NodeProto &node : function.node()) {
    NodeProto instance = instantiate(node, names, attributes, prefix);
    bytes += instance.ByteSizeLong();
    if (bytes > maxBytes || calls > maxCalls)
      return Error{ErrorCode::BadModel, "the graph grows beyond 1 GiB or 100000 calls when its functions are expanded"};
    if (Result<void> appended = append(instance, graph, depth + 1); !appended)
      return appended;
  }
  return {};
}

} // namespace

Result<void> inlineFunctions(::onnx::ModelProto &model) {
  if (model.functions_size() == 0)
    return {};
  Inliner inliner;
  if (Result<void> declared = inliner.declare(model); !declared)
    return declared;
  return inliner.expand(*model.mutable_graph(), 0);
}

} // namespace kfuse::ir::onnx
