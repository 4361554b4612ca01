// kfuse_gpu_bench [--most N] [--only CONFIG] [--without CONFIG] [--finalists N] [--chain N] [--json FILE]
// [matmul|skinny|epilogues[=NAME]|chains|memory[=TEXT]|short-rows[=TEXT]|MxNxK|FILE.mlir]...: the CUDA templates
// against cuBLASLt and against a device copy of the same bytes. Every config of a region is compiled and measured (the
// tuner's first N with --most, those whose text holds CONFIG with --only or lacks it with --without), the fastest 6 (or
// N with --finalists) again interleaved, and the best beside its peer, since clocks drift.
// --chain N also measures N calls of each config of a product, every one free to start before the one ahead has ended,
// as layers of a model are. memory=TEXT takes the memory-bound cases whose name holds TEXT; FILE.mlir is a region as
// one function, whose first argument alone is written between runs.
#include "bench/Bench.h"
#include "bench/Cases.h"
#include "bench/Sweep.h"
#include "bench/SweepReport.h"
#include "tools/kfuse/bench/CublasLt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace kfuse;
using namespace kfuse::bench;

/// A copy of `bytes` from the first buffer to the second.
class CopyKernel : public runtime::LoadedKernel {
public:
  CopyKernel(runtime::Device &device, std::size_t bytes) : device(device), bytes(bytes) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *) override {
    return device.copy(stream, buffers[1], buffers[0], bytes);
  }
  Buffers allocate() const {
    Buffers buffers;
    for (int i = 0; i < 2; ++i)
      buffers.tensors.push_back(take(device.allocate(bytes)));
    succeed(device.fill(buffers.tensors[0]->data(), 1, bytes));
    return buffers;
  }

private:
  runtime::Device &device;
  std::size_t bytes;
};

/// Our kernels against their peers.
class Bench {
public:
  explicit Bench(SweepOptions options) : sweep(std::move(options)) {
    std::printf("%s, %s\n", sweep.device().sku().c_str(), sweep.device().driver().c_str());
  }

  /// Interleaved with a copy that reads and writes as many bytes together.
  void memoryBound(const Case &given) {
    const ParsedRegion parsed = sweep.parse(given);
    const Swept ours = swept(given, parsed.region);
    const double bytes = parsed.region.bytesRead + parsed.region.bytesWritten;
    // The driver copies a number of bytes that is no multiple of 16 at four fifths of the rate of others.
    constexpr std::size_t granule = 4096;
    CopyKernel copy(sweep.device(), static_cast<std::size_t>(bytes / 2) / granule * granule);
    const Buffers copied = copy.allocate();
    const std::vector<double> medians =
        mediansInterleaved(4, {[&] { return sweep.measure(ours.best(), ours.buffers, 10); },
                               [&] { return sweep.measure(copy, copied, 10); }});
    const double us = medians[0];
    // Above 256 MB the driver copies some sizes at two thirds of the rate of others: those do not judge.
    const double copyUs = bytes >= 256e6 ? std::min(medians[1], bytes / copyRoof()) : medians[1];
    const double warmUs = sweep.measure(ours.best(), ours.buffers, 10, /*cold=*/false);
    const std::string config = ours.configs.front().config.str();
    std::printf("  %-38s %9.2f us  %.2f TB/s  a copy %.2f TB/s  %.1f %% of it, warm %.2f us  %s\n", given.name.c_str(),
                us, bytes / us / 1e6, bytes / copyUs / 1e6, 100 * copyUs / us, warmUs, config.c_str());
    std::fflush(stdout);
    found.addRow(llvm::json::Object{{"name", given.name},
                                    {"us", us},
                                    {"copy_us", copyUs},
                                    {"warm_us", warmUs},
                                    {"bytes", bytes},
                                    {"config", config},
                                    {"configs", static_cast<std::int64_t>(ours.configs.size())}});
  }

