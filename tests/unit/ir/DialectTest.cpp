// Every complaint of the dialect's verifiers, word for word.
#include "IrText.h"

#include <ostream>

using namespace kfuse;
using namespace kfuse::test;

namespace {

struct Case {
  const char *types; ///< Those of the arguments %0, %1, ..., separated by ';'.
  const char *op;
  const char *complaint;
};

/// A function of arguments of the given types that holds one op.
std::string functionOf(const std::string &types, const std::string &op) {
  std::string parameters, rest = types;
  for (int i = 0; !rest.empty(); ++i) {
    std::size_t end = std::min(rest.find(';'), rest.size());
    parameters += (i ? ", %" : "%") + std::to_string(i) + ": " + rest.substr(0, end);
    rest.erase(0, end + 1);
  }
  return "func.func @f(" + parameters + ") { %r = " + op + "\n return }";
}

const Case cases[] = {
    // Pointwise: broadcasting and element types.
    {"tensor<2x3xf32>;tensor<4xf32>", "kfuse.add %0, %1 : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>",
     "kfuse.add: operand 1 of shape [4] does not broadcast with [2, 3]"},
    {"tensor<2xf32>;tensor<2xf16>", "kfuse.mul %0, %1 : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf16>",
     "kfuse.mul: operand 0 holds 'f32', the last operand 'f16'; cast one of them"},
    {"tensor<2xi1>;tensor<2xf32>;tensor<2xi64>",
     "kfuse.where %0, %1, %2 : (tensor<2xi1>, tensor<2xf32>, tensor<2xi64>) -> tensor<2xi64>",
     "kfuse.where: operand 1 holds 'f32', the last operand 'i64'; cast one of them"},
    {"tensor<2xf32>", "kfuse.relu %0 : (tensor<2xf32>) -> tensor<3xf32>",
     "'kfuse.relu' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation "
     "'tensor<3xf32>'"},
    {"tensor<2xi32>", "kfuse.gelu %0 : (tensor<2xi32>) -> tensor<2xi32>",
     "'kfuse.gelu' op operand #0 must be statically shaped tensor of 32-bit float or 16-bit float or bfloat16 type "
     "values, "
     "but got 'tensor<2xi32>'"},
    {"tensor<?xf32>", "kfuse.relu %0 : (tensor<?xf32>) -> tensor<?xf32>",
     "'kfuse.relu' op operand #0 must be statically shaped tensor of 32-bit float or 16-bit float or bfloat16 type or "
     "32-bit signless integer or 64-bit signless integer or 1-bit signless integer values, but got 'tensor<?xf32>'"},
    {"tensor<2xf32>", "kfuse.cast %0 : (tensor<2xf32>) -> tensor<3xf16>",
     "'kfuse.cast' op requires the same shape for all operands and results"},

    // Products and rows.
    {"tensor<2x3xf32>;tensor<4x5xf32>", "kfuse.matmul %0, %1 : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>",
     "kfuse.matmul: K differs: 3 in [2, 3], 4 in [4, 5]"},
    {"tensor<3xf32>;tensor<3x5xf32>", "kfuse.matmul %0, %1 : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>",
     "kfuse.matmul: needs two matrices, got [3] and [3, 5]"},
    {"tensor<2x3xf32>;tensor<3x5xbf16>", "kfuse.matmul %0, %1 : (tensor<2x3xf32>, tensor<3x5xbf16>) -> tensor<2x5xf32>",
     "kfuse.matmul: operands hold 'f32' and 'bf16'; cast one of them"},
    {"tensor<2x4x3xf32>;tensor<3x3x5xf32>",
     "kfuse.matmul %0, %1 : (tensor<2x4x3xf32>, tensor<3x3x5xf32>) -> tensor<2x4x5xf32>",
     "kfuse.matmul: batch dimensions of [2, 4, 3] and [3, 3, 5] do not broadcast"},
    {"tensor<f32>", "kfuse.softmax %0 : (tensor<f32>) -> tensor<f32>",
     "kfuse.softmax: needs an operand of at least one dimension, got a scalar"},
    {"tensor<2x3xf32>;tensor<4xf32>",
     "kfuse.rms_norm %0, %1 {epsilon = 1.0 : f32} : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>",
     "'kfuse.rms_norm' op weight has the shape [4], rows have 3 elements"},
    {"tensor<2x3xf32>;tensor<3xbf16>",
     "kfuse.rms_norm %0, %1 {epsilon = 1.0 : f32} : (tensor<2x3xf32>, tensor<3xbf16>) -> tensor<2x3xf32>",
     "'kfuse.rms_norm' op weight holds 'bf16', the operand 'f32'"},
    {"tensor<2x3xf32>;tensor<3xf32>;tensor<2xf32>",
     "kfuse.layer_norm %0, %1, %2 {epsilon = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : "
     "(tensor<2x3xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<2x3xf32>",
     "'kfuse.layer_norm' op bias has the shape [2], rows have 3 elements"},
    {"tensor<2x3xf32>;tensor<3xf32>",
     "kfuse.layer_norm %0, %1 {epsilon = 1.0 : f32, operandSegmentSizes = array<i32: 1, 0, 1>} : "
     "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
     "'kfuse.layer_norm' op has a bias but no weight"},
    {"tensor<2x3xf32>",
     "kfuse.reduce %0 {axes = array<i64: 1, 1>, function = \"sum\"} : (tensor<2x3xf32>) -> tensor<2xf32>",
     "kfuse.reduce: axes [1, 1] must ascend within the 2 dimensions"},
    {"tensor<2x3xf32>",
     "kfuse.reduce %0 {axes = array<i64: 2>, function = \"sum\"} : (tensor<2x3xf32>) -> tensor<2xf32>",
     "kfuse.reduce: axes [2] must ascend within the 2 dimensions"},
    {"tensor<2x3xf32>",
     "kfuse.reduce %0 {axes = array<i64: 1>, function = \"median\"} : (tensor<2x3xf32>) -> tensor<2xf32>",
     "'kfuse.reduce' op reduces by sum, max, min or mean, not 'median'"},
    {"tensor<2x3xi64>",
     "kfuse.reduce %0 {axes = array<i64: 1>, function = \"mean\"} : (tensor<2x3xi64>) -> tensor<2xi64>",
     "'kfuse.reduce' op takes the mean of floats, not of 'i64'"},
    {"tensor<2x3xf32>;tensor<3xf32>",
     "kfuse.rotary %0, %1, %1 : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
     "kfuse.rotary: the last dimension must be even, got [2, 3]"},
    {"tensor<2x4xf32>;tensor<3x4xf32>",
     "kfuse.rotary %0, %1, %1 : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
     "kfuse.rotary: table of shape [3, 4] does not broadcast to [2, 4] or to half its last dimension"},
    {"tensor<2x4xf32>;tensor<4xf16>",
     "kfuse.rotary %0, %1, %1 : (tensor<2x4xf32>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf32>",
     "kfuse.rotary: table holds 'f16', the operand 'f32'"},

    // 8-bit floats.
    {"tensor<2x3xf8E4M3FN>", "kfuse.add %0, %0 : (tensor<2x3xf8E4M3FN>, tensor<2x3xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>",
     "'kfuse.add' op operand #0 must be statically shaped tensor of 32-bit float or 16-bit float or bfloat16 type or "
     "32-bit signless integer "
     "or 64-bit signless integer or 1-bit signless integer values, but got 'tensor<2x3xf8E4M3FN>'"},
    {"tensor<2x3xf8E4M3FN>;tensor<3x4xbf16>",
     "kfuse.matmul %0, %1 : (tensor<2x3xf8E4M3FN>, tensor<3x4xbf16>) -> tensor<2x4xf32>",
     "kfuse.matmul: operands hold 'f8E4M3FN' and 'bf16'; cast one of them"},
    {"tensor<2x3xf8E4M3FN>;tensor<3x4xf8E5M2>",
     "kfuse.matmul %0, %1 : (tensor<2x3xf8E4M3FN>, tensor<3x4xf8E5M2>) -> tensor<2x4xf8E4M3FN>",
     "'kfuse.matmul' op inferred type(s) 'tensor<2x4xf32>' are incompatible with return type(s) of operation "
     "'tensor<2x4xf8E4M3FN>'"},

    // Precision.
    {"tensor<2x3xbf16>;tensor<3x4xbf16>",
     "kfuse.matmul %0, %1 {tf32} : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>",
     "'kfuse.matmul' op has tf32, which is for operands of f32, and operands of 'bf16'"},

    // Layout.
    {"tensor<2x3xf32>", "kfuse.reshape %0 : (tensor<2x3xf32>) -> tensor<4xf32>",
     "'kfuse.reshape' op cannot give 6 elements the shape [4] of 4"},
    {"tensor<2x3xf32>", "kfuse.reshape %0 : (tensor<2x3xf32>) -> tensor<6xf16>",
     "'kfuse.reshape' op takes 'f32' but gives 'f16'"},
    {"tensor<2x3xf32>", "kfuse.transpose %0 {permutation = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>",
     "'kfuse.transpose' op permutes 2 dimensions with 1 entries into 2"},
    {"tensor<2x3xf32>", "kfuse.transpose %0 {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>",
     "'kfuse.transpose' op has no permutation of 0 to 1: [0, 0]"},
    {"tensor<2x3xf32>", "kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
     "'kfuse.transpose' op gives dimension 0 the size 2, but the operand's dimension 1 has 3"},
    {"tensor<2x3xf32>", "kfuse.broadcast %0 : (tensor<2x3xf32>) -> tensor<4x2x2xf32>",
     "'kfuse.broadcast' op cannot broadcast [2, 3] to [4, 2, 2]"},
    {"tensor<2x3xf32>",
     "kfuse.slice %0 {offsets = array<i64: 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>",
     "'kfuse.slice' op slices 2 dimensions with 1 offsets and 2 strides into 2"},
    {"tensor<2x3xf32>",
     "kfuse.slice %0 {offsets = array<i64: 0, 2>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>",
     "'kfuse.slice' op reads 2 to 3 of dimension 1, which has the size 3"},
    {"tensor<2x3xf32>",
     "kfuse.slice %0 {offsets = array<i64: 0, 1>, strides = array<i64: 1, -2>} : (tensor<2x3xf32>) -> tensor<2x2xf32>",
     "'kfuse.slice' op reads 1 to -1 of dimension 1, which has the size 3"},
    {"tensor<2x3xf32>", "kfuse.concat %0 {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
     "'kfuse.concat' op joins 1 operands along axis 2 of 2"},
    {"tensor<2x3xf32>;tensor<3x3xf32>",
     "kfuse.concat %0, %1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>",
     "'kfuse.concat' op operand 1 of shape [3, 3] does not fit the result [2, 6] outside axis 1"},
    {"tensor<2x3xf32>;tensor<2x3xf16>",
     "kfuse.concat %0, %1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf16>) -> tensor<2x6xf32>",
     "'kfuse.concat' op operand 1 holds 'f16', the result 'f32'"},
    {"tensor<2x3xf32>", "kfuse.concat %0, %0 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>",
     "'kfuse.concat' op operands add up to 6 along axis 1, the result has 5"},
    {"tensor<2x3xf32>;tensor<4xi64>",
     "kfuse.gather %0, %1 {axis = 2 : i64} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>",
     "'kfuse.gather' op gathers along axis 2 of 2 dimensions"},
    {"tensor<2x3xf32>;tensor<4xi64>",
     "kfuse.gather %0, %1 {axis = 0 : i64} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>",
     "'kfuse.gather' op gives [2, 4], but data and indices make [4, 3]"},
    {"tensor<0x3xf32>;tensor<4xi64>",
     "kfuse.gather %0, %1 {axis = 0 : i64} : (tensor<0x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>",
     "'kfuse.gather' op gathers along axis 0 of [0, 3], which holds nothing"},
    {"", "kfuse.iota {dim = 1 : i64} : tensor<3xi64>", "'kfuse.iota' op counts along dimension 1 of 1"},

    // State.
    {"tensor<4x2xf32>;tensor<5x2xf32>;tensor<i64>",
     "kfuse.state_update %0, %1, %2 {axis = 0 : i64} : (tensor<4x2xf32>, tensor<5x2xf32>, tensor<i64>) -> "
     "tensor<4x2xf32>",
     "'kfuse.state_update' op writes [5, 2] along axis 0 of a state of [4, 2]"},
    {"tensor<4x2xf32>;tensor<1x2xf16>;tensor<i64>",
     "kfuse.state_update %0, %1, %2 {axis = 0 : i64} : (tensor<4x2xf32>, tensor<1x2xf16>, tensor<i64>) -> "
     "tensor<4x2xf32>",
     "'kfuse.state_update' op writes 'tensor<1x2xf16>' into 'tensor<4x2xf32>'"},
    {"tensor<4x2xf32>;tensor<4x1xf32>;tensor<3xi64>",
     "kfuse.state_update %0, %1, %2 {axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<3xi64>) -> "
     "tensor<4x2xf32>",
     "'kfuse.state_update' op takes one position, one per index of dimension 0 (4) or, behind that, per row (1), got "
     "[3]"},

    // Sequences.
    {"tensor<3xi32>;tensor<4xi32>", "kfuse.same_sequence %0, %1 : (tensor<3xi32>, tensor<4xi32>) -> tensor<5x5xi1>",
     "'kfuse.same_sequence' op takes starts [sequences + 1] of rows and of keys, got [3] and [4]"},
    {"tensor<3xi32>;tensor<3xi64>", "kfuse.same_sequence %0, %1 : (tensor<3xi32>, tensor<3xi64>) -> tensor<5x5xi1>",
     "'kfuse.same_sequence' op takes starts of one type, got 'tensor<3xi32>' and 'tensor<3xi64>'"},
    {"tensor<3xi32>", "kfuse.same_sequence %0, %0 : (tensor<3xi32>, tensor<3xi32>) -> tensor<5xi1>",
     "'kfuse.same_sequence' op gives [rows, keys], not 'tensor<5xi1>'"},

    // Regions.
    {"tensor<2xf32>",
     "kfuse.fused %0 : (tensor<2xf32>) -> tensor<2xf32> {\n^bb0(%a: tensor<3xf32>):\n %b = kfuse.relu %a : "
     "(tensor<3xf32>) -> "
     "tensor<3xf32>\n kfuse.yield %b : tensor<3xf32>\n}",
     "'kfuse.fused' op has operands of types ('tensor<2xf32>') but block arguments of ('tensor<3xf32>')"},
    {"tensor<2xf32>",
     "kfuse.attention %0 : (tensor<2xf32>) -> tensor<3xf32> {\n^bb0(%a: tensor<2xf32>):\n kfuse.yield %a : "
     "tensor<2xf32>\n}",
     "'kfuse.attention' op has results of types ('tensor<3xf32>') but yields ('tensor<2xf32>')"},
    {"tensor<2xf32>", "\"kfuse.fused\"(%0) ({}) : (tensor<2xf32>) -> tensor<2xf32>",
     "'kfuse.fused' op region #0 ('body') failed to verify constraint: region with 1 blocks"},
};

} // namespace

