#include "codegen/cuda/matmul/Tma.h"

#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/text/Wgmma.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
TmaOperand TmaOperand::of(const MatmulProblem &problem, unsigned side, unsigned product) {
  TmaOperand operand;
  operand.matrix = MatrixOperand::of(problem, side, product);
  const std::string name = side == 0      ? "the left operand "
                           : product == 0 ? "the right operand "
                                          : "the second right operand ";
  auto refuse = [&](const std::string &why) {
    operand.refusal = name + why;
    return operand;
  };
  if (!operand.matrix.refusal.empty()) {
    operand.refusal = operand.matrix.refusal;
    return operand;
  }
  const auto width = static_cast<int64_t>(byteWidth(problem.elementType(side)));
  unsigned rowDim = side == 0 ? problem.dimM : problem.dimN;
  int64_t ofRow = 0, ofK = 0, offset = 0, offsetOfK = 0;
  SmallVector<ir::IndexTerm> batchTerms, kTerms;
  if (!splitOff(operand.matrix.outer, rowDim, ofRow, offset, batchTerms) ||
      !splitOff(operand.matrix.inner, problem.dimK, ofK, offsetOfK, kTerms) || !kTerms.empty())
    return refuse("has no single stride along its rows and along K, which TMA needs");
  offset += offsetOfK;

  if ((ofRow == 0 && problem.graph.extents()[rowDim] > 1) || (ofK == 0 && problem.K > 1))
    return refuse("repeats itself along its rows or along K, which TMA cannot");

  const bool contiguousK = operand.matrix.contiguousK;
  int64_t contiguous = contiguousK ? ofK : ofRow, stride = contiguousK ? ofRow : ofK;
  const BatchCoordinate batch = batchCoordinate(batchTerms, operand.matrix.outer.getContext());
  auto isAligned = [&](int64_t elements) { return elements >= 0 && elements * width % tmaGranule == 0; };
  if (contiguous != 1 || !isAligned(stride) || !isAligned(batch.stride) || !isAligned(offset))
    return refuse("starts or strides at other than multiples of 16 bytes, which TMA needs");

  const int64_t line = contiguousK ? problem.K : problem.graph.extents()[rowDim],
                lines = contiguousK ? problem.graph.extents()[rowDim] : problem.K;
  if (lines > 1 && stride < line)
    return refuse("has rows that overlap, as those of windows");

  operand.batch = batch.index;
  operand.rows = side == 0 ? problem.M : problem.N;
  operand.depth = problem.K;
  operand.batches = ir::maxOfIndex(operand.batch, problem.graph.extents()) + 1;
  // A dimension of one element has no stride of its own.
  operand.strideBytes = stride > 0 ? stride * width : tmaLineBytes;
  operand.batchBytes = batch.stride > 0 ? batch.stride * width : tmaLineBytes;
  operand.offsetBytes = offset * width;
  return operand;
}

TensorMapRecipe TmaOperand::recipe(DType type, std::int64_t tileRows) const {
  TensorMapRecipe recipe;
  recipe.buffer = matrix.input;
  recipe.type = type;
  recipe.sizes =
      matrix.contiguousK ? std::vector<uint64_t>{depth, rows, batches} : std::vector<uint64_t>{rows, depth, batches};
  recipe.strideBytes = {strideBytes, batchBytes};
  const auto line = static_cast<uint32_t>(tmaLineBytes / byteWidth(type));
  recipe.box = {line, matrix.contiguousK ? static_cast<uint32_t>(tileRows) : line, 1};
  if (isPermuted) {
    recipe.sizes = {depth, 4, rows / 4, batches};
    recipe.strideBytes = {strideBytes, 4 * strideBytes, batchBytes};
    recipe.box = {line, 2, static_cast<uint32_t>(tileRows / 4), 1};
  }
  recipe.swizzleBytes = tmaLineBytes;
  recipe.offsetBytes = offsetBytes;
  return recipe;
}

