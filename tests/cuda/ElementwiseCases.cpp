#include "codegen/cuda/text/ScalarFunctions.h"
#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

#include <set>

namespace kfuse::test {
namespace {

TemplateCase addGelu(const std::string &shape, const std::string &bias, const std::string &type) {
  std::string t = tensor(shape, type), v = tensor(bias, type);
  return {"add_gelu_" + shape + "_" + type,
          function({t, v}, t,
                   "%0 = kfuse.add %a, %b : (" + t + ", " + v + ") -> " + t + "\n%r = kfuse.gelu %0 : (" + t + ") -> " +
                       t + "\nreturn %r : " + t)};
}

/// Every function of so many operands that has CUDA text, a result each, where it is defined.
TemplateCase everyFunction(bool ofOne, const std::string &type) {
  const std::set<std::string> ofBooleans{"not", "and", "or"}, ofPositive{"log", "sqrt", "rsqrt", "reciprocal", "pow"},
      byPositive{"div", "mod", "rem"}, tests{"is_nan", "eq", "ne", "lt", "le", "gt", "ge"};
  const std::string t = tensor("7x33", type), scalar = "tensor<" + type + ">", bits = tensor("7x33", "i1");
  std::string body = "%size = kfuse.abs %a : (" + t + ") -> " + t +
                     "\n%quarter = kfuse.constant dense<0.25> : " + scalar + "\n%p = kfuse.add %size, %quarter : (" +
                     t + ", " + scalar + ") -> " + t + "\n%x = kfuse.lt %a, %b : (" + t + ", " + t + ") -> " + bits +
                     "\n%y = kfuse.gt %p, %b : (" + t + ", " + t + ") -> " + bits + "\n";
  std::string values, types;
  for (const codegen::cuda::NamedFunction &function : codegen::cuda::scalarFunctions()) {
    const std::string name = function.name.str();
    if ((function.operands == 1) != ofOne || name.starts_with("round_to_")) // Those are no ops, but parts of round.
      continue;
    const std::string in = ofBooleans.count(name) ? bits : t, out = tests.count(name) ? bits : in;
    std::string operands = ofBooleans.count(name) ? "%x" : ofPositive.count(name) ? "%p" : "%a", operandTypes = in;
    if (function.operands == 2)
      operands += ofBooleans.count(name) ? ", %y" : byPositive.count(name) ? ", %p" : ", %b", operandTypes += ", " + in;
    if (function.operands == 3)
      operands = "%x, %a, %b", operandTypes = bits + ", " + t + ", " + t;
    body += "%" + name + "_of = kfuse." + name + " " + operands + " : (" + operandTypes + ") -> " + out + "\n";
    values += (values.empty() ? "%" : ", %") + name + "_of";
    types += (types.empty() ? "" : ", ") + out;
  }
  return {std::string(ofOne ? "every_function_of_one_" : "every_function_of_more_") + type,
          function({t, t}, types, body + "return " + values + " : " + types)};
}

} // namespace

std::vector<TemplateCase> pointwiseCases() {
  std::vector<TemplateCase> cases{
      addGelu("64x96", "96", "bf16"), addGelu("7x33", "33", "f16"), addGelu("3x5x127", "127", "f32"),
      unary("silu", "1003", "bf16"),  unary("exp", "1", "f32"),     unary("neg", "33x2", "i64"),
      everyFunction(true, "f32"),     everyFunction(true, "bf16"),  everyFunction(false, "f32"),
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
  cases.push_back({"integers_that_wrap", R"(
func.func @f(%a: tensor<50xi64>) -> (tensor<50xi64>, tensor<50xi1>, tensor<50xi32>) {
  %0 = kfuse.constant dense<-9223372036854775808> : tensor<i64>
  %1 = kfuse.constant dense<9007199254740993> : tensor<i64>
  %2 = kfuse.mul %a, %1 : (tensor<50xi64>, tensor<i64>) -> tensor<50xi64>
  %3 = kfuse.sub %0, %2 : (tensor<i64>, tensor<50xi64>) -> tensor<50xi64>
  %4 = kfuse.rem %3, %a : (tensor<50xi64>, tensor<50xi64>) -> tensor<50xi64>
  %5 = kfuse.lt %3, %0 : (tensor<50xi64>, tensor<i64>) -> tensor<50xi1>
  %6 = kfuse.cast %2 : (tensor<50xi64>) -> tensor<50xi32>
  return %4, %5, %6 : tensor<50xi64>, tensor<50xi1>, tensor<50xi32>
})"});
  // Past the ends of both types, and NaN.
  cases.push_back({"floats_to_integers", R"(
func.func @f(%a: tensor<50xf32>) -> (tensor<50xi64>, tensor<50xi32>, tensor<50xi64>) {
  %0 = kfuse.constant dense<1.0e30> : tensor<f32>
  %1 = kfuse.mul %a, %0 : (tensor<50xf32>, tensor<f32>) -> tensor<50xf32>
  %2 = kfuse.cast %1 : (tensor<50xf32>) -> tensor<50xi64>
  %3 = kfuse.cast %1 : (tensor<50xf32>) -> tensor<50xi32>
  %4 = kfuse.constant dense<0.0> : tensor<f32>
  %5 = kfuse.sqrt %a : (tensor<50xf32>) -> tensor<50xf32>
  %6 = kfuse.rem %5, %4 : (tensor<50xf32>, tensor<f32>) -> tensor<50xf32>
  %7 = kfuse.cast %6 : (tensor<50xf32>) -> tensor<50xi64>
  return %2, %3, %7 : tensor<50xi64>, tensor<50xi32>, tensor<50xi64>
})"});
  // Elements that are gathered one by one, and may be none of their tensor's.
  cases.push_back({"i64_transposed_between", R"(
func.func @f(%a: tensor<17x2x1xi64>, %b: tensor<4x1x17xi64>, %c: tensor<4x1x17xi64>) -> tensor<10x1x17xi64> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 2, 0>} : (tensor<17x2x1xi64>) -> tensor<2x1x17xi64>
  %1 = kfuse.concat %b, %0, %c {axis = 0 : i64} : (tensor<4x1x17xi64>, tensor<2x1x17xi64>, tensor<4x1x17xi64>) -> tensor<10x1x17xi64>
  return %1 : tensor<10x1x17xi64>
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

} // namespace kfuse::test
