// Norms as statistics of rows behind products compute what they did in front of them.
#include "PassHarness.h"

#include "ir/reference/Policy.h"
#include "passes/Fixed.h"
#include "passes/Passes.h"
#include "passes/products/RowStatistics.h"

#include "mlir/IR/Verifier.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::string parameter(const std::string &name, const std::string &type) {
  return ", %" + name + ": " + type + " {kfuse.role = \"parameter\"}";
}

/// norm(x) and what reads it. `norm` and `rest` use %x, %g, %b, %w ([K, N]) and %t ([N, K]).
std::string model(const std::string &norm, const std::string &rest, const std::string &type = "bf16") {
  const std::string x = "tensor<12x48x" + type + ">", v = "tensor<48x" + type + ">", w = "tensor<48x20x" + type + ">",
                    t = "tensor<20x48x" + type + ">";
  return "func.func @main(%x: " + x + parameter("g", v) + parameter("b", v) + parameter("w", w) + parameter("t", t) +
         ") -> tensor<12x20x" + type + "> {\n" + norm + "\n" + rest + "\nreturn %r : tensor<12x20x" + type + ">\n}";
}

struct Form {
  const char *name;
  std::string text;
  bool isTaken = true;
};

std::vector<Form> forms(const std::string &type) {
  auto typed = [&](std::string text) {
    for (size_t at; (at = text.find("FLOAT")) != std::string::npos;)
      text.replace(at, 5, type);
    return text;
  };
  const std::string rms = typed("%n = kfuse.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<12x48xFLOAT>, "
                                "tensor<48xFLOAT>) -> tensor<12x48xFLOAT>"),
                    layer =
                        typed("%n = \"kfuse.layer_norm\"(%x, %g, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = "
                              "array<i32: 1, 1, 1>}> : (tensor<12x48xFLOAT>, tensor<48xFLOAT>, tensor<48xFLOAT>) -> "
                              "tensor<12x48xFLOAT>"),
                    product = typed(
                        "kfuse.matmul %n, %w : (tensor<12x48xFLOAT>, tensor<48x20xFLOAT>) -> tensor<12x20xFLOAT>"),
                    turned = typed("kfuse.matmul %n, %t {transpose_b} : (tensor<12x48xFLOAT>, tensor<20x48xFLOAT>) -> "
                                   "tensor<12x20xFLOAT>"),
                    pair = typed(" : (tensor<12x20xFLOAT>, tensor<12x20xFLOAT>) -> tensor<12x20xFLOAT>"),
                    unary = typed(" : (tensor<12x20xFLOAT>) -> tensor<12x20xFLOAT>");
  return {
      {"rms_norm", model(rms, "%r = " + product, type)},
      {"transposed weights", model(rms, "%r = " + turned, type)},
      {"relu behind", model(rms, "%0 = " + product + "\n%r = kfuse.relu %0" + unary, type)},
      {"layer_norm", model(layer, "%r = " + product, type), false},
      {"two products", model(rms, "%0 = " + product + "\n%1 = " + turned + "\n%r = kfuse.mul %0, %1" + pair, type)},
      {"through a reshape",
       model(rms,
             typed("%s = kfuse.reshape %n : (tensor<12x48xFLOAT>) -> tensor<3x4x48xFLOAT>\n%0 = kfuse.matmul %s, "
                   "%w : (tensor<3x4x48xFLOAT>, tensor<48x20xFLOAT>) -> tensor<3x4x20xFLOAT>\n%r = kfuse.reshape "
                   "%0 : (tensor<3x4x20xFLOAT>) -> tensor<12x20xFLOAT>"),
             type)},
      {"read beside its product",
       model(
           rms,
           typed("%s = kfuse.slice %n {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<12x48xFLOAT>) "
                 "-> tensor<12x20xFLOAT>\n%0 = ") +
               product + "\n%r = kfuse.add %0, %s" + pair,
           type),
       false}};
}

/// The model's @main with every norm that can be applied behind its products; whether there was one.
bool applyAll(mlir::func::FuncOp main) {
  const llvm::DenseSet<mlir::Value> fixed = passes::fixedValues(main);
  auto sets = passes::normedProducts(main, fixed);
  for (llvm::ArrayRef<ir::MatmulOp> products : sets)
    passes::applyNormBehind(products, fixed);
  passes::eraseDead(main.getBody().front());
  CHECK(mlir::succeeded(mlir::verify(main)));
  return !sets.empty();
}

double errorOf(const Values &found, const Values &exact) {
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    error += (found.real(i) - exact.real(i)) * (found.real(i) - exact.real(i));
    size += exact.real(i) * exact.real(i);
  }
  return std::sqrt(error / size);
}

} // namespace

TEST_CASE("row statistics: a norm behind its products is the norm in front of them") {
  for (const Form &form : forms("bf16")) {
    CAPTURE(form.name);
    ParsedModule before(form.text), after(form.text);
    REQUIRE_MESSAGE(before.module, before.diagnostic);
    auto mainOf = [](ParsedModule &parsed) { return parsed.module->lookupSymbol<mlir::func::FuncOp>("main"); };
    CHECK(applyAll(mainOf(after)) == form.isTaken);
    bool hasNorm = false;
    mainOf(after).walk([&](mlir::Operation *op) { hasNorm |= mlir::isa<ir::RmsNormOp, ir::LayerNormOp>(op); });
    CHECK(hasNorm == !form.isTaken);
    const Arguments arguments = randomArguments(mainOf(before), 3);
    const Values exact = evaluate(mainOf(before), arguments).front();
    CHECK(errorOf(evaluate(mainOf(after), arguments).front(), exact) < 1e-6);
    // Rounded after every op, it is as near as the norm in front is by the policy.
    CHECK(errorOf(evaluate(mainOf(after), arguments, Mode::RoundEachOp).front(), exact) <
          reference::tolerance(DType::BF16));
  }
}

TEST_CASE("row statistics: other types, and weights that a run computes, keep their norm in front") {
  for (const char *type : {"f16", "f32"}) {
    ParsedModule parsed(forms(type)[0].text);
    CHECK_FALSE(applyAll(parsed.module->lookupSymbol<mlir::func::FuncOp>("main")));
  }
  std::string text = forms("bf16")[0].text;
  const std::string role = "%w: tensor<48x20xbf16> {kfuse.role = \"parameter\"}";
  text.replace(text.find(role), role.size(), "%w: tensor<48x20xbf16>");
  ParsedModule parsed(text);
  CHECK_FALSE(applyAll(parsed.module->lookupSymbol<mlir::func::FuncOp>("main")));
}
