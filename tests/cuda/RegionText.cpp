#include "tests/cuda/RegionText.h"

namespace kfuse::test {

std::string tensor(const std::string &shape, const std::string &type) { return "tensor<" + shape + "x" + type + ">"; }

std::string matrixType(int rows, int columns, bool transposed, const std::string &type) {
  return tensor(std::to_string(transposed ? columns : rows) + "x" + std::to_string(transposed ? rows : columns), type);
}

std::string flagsOf(bool transposeA, bool transposeB) {
  return transposeA   ? transposeB ? " {transpose_a, transpose_b}" : " {transpose_a}"
         : transposeB ? " {transpose_b}"
                      : "";
}

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

} // namespace kfuse::test
