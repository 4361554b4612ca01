#include "codegen/cuda/matmul/Matmul.h"

#include "codegen/cuda/matmul/Tma.h"
#include "codegen/cuda/text/LaneForm.h"
#include "codegen/cuda/text/ScalarFunctions.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t finishThreads = 256;

//===- Problem and operands ------------------------------------------------------------------===//

static std::vector<const ScalarNode *> contractionsOf(const ir::ScalarGraph &graph) {
  std::vector<const ScalarNode *> contractions;
  for (const ScalarNode &node : graph.nodes)
    if (node.kind == ScalarNode::Kind::Contract)
      contractions.push_back(&node);
  return contractions;
}

/// Whether the left operand's few rows walk memory by other than strides, as windows do.
static bool readsWindows(const ir::ScalarGraph &graph) {
  constexpr int64_t fewRows = 256; // Up to which the last tile's missing rows are more than a few percent.
  return graph.domain.extents.end()[-3] < fewRows &&
         llvm::any_of(
             contractionsOf(graph),
             [&](const ScalarNode *product) {
               const ScalarNode &left = graph[product->operands[0]];
               return left.kind == ScalarNode::Kind::Load &&
                      (!left.guards.empty() ||
                       !ir::isStrided(left.map, graph.inputs[left.input].shape, graph.domain.extents));
             });
}

/// The batches that share the right operand as rows of one product: the images and lines of a convolution, of which
/// each alone would fill no tile. What walked them by strides divides a row's number.
static ir::ScalarGraph withSharingBatchesAsRows(const ir::ScalarGraph &source) {
  const SmallVector<int64_t> extents(source.domain.extents);
  const std::vector<const ScalarNode *> products = contractionsOf(source);
  const unsigned rows = extents.size() - 3;
  unsigned first = rows;
  while (first > 0 && llvm::none_of(products, [&](const ScalarNode *product) {
           return source.dependsOn(product->operands[1], first - 1);
         }))
    --first;
  if (first == rows)
    return source;
  ir::ScalarGraph graph = source;
  MLIRContext *context = source.outputs.front().map.getContext();
  const ArrayRef<int64_t> folded = ArrayRef(extents).slice(first, rows - first + 1);
  graph.domain.extents.assign(extents.begin(), extents.begin() + first);
  graph.domain.extents.append({ir::elementsIn(folded), extents[rows + 1], extents[rows + 2]});
  SmallVector<AffineExpr> replacement;
  for (unsigned dim = 0; dim < first; ++dim)
    replacement.push_back(getAffineDimExpr(dim, context));
  llvm::append_range(replacement, ir::delinearise(getAffineDimExpr(first, context), folded));
  for (unsigned dim : {first + 1, first + 2})
    replacement.push_back(getAffineDimExpr(dim, context));
  for (int *dim : {&graph.domain.reductionDim, &graph.domain.contractionDim})
    *dim -= *dim >= 0 ? static_cast<int>(rows - first) : 0;

  auto inRows = [&](AffineMap map) {
    return map.replaceDimsAndSymbols(replacement, {}, graph.domain.rank(), map.getNumSymbols());
  };
  for (ScalarNode &node : graph.nodes) {
    if (node.kind == ScalarNode::Kind::Load)
      node.map = inRows(node.map);
    if (node.kind == ScalarNode::Kind::Index)
      node.index = node.index.replaceDims(replacement);
    for (ir::Guard &guard : node.guards)
      guard.index = guard.index.replaceDims(replacement);
  }
  for (ir::ScalarOutput &output : graph.outputs)
    output.map = inRows(output.map);
  return graph;
}

