#include "tests/cuda/TemplateCases.h"

#include <random>

namespace kfuse::test {
namespace {

/// "tensor<4x8xbf16>" for ("4x8", "bf16").
std::string tensor(const std::string &shape, const std::string &type) { return "tensor<" + shape + "x" + type + ">"; }

/// A function of a, b, ... of the given types with the given body, which defines %r.
std::string function(const std::vector<std::string> &arguments, const std::string &result, const std::string &body) {
  std::string parameters;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    parameters += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i)) + ": " + arguments[i];
  return "func.func @f(" + parameters + ") -> (" + result + ") {\n" + body + "\n}\n";
}

TemplateCase unary(const std::string &op, const std::string &shape, const std::string &type) {
  std::string t = tensor(shape, type);
  return {op + "_" + shape + "_" + type,
          function({t}, t, "%r = kfuse." + op + " %a : (" + t + ") -> " + t + "\nreturn %r : " + t)};
}

TemplateCase addGelu(const std::string &shape, const std::string &bias, const std::string &type) {
  std::string t = tensor(shape, type), v = tensor(bias, type);
  return {"add_gelu_" + shape + "_" + type,
          function({t, v}, t,
                   "%0 = kfuse.add %a, %b : (" + t + ", " + v + ") -> " + t + "\n%r = kfuse.gelu %0 : (" + t + ") -> " +
                       t + "\nreturn %r : " + t)};
}

std::string flagsOf(bool transposeA, bool transposeB) {
  return transposeA   ? transposeB ? " {transpose_a, transpose_b}" : " {transpose_a}"
         : transposeB ? " {transpose_b}"
                      : "";
}

std::string matrixType(int rows, int columns, bool transposed, const std::string &type) {
  return tensor(std::to_string(transposed ? columns : rows) + "x" + std::to_string(transposed ? rows : columns), type);
}

TemplateCase matmul(int m, int n, int k, bool transposeA, bool transposeB, const std::string &type) {
  std::string a = matrixType(m, k, transposeA, type), b = matrixType(k, n, transposeB, type),
              r = matrixType(m, n, false, type);
  std::string flags = flagsOf(transposeA, transposeB);
  std::string name = "matmul_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                     (transposeA ? "_ta" : "") + (transposeB ? "_tb" : "") + "_" + type;
  return {name,
          function({a, b}, r,
                   "%r = kfuse.matmul %a, %b" + flags + " : (" + a + ", " + b + ") -> " + r + "\nreturn %r : " + r)};
}

/// 8-bit floats of `left` and `right` times a scale a row, one a column and one in all, stored as `result`.
TemplateCase scaledMatmul(int m, int n, int k, bool transposeA, bool transposeB, const std::string &left,
                          const std::string &right, const std::string &result) {
  std::string a = matrixType(m, k, transposeA, left), b = matrixType(k, n, transposeB, right);
  std::string p = matrixType(m, n, false, "f32"), r = matrixType(m, n, false, result);
  std::string rows = matrixType(m, 1, false, "f32"), columns = matrixType(1, n, false, "f32"), all = tensor("1", "f32");
  std::string flags = flagsOf(transposeA, transposeB);
  return {"scaled_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
              (transposeA ? "_ta" : "") + (transposeB ? "_tb" : "") + "_" + left + "_" + right + "_" + result,
          function({a, b, rows, columns, all}, r,
                   "%0 = kfuse.matmul %a, %b" + flags + " : (" + a + ", " + b + ") -> " + p +
                       "\n%1 = kfuse.mul %0, %c : (" + p + ", " + rows + ") -> " + p + "\n%2 = kfuse.mul %1, %d : (" +
                       p + ", " + columns + ") -> " + p + "\n%3 = kfuse.mul %2, %e : (" + p + ", " + all + ") -> " + p +
                       "\n%r = kfuse.cast %3 : (" + p + ") -> " + r + "\nreturn %r : " + r)};
}

/// activation(a b) * (a c): a gate and what it gates, in one region.
TemplateCase gated(int m, int n, int k, bool transposeB, const std::string &type, const std::string &activation) {
  bool isFloat8 = type.starts_with("f8");
  std::string a = matrixType(m, k, false, type), b = matrixType(k, n, transposeB, type);
  std::string p = matrixType(m, n, false, isFloat8 ? "f32" : type),
              r = matrixType(m, n, false, isFloat8 ? "bf16" : type);
  std::string flags = transposeB ? " {transpose_b}" : "";
  std::string body = "%0 = kfuse.matmul %a, %b" + flags + " : (" + a + ", " + b + ") -> " + p +
                     "\n%1 = kfuse.matmul %a, %c" + flags + " : (" + a + ", " + b + ") -> " + p + "\n%2 = kfuse." +
                     activation + " %0 : (" + p + ") -> " + p + "\n%3 = kfuse.mul %2, %1 : (" + p + ", " + p + ") -> " +
                     p + "\n%r = kfuse.cast %3 : (" + p + ") -> " + r + "\nreturn %r : " + r;
  return {activation + "_gated_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
              (transposeB ? "_tb_" : "_") + type,
          function({a, b, b}, r, body)};
}

/// relu(layer_norm(a b + bias)), stored as `result`.
TemplateCase linearNorm(int m, int n, int k, bool transposeA, bool transposeB, const std::string &type,
                        const std::string &result) {
  std::string a = matrixType(m, k, transposeA, type), b = matrixType(k, n, transposeB, type);
  std::string p = matrixType(m, n, false, type), r = matrixType(m, n, false, result),
              v = tensor(std::to_string(n), type);
  std::string body =
      "%0 = kfuse.matmul %a, %b" + flagsOf(transposeA, transposeB) + " : (" + a + ", " + b + ") -> " + p +
      "\n%1 = kfuse.add %0, %c : (" + p + ", " + v + ") -> " + p +
      "\n%2 = \"kfuse.layer_norm\"(%1, %d, %e) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: "
      "1, 1, 1>}> : (" +
      p + ", " + v + ", " + v + ") -> " + p + "\n%3 = kfuse.relu %2 : (" + p + ") -> " + p +
      "\n%r = kfuse.cast %3 : (" + p + ") -> " + r + "\nreturn %r : " + r;
  return {"linear_norm_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
              (transposeA ? "_ta" : "") + (transposeB ? "_tb" : "") + "_" + type + (result == type ? "" : "_" + result),
          function({a, b, v, v, v}, r, body)};
}

/// The sum of a product and a residual, and its norm: both are written.
TemplateCase residualNorm(int m, int n, int k, const std::string &type) {
  std::string a = matrixType(m, k, false, type), b = matrixType(n, k, false, type), r = matrixType(m, n, false, type),
              v = tensor(std::to_string(n), type);
  return {"residual_norm_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" + type,
          function({a, b, r, v}, r + ", " + r,
                   "%0 = kfuse.matmul %a, %b {transpose_b} : (" + a + ", " + b + ") -> " + r +
                       "\n%1 = kfuse.add %0, %c : (" + r + ", " + r + ") -> " + r +
                       "\n%2 = kfuse.rms_norm %1, %d {epsilon = 1.0e-5 : f32} : (" + r + ", " + v + ") -> " + r +
                       "\nreturn %1, %2 : " + r + ", " + r)};
}

/// softmax(a b * scale + mask) for each of some batches.
TemplateCase maskedSoftmax(int m, int n, int k, const std::string &type) {
  const std::string rows = std::to_string(m), columns = std::to_string(n), depth = std::to_string(k);
  std::string a = tensor("3x" + rows + "x" + depth, type), b = tensor("3x" + columns + "x" + depth, type),
              r = tensor("3x" + rows + "x" + columns, type), v = tensor("3x1x" + columns, type);
  return {"softmax_of_product_" + rows + "x" + columns + "x" + depth + "_" + type,
          function({a, b, v}, r,
                   "%0 = kfuse.matmul %a, %b {transpose_b} : (" + a + ", " + b + ") -> " + r +
                       "\n%1 = kfuse.constant dense<0.125> : tensor<" + type + ">\n%2 = kfuse.mul %0, %1 : (" + r +
                       ", tensor<" + type + ">) -> " + r + "\n%3 = kfuse.add %2, %c : (" + r + ", " + v + ") -> " + r +
                       "\n%4 = kfuse.softmax %3 : (" + r + ") -> " + r + "\nreturn %4 : " + r)};
}

} // namespace

