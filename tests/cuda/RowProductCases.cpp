#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {
namespace {

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

} // namespace kfuse::test