std::optional<MatmulProblem> MatmulProblem::of(const Region &region) {
  if (region.graph.domain.contractionDim < 0)
    return std::nullopt;
  MatmulProblem problem{
      linearised(readsWindows(region.graph) ? withSharingBatchesAsRows(region.graph) : region.graph, 3),
      {},
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      region.isFixed};
  problem.reducesRows = region.graph.domain.reductionDim >= 0;
  for (auto [id, node] : llvm::enumerate(problem.graph.graph.nodes)) {
    if (node.kind != ScalarNode::Kind::Contract)
      continue;
    problem.products.push_back({static_cast<int>(id)});
  }
  if (problem.products.empty() || problem.count() > 2 || problem.operand(0) != problem.operand(0, problem.count() - 1))
    return std::nullopt;
  problem.tf32 =
      llvm::all_of(problem.products, [&](Scalar product) { return problem.graph[product].function == "tf32"; });
  // Batches that share the right operand are rows of one product; rows that are all the same are better a batch.
  while (problem.graph.extents().size() > 3) {
    unsigned innermost = problem.graph.extents().size() - 4, rows = innermost + 1;
    bool isShared = llvm::none_of(problem.products, [&](Scalar product) {
      return problem.graph.dependsOn(problem.graph[product].operands[1], innermost);
    });
    if (isShared && problem.graph.dependsOn(problem.operand(0), innermost) &&
        !problem.graph.dependsOn(problem.operand(0), rows))
      interchange(problem.graph, innermost, rows);
    if (!isShared || !mergeWithNext(problem.graph, innermost))
      break;
  }
  ArrayRef<int64_t> extents = problem.graph.extents();
  problem.dimK = extents.size() - 1, problem.dimN = extents.size() - 2, problem.dimM = extents.size() - 3;
  problem.M = extents[problem.dimM], problem.N = extents[problem.dimN], problem.K = extents[problem.dimK];
  problem.batches = ir::elementsIn(extents.drop_back(3));
  return problem;
}

ir::FusionDecision isCounted(const std::optional<MatmulProblem> &problem) {
  if (!problem)
    return ir::FusionDecision::no("holds no matrix product, or several that do not share their left operand");
  const std::pair<const char *, int64_t> extents[] = {
      {"M", problem->M}, {"N", problem->N}, {"K", problem->K}, {"batches", problem->batches}};
  for (auto [name, extent] : extents)
    if (extent > mostExtent)
      return ir::FusionDecision::no("multiplies matrices of " + std::string(name) + " = " + std::to_string(extent) +
                                    ", at most " + std::to_string(mostExtent) + " are counted in 32 bits");
  return ir::FusionDecision::yes();
}

static DType storedTypeOf(const LinearGraph &graph, Scalar value) {
  const ScalarNode &node = graph[value];
  return node.kind == ScalarNode::Kind::Load ? graph.graph.inputs[node.input].type : DType::F32;
}

bool MatmulProblem::readsRows() const {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (const Scalar load{static_cast<int>(id)};
        node.kind == ScalarNode::Kind::Load && !isOperand(load) && graph.dependsOn(load, dimM))
      return true;
  return false;
}

DType MatmulProblem::elementType(unsigned side) const { return storedTypeOf(graph, operand(side)); }

bool MatmulProblem::isRightType(DType type) const {
  return llvm::all_of(products,
                      [&](Scalar product) { return storedTypeOf(graph, graph[product].operands[1]) == type; });
}

bool MatmulProblem::isOperand(Scalar node) const {
  return llvm::any_of(products, [&](Scalar product) { return llvm::is_contained(graph[product].operands, node); });
}

ir::FusionDecision takenByMmaSync(const MatmulProblem &problem, const ir::Target &target) {
  if (problem.reducesRows)
    return ir::FusionDecision::no(holdsTiles);
  if (target.capability < 80)
    return ir::FusionDecision::no("needs sm_80, the target is " + target.name);
  return ir::FusionDecision::yes();
}

ir::FusionDecision multipliedByMmaSync(const MatmulProblem &problem, bool takesTf32) {
  const DType left = problem.elementType(0), right = problem.elementType(1);
  const bool areHalf = left == right && (left == DType::F16 || left == DType::BF16),
             areTf32 = takesTf32 && problem.tf32 && left == right && left == DType::F32;
  if ((areHalf || areTf32 || (isFloat8(left) && isFloat8(right))) && problem.isRightType(right))
    return ir::FusionDecision::yes();
  return ir::FusionDecision::no(
      "multiplies " + std::string(toString(left)) + " by " + std::string(toString(right)) +
      ", tensor cores take pairs of f16, of bf16" +
      (takesTf32 ? ", of 8-bit floats or, where tf32 is allowed, f32" : " or of 8-bit floats from registers"));
}