std::vector<TemplateCase> pointwiseCases() {
  std::vector<TemplateCase> cases{
      addGelu("64x96", "96", "bf16"), addGelu("7x33", "33", "f16"), addGelu("3x5x127", "127", "f32"),
      unary("silu", "1003", "bf16"),  unary("exp", "1", "f32"),     unary("neg", "33x2", "i64"),
      unary("not", "77", "i1"),
  };
  cases.push_back({"transpose_add", R"(
func.func @f(%a: tensor<2x12x20x16xbf16>, %b: tensor<2x20x12x16xbf16>) -> tensor<2x20x12x16xbf16> {
  %0 = kfuse.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x12x20x16xbf16>) -> tensor<2x20x12x16xbf16>
  %r = kfuse.add %0, %b : (tensor<2x20x12x16xbf16>, tensor<2x20x12x16xbf16>) -> tensor<2x20x12x16xbf16>
  return %r : tensor<2x20x12x16xbf16>
})"});
  cases.push_back({"cast_to_i64", R"(
func.func @f(%a: tensor<7x33xf32>) -> tensor<7x33xi64> {
  %0 = kfuse.cast %a : (tensor<7x33xf32>) -> tensor<7x33xi64>
  return %0 : tensor<7x33xi64>
})"});
  cases.push_back({"transpose_inner", R"(
func.func @f(%a: tensor<33x47xf32>) -> tensor<47x33xf32> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<33x47xf32>) -> tensor<47x33xf32>
  return %0 : tensor<47x33xf32>
})"});
  cases.push_back({"rotary", R"(
func.func @f(%a: tensor<2x4x10x32xbf16>, %b: tensor<1x1x10x32xbf16>, %c: tensor<1x1x10x32xbf16>) -> tensor<2x4x10x32xbf16> {
  %0 = kfuse.rotary %a, %b, %c : (tensor<2x4x10x32xbf16>, tensor<1x1x10x32xbf16>, tensor<1x1x10x32xbf16>) -> tensor<2x4x10x32xbf16>
  return %0 : tensor<2x4x10x32xbf16>
})"});
  cases.push_back({"rotary_interleaved_half_tables", R"(
func.func @f(%a: tensor<2x10x12xf16>, %b: tensor<10x6xf16>, %c: tensor<10x6xf16>) -> tensor<2x10x12xf16> {
  %0 = kfuse.rotary %a, %b, %c {interleaved} : (tensor<2x10x12xf16>, tensor<10x6xf16>, tensor<10x6xf16>) -> tensor<2x10x12xf16>
  return %0 : tensor<2x10x12xf16>
})"});
  cases.push_back({"concat_aligned", R"(
func.func @f(%a: tensor<5x16xf32>, %b: tensor<5x32xf32>, %c: tensor<5x8xf32>) -> tensor<5x56xf32> {
  %0 = kfuse.concat %a, %b, %c {axis = 1 : i64} : (tensor<5x16xf32>, tensor<5x32xf32>, tensor<5x8xf32>) -> tensor<5x56xf32>
  return %0 : tensor<5x56xf32>
})"});
  cases.push_back({"concat_odd", R"(
func.func @f(%a: tensor<5x3xbf16>, %b: tensor<5x14xbf16>) -> tensor<5x17xbf16> {
  %0 = kfuse.concat %a, %b {axis = 1 : i64} : (tensor<5x3xbf16>, tensor<5x14xbf16>) -> tensor<5x17xbf16>
  return %0 : tensor<5x17xbf16>
})"});
  cases.push_back({"gather_rows", R"(
func.func @f(%a: tensor<4x24xbf16>, %b: tensor<2x9xi64>) -> tensor<2x9x24xbf16> {
  %0 = kfuse.gather %a, %b {axis = 0 : i64} : (tensor<4x24xbf16>, tensor<2x9xi64>) -> tensor<2x9x24xbf16>
  return %0 : tensor<2x9x24xbf16>
})"});
  cases.push_back({"gather_columns", R"(
func.func @f(%a: tensor<6x4xf32>, %b: tensor<11xi32>) -> tensor<6x11xf32> {
  %0 = kfuse.gather %a, %b {axis = 1 : i64} : (tensor<6x4xf32>, tensor<11xi32>) -> tensor<6x11xf32>
  return %0 : tensor<6x11xf32>
})"});
  cases.push_back({"state_update", R"(
func.func @f(%a: tensor<2x3x8x16xbf16>, %b: tensor<2x3x1x16xbf16>, %c: tensor<i64>) -> tensor<2x3x8x16xbf16> {
  %0 = kfuse.state_update %a, %b, %c {axis = 2 : i64} : (tensor<2x3x8x16xbf16>, tensor<2x3x1x16xbf16>, tensor<i64>) -> tensor<2x3x8x16xbf16>
  return %0 : tensor<2x3x8x16xbf16>
})"});
  cases.push_back({"state_update_per_row", R"(
func.func @f(%a: tensor<2x5x6xf32>, %b: tensor<2x3x6xf32>, %c: tensor<2xi32>) -> tensor<2x5x6xf32> {
  %0 = kfuse.state_update %a, %b, %c {axis = 1 : i64} : (tensor<2x5x6xf32>, tensor<2x3x6xf32>, tensor<2xi32>) -> tensor<2x5x6xf32>
  return %0 : tensor<2x5x6xf32>
})"});
  cases.push_back({"mask_iota_where", R"(
func.func @f(%a: tensor<3x9x9xf32>) -> tensor<3x9x9xf32> {
  %0 = kfuse.iota {dim = 0 : i64} : tensor<9x9xi64>
  %1 = kfuse.iota {dim = 1 : i64} : tensor<9x9xi64>
  %2 = kfuse.ge %0, %1 : (tensor<9x9xi64>, tensor<9x9xi64>) -> tensor<9x9xi1>
  %3 = kfuse.constant dense<0xFF800000> : tensor<f32>
  %r = kfuse.where %2, %a, %3 : (tensor<9x9xi1>, tensor<3x9x9xf32>, tensor<f32>) -> tensor<3x9x9xf32>
  return %r : tensor<3x9x9xf32>
})"});
  cases.push_back({"two_results_slice_cast", R"(
func.func @f(%a: tensor<12x20xf32>, %b: tensor<6x10xi32>) -> (tensor<6x10xbf16>, tensor<6x10xf32>) {
  %0 = kfuse.slice %a {offsets = array<i64: 1, 19>, strides = array<i64: 2, -2>} : (tensor<12x20xf32>) -> tensor<6x10xf32>
  %1 = kfuse.cast %b : (tensor<6x10xi32>) -> tensor<6x10xf32>
  %2 = kfuse.mul %0, %1 : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
  %3 = kfuse.cast %2 : (tensor<6x10xf32>) -> tensor<6x10xbf16>
  return %3, %2 : tensor<6x10xbf16>, tensor<6x10xf32>
})"});
  for (const char *type : {"f8E4M3FN", "f8E5M2"}) {
    std::string wide = tensor("7x36", "f32"), narrow = tensor("7x36", type), half = tensor("7x36", "bf16");
    cases.push_back({std::string("scaled_cast_") + type, // What is over 448 or 57344 saturates.
                     function({wide}, narrow + ", " + half,
                              "%0 = kfuse.constant dense<6.0e4> : tensor<f32>\n%1 = kfuse.mul %a, %0 : (" + wide +
                                  ", tensor<f32>) -> " + wide + "\n%2 = kfuse.cast %1 : (" + wide + ") -> " + narrow +
                                  "\n%3 = kfuse.cast %a : (" + wide + ") -> " + half + "\nreturn %2, %3 : " + narrow +
                                  ", " + half)});
    cases.push_back({std::string("widening_cast_") + type,
                     function({narrow, half}, half,
                              "%0 = kfuse.cast %a : (" + narrow + ") -> " + half + "\n%r = kfuse.add %0, %b : (" +
                                  half + ", " + half + ") -> " + half + "\nreturn %r : " + half)});
  }
  cases.push_back({"integers", R"(
func.func @f(%a: tensor<50xi32>, %b: tensor<50xi32>) -> tensor<50xi32> {
  %0 = kfuse.constant dense<-3> : tensor<i32>
  %1 = kfuse.mod %a, %0 : (tensor<50xi32>, tensor<i32>) -> tensor<50xi32>
  %2 = kfuse.div %b, %0 : (tensor<50xi32>, tensor<i32>) -> tensor<50xi32>
  %3 = kfuse.max %1, %2 : (tensor<50xi32>, tensor<50xi32>) -> tensor<50xi32>
  %4 = kfuse.abs %3 : (tensor<50xi32>) -> tensor<50xi32>
  return %4 : tensor<50xi32>
})"});
  return cases;
}

std::vector<TemplateCase> rowCases() {
  std::vector<TemplateCase> cases;
  for (auto [shape, type] :
       {std::pair{"5x8x64", "bf16"}, {"3x1000", "f32"}, {"7x33", "f16"}, {"2x4096", "bf16"}, {"3x1", "f32"}})
    cases.push_back(unary("softmax", shape, type));
  for (auto [shape, columns, type] :
       {std::tuple{"6x768", "768", "bf16"}, {"127x33", "33", "f32"}, {"2x3x20000", "20000", "f16"}}) {
    std::string t = tensor(shape, type), v = tensor(columns, type);
    cases.push_back({"add_layer_norm_" + std::string(shape) + "_" + type,
                     function({t, t, v, v}, t + ", " + t,
                              "%0 = kfuse.add %a, %b : (" + t + ", " + t + ") -> " + t +
                                  "\n%r = \"kfuse.layer_norm\"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, "
                                  "operandSegmentSizes = array<i32: 1, 1, 1>}> : (" +
                                  t + ", " + v + ", " + v + ") -> " + t + "\nreturn %r, %0 : " + t + ", " + t)});
    cases.push_back({"rms_norm_silu_" + std::string(shape) + "_" + type,
                     function({t, v}, t,
                              "%0 = kfuse.rms_norm %a, %b {epsilon = 1.0e-6 : f32} : (" + t + ", " + v + ") -> " + t +
                                  "\n%r = kfuse.silu %0 : (" + t + ") -> " + t + "\nreturn %r : " + t)});
  }
  cases.push_back({"masked_softmax", R"(
func.func @f(%a: tensor<2x4x9x72xbf16>, %b: tensor<9x72xi1>) -> tensor<2x4x9x72xbf16> {
  %0 = kfuse.constant dense<0.125> : tensor<bf16>
  %1 = kfuse.mul %a, %0 : (tensor<2x4x9x72xbf16>, tensor<bf16>) -> tensor<2x4x9x72xbf16>
  %2 = kfuse.constant dense<0xFF80> : tensor<bf16>
  %3 = kfuse.where %b, %1, %2 : (tensor<9x72xi1>, tensor<2x4x9x72xbf16>, tensor<bf16>) -> tensor<2x4x9x72xbf16>
  %4 = kfuse.softmax %3 : (tensor<2x4x9x72xbf16>) -> tensor<2x4x9x72xbf16>
  return %4 : tensor<2x4x9x72xbf16>
})"});
  cases.push_back({"reduce_columns", R"(
func.func @f(%a: tensor<70x45xf32>) -> tensor<45xf32> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 0>} : (tensor<70x45xf32>) -> tensor<45xf32>
  return %0 : tensor<45xf32>
})"});
  cases.push_back({"reduce_middle_and_last", R"(
func.func @f(%a: tensor<3x10x7x8xbf16>) -> tensor<3x7xbf16> {
  %0 = kfuse.reduce %a {function = "max", axes = array<i64: 1, 3>} : (tensor<3x10x7x8xbf16>) -> tensor<3x7xbf16>
  return %0 : tensor<3x7xbf16>
})"});
  cases.push_back({"mean_of_squares", R"(
func.func @f(%a: tensor<19x260xf32>) -> tensor<19xf32> {
  %0 = kfuse.mul %a, %a : (tensor<19x260xf32>, tensor<19x260xf32>) -> tensor<19x260xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 1>} : (tensor<19x260xf32>) -> tensor<19xf32>
  %2 = kfuse.sqrt %1 : (tensor<19xf32>) -> tensor<19xf32>
  return %2 : tensor<19xf32>
})"});
  cases.push_back({"sum_of_all", R"(
func.func @f(%a: tensor<9x1000xf32>) -> tensor<f32> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 0, 1>} : (tensor<9x1000xf32>) -> tensor<f32>
  return %0 : tensor<f32>
})"});
  cases.push_back({"integer_min", R"(
func.func @f(%a: tensor<5x77xi64>) -> tensor<5xi64> {
  %0 = kfuse.reduce %a {function = "min", axes = array<i64: 1>} : (tensor<5x77xi64>) -> tensor<5xi64>
  return %0 : tensor<5xi64>
})"});
  cases.push_back({"transposed_softmax", R"(
func.func @f(%a: tensor<12x40xbf16>) -> tensor<40x12xbf16> {
  %0 = kfuse.softmax %a : (tensor<12x40xbf16>) -> tensor<12x40xbf16>
  %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<12x40xbf16>) -> tensor<40x12xbf16>
  return %1 : tensor<40x12xbf16>
})"});
  // A divisor of two passes, and rows that fill no block.
  cases.push_back({"softmax_layer_norm_tiny", R"(
func.func @f(%a: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = kfuse.softmax %a : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %1 = "kfuse.layer_norm"(%0) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<2x5xf32>) -> tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
})"});
  // A variance of squared differences, of which only the differences' own is known a pass early.
  cases.push_back({"fourth_moment", R"(
func.func @f(%a: tensor<19x260xf32>) -> tensor<19x260xf32> {
  %m = kfuse.reduce %a {function = "mean", axes = array<i64: 1>} : (tensor<19x260xf32>) -> tensor<19xf32>
  %m1 = kfuse.reshape %m : (tensor<19xf32>) -> tensor<19x1xf32>
  %d = kfuse.sub %a, %m1 : (tensor<19x260xf32>, tensor<19x1xf32>) -> tensor<19x260xf32>
  %q = kfuse.mul %d, %d : (tensor<19x260xf32>, tensor<19x260xf32>) -> tensor<19x260xf32>
  %v = kfuse.reduce %q {function = "mean", axes = array<i64: 1>} : (tensor<19x260xf32>) -> tensor<19xf32>
  %v1 = kfuse.reshape %v : (tensor<19xf32>) -> tensor<19x1xf32>
  %e = kfuse.sub %q, %v1 : (tensor<19x260xf32>, tensor<19x1xf32>) -> tensor<19x260xf32>
  %f = kfuse.mul %e, %e : (tensor<19x260xf32>, tensor<19x260xf32>) -> tensor<19x260xf32>
  %k = kfuse.reduce %f {function = "mean", axes = array<i64: 1>} : (tensor<19x260xf32>) -> tensor<19xf32>
  %k1 = kfuse.reshape %k : (tensor<19xf32>) -> tensor<19x1xf32>
  %r = kfuse.add %d, %k1 : (tensor<19x260xf32>, tensor<19x1xf32>) -> tensor<19x260xf32>
  return %r : tensor<19x260xf32>
})"});
  // The last pass reads where a total of the pass before says.
  cases.push_back({"gather_by_total", R"(
func.func @f(%a: tensor<6x1000xf32>, %i: tensor<6x1000xi64>, %t: tensor<9x1000xf32>) -> tensor<6x1000xf32> {
  %m = kfuse.reduce %a {function = "max", axes = array<i64: 1>} : (tensor<6x1000xf32>) -> tensor<6xf32>
  %m1 = kfuse.reshape %m : (tensor<6xf32>) -> tensor<6x1xf32>
  %n = kfuse.reduce %i {function = "min", axes = array<i64: 1>} : (tensor<6x1000xi64>) -> tensor<6xi64>
  %g = kfuse.gather %t, %n {axis = 0} : (tensor<9x1000xf32>, tensor<6xi64>) -> tensor<6x1000xf32>
  %d = kfuse.sub %a, %m1 : (tensor<6x1000xf32>, tensor<6x1xf32>) -> tensor<6x1000xf32>
  %r = kfuse.mul %d, %g : (tensor<6x1000xf32>, tensor<6x1000xf32>) -> tensor<6x1000xf32>
  return %r : tensor<6x1000xf32>
})"});
  cases.push_back({"sum_of_one_row", R"(
func.func @f(%a: tensor<3xbf16>) -> tensor<bf16> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 0>} : (tensor<3xbf16>) -> tensor<bf16>
  return %0 : tensor<bf16>
})"});
  return cases;
}

std::vector<TemplateCase> sideBySideCases() {
  // Sizes, types and results that have nothing in common but a table and a position.
  return {{"rotary_beside_update_bf16", R"(
func.func @f(%q: tensor<2x7x32xbf16>, %k: tensor<2x3x1x32xbf16>, %cache: tensor<2x3x9x32xbf16>, %p: tensor<i64>, %cos: tensor<9x16xbf16>, %sin: tensor<9x16xbf16>) -> (tensor<2x3x9x32xbf16>, tensor<2x7x32xbf16>) {
  %c = kfuse.gather %cos, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<i64>) -> tensor<16xbf16>
  %s = kfuse.gather %sin, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<i64>) -> tensor<16xbf16>
  %0 = kfuse.rotary %q, %c, %s : (tensor<2x7x32xbf16>, tensor<16xbf16>, tensor<16xbf16>) -> tensor<2x7x32xbf16>
  %1 = kfuse.rotary %k, %c, %s : (tensor<2x3x1x32xbf16>, tensor<16xbf16>, tensor<16xbf16>) -> tensor<2x3x1x32xbf16>
  %2 = kfuse.state_update %cache, %1, %p {axis = 2 : i64} : (tensor<2x3x9x32xbf16>, tensor<2x3x1x32xbf16>, tensor<i64>) -> tensor<2x3x9x32xbf16>
  return %2, %0 : tensor<2x3x9x32xbf16>, tensor<2x7x32xbf16>
})"},
          {"three_sizes", R"(
func.func @f(%a: tensor<3x5x1031xf32>, %b: tensor<1031xf32>, %c: tensor<17xf16>, %d: tensor<40x6xi32>) -> (tensor<3x5x1031xf32>, tensor<17xf16>, tensor<3x5x1031xf32>, tensor<6x40xi32>) {
  %0 = kfuse.add %a, %b : (tensor<3x5x1031xf32>, tensor<1031xf32>) -> tensor<3x5x1031xf32>
  %1 = kfuse.gelu %c : (tensor<17xf16>) -> tensor<17xf16>
  %2 = kfuse.neg %0 : (tensor<3x5x1031xf32>) -> tensor<3x5x1031xf32>
  %3 = kfuse.mul %d, %d : (tensor<40x6xi32>, tensor<40x6xi32>) -> tensor<40x6xi32>
  %4 = kfuse.transpose %3 {permutation = array<i64: 1, 0>} : (tensor<40x6xi32>) -> tensor<6x40xi32>
  return %0, %1, %2, %4 : tensor<3x5x1031xf32>, tensor<17xf16>, tensor<3x5x1031xf32>, tensor<6x40xi32>
})"}};
}

std::vector<TemplateCase> transposeCases() {
  auto plain = [](const std::string &from, const std::string &to, const std::string &permutation,
                  const std::string &type) {
    std::string a = tensor(from, type), r = tensor(to, type);
    return TemplateCase{"transpose_" + from + "_to_" + to + "_" + type,
                        function({a}, r,
                                 "%r = kfuse.transpose %a {permutation = array<i64: " + permutation + ">} : (" + a +
                                     ") -> " + r + "\nreturn %r : " + r)};
  };
  std::vector<TemplateCase> cases{
      plain("33x47", "47x33", "1, 0", "f32"),
      plain("200x136", "136x200", "1, 0", "bf16"),
      plain("70x101", "101x70", "1, 0", "f16"),
      plain("300x141", "141x300", "1, 0", "bf16"),
      plain("3x40x75", "3x75x40", "0, 2, 1", "f32"),
      plain("2x24x40x16", "2x40x16x24", "0, 2, 3, 1", "f16"),
      plain("2x16x3x24", "2x24x3x16", "0, 3, 2, 1", "f32"),
      plain("16x24", "24x16", "1, 0", "i64"),
      plain("64x48", "48x64", "1, 0", "i1"),
  };
  cases.push_back({"transpose_bias_gelu_residual", R"(
func.func @f(%a: tensor<3x136x72xbf16>, %b: tensor<72x1xbf16>, %c: tensor<3x72x136xbf16>) -> tensor<3x72x136xbf16> {
  %0 = kfuse.transpose %a {permutation = array<i64: 0, 2, 1>} : (tensor<3x136x72xbf16>) -> tensor<3x72x136xbf16>
  %1 = kfuse.add %0, %b : (tensor<3x72x136xbf16>, tensor<72x1xbf16>) -> tensor<3x72x136xbf16>
  %2 = kfuse.gelu %1 : (tensor<3x72x136xbf16>) -> tensor<3x72x136xbf16>
  %r = kfuse.add %2, %c : (tensor<3x72x136xbf16>, tensor<3x72x136xbf16>) -> tensor<3x72x136xbf16>
  return %r : tensor<3x72x136xbf16>
})"});
  cases.push_back({"transpose_gelu_unaligned", R"(
func.func @f(%a: tensor<265x130xbf16>) -> tensor<130x265xf16> {
  %0 = kfuse.gelu %a : (tensor<265x130xbf16>) -> tensor<265x130xbf16>
  %1 = kfuse.cast %0 : (tensor<265x130xbf16>) -> tensor<265x130xf16>
  %r = kfuse.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<265x130xf16>) -> tensor<130x265xf16>
  return %r : tensor<130x265xf16>
})"});
  cases.push_back({"transpose_two_types", R"(
func.func @f(%a: tensor<40x72xbf16>, %b: tensor<40x72xf32>) -> (tensor<72x40xf32>, tensor<72x40xbf16>) {
  %0 = kfuse.cast %a : (tensor<40x72xbf16>) -> tensor<40x72xf32>
  %1 = kfuse.mul %0, %b : (tensor<40x72xf32>, tensor<40x72xf32>) -> tensor<40x72xf32>
  %2 = kfuse.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<40x72xf32>) -> tensor<72x40xf32>
  %3 = kfuse.cast %2 : (tensor<72x40xf32>) -> tensor<72x40xbf16>
  return %2, %3 : tensor<72x40xf32>, tensor<72x40xbf16>
})"});
  cases.push_back({"symmetric", R"(
func.func @f(%a: tensor<72x72xf32>) -> tensor<72x72xf32> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<72x72xf32>) -> tensor<72x72xf32>
  %r = kfuse.add %0, %a : (tensor<72x72xf32>, tensor<72x72xf32>) -> tensor<72x72xf32>
  return %r : tensor<72x72xf32>
})"});
  return cases;
}

std::vector<TemplateCase> longRowCases() {
  std::vector<TemplateCase> cases{unary("softmax", "3x131072", "bf16"), unary("softmax", "2x40001", "f32")};
  for (auto [shape, columns, type] : {std::tuple{"2x262144", "262144", "bf16"},
                                      {"90x65536", "65536", "bf16"},
                                      {"3x20000", "20000", "f32"},
                                      {"5x8192", "8192", "f16"}}) {
    std::string t = tensor(shape, type), v = tensor(columns, type);
    cases.push_back({"add_layer_norm_" + std::string(shape) + "_" + type,
                     function({t, t, v, v}, t + ", " + t,
                              "%0 = kfuse.add %a, %b : (" + t + ", " + t + ") -> " + t +
                                  "\n%r = \"kfuse.layer_norm\"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, "
                                  "operandSegmentSizes = array<i32: 1, 1, 1>}> : (" +
                                  t + ", " + v + ", " + v + ") -> " + t + "\nreturn %r, %0 : " + t + ", " + t)});
  }
  cases.push_back({"sum_of_long_rows", R"(
func.func @f(%a: tensor<3x50000xi64>) -> tensor<3xi64> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 1>} : (tensor<3x50000xi64>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
})"});
  return cases;
}

std::vector<TemplateCase> columnCases() {
  auto sum = [](const std::string &from, const std::string &to, const std::string &axes, const std::string &what,
                const std::string &type) {
    std::string a = tensor(from, type), r = tensor(to, type);
    return TemplateCase{what + "_columns_" + from + "_" + type,
                        function({a}, r,
                                 "%r = kfuse.reduce %a {function = \"" + what + "\", axes = array<i64: " + axes +
                                     ">} : (" + a + ") -> " + r + "\nreturn %r : " + r)};
  };
  std::vector<TemplateCase> cases{
      sum("70x45", "45", "0", "sum", "f32"),      sum("1000x136", "136", "0", "mean", "bf16"),
      sum("3x100x64", "3x64", "1", "max", "f16"), sum("20x7x9x40", "7x40", "0, 2", "sum", "f32"),
      sum("33x24", "24", "0", "min", "i64"),      sum("2x3", "3", "0", "max", "f32"),
  };
  cases.push_back({"column_moments_with_bias", R"(
func.func @f(%a: tensor<300x80xbf16>, %b: tensor<80xf32>) -> (tensor<80xf32>, tensor<80xbf16>) {
  %0 = kfuse.cast %a : (tensor<300x80xbf16>) -> tensor<300x80xf32>
  %1 = kfuse.mul %0, %0 : (tensor<300x80xf32>, tensor<300x80xf32>) -> tensor<300x80xf32>
  %2 = kfuse.reduce %1 {function = "mean", axes = array<i64: 0>} : (tensor<300x80xf32>) -> tensor<80xf32>
  %3 = kfuse.sqrt %2 : (tensor<80xf32>) -> tensor<80xf32>
  %4 = kfuse.add %3, %b : (tensor<80xf32>, tensor<80xf32>) -> tensor<80xf32>
  %5 = kfuse.cast %4 : (tensor<80xf32>) -> tensor<80xbf16>
  return %4, %5 : tensor<80xf32>, tensor<80xbf16>
})"});
  return cases;
}

std::vector<TemplateCase> decodeCases() {
  std::vector<TemplateCase> cases;
  cases.push_back({"decode_positions_bf16", R"(
func.func @f(%q: tensor<2x2x4x32xbf16>, %k: tensor<2x2x200x32xbf16>, %v: tensor<2x2x200x32xbf16>, %p: tensor<2xi64>) -> tensor<2x2x4x32xbf16> {
  %r = kfuse.attention %q, %k, %v, %p : (tensor<2x2x4x32xbf16>, tensor<2x2x200x32xbf16>, tensor<2x2x200x32xbf16>, tensor<2xi64>) -> tensor<2x2x4x32xbf16> {
  ^bb0(%a: tensor<2x2x4x32xbf16>, %b: tensor<2x2x200x32xbf16>, %c: tensor<2x2x200x32xbf16>, %d: tensor<2xi64>):
    %0 = kfuse.iota {dim = 0 : i64} : tensor<200xi64>
    %1 = kfuse.constant dense<41> : tensor<i64>
    %2 = kfuse.mul %d, %1 : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %3 = kfuse.reshape %2 : (tensor<2xi64>) -> tensor<2x1x1x1xi64>
    %4 = kfuse.le %0, %3 : (tensor<200xi64>, tensor<2x1x1x1xi64>) -> tensor<2x1x1x200xi1>
    %5 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x2x4x32xbf16>, tensor<2x2x200x32xbf16>) -> tensor<2x2x4x200xbf16>
    %6 = kfuse.constant dense<0.176776692> : tensor<bf16>
    %7 = kfuse.mul %5, %6 : (tensor<2x2x4x200xbf16>, tensor<bf16>) -> tensor<2x2x4x200xbf16>
    %8 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %9 = kfuse.where %4, %7, %8 : (tensor<2x1x1x200xi1>, tensor<2x2x4x200xbf16>, tensor<bf16>) -> tensor<2x2x4x200xbf16>
    %10 = kfuse.softmax %9 : (tensor<2x2x4x200xbf16>) -> tensor<2x2x4x200xbf16>
    %11 = kfuse.matmul %10, %c : (tensor<2x2x4x200xbf16>, tensor<2x2x200x32xbf16>) -> tensor<2x2x4x32xbf16>
    kfuse.yield %11 : tensor<2x2x4x32xbf16>
  }
  return %r : tensor<2x2x4x32xbf16>
})"});
  cases.push_back({"decode_one_row_f16", R"(
func.func @f(%q: tensor<3x1x64xf16>, %k: tensor<3x150x64xf16>, %v: tensor<3x150x48xf16>) -> tensor<3x1x48xf16> {
  %r = kfuse.attention %q, %k, %v : (tensor<3x1x64xf16>, tensor<3x150x64xf16>, tensor<3x150x48xf16>) -> tensor<3x1x48xf16> {
  ^bb0(%a: tensor<3x1x64xf16>, %b: tensor<3x150x64xf16>, %c: tensor<3x150x48xf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<3x1x64xf16>, tensor<3x150x64xf16>) -> tensor<3x1x150xf16>
    %1 = kfuse.softmax %0 : (tensor<3x1x150xf16>) -> tensor<3x1x150xf16>
    %2 = kfuse.matmul %1, %c : (tensor<3x1x150xf16>, tensor<3x150x48xf16>) -> tensor<3x1x48xf16>
    kfuse.yield %2 : tensor<3x1x48xf16>
  }
  return %r : tensor<3x1x48xf16>
})"});
  // Heads that share keys as exporters write it, and a cache of [tokens, heads].
  cases.push_back({"decode_shared_heads_bf16", R"(
func.func @f(%q: tensor<2x8x1x16xbf16>, %k: tensor<2x133x2x16xbf16>, %v: tensor<2x133x2x16xbf16>, %m: tensor<2x1x1x133xbf16>) -> tensor<2x8x1x16xbf16> {
  %k1 = kfuse.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xbf16>) -> tensor<2x2x133x16xbf16>
  %k2 = kfuse.reshape %k1 : (tensor<2x2x133x16xbf16>) -> tensor<2x2x1x133x16xbf16>
  %k3 = kfuse.broadcast %k2 : (tensor<2x2x1x133x16xbf16>) -> tensor<2x2x4x133x16xbf16>
  %k4 = kfuse.reshape %k3 : (tensor<2x2x4x133x16xbf16>) -> tensor<2x8x133x16xbf16>
  %v1 = kfuse.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xbf16>) -> tensor<2x2x133x16xbf16>
  %v2 = kfuse.reshape %v1 : (tensor<2x2x133x16xbf16>) -> tensor<2x2x1x133x16xbf16>
  %v3 = kfuse.broadcast %v2 : (tensor<2x2x1x133x16xbf16>) -> tensor<2x2x4x133x16xbf16>
  %v4 = kfuse.reshape %v3 : (tensor<2x2x4x133x16xbf16>) -> tensor<2x8x133x16xbf16>
  %r = kfuse.attention %q, %k4, %v4, %m : (tensor<2x8x1x16xbf16>, tensor<2x8x133x16xbf16>, tensor<2x8x133x16xbf16>, tensor<2x1x1x133xbf16>) -> tensor<2x8x1x16xbf16> {
  ^bb0(%a: tensor<2x8x1x16xbf16>, %b: tensor<2x8x133x16xbf16>, %c: tensor<2x8x133x16xbf16>, %d: tensor<2x1x1x133xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x8x1x16xbf16>, tensor<2x8x133x16xbf16>) -> tensor<2x8x1x133xbf16>
    %1 = kfuse.add %0, %d : (tensor<2x8x1x133xbf16>, tensor<2x1x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %2 = kfuse.softmax %1 : (tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %3 = kfuse.is_nan %2 : (tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xi1>
    %4 = kfuse.constant dense<0.0> : tensor<bf16>
    %5 = kfuse.where %3, %4, %2 : (tensor<2x8x1x133xi1>, tensor<bf16>, tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %6 = kfuse.matmul %5, %c : (tensor<2x8x1x133xbf16>, tensor<2x8x133x16xbf16>) -> tensor<2x8x1x16xbf16>
    kfuse.yield %6 : tensor<2x8x1x16xbf16>
  }
  return %r : tensor<2x8x1x16xbf16>
})"});
  cases.push_back({"decode_twelve_rows_bf16", R"(
func.func @f(%q: tensor<2x12x16xbf16>, %k: tensor<2x300x16xbf16>, %v: tensor<2x300x16xbf16>, %m: tensor<12x300xi1>) -> tensor<2x12x16xbf16> {
  %r = kfuse.attention %q, %k, %v, %m : (tensor<2x12x16xbf16>, tensor<2x300x16xbf16>, tensor<2x300x16xbf16>, tensor<12x300xi1>) -> tensor<2x12x16xbf16> {
  ^bb0(%a: tensor<2x12x16xbf16>, %b: tensor<2x300x16xbf16>, %c: tensor<2x300x16xbf16>, %d: tensor<12x300xi1>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x12x16xbf16>, tensor<2x300x16xbf16>) -> tensor<2x12x300xbf16>
    %1 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %2 = kfuse.where %d, %0, %1 : (tensor<12x300xi1>, tensor<2x12x300xbf16>, tensor<bf16>) -> tensor<2x12x300xbf16>
    %3 = kfuse.softmax %2 : (tensor<2x12x300xbf16>) -> tensor<2x12x300xbf16>
    %4 = kfuse.matmul %3, %c : (tensor<2x12x300xbf16>, tensor<2x300x16xbf16>) -> tensor<2x12x16xbf16>
    kfuse.yield %4 : tensor<2x12x16xbf16>
  }
  return %r : tensor<2x12x16xbf16>
})"});
  // One token a sequence into the cache on the way, at positions of its own, one of them behind the end: rotated
  // queries and keys, values as they are, all from one product.
  cases.push_back({"decode_into_cache_bf16", R"(
func.func @f(%x: tensor<4x384xbf16>, %k: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %v: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %p: tensor<4xi64> {kfuse.role = "input"}, %cos: tensor<9x16xbf16>, %sin: tensor<9x16xbf16>) -> (tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>) {
  %step = kfuse.constant dense<67> : tensor<i64>
  %at = kfuse.mul %p, %step : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %c0 = kfuse.gather %cos, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
  %c1 = kfuse.reshape %c0 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
  %s0 = kfuse.gather %sin, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
  %s1 = kfuse.reshape %s0 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
  %q0 = kfuse.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x256xbf16>
  %q1 = kfuse.reshape %q0 : (tensor<4x256xbf16>) -> tensor<4x2x4x32xbf16>
  %q2 = kfuse.rotary %q1, %c1, %s1 : (tensor<4x2x4x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x4x32xbf16>
  %k0 = kfuse.slice %x {offsets = array<i64: 0, 256>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
  %k1 = kfuse.reshape %k0 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
  %k2 = kfuse.rotary %k1, %c1, %s1 : (tensor<4x2x1x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x1x32xbf16>
  %k3 = kfuse.state_update %k, %k2, %at {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
  %v0 = kfuse.slice %x {offsets = array<i64: 0, 320>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
  %v1 = kfuse.reshape %v0 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
  %v2 = kfuse.state_update %v, %v1, %at {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
  %r = kfuse.attention %q2, %k3, %v2, %at : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4xi64>) -> tensor<4x2x4x32xbf16> {
  ^bb0(%a: tensor<4x2x4x32xbf16>, %b: tensor<4x2x150x32xbf16>, %c: tensor<4x2x150x32xbf16>, %d: tensor<4xi64>):
    %0 = kfuse.iota {dim = 0 : i64} : tensor<150xi64>
    %1 = kfuse.reshape %d : (tensor<4xi64>) -> tensor<4x1x1x1xi64>
    %2 = kfuse.le %0, %1 : (tensor<150xi64>, tensor<4x1x1x1xi64>) -> tensor<4x1x1x150xi1>
    %3 = kfuse.matmul %a, %b {transpose_b} : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x150xbf16>
    %4 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %5 = kfuse.where %2, %3, %4 : (tensor<4x1x1x150xi1>, tensor<4x2x4x150xbf16>, tensor<bf16>) -> tensor<4x2x4x150xbf16>
    %6 = kfuse.softmax %5 : (tensor<4x2x4x150xbf16>) -> tensor<4x2x4x150xbf16>
    %7 = kfuse.matmul %6, %c : (tensor<4x2x4x150xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x32xbf16>
    kfuse.yield %7 : tensor<4x2x4x32xbf16>
  }
  return %k3, %v2, %r : tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>
})"});
  // Two tokens into a cache of [tokens, heads] whose keys heads share; the values are there already.
  cases.push_back({"decode_two_tokens_f16", R"(
func.func @f(%q: tensor<2x8x2x16xf16>, %k: tensor<2x133x2x16xf16> {kfuse.role = "state"}, %v: tensor<2x133x2x16xf16>, %n: tensor<2x2x2x16xf16>, %p: tensor<i64>) -> (tensor<2x8x2x16xf16>, tensor<2x133x2x16xf16>) {
  %k0 = kfuse.tanh %n : (tensor<2x2x2x16xf16>) -> tensor<2x2x2x16xf16>
  %k00 = kfuse.state_update %k, %k0, %p {axis = 1 : i64} : (tensor<2x133x2x16xf16>, tensor<2x2x2x16xf16>, tensor<i64>) -> tensor<2x133x2x16xf16>
  %k1 = kfuse.transpose %k00 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xf16>) -> tensor<2x2x133x16xf16>
  %k2 = kfuse.reshape %k1 : (tensor<2x2x133x16xf16>) -> tensor<2x2x1x133x16xf16>
  %k3 = kfuse.broadcast %k2 : (tensor<2x2x1x133x16xf16>) -> tensor<2x2x4x133x16xf16>
  %k4 = kfuse.reshape %k3 : (tensor<2x2x4x133x16xf16>) -> tensor<2x8x133x16xf16>
  %v1 = kfuse.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xf16>) -> tensor<2x2x133x16xf16>
  %v2 = kfuse.reshape %v1 : (tensor<2x2x133x16xf16>) -> tensor<2x2x1x133x16xf16>
  %v3 = kfuse.broadcast %v2 : (tensor<2x2x1x133x16xf16>) -> tensor<2x2x4x133x16xf16>
  %v4 = kfuse.reshape %v3 : (tensor<2x2x4x133x16xf16>) -> tensor<2x8x133x16xf16>
  %r = kfuse.attention %q, %k4, %v4 : (tensor<2x8x2x16xf16>, tensor<2x8x133x16xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x16xf16> {
  ^bb0(%a: tensor<2x8x2x16xf16>, %b: tensor<2x8x133x16xf16>, %c: tensor<2x8x133x16xf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x8x2x16xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x133xf16>
    %1 = kfuse.softmax %0 : (tensor<2x8x2x133xf16>) -> tensor<2x8x2x133xf16>
    %2 = kfuse.matmul %1, %c : (tensor<2x8x2x133xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x16xf16>
    kfuse.yield %2 : tensor<2x8x2x16xf16>
  }
  return %r, %k00 : tensor<2x8x2x16xf16>, tensor<2x133x2x16xf16>
})"});
  // As many rows as there may be, of whose parts a block holds at most four.
  cases.push_back({"decode_sixteen_rows_bf16", R"(
func.func @f(%q: tensor<2x16x128xbf16>, %k: tensor<2x600x128xbf16>, %v: tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16> {
  %r = kfuse.attention %q, %k, %v : (tensor<2x16x128xbf16>, tensor<2x600x128xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16> {
  ^bb0(%a: tensor<2x16x128xbf16>, %b: tensor<2x600x128xbf16>, %c: tensor<2x600x128xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x16x128xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x600xbf16>
    %1 = kfuse.constant dense<0.088378906> : tensor<bf16>
    %2 = kfuse.mul %0, %1 : (tensor<2x16x600xbf16>, tensor<bf16>) -> tensor<2x16x600xbf16>
    %3 = kfuse.softmax %2 : (tensor<2x16x600xbf16>) -> tensor<2x16x600xbf16>
    %4 = kfuse.matmul %3, %c : (tensor<2x16x600xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16>
    kfuse.yield %4 : tensor<2x16x128xbf16>
  }
  return %r : tensor<2x16x128xbf16>
})"});
  return cases;
}

std::vector<TemplateCase> matmulCases(const std::string &type) {
  std::vector<TemplateCase> cases;
  struct Size {
    int m, n, k;
  };
  // Sizes that divide nothing, and layouts of both operands.
  for (auto [m, n, k] : {Size{1, 72, 96}, {7, 33, 33}, {127, 130, 264}, {64, 128, 64}, {20, 1, 40}, {17, 64, 36}})
    for (int layout : {0, 1, 2, 3})
      cases.push_back(matmul(m, n, k, layout & 1, layout & 2, type));
  auto typed = [&](std::string text) {
    for (std::size_t at; (at = text.find("TYPE")) != std::string::npos;)
      text.replace(at, 4, type);
    return text;
  };
  cases.push_back({"bias_gelu_residual_" + type, typed(R"(
func.func @f(%a: tensor<2x37x72xTYPE>, %b: tensor<72x136xTYPE>, %c: tensor<136xTYPE>, %d: tensor<2x37x136xTYPE>) -> tensor<2x37x136xTYPE> {
  %0 = kfuse.matmul %a, %b : (tensor<2x37x72xTYPE>, tensor<72x136xTYPE>) -> tensor<2x37x136xTYPE>
  %1 = kfuse.add %0, %c : (tensor<2x37x136xTYPE>, tensor<136xTYPE>) -> tensor<2x37x136xTYPE>
  %2 = kfuse.gelu %1 : (tensor<2x37x136xTYPE>) -> tensor<2x37x136xTYPE>
  %3 = kfuse.add %2, %d : (tensor<2x37x136xTYPE>, tensor<2x37x136xTYPE>) -> tensor<2x37x136xTYPE>
  return %3 : tensor<2x37x136xTYPE>
})")});
  cases.push_back({"grouped_heads_" + type, typed(R"(
func.func @f(%a: tensor<2x4x9x32xTYPE>, %b: tensor<2x2x21x32xTYPE>) -> tensor<2x4x9x21xTYPE> {
  %0 = kfuse.reshape %b : (tensor<2x2x21x32xTYPE>) -> tensor<2x2x1x21x32xTYPE>
  %1 = kfuse.broadcast %0 : (tensor<2x2x1x21x32xTYPE>) -> tensor<2x2x2x21x32xTYPE>
  %2 = kfuse.reshape %1 : (tensor<2x2x2x21x32xTYPE>) -> tensor<2x4x21x32xTYPE>
  %3 = kfuse.matmul %a, %2 {transpose_b} : (tensor<2x4x9x32xTYPE>, tensor<2x4x21x32xTYPE>) -> tensor<2x4x9x21xTYPE>
  %4 = kfuse.constant dense<0.125> : tensor<TYPE>
  %5 = kfuse.mul %3, %4 : (tensor<2x4x9x21xTYPE>, tensor<TYPE>) -> tensor<2x4x9x21xTYPE>
  return %5 : tensor<2x4x9x21xTYPE>
})")});
  cases.push_back({"bias_relu_" + type, typed(R"(
func.func @f(%a: tensor<3x67x72xTYPE>, %b: tensor<3x200x72xTYPE>, %c: tensor<3x1x200xTYPE>) -> tensor<3x67x200xTYPE> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<3x67x72xTYPE>, tensor<3x200x72xTYPE>) -> tensor<3x67x200xTYPE>
  %1 = kfuse.add %0, %c : (tensor<3x67x200xTYPE>, tensor<3x1x200xTYPE>) -> tensor<3x67x200xTYPE>
  %2 = kfuse.relu %1 : (tensor<3x67x200xTYPE>) -> tensor<3x67x200xTYPE>
  return %2 : tensor<3x67x200xTYPE>
})")});
  cases.push_back({"heads_out_" + type, typed(R"(
func.func @f(%a: tensor<2x11x48xTYPE>, %b: tensor<48x64xTYPE>) -> tensor<2x4x11x16xTYPE> {
  %0 = kfuse.matmul %a, %b : (tensor<2x11x48xTYPE>, tensor<48x64xTYPE>) -> tensor<2x11x64xTYPE>
  %1 = kfuse.reshape %0 : (tensor<2x11x64xTYPE>) -> tensor<2x11x4x16xTYPE>
  %2 = kfuse.transpose %1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x11x4x16xTYPE>) -> tensor<2x4x11x16xTYPE>
  return %2 : tensor<2x4x11x16xTYPE>
})")});
  cases.push_back({"heads_in_transposed_out_" + type, typed(R"(
func.func @f(%a: tensor<2x11x4x16xTYPE>, %b: tensor<2x4x16x24xTYPE>) -> tensor<2x4x24x11xTYPE> {
  %0 = kfuse.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x11x4x16xTYPE>) -> tensor<2x4x11x16xTYPE>
  %1 = kfuse.matmul %0, %b : (tensor<2x4x11x16xTYPE>, tensor<2x4x16x24xTYPE>) -> tensor<2x4x11x24xTYPE>
  %2 = kfuse.transpose %1 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x11x24xTYPE>) -> tensor<2x4x24x11xTYPE>
  return %2 : tensor<2x4x24x11xTYPE>
})")});
  cases.push_back({"repeated_rows_" + type, typed(R"(
func.func @f(%a: tensor<21x1x64xTYPE>, %b: tensor<72x64xTYPE>, %c: tensor<72xTYPE>) -> tensor<21x19x72xTYPE> {
  %0 = kfuse.broadcast %a : (tensor<21x1x64xTYPE>) -> tensor<21x19x64xTYPE>
  %1 = kfuse.transpose %b {permutation = array<i64: 1, 0>} : (tensor<72x64xTYPE>) -> tensor<64x72xTYPE>
  %2 = kfuse.matmul %0, %1 : (tensor<21x19x64xTYPE>, tensor<64x72xTYPE>) -> tensor<21x19x72xTYPE>
  %3 = kfuse.add %2, %c : (tensor<21x19x72xTYPE>, tensor<72xTYPE>) -> tensor<21x19x72xTYPE>
  return %3 : tensor<21x19x72xTYPE>
})")});
  cases.push_back({"one_row_repeated_" + type, typed(R"(
func.func @f(%a: tensor<1x64xTYPE>, %b: tensor<64x72xTYPE>) -> tensor<19x72xTYPE> {
  %0 = kfuse.broadcast %a : (tensor<1x64xTYPE>) -> tensor<19x64xTYPE>
  %1 = kfuse.matmul %0, %b : (tensor<19x64xTYPE>, tensor<64x72xTYPE>) -> tensor<19x72xTYPE>
  return %1 : tensor<19x72xTYPE>
})")});
  cases.push_back({"two_results_" + type, typed(R"(
func.func @f(%a: tensor<30x520xTYPE>, %b: tensor<40x520xTYPE>, %c: tensor<30x1xTYPE>) -> (tensor<30x40xTYPE>, tensor<30x40xf32>) {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<30x520xTYPE>, tensor<40x520xTYPE>) -> tensor<30x40xTYPE>
  %1 = kfuse.mul %0, %c : (tensor<30x40xTYPE>, tensor<30x1xTYPE>) -> tensor<30x40xTYPE>
  %2 = kfuse.cast %1 : (tensor<30x40xTYPE>) -> tensor<30x40xf32>
  return %0, %2 : tensor<30x40xTYPE>, tensor<30x40xf32>
})")});
  cases.push_back({"rotary_into_cache_" + type, typed(R"(
func.func @f(%a: tensor<1x3x64xTYPE>, %b: tensor<64x32xTYPE>, %c: tensor<1x2x8x16xTYPE>, %d: tensor<i64>) -> tensor<1x2x8x16xTYPE> {
  %0 = kfuse.matmul %a, %b : (tensor<1x3x64xTYPE>, tensor<64x32xTYPE>) -> tensor<1x3x32xTYPE>
  %1 = kfuse.reshape %0 : (tensor<1x3x32xTYPE>) -> tensor<1x3x2x16xTYPE>
  %2 = kfuse.transpose %1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x16xTYPE>) -> tensor<1x2x3x16xTYPE>
  %3 = kfuse.state_update %c, %2, %d {axis = 2 : i64} : (tensor<1x2x8x16xTYPE>, tensor<1x2x3x16xTYPE>, tensor<i64>) -> tensor<1x2x8x16xTYPE>
  return %3 : tensor<1x2x8x16xTYPE>
})")});
  return cases;
}

std::vector<TemplateCase> streamedCases(const std::string &type) {
  std::vector<TemplateCase> cases;
  if (type.starts_with("f8"))
    cases = {scaledMatmul(3, 33, 272, false, true, type, type, "bf16"),
             scaledMatmul(13, 150, 1040, false, true, type, type, "f32")};
  else
    cases = {matmul(3, 33, 264, false, true, type), matmul(16, 136, 2048, false, true, type),
             matmul(13, 150, 1000, false, true, type)};
  cases.push_back(gated(12, 72, 1040, true, type, "silu"));
  return cases;
}

std::vector<TemplateCase> scaledMatmulCases() {
  std::vector<TemplateCase> cases;
  const std::string four = "f8E4M3FN", five = "f8E5M2";
  for (int layout : {0, 1, 2, 3}) // A stride of 33 bytes is nothing for TMA.
    cases.push_back(scaledMatmul(37, 130, 33, layout & 1, layout & 2, four, four, "bf16"));
  cases.push_back(scaledMatmul(127, 72, 96, false, true, four, five, "bf16"));
  cases.push_back(scaledMatmul(64, 130, 208, true, false, five, five, "f16"));
  cases.push_back(scaledMatmul(3, 33, 4112, false, true, four, four, "f32"));
  cases.push_back(scaledMatmul(1, 200, 64, false, true, five, four, four));
  return cases;
}

std::vector<TemplateCase> largeScaledMatmulCases() {
  const std::string four = "f8E4M3FN", five = "f8E5M2";
  return {scaledMatmul(1000, 1000, 1008, false, true, four, four, "bf16"),
          scaledMatmul(512, 640, 4096, false, true, five, four, "f32"),
          scaledMatmul(776, 1000, 264, false, true, four, five, "f16"),
          scaledMatmul(16, 1000, 4096, false, true, four, four, "bf16"),
          scaledMatmul(2, 4096, 1024, false, true, four, four, four)};
}

std::vector<TemplateCase> gatedCases(const std::string &type) {
  std::vector<TemplateCase> cases{gated(37, 136, 72, false, type, "silu"), gated(127, 64, 272, true, type, "gelu_tanh"),
                                  gated(20, 33, 48, true, type, "relu"), gated(3, 130, 528, true, type, "silu")};
  if (type == "bf16")
    cases.push_back({"gated_halves_of_one_weight", R"(
func.func @f(%a: tensor<2x21x64xbf16>, %b: tensor<272x64xbf16>, %c: tensor<272xbf16>, %d: tensor<2x21x136xbf16>) -> tensor<2x21x136xbf16> {
  %0 = kfuse.slice %b {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<272x64xbf16>) -> tensor<136x64xbf16>
  %1 = kfuse.slice %b {offsets = array<i64: 136, 0>, strides = array<i64: 1, 1>} : (tensor<272x64xbf16>) -> tensor<136x64xbf16>
  %2 = kfuse.matmul %a, %0 {transpose_b} : (tensor<2x21x64xbf16>, tensor<136x64xbf16>) -> tensor<2x21x136xbf16>
  %3 = kfuse.matmul %a, %1 {transpose_b} : (tensor<2x21x64xbf16>, tensor<136x64xbf16>) -> tensor<2x21x136xbf16>
  %4 = kfuse.slice %c {offsets = array<i64: 136>, strides = array<i64: 1>} : (tensor<272xbf16>) -> tensor<136xbf16>
  %5 = kfuse.add %3, %4 : (tensor<2x21x136xbf16>, tensor<136xbf16>) -> tensor<2x21x136xbf16>
  %6 = kfuse.gelu %2 : (tensor<2x21x136xbf16>) -> tensor<2x21x136xbf16>
  %7 = kfuse.mul %6, %5 : (tensor<2x21x136xbf16>, tensor<2x21x136xbf16>) -> tensor<2x21x136xbf16>
  %8 = kfuse.add %7, %d : (tensor<2x21x136xbf16>, tensor<2x21x136xbf16>) -> tensor<2x21x136xbf16>
  return %8 : tensor<2x21x136xbf16>
})"});
  return cases;
}

std::vector<TemplateCase> tf32Cases() {
  std::vector<TemplateCase> cases;
  for (auto [m, n, k] :
       {std::tuple(127, 130, 264), {7, 33, 37}, {1000, 776, 1000}, {1, 1000, 1000}, {512, 640, 4096}}) {
    TemplateCase made = matmul(m, n, k, false, true, "f32");
    made.name += "_tf32";
    made.text.replace(made.text.find("{transpose_b}"), 1, "{tf32, ");
    cases.push_back(made);
  }
  return cases;
}

std::vector<TemplateCase> pairwiseProducts(int m, int n, int k) {
  // Every pair of a type, a layout and an epilogue is in one of them, where wgmma takes it.
  struct Row {
    const char *type;
    bool transposeA, transposeB;
    int epilogue;
  };
  constexpr Row rows[] = {{"bf16", false, true, 0},     {"bf16", true, false, 1},     {"bf16", false, false, 2},
                          {"bf16", true, true, 3},      {"f16", true, true, 0},       {"f16", false, true, 1},
                          {"f16", true, false, 2},      {"f16", false, false, 3},     {"bf16", false, true, 2},
                          {"f16", false, true, 3},      {"f8E4M3FN", false, true, 0}, {"f8E4M3FN", false, true, 1},
                          {"f8E4M3FN", false, true, 2}, {"f8E5M2", false, true, 3},   {"tf32", false, true, 0},
                          {"tf32", false, true, 1},     {"tf32", false, true, 2},     {"tf32", false, true, 3},
                          {"bf16", false, true, 4},     {"bf16", false, false, 4},    {"f16", true, false, 4},
                          {"f16", true, true, 4},       {"f8E4M3FN", false, true, 4}, {"tf32", false, true, 4}};
  std::vector<TemplateCase> cases;
  for (const Row &row : rows) {
    const bool tf32 = std::string(row.type) == "tf32";
    std::string type = tf32 ? "f32" : row.type, narrow = type.starts_with("f8") ? "bf16" : type;
    std::string a = matrixType(m, k, row.transposeA, type), b = matrixType(k, n, row.transposeB, type);
    std::string p = matrixType(m, n, false, type == narrow ? type : "f32"), r = matrixType(m, n, false, narrow);
    std::string v = tensor(std::to_string(n), type == narrow ? type : "f32"), next = "%0";
    std::string flags = tf32 ? " {tf32, transpose_b}" : flagsOf(row.transposeA, row.transposeB), name;
    std::string body = "%0 = kfuse.matmul %a, %b" + flags + " : (" + a + ", " + b + ") -> " + p + "\n";
    std::vector<std::string> arguments{a, b};
    if (row.epilogue == 0) {
      name = "plain";
    } else if (row.epilogue == 1) {
      name = "bias_relu", arguments.push_back(v), next = "%2";
      body += "%1 = kfuse.add %0, %c : (" + p + ", " + v + ") -> " + p + "\n%2 = kfuse.relu %1 : (" + p + ") -> " + p +
              "\n";
    } else if (row.epilogue == 2) {
      name = "gelu_residual", arguments.push_back(p), next = "%2";
      body += "%1 = kfuse.gelu %0 : (" + p + ") -> " + p + "\n%2 = kfuse.add %1, %c : (" + p + ", " + p + ") -> " + p +
              "\n";
    } else if (row.epilogue == 4) {
      name = "bias_residual", arguments.push_back(v), arguments.push_back(p), next = "%2";
      body += "%1 = kfuse.add %0, %c : (" + p + ", " + v + ") -> " + p + "\n%2 = kfuse.add %1, %d : (" + p + ", " + p +
              ") -> " + p + "\n";
    } else {
      name = "gated", arguments.push_back(b), next = "%3";
      body += "%1 = kfuse.matmul %a, %c" + flags + " : (" + a + ", " + b + ") -> " + p + "\n%2 = kfuse.silu %0 : (" +
              p + ") -> " + p + "\n%3 = kfuse.mul %2, %1 : (" + p + ", " + p + ") -> " + p + "\n";
    }
    body += "%r = kfuse.cast " + next + " : (" + p + ") -> " + r + "\nreturn %r : " + r;
    cases.push_back({name + (row.transposeA ? "_ta" : "") + (row.transposeB ? "_tb_" : "_") + row.type,
                     function(arguments, r, body)});
  }
  return cases;
}

std::vector<TemplateCase> largeGatedCases(const std::string &type) {
  return {gated(1000, 1000, 1008, true, type, "silu"), gated(512, 640, 2048, false, type, "silu"),
          gated(16, 1000, 4112, true, type, "gelu_tanh"), gated(1, 4096, 1024, true, type, "silu")};
}

std::vector<TemplateCase> largeMatmulCases(const std::string &type) {
  // The last has several tiles of every size for each SM: what finishes one beside the loads of the next.
  return {matmul(1000, 1000, 1000, false, true, type), matmul(1000, 776, 264, true, false, type),
          matmul(512, 640, 2048, false, false, type),  matmul(1, 4096, 1024, false, true, type),
          matmul(16, 1000, 4097, false, true, type),   matmul(4096, 4000, 264, false, true, type),
          matmul(300, 1000, 4104, false, true, type)};
}

std::vector<TemplateCase> largeResidualCases(const std::string &type) {
  const std::string a = matrixType(2048, 136, false, type), b = matrixType(2000, 136, false, type),
                    r = matrixType(2048, 2000, false, type), x = tensor("3x300x208", type),
                    w = tensor("3x272x208", type), y = tensor("3x300x272", type), shared = tensor("300x272", type);
  return {{"residual_2048x2000x136_" + type,
           function({a, b, r}, r,
                    "%0 = kfuse.matmul %a, %b {transpose_b} : (" + a + ", " + b + ") -> " + r +
                        "\n%1 = kfuse.add %0, %c : (" + r + ", " + r + ") -> " + r + "\nreturn %1 : " + r)},
          {"residual_of_all_batches_" + type,
           function({x, w, shared}, y,
                    "%0 = kfuse.matmul %a, %b {transpose_b} : (" + x + ", " + w + ") -> " + y +
                        "\n%1 = kfuse.mul %0, %c : (" + y + ", " + shared + ") -> " + y + "\nreturn %1 : " + y)}};
}

std::vector<TemplateCase> rowProductCases(const std::string &type) {
  return {linearNorm(67, 200, 72, false, true, type, type),
          linearNorm(136, 200, 96, true, false, type, type), // Blocks of one column share no rows that lie along M.
          linearNorm(333, 512, 1000, false, false, type, type),
          linearNorm(200, 515, 64, false, true, type, "f32"),
          linearNorm(257, 4096, 64, false, true, type, type),
          residualNorm(300, 768, 200, type),
          maskedSoftmax(67, 200, 72, type),
          maskedSoftmax(130, 2040, 64, type)};
}

std::vector<TemplateCase> largeRowProductCases(const std::string &type) {
  return {linearNorm(8192, 1024, 136, false, true, type, type), linearNorm(5000, 768, 264, false, true, type, type),
          residualNorm(4099, 1024, 512, type)};
}

std::vector<TemplateCase> fewRowCases(const std::string &type) {
  return {matmul(1, 1000, 1000, false, true, type), matmul(3, 33, 4104, false, true, type),
          matmul(4, 520, 264, false, true, type), matmul(2, 4096, 1024, false, true, type)};
}

std::vector<TemplateCase> normedRowCases(const std::string &type) {
  // Rows that are kept in registers between passes, and longer ones; one product, two, and a residual.
  std::string x = tensor("1x1000", type), long3 = tensor("3x4104", type), v = tensor("4104", type);
  std::string w = tensor("520x1000", type), w3 = tensor("33x4104", type), y = tensor("1x520", type),
              y3 = tensor("3x33", type), square = tensor("264x264", type), x4 = tensor("4x264", type);
  return {
      {"rms_norm_matmul_1x520x1000_" + type, function({x, w}, y,
                                                      "%0 = kfuse.rms_norm %a {epsilon = 1.0e-5 : f32} : (" + x +
                                                          ") -> " + x + "\n%r = kfuse.matmul %0, %b {transpose_b} : (" +
                                                          x + ", " + w + ") -> " + y + "\nreturn %r : " + y)},
      {"add_layer_norm_gated_3x33x4104_" + type,
       function({long3, long3, v, v, w3, w3}, y3,
                "%0 = kfuse.add %a, %b : (" + long3 + ", " + long3 + ") -> " + long3 +
                    "\n%1 = \"kfuse.layer_norm\"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = "
                    "array<i32: 1, 1, 1>}> : (" +
                    long3 + ", " + v + ", " + v + ") -> " + long3 + "\n%2 = kfuse.matmul %1, %e {transpose_b} : (" +
                    long3 + ", " + w3 + ") -> " + y3 + "\n%3 = kfuse.matmul %1, %f {transpose_b} : (" + long3 + ", " +
                    w3 + ") -> " + y3 + "\n%4 = kfuse.silu %2 : (" + y3 + ") -> " + y3 + "\n%r = kfuse.mul %4, %3 : (" +
                    y3 + ", " + y3 + ") -> " + y3 + "\nreturn %r : " + y3)},
      {"rms_norm_matmul_residual_4x264x264_" + type,
       function({x4, square}, x4,
                "%0 = kfuse.rms_norm %a {epsilon = 1.0e-5 : f32} : (" + x4 + ") -> " + x4 +
                    "\n%1 = kfuse.matmul %0, %b {transpose_b} : (" + x4 + ", " + square + ") -> " + x4 +
                    "\n%r = kfuse.add %1, %a : (" + x4 + ", " + x4 + ") -> " + x4 + "\nreturn %r : " + x4)}};
}

std::vector<TemplateCase> computedOperandCases() {
  return {{"silu_mul_into_matmul", R"(
func.func @f(%a: tensor<19x50xf32>, %b: tensor<19x50xf32>, %c: tensor<50x30xf32>) -> tensor<19x30xf32> {
  %0 = kfuse.exp %a : (tensor<19x50xf32>) -> tensor<19x50xf32>
  %1 = kfuse.mul %0, %b : (tensor<19x50xf32>, tensor<19x50xf32>) -> tensor<19x50xf32>
  %2 = kfuse.matmul %1, %c : (tensor<19x50xf32>, tensor<50x30xf32>) -> tensor<19x30xf32>
  return %2 : tensor<19x30xf32>
})"}};
}

namespace {

/// Writes a chain, link by link: a function whose body is kfuse.fused ops.
class ChainText {
public:
  ChainText(int batches, int m, std::string type) : batches(batches), m(m), type(std::move(type)) {}

  std::string parameter(const std::string &ofType) {
    const std::string name = "%p" + std::to_string(parameters++);
    signature += (parameters > 1 ? ", " : "") + name + ": " + ofType;
    return name;
  }
  std::string shape(int rows, int columns, bool shared = false) const {
    std::string text = std::to_string(rows) + "x" + std::to_string(columns);
    return tensor(batches > 0 && !shared ? std::to_string(batches) + "x" + text : text, type);
  }
  std::string rows(int columns) const { return shape(m, columns); }

  /// Adds a link: `body(arguments)` is its text, which defines %r. Returns the name of its result.
  template <class Body>
  std::string link(const std::vector<std::string> &values, const std::vector<std::string> &types,
                   const std::string &result, Body body) {
    const std::string name = "%v" + std::to_string(links++);
    std::string operands, list, arguments;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < values.size(); ++i) {
      names.push_back("%a" + std::to_string(i));
      operands += (i ? ", " : "") + values[i], list += (i ? ", " : "") + types[i];
      arguments += (i ? ", " : "") + names[i] + ": " + types[i];
    }
    text += name + " = kfuse.fused " + operands + " : (" + list + ") -> " + result + " {\n^bb0(" + arguments + "):\n" +
            body(names) + "kfuse.yield %r : " + result + "\n}\n";
    return name;
  }

  TemplateCase finish(const std::string &name, const std::vector<std::string> &values,
                      const std::vector<std::string> &types) const {
    std::string list, returned;
    for (std::size_t i = 0; i < values.size(); ++i)
      returned += (i ? ", " : "") + values[i], list += (i ? ", " : "") + types[i];
    return {name, "func.func @f(" + signature + ") -> (" + list + ") {\n" + text + "return " + returned + " : " + list +
                      "\n}\n"};
  }

  const int batches, m;
  const std::string type;

private:
  int parameters = 0, links = 0;
  std::string signature, text;
};

std::string binary(const std::string &name, const std::string &op, const std::string &a, const std::string &b,
                   const std::string &typeA, const std::string &typeB, const std::string &result) {
  return name + " = kfuse." + op + " " + a + ", " + b + " : (" + typeA + ", " + typeB + ") -> " + result + "\n";
}

} // namespace

TemplateCase layers(int count, int batches, int m, int n, int last, bool transposeB, const std::string &type) {
  ChainText chain(batches, m, type);
  std::string value = chain.parameter(chain.shape(m, n, true)), valueType = chain.shape(m, n, true);
  for (int i = 0; i <= count; ++i) {
    const int columns = i < count ? n : last;
    const std::string w = transposeB ? chain.shape(columns, n) : chain.shape(n, columns), b = chain.shape(1, columns),
                      r = chain.rows(columns);
    const std::string weights = chain.parameter(w), bias = chain.parameter(b);
    value = chain.link({value, weights, bias}, {valueType, w, b}, r, [&](const std::vector<std::string> &a) {
      return binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), valueType, w, r) +
             binary(i < count ? "%1" : "%r", "add", "%0", a[2], r, b, r) +
             (i < count ? "%r = kfuse.relu %1 : (" + r + ") -> " + r + "\n" : "");
    });
    valueType = r;
  }
  return chain.finish("layers_" + std::to_string(count) + "_" + std::to_string(batches) + "x" + std::to_string(m) +
                          "x" + std::to_string(n) + "_" + type,
                      {value}, {valueType});
}

TemplateCase normedLayers(int count, int m, int n, bool transposeB, const std::string &type) {
  ChainText chain(0, m, type);
  const std::string x = chain.shape(m, n), w = chain.shape(n, n), v = tensor(std::to_string(n), type);
  std::string value = chain.parameter(x);
  for (int i = 0; i < count; ++i) {
    std::vector<std::string> values{value};
    for (const std::string &each : {w, v, v, v})
      values.push_back(chain.parameter(each));
    value = chain.link(values, {x, w, v, v, v}, x, [&](const std::vector<std::string> &a) {
      return binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), x, w, x) +
             binary("%1", "add", "%0", a[2], x, v, x) + "%2 = \"kfuse.layer_norm\"(%1, " + a[3] + ", " + a[4] +
             ") <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (" + x + ", " + v + ", " + v +
             ") -> " + x + "\n%r = kfuse.relu %2 : (" + x + ") -> " + x + "\n";
    });
  }
  return chain.finish("normed_layers_" + std::to_string(count) + "_" + std::to_string(m) + "x" + std::to_string(n) +
                          (transposeB ? "_tb_" : "_") + type,
                      {value}, {x});
}

TemplateCase scaledLayers(int count, int m, int n, const std::string &type) {
  ChainText chain(0, m, type);
  const std::string x = chain.shape(m, n), w = chain.shape(n, n), s = chain.shape(m, 1);
  std::string value = chain.parameter(x);
  for (int i = 0; i < count; ++i)
    value = chain.link({value, chain.parameter(w), chain.parameter(x), chain.parameter(s)}, {x, w, x, s}, x,
                       [&](const std::vector<std::string> &a) {
                         return binary("%0", "matmul", a[0], a[1] + flagsOf(false, true), x, w, x) +
                                binary("%1", "add", "%0", a[2], x, x, x) +
                                "%2 = kfuse.rms_norm %1 {epsilon = 1.0e-5 : f32} : (" + x + ") -> " + x + "\n" +
                                binary("%r", "mul", "%2", a[3], x, s, x);
                       });
  return chain.finish("scaled_layers_" + std::to_string(count) + "_" + std::to_string(m) + "x" + std::to_string(n) +
                          "_tb_" + type,
                      {value}, {x});
}

TemplateCase randomChain(unsigned seed) {
  std::mt19937 random(seed);
  auto pick = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  const bool isHalf = random() % 3 == 0;
  ChainText chain(pick({0, 0, 2, 3}), pick({1, 7, 32, 64, 100, 129, 256}), isHalf ? "f16" : "bf16");
  int columns = pick({64, 72, 128, 200, 256});
  std::string value = chain.parameter(chain.rows(columns)), valueType = chain.rows(columns);
  std::vector<std::string> returned, returnedTypes;
  const int count = 2 + static_cast<int>(random() % (isHalf ? 2 : 6));
  auto norm = [&] {
    const std::string &r = valueType, w = chain.shape(1, columns, true);
    const bool hasWeight = random() % 2;
    std::vector<std::string> values{value}, types{r};
    if (hasWeight)
      values.push_back(chain.parameter(w)), types.push_back(w);
    value = chain.link(values, types, r, [&](const std::vector<std::string> &a) {
      const std::string unary = " : (" + r + ") -> " + r + "\n";
      std::string body = "%0 = kfuse.rms_norm " + a[0] + " {epsilon = 1.0e-5 : f32}" + unary;
      return body + (hasWeight ? binary("%r", "mul", "%0", a[1], r, w, r) : "%r = kfuse.relu %0" + unary);
    });
  };
  if (random() % 5 == 0)
    norm();
  for (int i = 0; i < count; ++i) {
    const bool transposeB = random() % 2, hasBias = random() % 2, isLast = i + 1 == count;
    const int next = random() % 2 ? columns : pick({64, 72, 136, 256, 320}), act = pick({0, 1, 2, 3});
    const int width = isLast && transposeB && random() % 2 ? 2 : next;
    const std::string w = transposeB ? chain.shape(width, columns) : chain.shape(columns, width),
                      b = chain.shape(1, width), r = chain.rows(width);
    const bool hasResidual = width == columns && random() % 2;
    std::vector<std::string> values{value, chain.parameter(w)}, types{valueType, w};
    if (hasBias)
      values.push_back(chain.parameter(b)), types.push_back(b);
    value = chain.link(values, types, r, [&](const std::vector<std::string> &a) {
      std::string body = binary("%0", "matmul", a[0], a[1] + flagsOf(false, transposeB), valueType, w, r);
      std::string last = "%0";
      if (hasBias)
        body += binary("%1", "add", last, a[2], r, b, r), last = "%1";
      const char *const functions[] = {"relu", "gelu", "silu", "neg"};
      body += "%2 = kfuse." + std::string(functions[act]) + " " + last + " : (" + r + ") -> " + r + "\n";
      return body + (hasResidual ? binary("%r", "add", "%2", a[0], r, r, r)
                                 : "%r = kfuse.neg %2 : (" + r + ") -> " + r + "\n");
    });
    valueType = r, columns = width;
    if (random() % 3 == 0 && width > 2)
      norm();
    if (isLast || random() % 4 == 0)
      returned.push_back(value), returnedTypes.push_back(r);
  }
  return chain.finish("random_chain_" + std::to_string(seed), returned, returnedTypes);
}

} // namespace kfuse::test
