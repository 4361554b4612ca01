// Every op against the reference evaluator of the onnx package: the files hold a small graph and its answer for each
// case, and give the largest difference (tests/data/write_models.py).
#include "ImportedModel.h"

#include <doctest/doctest.h>

using namespace kfuse;

namespace {

void checkCases(const std::string &file, std::size_t cases) {
  CAPTURE(file);
  ImportedModel model(testData(file));
  REQUIRE_MESSAGE(model, model.error());
  auto differences = model.evaluate();
  CHECK(differences.size() == cases);
  for (const auto &[name, difference] : differences) {
    CAPTURE(name);
    // The answers are in f32: half a unit in the last place of values up to 128.
    CHECK(difference.at(0) <= 8e-6);
  }
}

} // namespace

TEST_CASE("onnx ops: pointwise") { checkCases("ops_pointwise.onnx", 65); }
TEST_CASE("onnx ops: layout, indexing and shapes") { checkCases("ops_layout.onnx", 45); }
TEST_CASE("onnx ops: reductions, norms and products") { checkCases("ops_rows.onnx", 43); }
TEST_CASE("onnx ops: attention and rotary embedding") { checkCases("ops_transformer.onnx", 13); }
TEST_CASE("onnx ops: ONNX Runtime's own") { checkCases("ops_microsoft.onnx", 8); }

TEST_CASE("onnx ops: axes and split sizes, as attributes and as inputs") {
  auto x = reference::uniform(DType::F32, {4, 6}, 1);
  ImportedModel older(testData("reduce_opset13.onnx")), newer(testData("reduce_opset18.onnx"));
  REQUIRE_MESSAGE(older, older.error());
  REQUIRE_MESSAGE(newer, newer.error());
  CHECK(older.resultShape(0) == Shape{4});
  CHECK(older.evaluate({{"x", x}}) == newer.evaluate({{"x", x}}));

  ImportedModel sizes(testData("split_opset13.onnx")), halves(testData("split_opset18.onnx"));
  REQUIRE_MESSAGE(sizes, sizes.error());
  REQUIRE_MESSAGE(halves, halves.error());
  CHECK(sizes.resultShape(0) == Shape{4, 2});
  CHECK(sizes.resultShape(1) == Shape{4, 4});
  CHECK(halves.resultShape(1) == Shape{4, 3});
}

TEST_CASE("onnx ops: a model's own functions are expanded, with the call's attributes or the function's") {
  ImportedModel model(testData("functions.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(model.evaluate({{"x", x}})["y"] == std::vector<double>{6, 12, 18, 24, 30, 36});
}