TEST_CASE("dialect: verifiers say both values") {
  for (const Case &test : cases) {
    CAPTURE(test.op);
    ParsedModule parsed(functionOf(test.types, test.op));
    CHECK(!parsed.module);
    CHECK(parsed.diagnostic == test.complaint);
  }
}

TEST_CASE("dialect: a kernel's region sees nothing but its operands") {
  ParsedModule parsed(R"(func.func @f(%x: tensor<2xf32>) {
  %r = kfuse.fused : () -> tensor<2xf32> {
    kfuse.yield %x : tensor<2xf32>
  }
  return
})");
  CHECK(!parsed.module);
  CHECK(parsed.diagnostic == "'kfuse.yield' op using value defined outside the region");
}

TEST_CASE("dialect: text prints and parses to itself") {
  std::string text = R"(module {
  func.func @main(%arg0: tensor<2x4xbf16> {kfuse.name = "x", kfuse.role = "input"}) -> (tensor<2x4xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.fused %arg0 : (tensor<2x4xbf16>) -> tensor<2x4xbf16> {
    ^bb0(%arg1: tensor<2x4xbf16>):
      %1 = kfuse.softmax %arg1 : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
      kfuse.yield %1 : tensor<2x4xbf16>
    }
    return %0 : tensor<2x4xbf16>
  }
}
)";
  ParsedModule parsed(text);
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  std::string printed;
  llvm::raw_string_ostream os(printed);
  parsed.module->print(os);
  CHECK(printed == text);
}
