#include "codegen/cuda/matmul/MatmulPrinter.h"

#include "codegen/cuda/matmul/Tma.h"
#include "codegen/cuda/text/ScalarFunctions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t finishThreads = 256;

MatmulPrinter::MatmulPrinter(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                             const ir::Target &target, int64_t epilogueVector)
    : region(region), problem(problem), config(config), target(target), vector(epilogueVector),
      chunk(problem.graph, problem.dimN, epilogueVector) {
  std::vector<Scalar> values;
  for (const ir::ScalarOutput &output : problem.graph.graph.outputs)
    values.push_back(output.value);
  loads = chunk.loadsOf(values, {problem.products.begin(), problem.products.end()});
  for (unsigned dim = 0; dim < problem.dimM; ++dim)
    dimNames.push_back("d" + std::to_string(dim));
  dimNames.append({"m", "n", "k"});
}

void MatmulPrinter::writeConfig(int64_t threads, ArrayRef<std::string> fields) {
  writer.line("using Index = " + indexType(problem.graph) + ";");
  writer.open("struct Config");
  writer.line("using Index = ::Index;");
  writer.line("static constexpr int M = " + Twine(problem.M) + ", N = " + Twine(problem.N) +
              ", K = " + Twine(problem.K) + ", batches = " + Twine(problem.batches) + ";");
  writer.line("static constexpr int tileM = " + Twine(config["m"]) + ", tileN = " + Twine(config["n"]) +
              ", tileK = " + Twine(config["k"]) + ", threads = " + Twine(threads) + ";");
  for (const std::string &field : fields)
    writer.line(field);
  writer.line("static constexpr int splitK = " + Twine(config["split_k"]) +
              ", tileSwizzle = " + Twine(config["swizzle"]) + ", epilogueVector = " + Twine(vector) +
              ", finishThreads = " + Twine(finishThreads) + ";");
  writer.close(";");
  writer.line();
}

void MatmulPrinter::writeBatchSplit() {
  if (problem.dimM > 0)
    writer.line(splitText("batch", problem.graph.extents().take_front(problem.dimM),
                          ArrayRef(dimNames).take_front(problem.dimM)));
}

void MatmulPrinter::writeOperand(const MatrixOperand &operand, StringRef name, StringRef outer) {
  IndexNames names{{dimNames.begin(), dimNames.end()}, {}};
  writer.open("struct " + name);
  writer.line(Twine("static constexpr bool contiguousK = ") + (operand.contiguousK ? "true" : "false") + ";");
  writer.line("static constexpr int vector = " + Twine(operand.vector) + ";");
  writer.line(Twine("static constexpr bool isFixed = ") + (operand.isFixed ? "true;" : "false;"));
  auto function = [&](StringRef what, StringRef index, AffineExpr expr) {
    writer.open("static __device__ __forceinline__ Index " + what + "(Index batch, Index " + index + ")");
    writeBatchSplit();
    writer.line("return " + indexText(expr, names) + ";");
    writer.close();
  };
  function("outer", outer, operand.outer);
  function("inner", "k", operand.inner);
  if (operand.isWindowed)
    writeBounds(operand, outer);
  writer.close(";");
  writer.line();
}

void MatmulPrinter::writeBounds(const MatrixOperand &operand, StringRef outer) {
  IndexNames names{{dimNames.begin(), dimNames.end()}, {}};
  writer.line("static constexpr int bounds = " + Twine(operand.bounds.size()) + ";");
  if (operand.bounds.empty())
    return;
  auto function = [&](const Twine &head, llvm::function_ref<std::string(const MatrixOperand::Bound &)> text) {
    writer.open("static __device__ __forceinline__ " + head);
    writeBatchSplit();
    std::string chosen;
    for (auto [i, bound] : llvm::enumerate(operand.bounds))
      chosen += (i + 1 < operand.bounds.size() ? "bound == " + std::to_string(i) + " ? " : "") + text(bound) +
                (i + 1 < operand.bounds.size() ? " : " : "");
    writer.line("return " + chosen + ";");
    writer.close();
  };
  auto index = [&](AffineExpr expr) { return "Index(" + indexText(expr, names) + ")"; };
  function("Index outerOf(int bound, Index batch, Index " + outer + ")",
           [&](auto &bound) { return index(bound.outer); });
  function("Index innerOf(int bound, Index batch, Index k)", [&](auto &bound) { return index(bound.inner); });
  function("bool isInside(int bound, Index batch, Index at)", [&](auto &bound) {
    return "at >= " + std::to_string(bound.low) + " && at < " + std::to_string(bound.high);
  });
}

