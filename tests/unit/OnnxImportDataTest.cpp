// Initializers: where their elements lie, and the types they are kept in.
#include "ImportedModel.h"

#include <doctest/doctest.h>

using namespace kfuse;

TEST_CASE("data: external weights are mapped, at any alignment") {
  ImportedModel model(testData("external.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().parameters.count("w") == 1);
  const ir::ParameterData &weight = model.get().parameters["w"], &bias = model.get().parameters["b"];
  CHECK(weight.shape == Shape{3, 4});
  CHECK(weight.bytes.size() == 48);
  CHECK(bias.bytes.data() == weight.bytes.data() + 49); // One mapping; the bias follows a byte of padding.
  CHECK(weight.owner == bias.owner);

  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 0, 0, 0, 0, 0});
  std::vector<double> y = model.evaluate({{"x", x}})["y"];
  REQUIRE(y.size() == 8);
  float w00 = 0, b0 = 0;
  std::memcpy(&w00, weight.bytes.data(), sizeof(float));
  std::memcpy(&b0, bias.bytes.data(), sizeof(float));
  CHECK(y[0] == doctest::Approx(w00 + b0));
  CHECK(y[4] == doctest::Approx(b0));
}

TEST_CASE("data: typed fields, and types that are converted") {
  ImportedModel model(testData("typed.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  auto results = model.evaluate();
  CHECK(results["f32_out"] == std::vector<double>{1.5, -2, 3e38F});
  CHECK(results["f16_out"] == std::vector<double>{1.5, -65504});
  CHECK(results["bf16_out"] == std::vector<double>{1.5, -3});
  CHECK(results["f64_out"] == std::vector<double>{0.1F, -2});
  CHECK(results["f64_raw_out"] == std::vector<double>{0.1F, -2});
  CHECK(results["i32_out"] == std::vector<double>{7, -5});
  CHECK(results["bool_out"] == std::vector<double>{1, 0, 1});
  // Too large for a double: read from the constant itself.
  bool found = false;
  model.main().walk([&](ir::ConstantOp constant) {
    auto value = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
    if (value.getElementType().isInteger(64))
      found = *value.getValues<std::int64_t>().begin() == (std::int64_t{1} << 62) + 1;
  });
  CHECK(found);
}

TEST_CASE("data: floats of several elements are parameters, the rest is part of the graph") {
  ImportedModel model(testData("typed.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.get().parameters.size() == 5);
  CHECK(model.get().parameters.count("f64") == 1);
  CHECK((model.get().parameters["f64"].type == DType::F32));
  CHECK(model.get().parameters.count("i64") == 0);
  CHECK(model.count("kfuse.constant") == 3);
}
