// Models with weights of few bits, run with an eye on every byte that they take.
#pragma once

#include "ModelRunner.h"

#include "codegen/CostModel.h"
#include "ir/reference/Policy.h"

namespace kfuse::test {

/// Two layers of `rows` rows, 512 wide and 1024 between them, with weights in groups of 128.
inline std::string lowBitLayers(int rows, const std::string &type) {
  auto tensor = [](int m, int n, const std::string &of) {
    return "tensor<" + std::to_string(m) + "x" + std::to_string(n) + "x" + of + ">";
  };
  auto layer = [&](const std::string &number, const std::string &x, int n, int k) {
    const std::string q = tensor(n, k, "ui4"), s = tensor(n, k / 128, type), z = tensor(n, k / 128, "ui4"),
                      w = tensor(n, k, type);
    return "%w" + number + " = kfuse.dequantize %q" + number + ", %s" + number + ", %z" + number +
           " {blocks = array<i64: 1, 128>} : (" + q + ", " + s + ", " + z + ") -> " + w + "\n%y" + number +
           " = kfuse.matmul " + x + ", %w" + number + " {transpose_b} : (" + tensor(rows, k, type) + ", " + w +
           ") -> " + tensor(rows, n, type) + "\n";
  };
  auto argument = [](const std::string &name, const std::string &of, const std::string &role) {
    return "%" + name + ": " + of + " {kfuse.name = \"" + name + "\", kfuse.role = \"" + role + "\"}";
  };
  auto parameters = [&](const std::string &number, int n, int k) {
    return ", " + argument("q" + number, tensor(n, k, "ui4"), "parameter") + ", " +
           argument("s" + number, tensor(n, k / 128, type), "parameter") + ", " +
           argument("z" + number, tensor(n, k / 128, "ui4"), "parameter");
  };
  const std::string between = tensor(rows, 1024, type), result = tensor(rows, 512, type);
  return "func.func @main(" + argument("x", tensor(rows, 512, type), "input") + parameters("0", 1024, 512) +
         parameters("1", 512, 1024) + ") -> " + result + " {\n" + layer("0", "%x", 1024, 512) +
         "%r = kfuse.relu %y0 : (" + between + ") -> " + between + "\n" + layer("1", "%r", 512, 1024) +
         "return %y1 : " + result + "\n}\n";
}

/// Runs the layers and judges their result. No buffer of the program, of what @prepare makes, nor all that a context
/// holds, is as large as a dequantised matrix; and after the run no byte of the arena is a row of one.
inline void checkLowBitMemory(int rows, DType type, const ir::Target &target, runtime::Device &device,
                              runtime::KernelCompiler &compiler) {
  const std::string text = lowBitLayers(rows, std::string(toString(type)));
  CAPTURE(text);
  ParsedModule parsed(text);
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
  Arguments arguments;
  std::vector<HostTensor> ordered;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    const DType of = ir::dtypeOf(main.getArgument(i).getType());
    const Shape shape = ir::shapeOf(main.getArgument(i));
    ordered.push_back(isFloat(of) ? reference::uniform(of, shape, i) : reference::integers(of, shape, i, 0, 16));
    arguments[nameOf(main.getArgAttrDict(i), i)] = ordered.back();
  }
  const std::size_t matrixBytes = byteSize(type, {1024, 512});

  std::unique_ptr<ir::CostModel> costs = codegen::makeCostModel(target);
  auto planned = tuner::planModel(*parsed.module, *costs, {});
  REQUIRE_MESSAGE(planned, planned.error().message);
  ModelRunner runner(target, device, compiler);
  const Arguments prepared = runner.prepared(*planned, arguments);
  for (const auto &[name, tensor] : prepared) {
    CAPTURE(name);
    CHECK(tensor.bytes.size() < matrixBytes);
  }
  const runtime::Program program = runner.program(*planned, planned->main);
  for (const runtime::ProgramKernel &kernel : program.kernels)
    for (const codegen::BufferDesc &buffer : kernel.plan.outputs)
      CHECK(buffer.bytes() < matrixBytes);

  auto arena = device.allocate(std::max<std::size_t>(program.arenaBytes, 1));
  REQUIRE_MESSAGE(arena, arena.error().message);
  std::vector<HostTensor> results =
      runner.run(program, prepared, {.arena = {static_cast<std::byte *>((*arena)->data()), program.arenaBytes}},
                 [&](runtime::Context &context) { CHECK(context.memoryBytes() < matrixBytes); });
  std::vector<std::byte> bytes(program.arenaBytes);
  REQUIRE(device.download(bytes.data(), (*arena)->data(), bytes.size()));
  for (unsigned layer : {0U, 1U}) {
    const HostTensor &q = ordered[1 + 3 * layer], &s = ordered[2 + 3 * layer], &z = ordered[3 + 3 * layer];
    const std::vector<double> codes = reference::toDoubles(q), scales = reference::toDoubles(s),
                              zeros = reference::toDoubles(z);
    constexpr std::size_t length = 64; // A row's first group: 128 bytes that chance does not make.
    std::vector<double> row;
    for (std::size_t k = 0; k < length; ++k)
      row.push_back((codes[k] - zeros[0]) * scales[0]);
    const std::vector<std::byte> sought = reference::tensorOf(type, {length}, row).bytes;
    CHECK(std::ranges::search(bytes, sought).empty());
  }
  auto verdicts = reference::checkOutputs(main.getBody().front(), ordered, results);
  REQUIRE_MESSAGE(verdicts, verdicts.error().message);
  for (const reference::Verdict &verdict : *verdicts)
    CHECK_MESSAGE(verdict.right, verdict.message);
}

} // namespace kfuse::test