/// The matrix of elements at `offset` of the buffer; nothing where TMA cannot move it.
static std::optional<TmaMatrix> matrixAt(const MatmulProblem &problem, AffineExpr offset, DType type, uint32_t buffer) {
  int64_t ofM = 0, ofN = 0, constant = 0, none = 0;
  SmallVector<ir::IndexTerm> withoutN, batchTerms;
  if ((type != DType::F16 && type != DType::BF16) || problem.N % 2 != 0 ||
      !splitOff(offset, problem.dimN, ofN, constant, withoutN))
    return std::nullopt;
  AffineExpr rest = getAffineConstantExpr(0, offset.getContext());
  for (const ir::IndexTerm &term : withoutN)
    rest = rest + term.term * term.coefficient;
  if (!splitOff(rest, problem.dimM, ofM, none, batchTerms))
    return std::nullopt;
  const BatchCoordinate batch = batchCoordinate(batchTerms, offset.getContext());
  auto isAligned = [](int64_t elements) {
    return elements >= 0 && elements * 2 % static_cast<int64_t>(tmaGranule) == 0;
  };
  if (ofN != 1 || !isAligned(ofM) || !isAligned(batch.stride) || !isAligned(constant))
    return std::nullopt;

  TmaMatrix matrix;
  matrix.buffer = buffer;
  matrix.type = type;
  matrix.batch = batch.index;
  matrix.M = problem.M, matrix.N = problem.N;
  matrix.batches = ir::maxOfIndex(matrix.batch, problem.graph.extents()) + 1;
  matrix.strideBytes = ofM > 0 ? ofM * 2 : tmaLineBytes;
  matrix.batchBytes = batch.stride > 0 ? batch.stride * 2 : tmaLineBytes;
  matrix.offsetBytes = constant * 2;
  return matrix;
}

std::optional<TmaResult> TmaResult::of(const MatmulProblem &problem) {
  const ir::ScalarGraph &graph = problem.graph.graph;
  std::optional<TmaResult> result = placed(problem);
  // All of a lane's accumulators are finished in unrolled code: a long epilogue would spill and compile for seconds.
  constexpr double mostInstructions = 12;
  if (!result || instructionsOf(problem.graph, {graph.outputs.front().value}, [&](ir::Scalar s) {
                   return llvm::is_contained(problem.products, s);
                 }) > mostInstructions)
    return std::nullopt;
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    ir::Scalar load{static_cast<int>(id)};
    bool isMatrix = problem.graph.dependsOn(load, problem.dimM) && problem.graph.dependsOn(load, problem.dimN);
    if (node.kind != ir::ScalarNode::Kind::Load || problem.isOperand(load) || !isMatrix)
      continue;
    if (result->read || !node.guards.empty() || !node.symbols.empty())
      return std::nullopt;
    result->read = matrixAt(problem, node.map.getResult(0), graph.inputs[node.input].type, node.input);
    result->load = load;
    if (!result->read)
      return std::nullopt;
  }
  return result;
}

std::optional<TmaResult> TmaResult::placed(const MatmulProblem &problem) {
  const ir::ScalarGraph &graph = problem.graph.graph;
  const ir::ScalarOutput &output = graph.outputs.front();
  if (graph.outputs.size() != 1 || output.inPlace >= 0 || !output.symbols.empty() ||
      !problem.graph.storeGuards.front().empty())
    return std::nullopt;
  std::optional<TmaMatrix> written =
      matrixAt(problem, output.map.getResult(0), output.type, static_cast<uint32_t>(graph.inputs.size()));
  return written ? std::optional(TmaResult{*written, {}, {}}) : std::nullopt;
}

std::optional<TmaResult> TmaResult::ofColumns(const MatmulProblem &problem) {
  return problem.readsRows() ? std::nullopt : of(problem);
}

