// The dialect's text, given by friends and by others.
#include "ImportedModel.h"
#include "TemporaryFolder.h"
#include "ir/import/Text.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace kfuse;

namespace {

const std::string good = R"(
module {
  func.func @main(%x: tensor<2x3xf32> {kfuse.role = "input", kfuse.name = "x"},
                  %w: tensor<3x4xf32> {kfuse.role = "parameter", kfuse.name = "w"})
      -> (tensor<2x4xf32> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
})";

std::string errorOf(const std::string &text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ir::Model> model = ir::importText(text, "model.mlir", context);
  return model ? "" : model.error().message;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string repeated(const std::string &text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

} // namespace

TEST_CASE("text: a file is told from ONNX by its content") {
  tuner::test::TemporaryFolder folder;
  std::string path = (folder.path / "model.onnx").string(); // The name says nothing.
  std::ofstream(path) << good;
  ImportedModel model(path, {{{"x", {2, 3}}}, {"x"}});
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.role(0) == "parameter");
  CHECK(ImportedModel(path, {{{"x", {2, 4}}}, {}}).error() ==
        path + ": --shape x=2x4 does not fit input 'x', which is 2x3 in the file");
  CHECK(ImportedModel(path, {{{"z", {2}}}, {}}).error() == path + ": --shape z=2 names no input; the model has x, w");
  std::ofstream(path) << " \n";
  CHECK(ImportedModel(path).error() == path + ": the file is empty; copy or export it again");
}

TEST_CASE("text: names and roles that are left out are filled in") {
  tuner::test::TemporaryFolder folder;
  std::string path = (folder.path / "relu.mlir").string();
  std::ofstream(path) << R"(func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = kfuse.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  })";
  ImportedModel model(path);
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.role(0) == "input");
  CHECK(model.name(0) == "arg0");
  CHECK(model.resultName(0) == "result0");
}

TEST_CASE("text: errors say where, and what is wrong") {
  CHECK(errorOf(good) == "");
  const std::pair<std::string, std::string> rows[] = {
      {replaced(good, "tensor<2x3xf32> {", "tensor<?x3xf32> {"),
       "line 6, column 23: use of value '%x' expects different type than prior uses: 'tensor<2x3xf32>' vs "
       "'tensor<?x3xf32>'"},
      {replaced(good, "@main", "@other"), "line 2, column 1: a model is a module with one function, @main"},
      {replaced(good, "\"parameter\"", "\"weight\""),
       "argument 1 of @main has the role 'weight'; input, parameter or state"},
      {replaced(good, "\"parameter\"", "3"), "attribute kfuse.role of @main is no string"},
      {replaced(good, "\"w\"", "\"x\""), "two arguments of @main have the name 'x', or one has none"},
      {replaced(good, "kfuse.matmul", "kfuse.fancy"), "line 6, column 10: custom op 'kfuse.fancy' is unknown"},
      {replaced(good, "return %0", "return %1"), "line 7, column 12: use of undeclared SSA value name"},
      {replaced(good, "tensor<3x4xf32> {", "tensor<4x4xf32> {"),
       "line 6, column 27: use of value '%w' expects different type than prior uses: 'tensor<3x4xf32>' vs "
       "'tensor<4x4xf32>'"},
      {replaced(good, "-> tensor<2x4xf32>", "-> tensor<2x5xf32>"),
       "line 7, column 12: use of value '%0' expects different type than prior uses: 'tensor<2x4xf32>' vs "
       "'tensor<2x5xf32>'"},
      {replaced(replaced(good, "tensor<3x4xf32> {", "tensor<4x4xf32> {"), "tensor<3x4xf32>)", "tensor<4x4xf32>)"),
       "line 6, column 10: kfuse.matmul: K differs: 3 in [2, 3], 4 in [4, 4]"},
      {"func.func private @main(tensor<2xf32>)", "line 1, column 1: @main needs a body of one block"},
      {"func.func @main(%a: tensor<2xf64>) { return }",
       "line 1, column 1: 'tensor<2xf64>' is no tensor of f32, f16, bf16, f8E4M3FN, f8E5M2, i64, i32, i8, ui8, i4, ui4 "
       "or i1 with a static "
       "shape of at most 16 dimensions, 1 byte to 1 TiB"},
      {"func.func @main(%a: tensor<1099511627776x1099511627776xf32>) { return }",
       "line 1, column 1: 'tensor<1099511627776x1099511627776xf32>' is no tensor of f32, f16, bf16, f8E4M3FN, f8E5M2, "
       "i64, i32, i8, ui8, i4, ui4 or i1 with a static "
       "shape of at most 16 dimensions, 1 byte to 1 TiB"},
      {"func.func @main(%a: memref<2xf32>) { return }",
       "line 1, column 1: 'memref<2xf32>' is no tensor of f32, f16, bf16, f8E4M3FN, f8E5M2, i64, i32, i8, ui8, i4, ui4 "
       "or i1 with a static "
       "shape of at most 16 dimensions, 1 byte to 1 TiB"},
      {"func.func @main(%a: tensor<0xf32>) { return }",
       "line 1, column 1: 'tensor<0xf32>' is no tensor of f32, f16, bf16, f8E4M3FN, f8E5M2, i64, i32, i8, ui8, i4, ui4 "
       "or i1 with a static "
       "shape of at most 16 dimensions, 1 byte to 1 TiB"},
      {"func.func @main() { return } func.func @other() { return }", "a model is a module with one function, @main"},
      {"func.func @main() { call @main() : () -> () return }",
       "line 1, column 21: 'func.call' is no op of the dialect"},
      {"arith.constant 1 : i32", "line 1, column 1: Dialect `arith' not found for custom op 'arith.constant'"},
      {"module { module { } }", "line 1, column 1: a model is a module with one function, @main"},
      {"not a module", "line 1, column 1: custom op 'not' is unknown (tried 'builtin.not' as well)"},
  };
  for (const auto &[text, message] : rows) {
    CAPTURE(text);
    CHECK(errorOf(text) == message);
  }
}

