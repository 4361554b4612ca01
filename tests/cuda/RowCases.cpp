#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {

namespace {

/// x + y, and its norm.
TemplateCase addLayerNorm(const std::string &shape, const std::string &columns, const std::string &type) {
  const std::string t = tensor(shape, type), v = tensor(columns, type);
  return {"add_layer_norm_" + shape + "_" + type,
          function({t, t, v, v}, t + ", " + t,
                   "%0 = kfuse.add %a, %b : (" + t + ", " + t + ") -> " + t +
                       "\n%r = \"kfuse.layer_norm\"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = "
                       "array<i32: 1, 1, 1>}> : (" +
                       t + ", " + v + ", " + v + ") -> " + t + "\nreturn %r, %0 : " + t + ", " + t)};
}

} // namespace

std::vector<TemplateCase> rowCases() {
  std::vector<TemplateCase> cases;
  for (auto [shape, type] :
       {std::pair{"5x8x64", "bf16"}, {"3x1000", "f32"}, {"7x33", "f16"}, {"2x4096", "bf16"}, {"3x1", "f32"}})
    cases.push_back(unary("softmax", shape, type));
  for (auto [shape, columns, type] :
       {std::tuple{"6x768", "768", "bf16"}, {"127x33", "33", "f32"}, {"2x3x20000", "20000", "f16"}}) {
    std::string t = tensor(shape, type), v = tensor(columns, type);
    cases.push_back(addLayerNorm(shape, columns, type));
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
  cases.push_back({"rms_norm_of_ordered_columns", R"(
func.func @f(%a: tensor<3x520xbf16>, %b: tensor<520xbf16>, %n: tensor<520xi64>) -> tensor<3x520xbf16> {
  %x = kfuse.gather %a, %n {axis = 1} : (tensor<3x520xbf16>, tensor<520xi64>) -> tensor<3x520xbf16>
  %y = kfuse.rms_norm %x, %b {epsilon = 1.0e-5 : f32} : (tensor<3x520xbf16>, tensor<520xbf16>) -> tensor<3x520xbf16>
  return %y : tensor<3x520xbf16>
})"});
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

std::vector<TemplateCase> longRowCases() {
  std::vector<TemplateCase> cases{unary("softmax", "3x131072", "bf16"), unary("softmax", "2x40001", "f32")};
  for (auto [shape, columns, type] : {std::tuple{"2x262144", "262144", "bf16"},
                                      {"90x65536", "65536", "bf16"},
                                      {"3x20000", "20000", "f32"},
                                      {"5x8192", "8192", "f16"}})
    cases.push_back(addLayerNorm(shape, columns, type));
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

std::vector<TemplateCase> shortRowCases() {
  std::vector<TemplateCase> cases{unary("softmax", "5x9x49", "bf16"), unary("softmax", "77x33", "f32"),
                                  unary("softmax", "131x100", "f16")};
  cases.push_back({"add_layer_norm_70x77_bf16", R"(
func.func @f(%a: tensor<70x77xbf16>, %b: tensor<70x77xbf16>, %c: tensor<77xbf16>, %d: tensor<77xbf16>) -> (tensor<70x77xbf16>, tensor<70x77xbf16>) {
  %0 = kfuse.add %a, %b : (tensor<70x77xbf16>, tensor<70x77xbf16>) -> tensor<70x77xbf16>
  %r = "kfuse.layer_norm"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<70x77xbf16>, tensor<77xbf16>, tensor<77xbf16>) -> tensor<70x77xbf16>
  return %r, %0 : tensor<70x77xbf16>, tensor<70x77xbf16>
})"});
  // A mask that rows share, and a result wider than what it is of.
  cases.push_back({"masked_softmax_3x5x11x49_to_f32", R"(
func.func @f(%a: tensor<3x5x11x49xbf16>, %b: tensor<11x49xi1>) -> tensor<3x5x11x49xf32> {
  %0 = kfuse.constant dense<0xFF80> : tensor<bf16>
  %1 = kfuse.where %b, %a, %0 : (tensor<11x49xi1>, tensor<3x5x11x49xbf16>, tensor<bf16>) -> tensor<3x5x11x49xbf16>
  %2 = kfuse.cast %1 : (tensor<3x5x11x49xbf16>) -> tensor<3x5x11x49xf32>
  %3 = kfuse.softmax %2 : (tensor<3x5x11x49xf32>) -> tensor<3x5x11x49xf32>
  return %3 : tensor<3x5x11x49xf32>
})"});
  // A number for each row, and one byte for each element.
  cases.push_back({"mean_and_above_mean_83x45_f32", R"(
func.func @f(%a: tensor<83x45xf32>) -> (tensor<83xf32>, tensor<83x45xi1>) {
  %0 = kfuse.reduce %a {function = "mean", axes = array<i64: 1>} : (tensor<83x45xf32>) -> tensor<83xf32>
  %1 = kfuse.reshape %0 : (tensor<83xf32>) -> tensor<83x1xf32>
  %2 = kfuse.gt %a, %1 : (tensor<83x45xf32>, tensor<83x1xf32>) -> tensor<83x45xi1>
  return %0, %2 : tensor<83xf32>, tensor<83x45xi1>
})"});
  cases.push_back({"sum_of_rows_100x35_f32", R"(
func.func @f(%a: tensor<100x35xf32>) -> tensor<100xf32> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 1>} : (tensor<100x35xf32>) -> tensor<100xf32>
  return %0 : tensor<100xf32>
})"});
  return cases;
}

} // namespace kfuse::test
