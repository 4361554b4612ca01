// cuda.matmul_simt: matrix products with plain FMAs, for f32 and for operands computed on the way.
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/matmul/Templates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;

constexpr int64_t vector = 4; ///< Elements that move at once, of operands and outputs.
constexpr size_t mostCandidates = 40;
constexpr double fewFlops = 1e7; ///< Below this, 16-bit products do not miss the tensor cores.

int64_t threadsOf(const TileConfig &config) {
  return config["m"] / config["thread_m"] * (config["n"] / config["thread_n"]);
}

/// Two pairs of tiles; rows of k lie 4 floats apart.
int64_t sharedBytes(const TileConfig &config) { return 2 * config["k"] * (config["m"] + config["n"] + 8) * 4; }

int64_t registersOf(const TileConfig &config) {
  int64_t moved = (config["m"] + config["n"]) * config["k"] / threadsOf(config);
  return config["thread_m"] * config["thread_n"] + config["thread_m"] + config["thread_n"] + moved + 56;
}

int64_t blocksPerSm(const TileConfig &config, const ir::Target &target) {
  int64_t byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes(config) + 1024);
  return std::min({byShared, target.registersPerSm / (registersOf(config) * threadsOf(config)),
                   target.threadsPerSm / threadsOf(config)});
}

/// An operand as a function of (i, k) that gives four neighbours.
class ComputedOperand {
public:
  ComputedOperand(const MatmulProblem &problem, unsigned side)
      : problem(problem), value(problem.operand(side)), outerDim(side == 0 ? problem.dimM : problem.dimN),
        contiguousK(isContiguousAlongK()), chunk(problem.graph, contiguousK ? problem.dimK : outerDim, vector),
        loads(chunk.loadsOf({value})) {}

  void write(MatmulPrinter &printer, StringRef name) const {
    SourceWriter &writer = printer.out();
    StringRef outer = outerDim == problem.dimM ? "m" : "n";
    writer.open("struct " + name);
    writer.line(Twine("static constexpr bool contiguousK = ") + (contiguousK ? "true" : "false") + ";");
    for (unsigned input : inputs())
      writer.line("const " + storedType(problem.graph.graph.inputs[input].type) + " *in" + Twine(input) + ";");
    writer.open("__device__ __forceinline__ Vector<float, 4> operator()(Index batch, Index " + outer +
                ", Index k, int lanes) const");
    printer.writeBatchSplit();
    writer.open("struct");
    chunk.declare(writer, loads);
    writer.close(" x;");
    ValuePrinter scope(problem.graph, writer, printer.names());
    chunk.load(scope, loads, "x.");
    writer.line("Vector<float, 4> y;");
    writeLanes(writer, scope);
    writer.line("return y;");
    writer.close();
    writer.close(";");
    writer.line();
  }

  std::string construct(StringRef name) const {
    std::string arguments;
    for (unsigned input : inputs())
      arguments += (arguments.empty() ? "in" : ", in") + std::to_string(input);
    return (name + "{" + arguments + "}").str();
  }

private:
  bool isContiguousAlongK() const {
    ChunkPrinter alongK(problem.graph, problem.dimK, vector);
    double wasteK = 1, wasteOuter = 1;
    ChunkPrinter alongOuter(problem.graph, outerDim, vector);
    for (Scalar load : alongK.loadsOf({value})) {
      wasteK = std::max(wasteK, alongK.sectorWaste(problem.graph[load], 1));
      wasteOuter = std::max(wasteOuter, alongOuter.sectorWaste(problem.graph[load], 1));
    }
    return wasteK <= wasteOuter;
  }

  /// Lanes that do not exist are zero, whatever the operand computes from zeros.
  void writeLanes(SourceWriter &writer, const ValuePrinter &scope) const {
    chunk.lanes(
        scope, [](Scalar) { return "x."; },
        [&](ValuePrinter &lane) {
          std::string computed = lane.value(value);
          writer.line((chunk.isPartial() ? "y[j] = j < lanes ? " + computed + " : 0.0f;" : "y[j] = " + computed + ";"));
        });
  }

  std::vector<unsigned> inputs() const { return inputsRead(problem.graph, {value}); }

  const MatmulProblem &problem;
  Scalar value;
  unsigned outerDim;
  bool contiguousK;
  ChunkPrinter chunk;
  std::vector<Scalar> loads;
};

