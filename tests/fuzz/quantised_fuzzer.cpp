// Any bytes as an ONNX model of one node that reads integers of few bits, most of whose sizes, types and attributes fit
// each other: an error, or a module that verifies and whose parameters have as many bytes as their shapes say.
#include "ir/import/onnx/Onnx.h"
#include "ir/import/onnx/file/onnx.pb.h"

#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

using namespace kfuse;

namespace {

using onnx::TensorProto;
constexpr int uint4 = 21, int4 = 22; // Later than the schema's version.

/// Takes choices from bytes; of none that are left the first.
class Choices {
public:
  Choices(const std::uint8_t *data, std::size_t size) : data(data), left(size) {}

  unsigned below(unsigned count) {
    if (left == 0)
      return 0;
    --left;
    return *data++ % count;
  }
  bool rarely() { return below(16) == 15; }
  /// What fits, or rarely something else.
  std::int64_t around(std::int64_t fitting) {
    constexpr std::int64_t others[] = {0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       8,
                                       15,
                                       16,
                                       17,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       127,
                                       128,
                                       255,
                                       1 << 20,
                                       INT64_C(1) << 31,
                                       INT64_C(1) << 40,
                                       INT64_MAX,
                                       INT64_MIN,
                                       -1,
                                       -2,
                                       -16};
    if (!rarely())
      return fitting;
    const unsigned which = below(std::size(others) + 3);
    return which < std::size(others) ? others[which]
                                     : fitting + static_cast<std::int64_t>(which - std::size(others)) - 1;
  }

private:
  const std::uint8_t *data;
  std::size_t left;
};

/// The model, put together input by input.
class Written {
public:
  explicit Written(Choices &choices) : choices(choices) {
    model.set_ir_version(10);
    for (auto [domain, version] : {std::pair<const char *, int>{"", 21}, {"com.microsoft", 1}}) {
      auto *opset = model.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version);
    }
  }

  void input(const std::string &name, int type, const std::vector<std::int64_t> &dims) {
    describe(*model.mutable_graph()->add_input(), name, type, dims);
  }
  void output(const std::string &name) { describe(*model.mutable_graph()->add_output(), name, TensorProto::FLOAT, {}); }
  void stored(const std::string &name, int type, std::vector<std::int64_t> dims, int bits) {
    constexpr int types[] = {
        TensorProto::UINT8, TensorProto::INT8,    uint4, int4, TensorProto::FLOAT, TensorProto::FLOAT16,
        TensorProto::INT32, TensorProto::BFLOAT16};
    TensorProto &tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(choices.rarely() ? types[choices.below(std::size(types))] : type);
    std::int64_t count = 1;
    for (std::int64_t &size : dims) {
      size = choices.around(size);
      tensor.add_dims(size);
      count = size < 0 || size > 4096 || count > 4096 ? 4096 : count * size;
    }
    const std::int64_t bytes = std::clamp<std::int64_t>(choices.around((count * bits + 7) / 8), 0, 1 << 16);
    std::string &data = *tensor.mutable_raw_data();
    data.resize(static_cast<std::size_t>(bytes));
    for (char &byte : data)
      byte = static_cast<char>(choices.below(256));
  }
  onnx::NodeProto &node(const std::string &op, const std::string &domain, const std::vector<std::string> &inputs,
                        const std::string &result) {
    onnx::NodeProto &node = *model.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_domain(domain);
    for (const std::string &input : inputs)
      node.add_input(choices.rarely() ? "" : input);
    node.add_output(result);
    return node;
  }
  void attribute(onnx::NodeProto &node, const std::string &name, std::int64_t value) {
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(choices.around(value));
  }
  std::string bytes() const { return model.SerializeAsString(); }

private:
  static void describe(onnx::ValueInfoProto &value, const std::string &name, int type,
                       const std::vector<std::int64_t> &dims) {
    value.set_name(name);
    auto *tensor = value.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (std::int64_t size : dims)
      tensor->mutable_shape()->add_dim()->set_dim_value(size);
  }

  Choices &choices;
  onnx::ModelProto model;
};

/// What most of a model agrees on.
struct Sizes {
  explicit Sizes(Choices &choices)
      : n(1 + choices.below(9)), block(16 << choices.below(2)), blocks(1 + choices.below(3)),
        bits(2 << choices.below(3)), k(blocks * block - (choices.below(4) == 3 ? 5 : 0)) {}
  std::int64_t n, block, blocks, bits, k;
};