TEST_CASE("text: what would overflow the parser's stack is refused before it is parsed") {
  const std::string deep = "line 1 nests over 128 brackets deep; a model nests about ten";
  CHECK(errorOf(repeated("[", 100000)) == deep);
  CHECK(errorOf(repeated("tuple<", 100000)) == deep);
  CHECK(errorOf(repeated("module {", 100000)) == deep);
  CHECK(errorOf("// " + repeated("[", 100000)) != deep);       // In a comment they are harmless,
  CHECK(errorOf("\"" + repeated("[", 100000) + "\"") != deep); // and in a string.
  CHECK(errorOf(repeated("tensor<1xf32, affine_set<() : (0 >= 0)>, tuple<", 1000)) ==
        "line 1 holds an affine map or set, which the dialect has no use for");
  CHECK(errorOf("#a = [1]\n#b = [#a, #a]\n" + good) == "line 1 defines an alias; write types and attributes out");
  CHECK(errorOf(std::string((std::size_t{64} << 20) + 1, ' ')) ==
        "the text has 67108865 bytes, over 64 MiB; give weights as parameters, not as constants");
}

TEST_CASE("text: sizes by name are numbers of a run") {
  const std::string named = replaced(
      replaced(replaced(replaced(good, "<2x3", "<${tokens}x3"), "<2x4", "<${tokens}x4"), "<2x3", "<${tokens}x3"),
      "<2x4", "<${ 1*tokens + 0 }x4");
  tuner::test::TemporaryFolder folder;
  const std::string path = (folder.path / "model.mlir").string();
  auto load = [&](const std::string &text, const std::map<std::string, std::int64_t> &sizes) {
    std::ofstream(path) << text;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    ir::ImportOptions options;
    options.sizes = sizes;
    Result<ir::Model> model = ir::loadModel(path, options, context);
    if (!model)
      return model.error().message.substr(path.size() + 2);
    auto main = model->module->lookupSymbol<mlir::func::FuncOp>("main");
    return toString(ir::shapeOf(main.getArgument(0)));
  };
  const std::string returned = replaced(named, ": tensor<2x4xf32>\n  }", ": tensor<${tokens}x4xf32>\n  }");
  CHECK(load(returned, {{"tokens", 5}}) == "5x3");
  CHECK(load(returned, {{"tokens", 7}}) == "7x3");
  CHECK(load(good, {}) == "2x3");
  CHECK(load(returned, {}) == "line 3 has the size 'tokens', of which no range is given; give --dims tokens=1..N");
  CHECK(load(returned, {{"rows", 1}, {"tokens", 1}}) == "--dims rows names no size of the text; it has tokens");
  CHECK(load(good, {{"rows", 1}}) ==
        "--dims rows names no size of the text; it has none: write ${rows} for the numbers that follow it");
  for (const char *size : {"${}", "${tokens -}", "${tokens tokens}", "${tokens *}", "${99999999999999999999}",
                           "${9223372036854775807 + 1}", "${4294967296 * 4294967296}"})
    CHECK_MESSAGE(load(replaced(returned, "${tokens}", size), {{"tokens", 5}})
                      .starts_with(std::string("line 3 has the size '") + size + "', which is no sum of products"),
                  size);
  CHECK(load(replaced(returned, "${tokens}", "${tokens"), {{"tokens", 5}}).find("'tokensx3xf32', of which no range") !=
        std::string::npos);
  CHECK(load("${tokens", {{"tokens", 5}}) == "line 1 begins a size with '${' that no '}' ends");
}
