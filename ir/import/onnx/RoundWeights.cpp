#include "ir/import/onnx/RoundWeights.h"

#include "ir/MappedFile.h"
#include "ir/import/onnx/file/TensorReader.h"
#include "ir/reference/Parallel.h"
#include "kfuse/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

namespace kfuse::ir {
namespace {

using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using Int = std::int64_t;

constexpr const char *runtimeDomain = "com.microsoft";

Error malformed(std::string message) { return {ErrorCode::BadModel, std::move(message)}; }

//===- Rounding ------------------------------------------------------------------------------===//

/// The weights of one product, [N, K], in groups along K.
struct Rounded {
  Int n = 0, k = 0;
  std::vector<std::byte> codes, scales, zeros;
  double error = 0;
};

/// Rounds rows of K floats; `at(n, k)` is a weight.
class Rounding {
public:
  Rounding(const RoundingOptions &options, DType scaleType, Int n, Int k)
      : options(options), scaleType(scaleType), groups((k - 1) / options.group + 1), largest((1 << options.bits) - 1) {
    rounded.n = n, rounded.k = k;
    rounded.codes.resize(static_cast<std::size_t>(n * groups * groupBytes()));
    rounded.scales.resize(static_cast<std::size_t>(n * groups) * byteWidth(scaleType));
    rounded.zeros.resize(static_cast<std::size_t>(n * zeroBytes()));
    errors.resize(static_cast<std::size_t>(n));
    sizes.resize(static_cast<std::size_t>(n));
  }

  template <class At> Rounded run(const At &at) {
    constexpr Int rowsAtOnce = 16;
    reference::parallelFor(rounded.n, rowsAtOnce, [&](Int begin, Int end) {
      std::vector<double> row(static_cast<std::size_t>(rounded.k));
      for (Int n = begin; n < end; ++n) {
        for (Int k = 0; k < rounded.k; ++k)
          row[k] = at(n, k);
        for (Int group = 0; group < groups; ++group)
          roundGroup(n, group,
                     std::span(row).subspan(group * options.group,
                                            std::min(options.group, rounded.k - group * options.group)));
      }
    });
    double error = 0, size = 0;
    for (Int n = 0; n < rounded.n; ++n)
      error += errors[n], size += sizes[n];
    rounded.error = error > 0 ? std::sqrt(error / size) : 0;
    if (options.symmetric)
      rounded.zeros.clear();
    return std::move(rounded);
  }

private:
  Int groupBytes() const { return options.group * options.bits / 8; }
  Int zeroBytes() const { return (groups * options.bits + 7) / 8; }

  void roundGroup(Int n, Int group, std::span<const double> weights) {
    double low = 0, high = 0;
    for (double weight : weights)
      low = std::min(low, weight), high = std::max(high, weight);
    const Int middle = Int{1} << (options.bits - 1);
    double scale = options.symmetric ? std::max(-low, high) / static_cast<double>(middle - 1)
                                     : (high - low) / static_cast<double>(largest);
    std::byte *stored = &rounded.scales[static_cast<std::size_t>(n * groups + group) * byteWidth(scaleType)];
    storeFloat(scaleType, static_cast<float>(scale), stored);
    scale = readFloat(scaleType, stored); // What a kernel multiplies by.
    auto steps = [&](double value) { return scale > 0 ? std::llround(value / scale) : 0; };
    const Int zero = options.symmetric ? middle : std::clamp<Int>(steps(-low), 0, largest);
    put(rounded.zeros, n * zeroBytes(), group, zero);
    for (Int i = 0; i < options.group; ++i) { // What fills up the last group is 0.
      const double weight = i < std::ssize(weights) ? weights[i] : 0;
      const Int code = std::clamp<Int>(steps(weight) + zero, 0, largest);
      put(rounded.codes, (n * groups + group) * groupBytes(), i, code);
      const double difference = weight - static_cast<double>(code - zero) * scale;
      errors[n] += difference * difference;
      sizes[n] += weight * weight;
    }
  }

  void put(std::vector<std::byte> &bytes, Int from, Int number, Int code) const {
    const Int perByte = 8 / options.bits;
    bytes[from + number / perByte] |= static_cast<std::byte>(code << number % perByte * options.bits);
  }

  const RoundingOptions &options;
  const DType scaleType;
  const Int groups, largest;
  Rounded rounded;
  std::vector<double> errors, sizes; ///< A row's squares.
};

//===- The file ------------------------------------------------------------------------------===//

class Rewriter {
public:
  Rewriter(std::shared_ptr<ModelProto> model, onnx::DataFolders folders, const RoundingOptions &options)
      : model(std::move(model)), graph(*this->model->mutable_graph()), tensors(this->model, std::move(folders)),
        options(options) {}