void writeMatMulNBits(Written &model, Choices &choices, const Sizes &at) {
  model.input("x", TensorProto::FLOAT, {2, at.k});
  model.stored("q", TensorProto::UINT8, {at.n, at.blocks, at.block * at.bits / 8}, 8);
  model.stored("s", TensorProto::FLOAT, {at.n, at.blocks}, 32);
  std::vector<std::string> inputs{"x", "q", "s", "", "", ""};
  if (choices.below(2) == 1) {
    const bool areFloats = choices.below(3) == 2;
    inputs[3] = "z";
    model.stored("z", areFloats ? TensorProto::FLOAT : TensorProto::UINT8,
                 {at.n, areFloats ? at.blocks : (at.blocks * at.bits + 7) / 8}, areFloats ? 32 : 8);
  }
  if (choices.below(3) == 2) {
    inputs[4] = "g";
    model.stored("g", TensorProto::INT32, {at.k}, 32);
  }
  if (choices.below(3) == 2) {
    inputs[5] = "b";
    model.stored("b", TensorProto::FLOAT, {at.n}, 32);
  }
  onnx::NodeProto &node = model.node("MatMulNBits", "com.microsoft", inputs, "y");
  model.attribute(node, "K", at.k);
  model.attribute(node, "N", at.n);
  model.attribute(node, "bits", at.bits);
  model.attribute(node, "block_size", at.block);
}

void writeGather(Written &model, Choices &choices, const Sizes &at) {
  const bool areBytes = choices.below(2) == 0;
  const std::int64_t bits = areBytes && choices.below(2) == 0 ? 8 : 4;
  const std::int64_t width = at.blocks * at.block;
  model.stored("q", areBytes ? TensorProto::UINT8 : int4, {at.n, areBytes ? width * bits / 8 : width},
               areBytes ? 8 : 4);
  model.stored("i", TensorProto::INT32, {3}, 32);
  model.stored("s", TensorProto::FLOAT, {at.n, at.blocks}, 32);
  std::vector<std::string> inputs{"q", "i", "s"};
  if (choices.below(2) == 1) {
    inputs.emplace_back("z");
    model.stored("z", areBytes ? TensorProto::UINT8 : int4, {at.n, areBytes ? (at.blocks * bits + 7) / 8 : at.blocks},
                 areBytes ? 8 : 4);
  }
  onnx::NodeProto &node = model.node("GatherBlockQuantized", "com.microsoft", inputs, "y");
  model.attribute(node, "bits", bits);
  model.attribute(node, "block_size", at.block);
  model.attribute(node, "gather_axis", 0);
  model.attribute(node, "quantize_axis", 1);
}

/// In front of a product, or by itself.
void writeDequantizeLinear(Written &model, Choices &choices, const Sizes &at) {
  constexpr std::pair<int, int> types[] = {{uint4, 4}, {int4, 4}, {TensorProto::UINT8, 8}, {TensorProto::INT8, 8}};
  const auto [type, bits] = types[choices.below(std::size(types))];
  const bool alongN = choices.below(2) == 0;
  const std::int64_t rows = alongN ? at.k : at.n, columns = alongN ? at.n : at.k;
  model.input("x", TensorProto::FLOAT, {2, rows});
  model.stored("q", type, {rows, columns}, bits);
  std::vector<std::int64_t> scales;
  const unsigned form = choices.below(3);
  if (form == 0)
    scales = alongN ? std::vector{at.blocks, columns} : std::vector{rows, at.blocks};
  else if (form == 1)
    scales = {columns};
  model.stored("s", choices.below(4) == 3 ? TensorProto::FLOAT16 : TensorProto::FLOAT, scales, 32);
  std::vector<std::string> inputs{"q", "s"};
  if (choices.below(2) == 1) {
    inputs.emplace_back("z");
    model.stored("z", type, scales, bits);
  }
  const unsigned use = choices.below(4);
  onnx::NodeProto &node = model.node("DequantizeLinear", "", inputs, use == 0 ? "y" : "d");
  if (form < 2)
    model.attribute(node, "axis", form == 0 && alongN ? 0 : 1);
  if (form == 0)
    model.attribute(node, "block_size", at.block);
  if (use > 0)
    model.node(use == 3 ? "Gemm" : "MatMul", "", {"x", "d"}, "y");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  Choices choices(data, size);
  Written model(choices);
  const unsigned op = choices.below(3);
  const Sizes sizes(choices);
  (op == 0 ? writeMatMulNBits : op == 1 ? writeGather : writeDequantizeLinear)(model, choices, sizes);
  model.output("y");
  const std::string file = model.bytes();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ir::Model> read = ir::importOnnx(std::as_bytes(std::span(file)), {KFUSE_TEST_DIR "/data", ""}, {}, context);
  if (!read)
    return read.error().message.empty() ? std::abort(), 0 : 0;
  for (const auto &[name, parameter] : read->parameters)
    if (parameter.bytes.size() != TensorDesc{name, parameter.type, parameter.shape}.bytes())
      std::abort();
  if (mlir::failed(mlir::verify(*read->module)))
    std::abort();
  return 0;
}