std::string MatmulPrinter::writeRightOperands(StringRef one, StringRef two) {
  std::string names, inputs;
  for (unsigned product = 0; product < problem.count(); ++product) {
    MatrixOperand operand = MatrixOperand::withBounds(problem, 1, product);
    StringRef name = product == 0 ? "B" : "C";
    writeOperand(operand, name, "n");
    names += name.str() + ", ";
    inputs += (product == 0 ? "in" : ", in") + std::to_string(operand.input);
  }
  return (problem.count() == 1 ? one : two).str() + "<" + names + storedType(problem.elementType(1)).str() + ">{" +
         inputs + "}";
}

static const char *const epiloguePlace = "Index batch, Index m, Index n, int lanes) const";

/// Whether rows, not columns, are neighbours in what is stored, as images with their channels first are: runs of two
/// warps' lanes and more. 256 channels of 14 x 14 take 54.0 us so, 60.0 otherwise, but 512 of 7 x 7 79.8 instead
/// of 60.3.
static bool rowsAreNeighbours(const MatmulProblem &problem) {
  constexpr int64_t leastRun = 64;
  auto offset = [&](const ir::ScalarOutput &output, int64_t row) {
    SmallVector<int64_t> point(problem.graph.extents().size(), 0);
    point[problem.dimM] = row;
    return output.map.compose(point)[0];
  };
  return problem.M >= leastRun && llvm::all_of(problem.graph.graph.outputs, [&](const ir::ScalarOutput &output) {
           return output.symbols.empty() && llvm::all_of(llvm::seq<int64_t>(leastRun), [&](int64_t row) {
                    return offset(output, row) == offset(output, 0) + row;
                  });
         });
}

void MatmulPrinter::writeEpilogue() {
  writer.open("struct Epilogue");
  writer.line(Twine("static constexpr bool lanesAlongRows = ") +
              (!chunk.storesWholeVectors() && rowsAreNeighbours(problem) ? "true;" : "false;"));
  writeEpilogueLoads();
  writer.open("__device__ __forceinline__ void apply(const Operands &x, const " + accumulatorType() + " &acc, " +
              epiloguePlace);
  ValuePrinter scope(problem.graph, writer, dimNames);
  writeEpilogueValues(scope);
  for (unsigned i = 0; i < problem.graph.graph.outputs.size(); ++i)
    chunk.store(scope, i);
  writer.close();
  writer.close(";");
  writer.line();
}

void MatmulPrinter::writeTileEpilogue(const TmaResult &result) {
  const std::string type = "Vector<float, " + std::to_string(vector) + ">";
  writer.open("struct Epilogue");
  writer.line("using Result = " + storedType(problem.graph.graph.outputs.front().type) + ";");
  writeEpilogueLoads(result.load);
  writeBatch("resultBatch", result.written.batch);
  if (result.read) {
    writeBatch("readBatch", result.read->batch);
    writer.open("__device__ __forceinline__ void take(Operands &x, unsigned pair) const");
    writer.line("fromWord(x.v" + Twine(result.load->id) + ", pair);");
    writer.close();
  }
  writer.open("__device__ __forceinline__ " + type + " compute(const Operands &x, const " + accumulatorType() +
              " &acc, " + epiloguePlace);
  ValuePrinter scope(problem.graph, writer, dimNames);
  writeEpilogueValues(scope);
  writer.line("return y0;");
  writer.close();
  writer.close(";");
  writer.line();
}

void MatmulPrinter::writeBatch(StringRef name, AffineExpr batch) {
  writer.open("static __device__ __forceinline__ int " + name + "(Index batch)");
  writeBatchSplit();
  writer.line("return " + indexText(batch, {{dimNames.begin(), dimNames.end()}, {}}) + ";");
  writer.close();
}

/// Members, operands and what fills them, but for one that TMA has `brought`.
void MatmulPrinter::writeEpilogueLoads(std::optional<Scalar> brought) {
  for (const std::string &member : bufferMembers(problem.graph, loads))
    writer.line(member);
  writer.line();
  writer.open("struct Operands");
  chunk.declare(writer, loads);
  writer.close(";");
  writer.open(std::string("__device__ __forceinline__ void load(Operands &x, ") + epiloguePlace);
  writeBatchSplit();
  std::vector<Scalar> read = loads;
  std::erase(read, brought);
  chunk.load({problem.graph, writer, dimNames}, read, "x.");
  writer.close();
}

