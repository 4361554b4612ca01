// kfuse_gpu_bench [--most N] [--only CONFIG] [--chain N] [--json FILE]
// [matmul|skinny|epilogues|chains|memory[=TEXT]|MxNxK|FILE.mlir]...: the CUDA templates against cuBLASLt and against a
// device copy of the same bytes. Every config of a region is compiled and measured (the tuner's first N with --most,
// those whose text holds CONFIG with --only); the best is measured again in turns with its rival, since clocks drift.
// --chain N also measures N calls of each config of a product, every one free to start before the one ahead has ended,
// as layers of a model are. memory=TEXT takes the memory-bound cases whose name holds TEXT; FILE.mlir is a region as
// one function, whose first argument alone is written between runs.
#include "bench/Bench.h"
#include "bench/Cases.h"
#include "codegen/Region.h"
#include "codegen/cuda/DeviceLibrary.h"
#include "codegen/cuda/Templates.h"
#include "ir/dialect/Kfuse.h"
#include "ir/reference/Tensor.h"
#include "runtime/Device.h"
#include "tools/kfuse/CublasLt.h"
#include "tuner/Candidates.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>

namespace {

using namespace kfuse;
using bench::Case;
using codegen::KernelPlan;
using codegen::Region;
using codegen::TileConfig;

using bench::median;
using bench::succeed;
using bench::take;

struct Candidate {
  TileConfig config;
  KernelPlan plan;
  Result<runtime::CompiledKernel> compiled = Error{};
  std::unique_ptr<runtime::LoadedKernel> loaded;
  double us = 0, modelled = 0;
  double chainedUs = 0; ///< Of a call in a chain of them.
  bool isFinal = true;  ///< Whether `us` is of runs in turns with others.
};

/// A copy of `bytes` from the first buffer to the second.
class CopyKernel : public runtime::LoadedKernel {
public:
  CopyKernel(runtime::Device &device, std::size_t bytes) : device(device), bytes(bytes) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *) override {
    return device.copy(stream, buffers[1], buffers[0], bytes);
  }

private:
  runtime::Device &device;
  std::size_t bytes;
};

/// Calls of a kernel on the same buffers, each of which may start before the one ahead has ended.
class ChainedCalls : public runtime::LoadedKernel {
public:
  ChainedCalls(runtime::LoadedKernel &kernel, int calls) : kernel(kernel), calls(calls) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *workspace) override {
    Result<void> launched = kernel.launch(stream, buffers, workspace);
    for (int i = 1; i < calls && launched; ++i)
      launched = kernel.launchBehind(stream, buffers, workspace);
    return launched;
  }

private:
  runtime::LoadedKernel &kernel;
  int calls;
};

class Bench {
public:
  Bench() : target(*ir::findTarget(device->target())) {
    context.loadDialect<ir::KfuseDialect, mlir::func::FuncDialect>();
    std::printf("%s, %s\n", device->sku().c_str(), device->driver().c_str());
  }

  /// In turns with a copy that reads and writes as many bytes together.
  void memoryBound(const Case &given) {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Region region = parse(given, module);
    std::vector<Candidate> candidates = tuned(region);
    report(given, candidates);
    double bytes = region.bytesRead + region.bytesWritten;
    const auto half = static_cast<std::size_t>(bytes / 2);
    CopyKernel copy(*device, half);
    auto from = take(device->allocate(half)), to = take(device->allocate(half));
    succeed(device->fill(from->data(), 1, half));
    std::array<void *, 2> copied{from->data(), to->data()};
    std::vector<double> ours, theirs;
    for (int round = 0; round < 4; ++round)
      for (bool first : {true, false})
        ((round + first) % 2 ? ours : theirs)
            .push_back((round + first) % 2 ? measure(*candidates.front().loaded, buffers, workspace->data(), 10)
                                           : measure(copy, copied, nullptr, 10));
    double us = median(ours), copyUs = median(theirs);
    // Above 256 MB the driver copies some sizes at two thirds of the rate of others: those do not judge.
    if (bytes >= 256e6)
      copyUs = std::min(copyUs, bytes / copyRoof());
    const double warmUs = measure(*candidates.front().loaded, buffers, workspace->data(), 10, /*cold=*/false);
    std::printf("  %-38s %9.2f us  %.2f TB/s  a copy %.2f TB/s  %.1f %% of it, warm %.2f us  %s\n", given.name.c_str(),
                us, bytes / us / 1e6, bytes / copyUs / 1e6, 100 * copyUs / us, warmUs,
                candidates.front().config.str().c_str());
    std::fflush(stdout);
    rows.push_back(llvm::json::Object{{"name", given.name},
                                      {"us", us},
                                      {"copy_us", copyUs},
                                      {"warm_us", warmUs},
                                      {"bytes", bytes},
                                      {"config", candidates.front().config.str()},
                                      {"configs", static_cast<std::int64_t>(candidates.size())}});
  }