TensorMapRecipe TmaMatrix::recipe(std::uint32_t columns, std::uint32_t rows) const {
  TensorMapRecipe recipe;
  recipe.buffer = buffer;
  recipe.type = type;
  recipe.sizes = {N, M, batches};
  recipe.strideBytes = {strideBytes, batchBytes};
  recipe.box = {columns, rows, 1};
  recipe.swizzleBytes = columns * 2;
  recipe.offsetBytes = offsetBytes;
  return recipe;
}

/// Whether TMA can read both sides, each one way, in every product.
static ir::FusionDecision takenByTma(const MatmulProblem &problem) {
  for (unsigned side : {0, 1}) {
    const TmaSide operands = sideOf(problem, side);
    for (const TmaOperand &operand : operands) {
      if (!operand.refusal.empty())
        return ir::FusionDecision::no(operand.refusal);
      if (operand.matrix.contiguousK != operands.front().matrix.contiguousK)
        return ir::FusionDecision::no("the right operands are contiguous along different dimensions");
    }
  }
  return ir::FusionDecision::yes();
}

ir::FusionDecision takenByWgmma(const Region &region, const MatmulProblem &problem, const ir::Target &target) {
  if (target.capability != 90)
    return ir::FusionDecision::no("needs sm_90a, the target is " + target.name);
  if (MatrixOperand left = MatrixOperand::of(problem, 0); !left.refusal.empty())
    return ir::FusionDecision::no(left.refusal);
  DType left = problem.elementType(0), right = problem.elementType(1);
  bool areHalf = left == right && (left == DType::F16 || left == DType::BF16);
  bool areFloat8 = isFloat8(left) && isFloat8(right), areTf32 = problem.tf32 && left == right && left == DType::F32;
  if ((!areHalf && !areFloat8 && !areTf32) || !problem.isRightType(right))
    return ir::FusionDecision::no(
        "multiplies " + std::string(toString(left)) + " by " + std::string(toString(right)) +
        ", wgmma takes pairs of f16, of bf16, of 8-bit floats or, where tf32 is allowed, f32");
  if (ir::FusionDecision taken = takenByTma(problem); !taken)
    return taken;
  for (unsigned side : {0, 1})
    if (!areHalf && !sideOf(problem, side).front().matrix.contiguousK)
      return ir::FusionDecision::no(std::string(side == 0 ? "the left" : "the right") +
                                    " operand is not contiguous along K, which wgmma needs of other than 16 bits");
  return printable(region);
}

int64_t depthOf(DType type) { return tmaLineBytes / static_cast<int64_t>(byteWidth(type)); }

bool dividesInto(int64_t extent, int64_t shares, bool contiguousK) {
  int64_t atom = contiguousK ? 8 : 64;
  return extent % (shares * atom) == 0 && (!contiguousK || extent / shares <= 256);
}

TmaSide sideOf(const MatmulProblem &problem, unsigned side) {
  TmaSide operands;
  for (unsigned product = 0; product < (side == 0 ? 1 : problem.count()); ++product)
    operands.push_back(TmaOperand::of(problem, side, product));
  return operands;
}

static void writeTmaOperand(MatmulPrinter &printer, const TmaOperand &operand, const std::string &name,
                            int64_t fetchers) {
  SourceWriter &writer = printer.out();
  IndexNames names{{printer.names().begin(), printer.names().end()}, {}};
  writer.open("struct " + name);
  writer.line(Twine("static constexpr bool contiguousK = ") + (operand.matrix.contiguousK ? "true" : "false") +
              ", isFixed = " + (operand.matrix.isFixed ? "true" : "false") +
              ", isPermuted = " + (operand.isPermuted ? "true;" : "false;"));
  writer.line("static constexpr int rows = " + Twine(operand.rows) + ", depth = " + Twine(operand.depth) +
              ", batches = " + Twine(operand.batches) + ", fetchers = " + Twine(fetchers) + ";");
  writer.open("static __device__ __forceinline__ int batch(Index batch)");
  printer.writeBatchSplit();
  writer.line("return " + indexText(operand.batch, names) + ";");
  writer.close();
  writer.close(";");
  writer.line();
}

