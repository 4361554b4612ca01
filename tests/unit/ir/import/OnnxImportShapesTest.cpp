// What the caller says about a model: shapes of dynamic inputs, and which inputs are parameters.
#include "ImportedModel.h"

#include <doctest/doctest.h>

using namespace kfuse;

namespace {

ir::ImportOptions shapes(std::map<std::string, Shape> given) { return {std::move(given), {}}; }

void checkRefused(const char *file, const ir::ImportOptions &options, const std::string &message) {
  ImportedModel model(testData(file), options);
  REQUIRE(!model);
  CHECK(model.code() == ErrorCode::Usage);
  CHECK(model.error() == testData(file) + ": " + message);
}

} // namespace

TEST_CASE("shapes: a symbolic dimension has one size in all inputs") {
  ImportedModel byFirst(testData("dynamic.onnx"), shapes({{"ids", {2, 7}}}));
  REQUIRE_MESSAGE(byFirst, byFirst.error());
  CHECK(byFirst.argumentShape(0) == Shape{2, 7});
  CHECK(byFirst.argumentShape(1) == Shape{2, 7, 1});
  CHECK(byFirst.resultShape(0) == Shape{2, 7, 4});

  ImportedModel byOther(testData("dynamic.onnx"), shapes({{"mask", {3, 5, 1}}}));
  REQUIRE_MESSAGE(byOther, byOther.error());
  CHECK(byOther.argumentShape(0) == Shape{3, 5});

  ImportedModel bySymbol(testData("dynamic.onnx"), shapes({{"batch", {4}}, {"seq", {6}}}));
  REQUIRE_MESSAGE(bySymbol, bySymbol.error());
  CHECK(bySymbol.argumentShape(1) == Shape{4, 6, 1});

  ImportedModel unnamed(testData("dynamic_unnamed.onnx"), shapes({{"x", {9, 4}}}));
  REQUIRE_MESSAGE(unnamed, unnamed.error());
  CHECK(unnamed.argumentShape(0) == Shape{9, 4});
}

TEST_CASE("shapes: a dimension that is named like a sum has that of its parts") {
  ImportedModel model(testData("dynamic_past.onnx"), shapes({{"new", {3, 2, 2, 8}}, {"past.key", {3, 2, 5, 8}}}));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.argumentShape(1) == Shape{3, 7});
  CHECK(model.argumentShape(3) == Shape{3, 2, 5, 8});
  checkRefused(
      "dynamic_past.onnx", shapes({{"new", {3, 2, 2, 8}}, {"past.key", {3, 2, 5, 8}}, {"attention_mask", {3, 8}}}),
      "dimension 'past_length + sequence_length' is 8 by --shape attention_mask=3x8 but 7 by those of its parts");
}

TEST_CASE("shapes: what is missing or does not fit is named with both values") {
  const std::string open = "the file leaves sizes of its inputs open: ";
  checkRefused("dynamic.onnx", {},
               open + "ids [batch, seq], mask [batch, seq, 1]; give them, as in --shape ids=1x128 "
                      "--shape mask=1x128x1, or ranges for programs of any length, as in --dims batch=1..N --dims "
                      "seq=1..N");
  checkRefused("dynamic.onnx", shapes({{"batch", {2}}}),
               open +
                   "ids [batch, seq], mask [batch, seq, 1]; give them, as in --shape ids=2x128 --shape mask=2x128x1, "
                   "or ranges for programs of any length, as in --dims seq=1..N");
  checkRefused("dynamic_unnamed.onnx", {}, open + "x [?, 4]; give them, as in --shape x=1x4");
  // One token after 127; what is the sum of both has both.
  checkRefused("dynamic_past.onnx", {},
               open + "new [batch_size, 2, sequence_length, 8], attention_mask [batch_size, past_length + "
                      "sequence_length], past.key [batch_size, 2, past_length, 8], past.value [batch_size, 2, "
                      "past_length, 8]; give them, as in --shape new=1x2x1x8 --shape attention_mask=1x128 --shape "
                      "past.key=1x2x127x8 --shape past.value=1x2x127x8, or ranges for programs of any length, as in "
                      "--dims batch_size=1..N --dims sequence_length=1..N --dims past_length=1..N");
  checkRefused("dynamic.onnx", shapes({{"ids", {2, 7}}, {"mask", {2, 8, 1}}}),
               "dimension 'seq' is 7 by --shape ids=2x7 but 8 by --shape mask=2x8x1");
  checkRefused("dynamic.onnx", shapes({{"mask", {2, 8, 2}}}),
               "--shape mask=2x8x2 does not fit input 'mask', which is [batch, seq, 1] in the file");
  checkRefused("dynamic.onnx", shapes({{"ids", {2}}}),
               "--shape ids=2 does not fit input 'ids', which is [batch, seq] in the file");
  checkRefused("external.onnx", shapes({{"x", {2, 4}}}),
               "--shape x=2x4 does not fit input 'x', which is [2, 3] in the file");
  checkRefused("external.onnx", shapes({{"z", {2, 4}}}), "--shape z=2x4 names no input; the model has x [2, 3]");
}

TEST_CASE("parameters: globs turn inputs into parameters, without data") {
  ImportedModel model(exampleModel("ffn_2048x4096.onnx"), {{}, {"*weight*", "?*_bias"}});
  REQUIRE_MESSAGE(model, model.error());
  for (unsigned i = 0; i < model.main().getNumArguments(); ++i)
    CHECK(model.role(i) == (model.name(i) == "x" ? "input" : "parameter"));
  CHECK(model.get().parameters.empty());
}

TEST_CASE("parameters: a pattern that is no glob or names nothing is refused") {
  checkRefused("external.onnx", {{}, {"*weight*"}}, "--params *weight* matches no input; the model has x, w, b");
  checkRefused("external.onnx", {{}, {"[w"}}, "--params [w is no glob: invalid glob pattern, unmatched '['");
}
