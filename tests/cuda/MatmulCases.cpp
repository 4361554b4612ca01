#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {
namespace {

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

} // namespace

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
  cases.push_back({"channels_first_" + type, typed(R"(
func.func @f(%a: tensor<3x70x48xTYPE>, %b: tensor<48x40xTYPE>, %c: tensor<40xTYPE>) -> tensor<3x40x70xTYPE> {
  %0 = kfuse.matmul %a, %b : (tensor<3x70x48xTYPE>, tensor<48x40xTYPE>) -> tensor<3x70x40xTYPE>
  %1 = kfuse.add %0, %c : (tensor<3x70x40xTYPE>, tensor<40xTYPE>) -> tensor<3x70x40xTYPE>
  %2 = kfuse.transpose %1 {permutation = array<i64: 0, 2, 1>} : (tensor<3x70x40xTYPE>) -> tensor<3x40x70xTYPE>
  return %2 : tensor<3x40x70xTYPE>
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
  std::vector<TemplateCase> cases{gated(37, 136, 72, false, type, "silu"), gated(139, 64, 272, true, type, "gelu_tanh"),
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

std::vector<TemplateCase> fewRowCases(const std::string &type) {
  return {matmul(1, 1000, 1000, false, true, type), matmul(3, 33, 4104, false, true, type),
          matmul(4, 520, 264, false, true, type), matmul(2, 4096, 1024, false, true, type)};
}

std::vector<TemplateCase> pieceRowCases(const std::string &type) {
  std::vector<TemplateCase> cases;
  for (const std::string rows : {"3", "13"}) {
    const std::string heads = "tensor<5x" + rows + "x48x" + type + ">",
                      tokens = "tensor<" + rows + "x5x48x" + type + ">", flat = "tensor<" + rows + "x240x" + type + ">",
                      weights = "tensor<33x240x" + type + ">", result = "tensor<" + rows + "x33x" + type + ">";
    cases.push_back({"heads_" + rows + "x240x33_" + type,
                     "func.func @f(%a: " + heads + ", %b: " + weights + ") -> " + result + " {\n" +
                         "  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0, 2>} : (" + heads + ") -> " +
                         tokens + "\n  %1 = kfuse.reshape %0 : (" + tokens + ") -> " + flat +
                         "\n  %2 = kfuse.matmul %1, %b " + "{transpose_b} : (" + flat + ", " + weights + ") -> " +
                         result + "\n  return %2 : " + result + "\n}"});
  }
  return cases;
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

} // namespace kfuse::test