int64_t earlyBlocks(const Region &region, const TmaSide &side, DType type, int64_t blocks, const ir::Target &target) {
  constexpr uint64_t mostBytes = 16 << 20; // What the L2 has room for beside the kernel before.
  uint64_t bytes = 0;
  for (const TmaOperand &operand : side)
    bytes += operand.rows * operand.depth * operand.batches * byteWidth(type);
  // Four of 132 SMs fetch too slowly to be of use: 256 x 1024 x 1024 took 4.0 us a layer instead of 3.9. Twelve do:
  // five of it took 8.05 instead of 8.4.
  constexpr int64_t leastIdle = 8;
  const int64_t idle = target.multiprocessors - blocks;
  const bool pays = region.programmaticLaunch && side.front().matrix.isFixed && bytes <= mostBytes && idle >= leastIdle;
  return pays ? std::min(idle, blocks) : 0;
}

TmaArgument writeTmaSide(MatmulPrinter &printer, const TmaSide &side, const std::string &name, int64_t fetchers) {
  const std::string variable = StringRef(name).lower();
  TmaArgument argument;
  SmallVector<std::string, 2> structs, maps;
  for (const TmaOperand &operand : side) {
    const char *other = structs.empty() ? "" : "Other";
    structs.push_back(other + name);
    maps.push_back("{&" + variable + other + "Map}");
    writeTmaOperand(printer, operand, structs.back(), fetchers);
    argument.parameters += "const __grid_constant__ TensorMap " + variable + other + "Map, ";
  }
  argument.value = side.size() == 1 ? "Side<" + structs[0] + ">" + maps[0]
                                    : "TwoSides<" + llvm::join(structs, ", ") + ">{" + llvm::join(maps, ", ") + "}";
  return argument;
}

double shareReadAgain(const MatmulProblem &problem, const TileConfig &config, int64_t neighbours, double share) {
  constexpr double coupledShare = 0.35; // From an H200's sweeps (commit 5ebaf4c), which were not kept.
  const int64_t clusterM = config.valueOr("cluster_m", 1),
                further = ceilDiv(problem.M, config["m"] * clusterM * neighbours) - 1;
  const bool isCoupled = clusterM == 1 && config.valueOr("cluster_n", 1) > 1;
  return std::min<double>(1, static_cast<double>(further) * (isCoupled ? coupledShare : share));
}

double pastEdgeUs(const MatmulProblem &problem, const TileConfig &config, double kBlocks) {
  constexpr double rowsPerUs = 18e3; // From an H200's sweeps (commit 75f81ee), which were not kept.
  const int64_t m = config["m"], rows = llvm::alignTo(problem.M, m) - problem.M;
  const int64_t tilesAcross = ceilDiv(problem.N, config["n"]) * problem.batches;
  return static_cast<double>(rows * tilesAcross) * kBlocks / rowsPerUs;
}

std::vector<TensorMapRecipe> recipesOf(const TmaSide &side, DType type, int64_t tileRows, int64_t shares) {
  std::vector<TensorMapRecipe> recipes;
  for (const TmaOperand &operand : side)
    recipes.push_back(operand.recipe(type, tileRows / static_cast<int64_t>(side.size()) / shares));
  return recipes;
}

void writeProduct(SourceWriter &writer, DType rowsType, DType columnsType, int64_t columns, const TmaSide &rows,
                  const TmaSide &columnsSide) {
  writeWgmma(writer, {.name = "Product",
                      .rowsType = rowsType,
                      .columnsType = columnsType,
                      .columns = columns,
                      .areRowsTransposed = !rows.front().matrix.contiguousK,
                      .areColumnsTransposed = !columnsSide.front().matrix.contiguousK});
}

} // namespace kfuse::codegen::cuda