  /// Bytes per microsecond, read and written, of a copy of 256 MB; measured once.
  double copyRoof() {
    if (roof > 0)
      return roof;
    constexpr std::size_t bytes = 256 << 20;
    CopyKernel copy(*device, bytes);
    auto from = take(device->allocate(bytes)), to = take(device->allocate(bytes));
    succeed(device->fill(from->data(), 1, bytes));
    std::array<void *, 2> copied{from->data(), to->data()};
    return roof = 2.0 * bytes / measure(copy, copied, nullptr, 20);
  }

  /// Measures only the first `most` configs of a region whose text holds `part`.
  void limitConfigs(std::size_t most, std::string part) { mostConfigs = most, only = std::move(part); }
  void chain(int calls) { chained = calls; }
  void writeJson(const std::string &path) {
    std::error_code error;
    llvm::raw_fd_ostream file(path, error);
    if (error)
      succeed(Error{ErrorCode::Usage, "cannot write " + path + ": " + error.message()});
    file << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{{"device", device->sku()},
                                                                          {"driver", device->driver()},
                                                                          {"memory_bound", std::move(rows)}}));
  }

  void matmul(DType type, std::int64_t M, std::int64_t N, std::int64_t K) {
    Case given = bench::matmul(type, M, N, K, true);
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Region region = parse(given, module);
    region.isFixed[1] = true; // Weights.
    std::vector<Candidate> candidates = tuned(region);
    report(given, candidates);
    auto rival = std::move(take(tools::cublasLtAlgorithms(type, type, /*tf32=*/false, {1, M, N, K})).front());
    std::vector<double> ours, theirs;
    for (int round = 0; round < 4; ++round)
      for (bool first : {true, false})
        ((round + first) % 2 ? ours : theirs)
            .push_back((round + first) % 2 ? measure(*candidates.front().loaded, buffers, workspace->data(), 10)
                                           : measure(*rival, buffers, workspace->data(), 10));
    double flops = region.flops;
    std::printf("  %-28s %8.2f us  %.0f TFLOP/s  cuBLASLt %8.2f us  %.0f TFLOP/s  ratio %.3f\n", given.name.c_str(),
                median(ours), flops / median(ours) / 1e6, median(theirs), flops / median(theirs) / 1e6,
                median(theirs) / median(ours));
  }

  /// A region without a rival.
  void region(const std::string &path) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFile(path);
    if (!file)
      succeed(Error{ErrorCode::Io, path + ": " + file.getError().message()});
    Case given{path, (*file)->getBuffer().str()};
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Region region = parse(given, module);
    for (std::size_t i = 1; i < region.isFixed.size(); ++i)
      region.isFixed[i] = true;
    report(given, tuned(region));
  }

  /// A product with an epilogue in turns with the plain product of as many columns, ours and cuBLASLt's best.
  void epilogue(const std::string &name, std::int64_t M, std::int64_t N, std::int64_t K) {
    const std::int64_t columns = name == "swiglu" ? 2 * N : N;
    mlir::OwningOpRef<mlir::ModuleOp> plainModule, module;
    std::vector<Candidate> plain = tuned(parse(bench::matmul(DType::BF16, M, columns, K, true), plainModule));
    const auto plainOwned = std::move(owned);
    const std::vector<void *> plainBuffers = buffers;
    Case given = bench::matmulWith(name, M, N, K);
    std::vector<Candidate> candidates = tuned(parse(given, module));
    report(given, candidates);
    auto rivals = take(tools::cublasLtAlgorithms(DType::BF16, DType::BF16, /*tf32=*/false, {1, M, columns, K}));
    std::map<double, runtime::LoadedKernel *> rivalTimes;
    for (auto &rival : rivals)
      rivalTimes.emplace(measure(*rival, plainBuffers, workspace->data(), 5), rival.get());
    std::array<std::vector<double>, 3> us;
    for (int round = 0; round < 8; ++round)
      for (int turn = 0; turn < 3; ++turn) {
        const int which = round % 2 ? 2 - turn : turn;
        us[which].push_back(which == 0   ? measure(*candidates.front().loaded, buffers, workspace->data(), 10)
                            : which == 1 ? measure(*plain.front().loaded, plainBuffers, workspace->data(), 10)
                                         : measure(*rivalTimes.begin()->second, plainBuffers, workspace->data(), 10));
      }
    const double ours = median(us[0]), ourPlain = median(us[1]), rival = median(us[2]);
    std::printf("  %-28s %8.2f us  plain %8.2f us, cuBLASLt %8.2f us: %.3f of the better\n", given.name.c_str(), ours,
                ourPlain, rival, ours / std::min(ourPlain, rival));
  }

  /// A chain of layers in one launch, weights cold and warm.
  void chain(const Case &given) {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::vector<Candidate> candidates = tuned(parse(given, module));
    report(given, candidates);
    for (std::size_t i = 0; i < std::min<std::size_t>(candidates.size(), 4); ++i)
      std::printf("    warm %8.2f us  %s\n",
                  measure(*candidates[i].loaded, buffers, workspace->data(), 20, /*cold=*/false),
                  candidates[i].config.str().c_str());
  }

  /// How near the tuner's first candidates come to the best of all, and what a compilation takes.
  void summarise() const {
    if (ranking.empty())
      return;
    auto mean = [&](double Ranking::*share) {
      double logs = 0;
      for (const Ranking &one : ranking)
        logs += std::log(one.*share);
      return 100 * std::exp(logs / static_cast<double>(ranking.size()));
    };
    std::printf(
        "%zu kernels: of the best of all configs the first reaches %.1f %%, the best of 8 %.1f %%, of 40 %.1f %% "
        "(geometric means); a compilation takes %.0f ms (median)\n",
        ranking.size(), mean(&Ranking::first), mean(&Ranking::eight), mean(&Ranking::forty), median(compileMs));
  }