  struct Product {
    DType type;
    std::int64_t M, N, K;
  };
  /// Products of fixed weights; the next one is compiled while one is measured.
  void matmuls(const std::vector<Product> &products) {
    std::vector<std::pair<ParsedRegion, StartedSweep>> ready;
    auto start = [&](const Product &product) {
      ParsedRegion parsed = sweep.parse(caseOf(product));
      parsed.region.isFixed[1] = true;
      StartedSweep started = sweep.start(parsed.region);
      ready.emplace_back(std::move(parsed), std::move(started));
    };
    for (std::size_t i = 0; i < products.size(); ++i) {
      if (i == 0)
        start(products[0]);
      if (i + 1 < products.size())
        start(products[i + 1]);
      matmul(products[i], ready.front().first.region, std::move(ready.front().second));
      ready.erase(ready.begin());
    }
  }

  /// cuBLASLt's; one at least.
  static std::vector<std::unique_ptr<runtime::LoadedKernel>> peersOf(DType type, const tools::Products &products) {
    auto peers = take(tools::cublasLtAlgorithms(type, type, /*tf32=*/false, products));
    if (peers.empty())
      succeed(Error{ErrorCode::Usage, "cuBLASLt has no algorithm for a product of " + std::string(toString(type)) +
                                          "; take sizes that 16 divides"});
    return peers;
  }

  void matmul(const Product &product, const codegen::Region &region, StartedSweep started) {
    const auto [type, M, N, K] = product;
    const Case given = caseOf(product);
    const Swept ours = sweep.finish(region, std::move(started));
    found.add(given, ours, sweep.options());
    auto peers = peersOf(type, {1, M, N, K});
    runtime::LoadedKernel *peer = peers.front().get();
    const std::vector<double> us = mediansInterleaved(4, {[&] { return sweep.measure(ours.best(), ours.buffers, 10); },
                                                          [&] { return sweep.measure(*peer, ours.buffers, 10); }});
    const double flops = region.flops;
    std::printf("  %-28s %8.2f us  %.0f TFLOP/s  cuBLASLt %8.2f us  %.0f TFLOP/s  ratio %.3f\n", given.name.c_str(),
                us[0], flops / us[0] / 1e6, us[1], flops / us[1] / 1e6, us[1] / us[0]);
  }

  /// A region without a peer.
  void region(const std::string &path) {
    const Case given = readCase(path);
    ParsedRegion parsed = sweep.parse(given);
    for (std::size_t i = 1; i < parsed.region.isFixed.size(); ++i)
      parsed.region.isFixed[i] = true;
    swept(given, parsed.region);
  }

  /// A product with an epilogue interleaved with the plain product of as many columns, ours and cuBLASLt's best.
  void epilogue(const std::string &name, std::int64_t M, std::int64_t N, std::int64_t K) {
    const std::int64_t columns = name == "swiglu" ? 2 * N : N;
    const ParsedRegion plainParsed = sweep.parse(bench::matmul(DType::BF16, M, columns, K, true));
    const Swept plain = sweep.run(plainParsed.region);
    const Case given = matmulWith(name, M, N, K);
    const ParsedRegion parsed = sweep.parse(given);
    const Swept ours = swept(given, parsed.region);
    auto peers = peersOf(DType::BF16, {1, M, columns, K});
    std::pair<double, runtime::LoadedKernel *> peer{INFINITY, nullptr};
    for (auto &one : peers)
      peer = std::min(peer, {sweep.measure(*one, plain.buffers, 5), one.get()});
    // Visits of some 10 ms: at its power limit the card changes its clocks within tens of milliseconds, and eight
    // visits of 60 ms differed by up to 7 % from the same kernels' turns before them.
    const std::vector<double> us =
        mediansInterleaved(32, {[&] { return sweep.measure(ours.best(), ours.buffers, 2); },
                                [&] { return sweep.measure(plain.best(), plain.buffers, 2); },
                                [&] { return sweep.measure(*peer.second, plain.buffers, 2); }});
    std::printf("  %-28s %8.2f us  plain %8.2f us, cuBLASLt %8.2f us: %.3f of the better\n", given.name.c_str(), us[0],
                us[1], us[2], us[0] / std::min(us[1], us[2]));
  }

  /// A chain of layers in one launch, weights cold and warm.
  void chain(const Case &given) {
    const ParsedRegion parsed = sweep.parse(given);
    const Swept ours = swept(given, parsed.region);
    for (std::size_t i = 0; i < std::min<std::size_t>(ours.configs.size(), 4); ++i)
      std::printf("    warm %8.2f us  %s\n", sweep.measure(*ours.configs[i].loaded, ours.buffers, 20, /*cold=*/false),
                  ours.configs[i].config.str().c_str());
  }

