#include "ir/import/onnx/Onnx.h"

#include "ir/import/onnx/Functions.h"
#include "ir/import/onnx/Importer.h"
#include "ir/import/onnx/Refusals.h"

#include <limits>

namespace kfuse::ir {
namespace onnx {
namespace {

using ::onnx::ModelProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

constexpr std::int64_t oldestOpset = 13, newestOpset = 24;

Error malformed(std::string message) { return {ErrorCode::BadModel, std::move(message)}; }

Result<std::shared_ptr<ModelProto>> parse(std::span<const std::byte> file) {
  auto model = std::make_shared<ModelProto>();
  if (file.size() > std::numeric_limits<int>::max())
    return malformed("the file has " + std::to_string(file.size()) +
                     " bytes; keep weights over 2 GiB as external data");
  if (!model->ParseFromArray(file.data(), static_cast<int>(file.size())) || !model->has_graph())
    return malformed("the file is no ONNX model, or is cut short; copy or export it again");
  return model;
}

Result<void> checkOpset(const ModelProto &model) {
  const std::string known = std::to_string(oldestOpset) + " to " + std::to_string(newestOpset);
  for (const ::onnx::OperatorSetIdProto &opset : model.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") {
      if (opset.version() >= oldestOpset && opset.version() <= newestOpset)
        return {};
      return malformed("the model is of opset " + std::to_string(opset.version()) + ", kfuse reads " + known +
                       "; export it again for one of these");
    }
  return malformed("the model does not say which opset it is of; export it again for one of " + known);
}

/// The named pairs that have a capacity.
Result<GrowingCaches> growingCachesOf(const ::onnx::GraphProto &graph, const std::vector<std::string> &patterns) {
  llvm::StringSet<> initialized;
  for (const TensorProto &initializer : graph.initializer())
    initialized.insert(initializer.name());
  std::vector<std::string> inputs, outputs;
  for (const ValueInfoProto &input : graph.input())
    if (!initialized.contains(input.name()))
      inputs.push_back(input.name());
  for (const ValueInfoProto &output : graph.output())
    outputs.push_back(output.name());
  Result<std::vector<StatePair>> pairs = pairStates(patterns, inputs, outputs);
  return pairs ? findGrowingCaches(graph, *pairs) : Result<GrowingCaches>(pairs.error());
}

} // namespace
} // namespace onnx

Result<Model> importOnnx(std::span<const std::byte> file, const onnx::DataFolders &folders,
                         const ImportOptions &options, mlir::MLIRContext &context) {
  Result<std::shared_ptr<::onnx::ModelProto>> proto = onnx::parse(file);
  if (!proto)
    return proto.error();
  if (Result<void> opset = onnx::checkOpset(**proto); !opset)
    return opset.error();
  if (Result<void> inlined = onnx::inlineFunctions(**proto); !inlined)
    return inlined.error();
  if (Result<void> supported = onnx::checkSupported((*proto)->graph()); !supported)
    return supported.error();
  Result<onnx::GrowingCaches> growing = onnx::growingCachesOf((*proto)->graph(), options.states);
  if (!growing)
    return growing.error();
  for (std::int64_t count = 1;;) {
    if (growing->capacity > 0 && growing->capacity <= count)
      return Error{ErrorCode::Usage, "a cache with room for " + std::to_string(growing->capacity) +
                                         " rows has none for a past beside the " + std::to_string(count) +
                                         " that are new in each run; give --state a larger capacity"};
    growing->setSizes(*(*proto)->mutable_graph(), count);
    onnx::Importer importer(*proto, folders, *growing, context);
    Result<Model> model = importer.run(options, count);
    if (model || importer.otherCount() == 0 || count != 1)
      return model;
    count = importer.otherCount(); // Now it is known.
  }
}

} // namespace kfuse::ir