  Result<std::vector<RoundedLayer>> run() {
    for (TensorProto &initializer : *graph.mutable_initializer())
      initializers[initializer.name()] = &initializer;
    for (NodeProto &node : *graph.mutable_node())
      if (Result<void> rounded = round(node); !rounded)
        return rounded.error();
    if (layers.empty())
      return malformed("the model has no MatMul or Gemm with weights of floats in the file");
    dropUnused();
    for (TensorProto &tensor : added)
      graph.add_initializer()->Swap(&tensor);
    const auto &imports = model->opset_import();
    if (std::none_of(imports.begin(), imports.end(), [](const auto &one) { return one.domain() == runtimeDomain; })) {
      auto *opset = model->add_opset_import();
      opset->set_domain(runtimeDomain);
      opset->set_version(1);
    }
    if (Result<void> inlined = inlineExternal(); !inlined)
      return inlined.error();
    return std::move(layers);
  }

private:
  /// The weights of a product that MatMulNBits computes as well; null for another node.
  const TensorProto *weightsOf(const NodeProto &node) const {
    const bool isGemm = node.op_type() == "Gemm";
    if (!node.domain().empty() || (!isGemm && node.op_type() != "MatMul") || node.input_size() < 2)
      return nullptr;
    for (const auto &attribute : node.attribute())
      if ((attribute.name() == "transA" && attribute.i() != 0) || (attribute.name() == "alpha" && attribute.f() != 1) ||
          (attribute.name() == "beta" && attribute.f() != 1))
        return nullptr;
    auto found = initializers.find(node.input(1));
    if (found == initializers.end() || found->second->dims_size() != 2 || found->second->dims(0) < 1 ||
        found->second->dims(1) < 1)
      return nullptr;
    if (isGemm && node.input_size() > 2 && !node.input(2).empty()) {
      auto bias = initializers.find(node.input(2));
      const Int n = found->second->dims(isTransposed(node) ? 0 : 1);
      if (bias == initializers.end() || bias->second->dims_size() != 1 || bias->second->dims(0) != n)
        return nullptr;
    }
    const std::optional<DType> type = onnx::dtypeOfOnnx(found->second->data_type());
    return type && isFloat(*type) && found->second->data_type() != TensorProto::DOUBLE ? found->second : nullptr;
  }

  static bool isTransposed(const NodeProto &node) {
    return std::any_of(node.attribute().begin(), node.attribute().end(),
                       [](const auto &attribute) { return attribute.name() == "transB" && attribute.i() != 0; });
  }

  Result<void> round(NodeProto &node) {
    const TensorProto *weights = weightsOf(node);
    if (!weights)
      return {};
    Result<ParameterData> data = tensors.read(*weights);
    if (!data)
      return data.error();
    const bool transposed = isTransposed(node);
    const Int n = data->shape[transposed ? 0 : 1], k = data->shape[transposed ? 1 : 0];
    const std::size_t width = byteWidth(data->type);
    auto at = [&](Int column, Int row) {
      const Int place = transposed ? column * k + row : row * n + column;
      return double(readFloat(data->type, &data->bytes[static_cast<std::size_t>(place) * width]));
    };
    const Rounded rounded = Rounding(options, data->type, n, k).run(at);
    layers.push_back({node.name().empty() ? node.output(0) : node.name(), n, k, rounded.error});
    replace(node, weights->name(), weights->data_type(), rounded);
    return {};
  }

  void replace(NodeProto &node, const std::string &name, int floatType, const Rounded &rounded) {
    const Int groups = (rounded.k - 1) / options.group + 1;
    const std::string prefix = name + "." + std::to_string(layers.size()) + ".";
    NodeProto product;
    product.set_name(node.name());
    product.set_op_type("MatMulNBits");
    product.set_domain(runtimeDomain);
    product.add_input(node.input(0));
    product.add_input(
        add(prefix + "q", TensorProto::UINT8, {rounded.n, groups, options.group * options.bits / 8}, rounded.codes));
    product.add_input(add(prefix + "scales", floatType, {rounded.n, groups}, rounded.scales));
    const bool hasBias = node.op_type() == "Gemm" && node.input_size() > 2 && !node.input(2).empty();
    if (!options.symmetric)
      product.add_input(
          add(prefix + "zeros", TensorProto::UINT8, {rounded.n, (groups * options.bits + 7) / 8}, rounded.zeros));
    if (hasBias) {
      while (product.input_size() < 5)
        product.add_input("");
      product.add_input(node.input(2));
    }
    for (auto [attribute, value] : {std::pair<const char *, Int>{"K", rounded.k},
                                    {"N", rounded.n},
                                    {"bits", options.bits},
                                    {"block_size", options.group}}) {
      auto *one = product.add_attribute();
      one->set_name(attribute);
      one->set_type(::onnx::AttributeProto::INT);
      one->set_i(value);
    }
    *product.mutable_output() = node.output();
    node.Swap(&product);
  }

  std::string add(std::string name, int type, std::initializer_list<Int> dims, const std::vector<std::byte> &bytes) {
    TensorProto &tensor = added.emplace_back();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (Int size : dims)
      tensor.add_dims(size);
    tensor.set_raw_data(bytes.data(), bytes.size());
    return name;
  }

