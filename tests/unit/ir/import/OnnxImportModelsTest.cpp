// The model files of examples/models, as PyTorch's exporters wrote them.
#include "ImportedModel.h"

#include <doctest/doctest.h>

using namespace kfuse;

namespace {

struct Expected {
  const char *file;
  unsigned arguments;  ///< Inputs and parameters.
  unsigned parameters; ///< Initializers of several floats. Integers and single floats are constants instead.
  Shape result;
  std::map<std::string, int> ops; ///< Counts that the file's own nodes tell.
};

const Expected models[] = {
    // input_ids, and 19 of 25 initializers: 3 tables, 6 matrices in each of 2 layers, the mask, and what the
    // exporter found equal and kept once: a bias of 200, one weight and one bias of 96 for 5 norms and all else.
    {"bert.dynamo.onnx",
     20,
     19,
     {2, 24, 96},
     {{"matmul", 16}, {"layer_norm", 5}, {"softmax", 2}, {"gelu", 2}, {"gather", 3}}},
    // x0, and all 9 initializers; both layers share them.
    {"encoder_torch.script.onnx", 10, 9, {24, 96}, {{"matmul", 12}, {"layer_norm", 4}, {"softmax", 2}, {"erf", 2}}},
    {"ffn_2048x4096.onnx", 7, 0, {2048, 4096}, {{"matmul", 2}, {"gelu_tanh", 1}, {"layer_norm", 1}}},
    {"linear_head_b256.onnx", 43, 0, {256, 2}, {{"matmul", 21}, {"add", 21}, {"relu", 20}}},
    // input_ids, and 18 of 36 initializers: the table, 7 matrices in each of 2 layers, one weight for 5 norms, cos and
    // sin. The layers' masks are constants.
    {"llama.dynamo.onnx",
     19,
     18,
     {2, 24, 96},
     {{"matmul", 18}, {"pow", 5}, {"reduce", 5}, {"softmax", 2}, {"is_nan", 2}}},
    {"llama_block_decode_b1_kv1024.onnx", 14, 0, {1, 1, 4096}, {{"matmul", 9}, {"softmax", 1}, {"concat", 4}}},
    {"llama_block_prefill_s1024.onnx", 12, 0, {1, 1024, 4096}, {{"matmul", 9}, {"softmax", 1}, {"iota", 2}, {"le", 1}}},
    {"ln_gelu_2048x4096.onnx", 5, 0, {2048, 4096}, {{"matmul", 1}, {"gelu_tanh", 1}, {"layer_norm", 1}}},
    {"seqlen_head_b256.onnx", 79, 0, {256, 2}, {{"matmul", 20}, {"layer_norm", 19}, {"relu", 19}}},
    {"stacked_heads_b256.onnx", 42, 0, {5, 256, 2}, {{"matmul", 21}, {"add", 20}, {"relu", 20}}},
};

} // namespace

TEST_CASE("onnx: the ten model files become one function of the dialect's ops") {
  for (const Expected &expected : models) {
    CAPTURE(std::string(expected.file));
    ImportedModel model(exampleModel(expected.file));
    REQUIRE_MESSAGE(model, model.error());
    CHECK(model.main().getNumArguments() == expected.arguments);
    CHECK(model.get().parameters.size() == expected.parameters);
    REQUIRE(model.main().getNumResults() == 1);
    CHECK(model.resultName(0) == "y");
    CHECK(model.resultShape(0) == expected.result);
    for (const auto &[op, count] : expected.ops) {
      CAPTURE(op);
      CHECK(model.count("kfuse." + op) == count);
    }
  }
}

TEST_CASE("onnx: every parameter's data is as long as its argument") {
  for (const char *file : {"bert.dynamo.onnx", "encoder_torch.script.onnx", "llama.dynamo.onnx"}) {
    ImportedModel model(exampleModel(file));
    REQUIRE_MESSAGE(model, model.error());
    for (unsigned i = 0; i < model.main().getNumArguments(); ++i) {
      auto data = model.get().parameters.find(model.name(i));
      CHECK((data != model.get().parameters.end()) == (model.role(i) == "parameter"));
      if (data == model.get().parameters.end())
        continue;
      CHECK(data->second.shape == model.argumentShape(i));
      CHECK(data->second.bytes.size() == TensorDesc{"", data->second.type, data->second.shape}.bytes());
    }
  }
}

TEST_CASE("onnx: large masks are computed, not stored") {
  ImportedModel model(exampleModel("llama_block_prefill_s1024.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  model.main().walk([](ir::ConstantOp constant) {
    auto value = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
    CHECK((value.isSplat() || value.getNumElements() <= 64 * 1024));
  });
}