private:
  /// Best time of all configs over the best time of the first few.
  struct Ranking {
    std::size_t configs;
    double first, eight, forty;
  };

  Region parse(const Case &given, mlir::OwningOpRef<mlir::ModuleOp> &module) {
    module = mlir::parseSourceString<mlir::ModuleOp>(given.text, &context);
    if (!module)
      std::exit(1);
    return take(codegen::makeRegion((*module->getOps<mlir::func::FuncOp>().begin()).getBody().front()));
  }

  double measure(runtime::LoadedKernel &kernel, std::span<void *const> arguments, void *scratch, int repetitions,
                 bool cold = true) {
    runtime::MeasureOptions options;
    options.cold = cold;
    options.repetitions = repetitions;
    options.maxSeconds = 0.3;
    Result<std::vector<double>> samples = device->measure(kernel, arguments, scratch, options);
    if (!samples)
      std::fprintf(stderr, "%s: ", what.c_str());
    return median(take(std::move(samples)));
  }

  /// Uniform floats, small integers; outputs uninitialised.
  void allocateBuffers(const Region &region, std::size_t workspaceBytes) {
    owned.clear();
    buffers.clear();
    std::uint64_t seed = 0;
    for (const ir::ScalarInput &input : region.graph.inputs) {
      // Random numbers for 2^24 elements, again and again: making them takes longer than measuring.
      std::int64_t elements = elementCount(input.shape);
      Shape piece{std::min<std::int64_t>(elements, 1 << 24)};
      auto tensor = isFloat(input.type) ? reference::uniform(input.type, piece, ++seed)
                                        : reference::integers(input.type, piece, ++seed, 0, 65536);
      std::size_t size = static_cast<std::size_t>(elements) * byteWidth(input.type);
      owned.push_back(take(device->allocate(size)));
      for (std::size_t at = 0; at < size; at += tensor.bytes.size())
        succeed(device->upload(static_cast<std::byte *>(owned.back()->data()) + at, tensor.bytes.data(),
                               std::min(tensor.bytes.size(), size - at)));
    }
    for (const ir::ScalarOutput &output : region.graph.outputs)
      owned.push_back(
          take(device->allocate(static_cast<std::size_t>(elementCount(output.shape)) * byteWidth(output.type))));
    for (auto &buffer : owned)
      buffers.push_back(buffer->data());
    workspace = take(device->allocate(std::max(workspaceBytes, tools::cublasWorkspaceBytes)));
    succeed(device->fill(workspace->data(), 0, workspace->size()));
  }

  /// Every config, compiled and measured, in the order in which the tuner would try them.
  std::vector<Candidate> measured(const Region &region) {
    const codegen::KernelTemplate *chosen = nullptr;
    for (const codegen::KernelTemplate *candidate : codegen::cuda::templates())
      if (!chosen && candidate->match(region, target))
        chosen = candidate;
    if (!chosen)
      std::exit(1);
    tuner::TuningTask task;
    task.candidates = chosen->candidates(region, target);
    task.estimateUs = [&](const TileConfig &config) { return chosen->estimateUs(region, config, target); };
    task.wayOf = [&](const TileConfig &config) { return chosen->way(config); };
    task.emit = [&](const TileConfig &config) { return chosen->emit(region, config, target); };
    const tuner::Peaks peaks = tuner::nominalPeaks(target);
    tuner::CandidateQueue queue(task, target, peaks, compiler->version(), device->sku());
    std::vector<Candidate> all;
    std::size_t workspaceBytes = 0;
    while (std::optional<tuner::Candidate> next = queue.next()) {
      if (next->config.str().find(only) == std::string::npos)
        continue;
      Candidate &candidate = all.emplace_back();
      candidate.config = std::move(next->config);
      candidate.plan = std::move(next->plan);
      candidate.modelled = next->estimateUs;
      workspaceBytes = std::max<std::size_t>(workspaceBytes, candidate.plan.workspaceBytes);
      if (all.size() == mostConfigs)
        break;
    }
    compile(all);
    allocateBuffers(region, workspaceBytes);
    for (Candidate &candidate : all) {
      runtime::CompiledKernel binary = take(std::move(candidate.compiled));
      compileMs.push_back(binary.compileMs);
      candidate.loaded = take(device->load(candidate.plan, binary));
      what = candidate.config.str();
      candidate.us = measure(*candidate.loaded, buffers, workspace->data(), 5);
      if (chained > 0) {
        ChainedCalls calls(*candidate.loaded, chained);
        candidate.chainedUs = measure(calls, buffers, workspace->data(), 5, /*cold=*/false) / chained;
      }
    }
    return all;
  }

  /// Every config, the fastest first; notes how good the tuner's first picks are. Those and the fastest are
  /// measured again in turns: the card's clock falls while it works, so that the sweep favours what came early.
  std::vector<Candidate> tuned(const Region &region) {
    std::vector<Candidate> all = measured(region);
    std::set<std::size_t> again{0};
    for (std::size_t picks : {std::size_t(8), std::size_t(40), all.size()})
      for (std::size_t i : fastestOf(all, picks, picks == all.size() ? 6 : 2))
        again.insert(i);
    std::map<std::size_t, std::vector<double>> times;
    for (int round = 0; round < 6; ++round) {
      std::vector<std::size_t> order(again.begin(), again.end());
      if (round % 2)
        std::reverse(order.begin(), order.end());
      for (std::size_t i : order)
        times[i].push_back(measure(*all[i].loaded, buffers, workspace->data(), 3));
    }
    for (Candidate &candidate : all)
      candidate.isFinal = false;
    for (auto &[i, samples] : times)
      all[i].us = median(samples), all[i].isFinal = true;
    auto best = [&](std::size_t picks) {
      double us = INFINITY;
      for (std::size_t i = 0; i < std::min(picks, all.size()); ++i)
        us = all[i].isFinal ? std::min(us, all[i].us) : us;
      return us;
    };
    ranking.push_back(
        {all.size(), best(all.size()) / best(1), best(all.size()) / best(8), best(all.size()) / best(40)});
    std::sort(all.begin(), all.end(), isFaster);
    return all;
  }
  /// Indices of the `count` fastest of the first `picks`.
  static std::vector<std::size_t> fastestOf(const std::vector<Candidate> &all, std::size_t picks, std::size_t count) {
    std::vector<std::size_t> order(std::min(picks, all.size()));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all[a].us < all[b].us; });
    order.resize(std::min(count, order.size()));
    return order;
  }
  /// Those measured in turns first.
  static bool isFaster(const Candidate &a, const Candidate &b) {
    return std::pair(!a.isFinal, a.us) < std::pair(!b.isFinal, b.us);
  }

  void compile(std::vector<Candidate> &all) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < all.size(); i = next++)
          all[i].compiled = compiler->compile(all[i].plan);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  void report(const Case &given, const std::vector<Candidate> &candidates) {
    if (const char *path = std::getenv("KFUSE_BENCH_CSV"))
      if (std::FILE *file = std::fopen(path, "a")) { // For people who fit cost models.
        for (const Candidate &candidate : candidates)
          std::fprintf(file, "%s;%s;%.3f;%.3f;%.3f\n", given.name.c_str(), candidate.config.str().c_str(), candidate.us,
                       candidate.modelled, candidate.chainedUs);
        std::fclose(file);
      }
    const Ranking &last = ranking.back();
    std::printf("%s: %zu configs; the tuner's first reaches %.1f %% of the best, its first 8 %.1f %%, 40 %.1f %%\n",
                given.name.c_str(), last.configs, 100 * last.first, 100 * last.eight, 100 * last.forty);
    auto print = [&](const Candidate &candidate) {
      std::printf("    %8.2f us (modelled %8.2f)", candidate.us, candidate.modelled);
      if (chained > 0)
        std::printf(", %8.2f us in a chain", candidate.chainedUs);
      std::printf("  %s\n", candidate.config.str().c_str());
    };
    const std::size_t shown = std::min<std::size_t>(candidates.size(), 12);
    for (std::size_t i = 0; i < shown; ++i)
      print(candidates[i]);
    if (chained == 0)
      return;
    std::vector<const Candidate *> order;
    for (const Candidate &candidate : candidates)
      order.push_back(&candidate);
    std::sort(order.begin(), order.end(),
              [](const Candidate *a, const Candidate *b) { return a->chainedUs < b->chainedUs; });
    std::printf("  the fastest in a chain of %d:\n", chained);
    for (std::size_t i = 0; i < shown; ++i)
      print(*order[i]);
  }

  std::string only; ///< Part of the text of the configs to measure.
  std::string what; ///< Is being measured, for errors.
  std::unique_ptr<runtime::Device> device = take(runtime::openCuda());
  std::unique_ptr<runtime::KernelCompiler> compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  const ir::Target &target;
  mlir::MLIRContext context;
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<void *> buffers;
  std::unique_ptr<runtime::DeviceBuffer> workspace;
  std::size_t mostConfigs = 0; ///< 0: all.
  int chained = 0;             ///< Calls in a chain; 0: none is measured.
  double roof = 0;             ///< Of copyRoof().
  llvm::json::Array rows;
  std::vector<Ranking> ranking;
  std::vector<double> compileMs;
};

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> parts(argv + 1, argv + argc);
  std::vector<std::array<std::int64_t, 3>> shapes; // "4096x4096x4096"
  for (const std::string &part : parts)
    if (std::array<long, 3> s{}; std::sscanf(part.c_str(), "%ldx%ldx%ld", &s[0], &s[1], &s[2]) == 3)
      shapes.push_back({s[0], s[1], s[2]});
  auto takeOption = [&](const char *name) -> std::string {
    auto found = std::find(parts.begin(), parts.end(), name);
    if (found == parts.end() || found + 1 == parts.end())
      return "";
    std::string value = found[1];
    parts.erase(found, found + 2);
    return value;
  };
  std::string most = takeOption("--most"), json = takeOption("--json"), only = takeOption("--only"),
              chain = takeOption("--chain");
  auto wanted = [&](const char *part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  auto wantedCase = [&](const Case &given) {
    return wanted("memory") || std::any_of(parts.begin(), parts.end(), [&](const std::string &part) {
             return part.starts_with("memory=") && given.name.find(part.substr(7)) != std::string::npos;
           });
  };
  using namespace kfuse::bench;
  Bench bench;
  bench.limitConfigs(std::strtoull(most.c_str(), nullptr, 10), only);
  bench.chain(std::atoi(chain.c_str()));
  for (auto [M, N, K] : shapes)
    bench.matmul(DType::BF16, M, N, K);
  for (const std::string &part : parts)
    if (part.ends_with(".mlir"))
      bench.region(part);
  for (const Case &given : memoryBoundCases())
    if (wantedCase(given))
      bench.memoryBound(given);
  if (wanted("chains")) {
    bench.chain(layers(20, 1, 256, 1024, 1024));
    bench.chain(layers(20, 5, 256, 1024, 1024));
  }
  if (wanted("matmul")) {
    bench.matmul(DType::BF16, 4096, 4096, 4096);
    bench.matmul(DType::F16, 4096, 4096, 4096);
    bench.matmul(DType::BF16, 1024, 6144, 4096);
    bench.matmul(DType::BF16, 256, 1024, 1024);
    bench.matmul(DType::F32, 2048, 2048, 2048);
  }
  if (wanted("epilogues"))
    for (std::int64_t M : {2048, 4096, 8192}) {
      bench.epilogue("bias_gelu", M, 16384, 4096);
      bench.epilogue("residual", M, 4096, 16384);
      bench.epilogue("swiglu", M, 14336, 4096);
    }
  if (wanted("skinny"))
    for (std::int64_t M : {1, 16, 64})
      bench.matmul(DType::BF16, M, 4096, 4096);
  bench.summarise();
  if (!json.empty())
    bench.writeJson(json);
}