  /// Weights that nothing reads any more.
  void dropUnused() {
    std::set<std::string> read;
    addRead(graph, read);
    auto *all = graph.mutable_initializer();
    all->erase(std::remove_if(all->begin(), all->end(),
                              [&](const TensorProto &tensor) { return !read.contains(tensor.name()); }),
               all->end());
  }
  static void addRead(const GraphProto &graph, std::set<std::string> &read) {
    for (const NodeProto &node : graph.node()) {
      read.insert(node.input().begin(), node.input().end());
      for (const auto &attribute : node.attribute())
        if (attribute.has_g())
          addRead(attribute.g(), read);
    }
    for (const auto &output : graph.output())
      read.insert(output.name());
  }

  /// Tensors that lie in other files, which are named from the model's folder: the copy may lie elsewhere.
  Result<void> inlineExternal() {
    for (TensorProto &tensor : *graph.mutable_initializer()) {
      if (tensor.data_location() != TensorProto::EXTERNAL)
        continue;
      Result<ParameterData> data = tensors.read(tensor);
      if (!data)
        return data.error();
      tensor.clear_external_data();
      tensor.clear_data_location();
      tensor.set_raw_data(data->bytes.data(), data->bytes.size());
    }
    return {};
  }

  std::shared_ptr<ModelProto> model;
  GraphProto &graph;
  onnx::TensorReader tensors;
  const RoundingOptions &options;
  std::map<std::string, const TensorProto *> initializers;
  std::vector<TensorProto> added;
  std::vector<RoundedLayer> layers;
};

//===- Reading and writing -------------------------------------------------------------------===//

Result<void> checkOptions(const RoundingOptions &options) {
  if (options.bits != 4 && options.bits != 8)
    return Error{ErrorCode::Usage, "weights of " + std::to_string(options.bits) + " bits; 4 or 8"};
  if (options.group < 16 || options.group > (1 << 20) ||
      !std::has_single_bit(static_cast<std::uint64_t>(options.group)))
    return Error{ErrorCode::Usage, "groups of " + std::to_string(options.group) + "; a power of two from 16 to 2^20"};
  return {};
}

/// Moves what tensors hold to a file beside the model, where the model would outgrow a protobuf's 2 GiB.
Result<void> moveLargeData(GraphProto &graph, const std::filesystem::path &to) {
  constexpr std::size_t largeModel = std::size_t{1} << 30, smallTensor = 1024, alignment = 64;
  std::size_t bytes = 0;
  for (const TensorProto &tensor : graph.initializer())
    bytes += tensor.raw_data().size();
  if (bytes < largeModel)
    return {};
  const std::filesystem::path place = to.string() + ".data";
  std::ofstream file(place, std::ios::binary);
  std::size_t offset = 0;
  for (TensorProto &tensor : *graph.mutable_initializer()) {
    const std::size_t size = tensor.raw_data().size();
    if (size < smallTensor)
      continue;
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(tensor.raw_data().data(), static_cast<std::streamsize>(size));
    tensor.set_data_location(TensorProto::EXTERNAL);
    for (const auto &[key, value] : {std::pair<const char *, std::string>{"location", place.filename().string()},
                                     {"offset", std::to_string(offset)},
                                     {"length", std::to_string(size)}}) {
      auto *entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    tensor.clear_raw_data();
    offset = (offset + size + alignment - 1) / alignment * alignment;
  }
  file.close();
  if (!file)
    return Error{ErrorCode::Io, place.string() + ": cannot be written; is the folder there and the disk not full?"};
  return {};
}

Result<std::vector<RoundedLayer>> rewrite(const std::filesystem::path &from, const std::filesystem::path &to,
                                          const RoundingOptions &options) {
  const Result<MappedFile> file = MappedFile::open(from.string());
  if (!file)
    return file.error();
  const std::span<const std::byte> bytes = file->bytes();
  auto model = std::make_shared<ModelProto>();
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model->has_graph())
    return malformed("the file is no ONNX model, or is cut short; kfuse quantize takes ONNX files");
  const std::filesystem::path folder = from.parent_path();
  onnx::DataFolders folders{folder.empty() ? "." : folder, std::filesystem::path(file->place()).parent_path()};
  Result<std::vector<RoundedLayer>> layers = Rewriter(model, std::move(folders), options).run();
  if (!layers)
    return layers;
  if (Result<void> moved = moveLargeData(*model->mutable_graph(), to); !moved)
    return moved.error();
  std::ofstream output(to, std::ios::binary);
  if (!model->SerializeToOstream(&output) || !output.flush())
    return Error{ErrorCode::Io, "cannot be written; is the folder there and the disk not full?"};
  return layers;
}

} // namespace

Result<std::vector<RoundedLayer>> roundWeights(const std::filesystem::path &from, const std::filesystem::path &to,
                                               const RoundingOptions &options) {
  if (Result<void> valid = checkOptions(options); !valid)
    return valid.error();
  Result<std::vector<RoundedLayer>> layers = rewrite(from, to, options);
  if (layers)
    return layers;
  const bool isOfOutput = layers.error().code == ErrorCode::Io && std::filesystem::exists(from);
  return Error{layers.error().code, (isOfOutput ? to : from).string() + ": " + layers.error().message};
}

} // namespace kfuse::ir