std::string MatmulPrinter::accumulatorType() const {
  return "Vector<float, " + std::to_string(vector * problem.count()) + ">";
}

/// Computes y0, y1, ... of a chunk.
void MatmulPrinter::writeEpilogueValues(ValuePrinter &scope) {
  ArrayRef<ir::ScalarOutput> outputs = problem.graph.graph.outputs;
  writeBatchSplit();
  for (auto [i, output] : llvm::enumerate(outputs))
    writer.line("Vector<" + valueType(problem.graph[output.value].type) + ", " + Twine(vector) + "> y" + Twine(i) +
                ";");
  // A last function in which neighbours share work is applied to all of them, behind the loop.
  const ir::ScalarNode &last = problem.graph[outputs.front().value];
  const bool endsInVector =
      outputs.size() == 1 && last.kind == ir::ScalarNode::Kind::Apply && hasVectorForm(last.function);
  chunk.lanes(
      scope, [](Scalar) { return "x."; },
      [&](ValuePrinter &lane) {
        for (auto [i, product] : llvm::enumerate(problem.products))
          lane.define(product, i == 0 ? "acc[j]" : "acc[" + std::to_string(i * vector) + " + j]");
        for (auto [i, output] : llvm::enumerate(outputs)) {
          std::string value = lane.value(endsInVector ? last.operands.front() : output.value);
          writer.line("y" + Twine(i) + "[j] = " + value + ";");
        }
      });
  if (endsInVector)
    writer.line("y0 = " + scalarText(last.function, {"y0"}, last.type, accuracyOf(problem.graph.graph)) + ";");
}

void MatmulPrinter::writeEntries(llvm::function_ref<std::string(const std::string &)> call, StringRef leading,
                                 StringRef trailing) {
  std::string epilogue = "Epilogue{" + bufferNames(problem.graph, loads) + "}",
              parameters = bufferParameters(region, problem.graph);
  if (isSplit())
    parameters += ", float *workspace";
  parameters += trailing;
  writer.open("extern \"C\" __global__ void __launch_bounds__(Config::threads) " + entryName(region) + "(" + leading +
              parameters + ")");
  writer.line(call(isSplit() ? "StorePartials<Config>{workspace}" : epilogue));
  writer.close();
  if (!isSplit())
    return;
  writer.line();
  writer.open("extern \"C\" __global__ void __launch_bounds__(Config::finishThreads) " + entryName(region) +
              "_finish(" + parameters + ")");
  const std::string runRows = runExtent(problem.graph, problem.dimM, writer);
  writer.line("finishSplits<Config>(workspace, " + epilogue + (runRows.empty() ? "" : ", " + runRows) + ");");
  writer.close();
}

void MatmulPrinter::endBehindRun() {
  if (const std::string runRows = runExtent(problem.graph, problem.dimM, writer); !runRows.empty())
    writer.line("if (isBehindRun<Config>(" + runRows + ")) return;");
}

KernelPlan MatmulPrinter::plan(int64_t threads, int64_t sharedBytes) {
  KernelPlan plan = planOf(region, problem.graph, target);
  Launch launch = launchOf(plan, entryName(region), target);
  int64_t tiles = ceilDiv(problem.M, config["m"]) * ceilDiv(problem.N, config["n"]);
  launch.grid = {static_cast<uint32_t>(tiles * problem.batches), static_cast<uint32_t>(config["split_k"]), 1};
  launch.block[0] = static_cast<uint32_t>(threads);
  launch.sharedBytes = static_cast<uint32_t>(sharedBytes);
  if (isSplit()) {
    plan.workspaceBytes =
        static_cast<uint64_t>(config["split_k"] * problem.batches * problem.M * problem.N) * sizeof(float);
    launch.args.push_back({KernelArg::Kind::Workspace, 0});
  }
  plan.launches = {launch};
  if (isSplit()) {
    int64_t chunks = problem.batches * problem.M * ceilDiv(problem.N, vector);
    launch.entry += "_finish";
    launch.grid = {static_cast<uint32_t>(ceilDiv(chunks, finishThreads)), 1, 1};
    launch.block[0] = finishThreads;
    launch.sharedBytes = 0;
    plan.launches.push_back(launch);
  }
  giveSource(plan, writer.str());
  return plan;
}

} // namespace kfuse::codegen::cuda