  void finish(const std::string &json) {
    found.summarise();
    if (!json.empty())
      found.writeJson(json, sweep.device());
  }

private:
  static Case caseOf(const Product &product) {
    return bench::matmul(product.type, product.M, product.N, product.K, /*transposed=*/true);
  }

  Swept swept(const Case &given, const codegen::Region &region) {
    Swept swept = sweep.run(region);
    found.add(given, swept, sweep.options());
    return swept;
  }

  /// Bytes per microsecond, read and written, of a copy of 256 MB; measured once.
  double copyRoof() {
    if (roof > 0)
      return roof;
    constexpr std::size_t bytes = 256 << 20;
    CopyKernel copy(sweep.device(), bytes);
    return roof = 2.0 * bytes / sweep.measure(copy, copy.allocate(), 20);
  }

  Sweep sweep;
  SweepReport found;
  double roof = 0; ///< What copyRoof() gives.
};

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> parts(argv + 1, argv + argc);
  std::vector<std::array<std::int64_t, 3>> shapes; // "4096x4096x4096"
  for (const std::string &part : parts)
    if (std::array<long, 3> s{}; std::sscanf(part.c_str(), "%ldx%ldx%ld", &s[0], &s[1], &s[2]) == 3)
      shapes.push_back({s[0], s[1], s[2]});
  auto takeOption = [&](std::string_view name) { return bench::takeOption(parts, name); };
  std::string most = takeOption("--most"), json = takeOption("--json"), only = takeOption("--only"),
              without = takeOption("--without"), chain = takeOption("--chain"), finalists = takeOption("--finalists");
  auto wanted = [&](const char *part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  auto wantedCase = [&](const std::string &suite, const Case &given) {
    return wanted(suite.c_str()) || std::any_of(parts.begin(), parts.end(), [&](const std::string &part) {
             return part.starts_with(suite + "=") &&
                    given.name.find(part.substr(suite.size() + 1)) != std::string::npos;
           });
  };
  SweepOptions options{{std::strtoull(most.c_str(), nullptr, 10), only, without}, std::atoi(chain.c_str())};
  if (!finalists.empty())
    options.finalists = std::strtoull(finalists.c_str(), nullptr, 10);
  Bench bench(options);
  std::vector<Bench::Product> products;
  for (auto [M, N, K] : shapes)
    products.push_back({DType::BF16, M, N, K});
  for (const std::string &part : parts)
    if (part.ends_with(".mlir"))
      bench.region(part);
  for (const Case &given : memoryBoundCases())
    if (wantedCase("memory", given))
      bench.memoryBound(given);
  for (const Case &given : shortRowCases())
    if (wantedCase("short-rows", given))
      bench.memoryBound(given);
  if (wanted("chains")) {
    bench.chain(layers(20, 1, 256, 1024, 1024));
    bench.chain(layers(20, 5, 256, 1024, 1024));
  }
  if (wanted("matmul"))
    products.insert(products.end(), {{DType::BF16, 4096, 4096, 4096},
                                     {DType::F16, 4096, 4096, 4096},
                                     {DType::BF16, 1024, 6144, 4096},
                                     {DType::BF16, 256, 1024, 1024},
                                     {DType::F32, 2048, 2048, 2048}});
  auto epilogue = [&](const std::string &name, std::int64_t M, std::int64_t N, std::int64_t K) {
    if (wanted("epilogues") || wanted(("epilogues=" + name).c_str()))
      bench.epilogue(name, M, N, K);
  };
  for (std::int64_t M : {2048, 4096, 8192}) {
    epilogue("bias_gelu", M, 16384, 4096);
    epilogue("residual", M, 4096, 16384);
    epilogue("swiglu", M, 14336, 4096);
  }
  if (wanted("skinny"))
    for (std::int64_t M : {1, 16, 64})
      products.push_back({DType::BF16, M, 4096, 4096});
  bench.matmuls(products);
  bench.finish(json);
}