/// `expr` as outer + inner, of which only inner depends on K and only outer on the operand's rows; nothing where one
/// part depends on both, or on the other operand's dimension.
static std::optional<std::pair<AffineExpr, AffineExpr>> splitAtK(const MatmulProblem &problem, unsigned side,
                                                                 AffineExpr expr) {
  const unsigned outerDim = side == 0 ? problem.dimM : problem.dimN, otherDim = side == 0 ? problem.dimN : problem.dimM;
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  AffineExpr outer = getAffineConstantExpr(0, expr.getContext()), inner = outer;
  for (const ir::IndexTerm &term : terms) {
    AffineExpr part =
        term.term ? term.term * term.coefficient : getAffineConstantExpr(term.coefficient, expr.getContext());
    const bool usesK = part.isFunctionOfDim(problem.dimK);
    if (part.isFunctionOfDim(otherDim) || (usesK && part.isFunctionOfDim(outerDim)))
      return std::nullopt;
    (usesK ? inner : outer) = (usesK ? inner : outer) + part;
  }
  return std::pair(outer, inner);
}

MatrixOperand MatrixOperand::of(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand = withBounds(problem, side, product);
  if (!operand.isWindowed || !operand.refusal.empty())
    return operand;
  if (!operand.bounds.empty())
    operand.refusal = std::string(side == 0 ? "the left operand" : "the right operand") +
                      " is joined from pieces, or of windows that reach outside; mma.sync takes it";
  operand.isWindowed = false; // Element by element.
  operand.vector = 1;
  return operand;
}

MatrixOperand MatrixOperand::withBounds(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand;
  const ScalarNode &node = problem.graph[problem.operand(side, product)];
  const char *name = side == 0 ? "the left operand" : product == 0 ? "the right operand" : "the second right operand";
  auto refuse = [&](const std::string &why) {
    operand.refusal = name + std::string(" ") + why;
    return operand;
  };
  if (node.kind != ScalarNode::Kind::Load)
    return refuse("is computed in the region, not an input of it");
  if (!node.symbols.empty())
    return refuse("is gathered or joined from pieces");

  const unsigned outerDim = side == 0 ? problem.dimM : problem.dimN;
  AffineExpr offset = node.map.getResult(0);
  operand.input = node.input;
  operand.isFixed = problem.isFixed[node.input];
  std::optional<std::pair<AffineExpr, AffineExpr>> place = splitAtK(problem, side, offset);
  if (!place)
    return refuse("is not a matrix over its rows and columns: their positions mix in memory");
  std::tie(operand.outer, operand.inner) = *place;
  for (const ir::Guard &guard : node.guards) {
    std::optional<std::pair<AffineExpr, AffineExpr>> parts = splitAtK(problem, side, guard.index);
    if (!parts)
      return refuse("is joined from pieces whose positions mix rows and columns");
    operand.bounds.push_back({parts->first, parts->second, guard.low, guard.high});
  }
  const DType type = storedTypeOf(problem.graph, problem.operand(side, product));
  const int64_t widest = isFloat8(type) ? 16 : 8;
  auto formAlong = [&](AffineExpr expr, unsigned dim, int64_t width) {
    return laneForm(expr, dim, width, [](unsigned) { return false; });
  };
  for (bool alongK : {true, false}) {
    std::optional<LaneForm> form = formAlong(offset, alongK ? problem.dimK : outerDim, widest);
    if (!form || form->stride != 1 || form->alignment(widest) <= operand.vector)
      continue;
    operand.contiguousK = alongK;
    operand.vector = form->alignment(widest);
  }
  SmallVector<int64_t> strides;
  int64_t start = 0;
  const bool isPieced = operand.contiguousK && operand.vector == 1 &&
                        !ir::linearForm(operand.inner, problem.graph.extents().size(), strides, start);
  operand.isWindowed = isPieced || !operand.bounds.empty();
  if (!operand.isWindowed)
    return operand;
  if (isFloat8(type)) {
    operand.isWindowed = false;
    return operand.bounds.empty() ? operand : refuse("holds 8-bit floats that are read window by window");
  }
  operand.contiguousK = true; // Bounds are checked along K.
  // The longest pieces along K that are contiguous, aligned, and inside or outside as a whole.
  auto arePieces = [&](int64_t width) {
    std::optional<LaneForm> form = formAlong(offset, problem.dimK, width);
    return form && form->stride == 1 && form->alignment(width) == width &&
           llvm::all_of(node.guards, [&](const ir::Guard &guard) {
             std::optional<LaneForm> at = formAlong(guard.index, problem.dimK, width);
             return at && (at->stride == 0 || (at->stride == 1 && at->divisor % width == 0 && guard.low % width == 0 &&
                                               guard.high % width == 0));
           });
  };
  operand.vector = widest;
  while (operand.vector > 1 && !arePieces(operand.vector))
    operand.vector /= 2;
  return operand;
}