/// What the estimate knows beside matmulUs(), by hand (commit 4ec1027; no sweep was kept).
struct Coefficients {
  double mathShare = 0.85, perRead = 1.5; ///< The share reached of the nominal rate, and what reads cost of it.
  double inFlightBytes = 32e3;            ///< Bytes that a block keeps requested.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  double threadM = static_cast<double>(config["thread_m"]), threadN = static_cast<double>(config["thread_n"]);
  // A thread reads m + n values for m n products.
  double share = byHand.mathShare / (1 + byHand.perRead * (1 / threadM + 1 / threadN));
  MatmulCost cost;
  cost.tileM = static_cast<double>(config["m"]);
  cost.tileN = static_cast<double>(config["n"]);
  cost.splits = static_cast<double>(config["split_k"]);
  cost.flopsPerUsPerSm = target.f32FlopsPerUs * share / target.multiprocessors;
  cost.blocksPerSm = static_cast<double>(blocksPerSm(config, target));
  cost.elementBytes = 4;
  cost.inFlightBytes = byHand.inFlightBytes;
  return matmulUs(region, problem, cost, target);
}

class MatmulSimtTemplate : public MatmulVariant {
public:
  MatmulSimtTemplate() : MatmulVariant({4, mostCandidates, MultiplyUnit::Fma, RowCount::Any}) {}

  std::string_view name() const override { return "cuda.matmul_simt"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSimtTemplate::takes(const Region &region, const MatmulProblem &problem,
                                             const ir::Target &) const {
  if (problem.reducesRows)
    return ir::FusionDecision::no(holdsTiles);
  if (problem.count() > 1)
    return ir::FusionDecision::no("plain FMAs gain nothing from two products at once");
  double flops = 2.0 * static_cast<double>(problem.M * problem.N) * static_cast<double>(problem.K * problem.batches);
  // Dequantised weights are not written to memory for tensor cores: what these do not take comes here.
  const bool dequantises = llvm::any_of(
      region.graph.inputs, [](const ir::ScalarInput &input) { return smallInteger(input.type).has_value(); });
  if (region.mathType != DType::F32 && flops > fewFlops && !dequantises)
    return ir::FusionDecision::no("a large product of " + std::string(toString(region.mathType)) +
                                  " belongs on tensor cores");
  return printable(region);
}

std::vector<EstimatedConfig> MatmulSimtTemplate::space(const Region &region, const MatmulProblem &problem,
                                                       const ir::Target &target) const {
  struct Tile {
    int64_t m, n, k, threadM, threadN;
  };
  static constexpr Tile tiles[] = {{128, 128, 8, 8, 8}, {128, 128, 16, 8, 8}, {64, 128, 16, 8, 8}, {128, 64, 16, 8, 8},
                                   {64, 64, 16, 4, 4},  {64, 64, 16, 8, 4},   {32, 64, 32, 4, 4},  {16, 64, 32, 4, 4},
                                   {8, 128, 32, 4, 4},  {8, 64, 32, 4, 4}};
  std::vector<EstimatedConfig> ranked;
  for (const Tile &tile : tiles) {
    int64_t blocks = ceilDiv(problem.M, tile.m) * ceilDiv(problem.N, tile.n) * problem.batches,
            tilesK = ceilDiv(problem.K, tile.k);
    if ((tile.m >= 2 * problem.M && tile.m > 8) || (tile.n >= 2 * problem.N && tile.n > 64))
      continue;
    for (int64_t splits : {1, 2, 4, 8, 16})
      for (int64_t swizzle : {8, 1}) {
        bool isIdleSplit = splits > 1 && (blocks * splits > 4 * target.multiprocessors || tilesK < 2 * splits);
        bool sameSwizzle = swizzle > 1 && ceilDiv(problem.M, tile.m) == 1;
        TileConfig config{{"m", tile.m},
                          {"n", tile.n},
                          {"k", tile.k},
                          {"thread_m", tile.threadM},
                          {"thread_n", tile.threadN},
                          {"split_k", splits},
                          {"swizzle", swizzle}};
        if (!isIdleSplit && !sameSwizzle && blocksPerSm(config, target) >= 1)
          ranked.emplace_back(estimate(region, problem, config, target), config);
      }
  }
  return ranked;
}

Result<KernelPlan> MatmulSimtTemplate::print(const Region &region, const TileConfig &config,
                                             const ir::Target &target) const {
  MatmulProblem problem = *MatmulProblem::of(region);
  ComputedOperand a(problem, 0), b(problem, 1);
  MatmulPrinter printer(region, problem, config, target, vector);
  printer.writeHead("gemm_simt.cuh");
  printer.writeConfig(threadsOf(config), {"static constexpr int threadM = " + std::to_string(config["thread_m"]) +
                                          ", threadN = " + std::to_string(config["thread_n"]) + ";"});
  a.write(printer, "A");
  b.write(printer, "B");
  printer.writeEpilogue();
  printer.writeEntries([&](const std::string &epilogue) {
    printer.endBehindRun();
    return "gemmSimt<Config>(" + a.construct("A") + ", " + b.construct("B") + ", " + epilogue + ");";
  });
  return printer.plan(threadsOf(config), sharedBytes(config));
}

} // namespace

const MatmulVariant &matmulSimtTemplate() {
  static const MatmulSimtTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