//===- Source --------------------------------------------------------------------------------===//

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

void MatmulPrinter::writeEpilogue() {
  writer.open("struct Epilogue");
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
              parameters = bufferParameters(problem.graph);
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
  writer.line("finishSplits<Config>(workspace, " + epilogue + ");");
  writer.close();
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

//===- Cost ----------------------------------------------------------------------------------===//

double weightBytes(const MatmulProblem &problem) {
  const double weights = static_cast<double>(problem.N * problem.K) * static_cast<double>(problem.count()) *
                         static_cast<double>(problem.batches);
  return weights * static_cast<double>(byteWidth(problem.elementType(1)));
}

double bytesReadAgain(const MatmulProblem &problem, int64_t rowsAtOnce, double share) {
  return problem.M <= rowsAtOnce ? 0 : share * weightBytes(problem);
}

double atPowerLimit(double us, double mathUs) {
  constexpr double sustainedShare = 0.6, slowing = 0.4;
  return us * (1 + slowing * std::max(0.0, mathUs / us - sustainedShare));
}

namespace {

/// What matmulUs() knows of an H200.
struct Coefficients {
  double startUs = 1.5;      ///< First loads, and the last stores.
  double l2Speedup = 2.0;    ///< Reads from the L2, over nominal HBM bandwidth.
  double readAgain = 0.15;   ///< 32 x 4096 x 4096 takes 13.0 us as two tiles of 16 rows, 10.3 where they share.
  double latencyUs = 0.55;   ///< HBM's. What is waited for and what HBM gives show both where they are near: 32 x 64
                             ///< tiles of 32 x 5120 x 8192 take 32, 27 and 25.6 us with 3, 4 and 5 stages.
  double hbmShare = 0.92;    ///< The share reached of the nominal HBM bandwidth.
  double splitUs = 2.6;      ///< The second launch of split K.
  double splitSpeedup = 2.2; ///< Its partial sums, over nominal HBM bandwidth.
  double shown = 0.3;        ///< What shows of the bound that comes second.
};
constexpr Coefficients h200;

} // namespace

double matmulUs(const Region &region, const MatmulProblem &problem, const MatmulCost &cost, const ir::Target &target) {
  auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N), K = static_cast<double>(problem.K);
  auto batches = static_cast<double>(problem.batches), products = static_cast<double>(problem.count());
  double tilesM = std::ceil(M / cost.tileM), tilesN = std::ceil(N / cost.tileN);
  double blocks = tilesM * tilesN * batches * cost.splits, slots = target.multiprocessors * cost.blocksPerSm;
  double waves = std::ceil(blocks / slots);

  // A partly filled wave still shares its SMs among fewer blocks.
  double resident = std::min(cost.blocksPerSm, std::ceil(blocks / target.multiprocessors));
  double blockUs = 2 * cost.tileM * cost.tileN * products * (K / cost.splits) / (cost.flopsPerUsPerSm / resident);
  double walkUs = waves * (std::max(blockUs, cost.latencyUs) + h200.startUs);

  double operands = (M * K * tilesN + K * N * products * tilesM) * cost.elementBytes * batches;
  double l2Us = operands / (target.memoryBytesPerUs * h200.l2Speedup);
  double bytes = region.bytesRead + region.bytesWritten +
                 bytesReadAgain(problem, static_cast<int64_t>(cost.tileM), h200.readAgain);
  double inFlight = std::min(1.0, blocks / target.multiprocessors) * resident * cost.inFlightBytes;
  double waitingUs = bytes * h200.latencyUs / (inFlight * target.multiprocessors);
  double hbmUs = std::hypot(waitingUs, bytes / (h200.hbmShare * target.memoryBytesPerUs));
  double partials = cost.splits > 1 ? cost.splits * M * N * batches * sizeof(float) : 0;
  double splitUs = partials > 0 ? h200.splitUs + 2 * partials / (target.memoryBytesPerUs * h200.splitSpeedup) : 0;
  std::array<double, 3> terms{walkUs, l2Us, hbmUs};
  std::sort(terms.begin(), terms.end());
  return target.launchUs + terms[2] + h200.shown * terms[1] + splitUs;
}

} // namespace kfuse::codegen::cuda
