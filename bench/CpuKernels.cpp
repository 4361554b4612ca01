// kfuse_cpu_bench [matmul|skinny|pointwise|rows|attention[=NAME]]...: the CPU templates against OpenBLAS and against a
// copy. Every config of a region is compiled, checked against the reference evaluator and measured; the
// best is measured again, interleaved with its peer, since clocks drift. KFUSE_THREADS: all cores if unset.
#include "bench/Bench.h"
#include "bench/Cases.h"
#include "bench/OpenBlas.h"
#include "codegen/KernelTemplate.h"
#include "codegen/MakeRegion.h"
#include "ir/dialect/Kfuse.h"
#include "runtime/Device.h"
#include "tuner/check/GuardedBuffer.h"
#include "tuner/model/RegionOracle.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using namespace kfuse;
using bench::Case;
using codegen::Region;

constexpr std::size_t copyBytes = 256 << 20;
constexpr int rounds = 4, runsPerVisit = 7;

using bench::median;
using bench::succeed;
using bench::take;

struct Candidate {
  codegen::TileConfig config;
  std::unique_ptr<runtime::LoadedKernel> loaded;
  double us = 0, modelled = 0;
};

using Buffers = std::vector<std::unique_ptr<runtime::DeviceBuffer>>;

/// A copy of the first buffer to the second.
class CopyKernel final : public runtime::LoadedKernel {
public:
  explicit CopyKernel(runtime::Device &device) : device(device) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *) override {
    return device.copy(stream, buffers[1], buffers[0], copyBytes);
  }

private:
  runtime::Device &device;
};

/// A region with its buffers, tuned.
struct Subject {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Region region;
  Buffers owned;
  std::vector<void *> pointers;
  std::unique_ptr<runtime::DeviceBuffer> workspace;
  std::vector<Candidate> candidates; ///< The fastest first.
};

class Bench {
public:
  explicit Bench(int threads)
      : threads(threads), device(runtime::openCpu(threads)), copyFrom(take(device->allocate(copyBytes))),
        copyTo(take(device->allocate(copyBytes))) {
    context.loadDialect<ir::KfuseDialect, mlir::func::FuncDialect>();
    succeed(device->fill(copyFrom->data(), 1, copyBytes));
    std::printf("%s\n%s\n", device->sku().c_str(), bench::describeOpenBlas().c_str());
  }

  /// Our best against a copy of 256 MB.
  void memoryBound(const Case &given) {
    Subject subject = tuned(given);
    CopyKernel copy(*device);
    std::vector<void *> copyBuffers{copyFrom->data(), copyTo->data()};
    auto [ours, theirs] = interleaved(subject, copy, copyBuffers, true);
    double rate = (subject.region.bytesRead + subject.region.bytesWritten) / ours, copyRate = 2.0 * copyBytes / theirs;
    std::printf("  %-34s %9.0f us  %5.1f GB/s  copy %5.1f GB/s  %.0f %%\n", given.name.c_str(), ours, rate / 1e3,
                copyRate / 1e3, 100 * rate / copyRate);
  }

  /// Our best against OpenBLAS; in half precision against our own f32, whose time that run gave.
  void matmul(DType type, std::int64_t M, std::int64_t N, std::int64_t K, bool transposed) {
    Subject subject = tuned(bench::matmul(type, M, N, K, transposed));
    Subject wide;
    std::unique_ptr<runtime::LoadedKernel> peer;
    std::vector<void *> *peerBuffers = &subject.pointers;
    if (type == DType::F32) {
      peer = take(bench::makeOpenBlas(M, N, K, transposed, threads));
    } else {
      wide = tuned(bench::matmul(DType::F32, M, N, K, transposed), false);
      peer = std::move(wide.candidates.front().loaded);
      peerBuffers = &wide.pointers;
    }
    auto [ours, theirs] = interleaved(subject, *peer, *peerBuffers, M < 32);
    std::printf("  %-34s %9.0f us  %5.0f GFLOP/s  %s %9.0f us  %5.0f GFLOP/s  ratio %.2f\n",
                bench::matmul(type, M, N, K, transposed).name.c_str(), ours, subject.region.flops / ours / 1e3,
                type == DType::F32 ? "OpenBLAS" : "our f32 ", theirs, subject.region.flops / theirs / 1e3,
                theirs / ours);
  }

  /// One kernel against those of its parts, interleaved A B B A.
  void attention(const bench::AttentionCases &given) {
    Subject whole = tuned(given.whole);
    std::vector<Subject> parts;
    for (const Case &part : given.parts)
      parts.push_back(tuned(part, false));
    std::vector<double> ours, theirs;
    auto measureBest = [&](Subject &subject) {
      return measure(*subject.candidates.front().loaded, subject.pointers, &subject, false);
    };
    for (int visit = 0; visit < 2 * rounds; ++visit) {
      if (visit % 4 == 0 || visit % 4 == 3) {
        ours.push_back(measureBest(whole));
        continue;
      }
      theirs.push_back(0);
      for (Subject &part : parts)
        theirs.back() += measureBest(part);
    }
    const double us = median(std::move(ours)), partsUs = median(std::move(theirs));
    std::printf("  %-34s %9.0f us  %5.0f GFLOP/s  its parts %9.0f us  ratio %.2f\n", given.whole.name.c_str(), us,
                whole.region.flops / us / 1e3, partsUs, partsUs / us);
  }

private:
  /// Medians of the two, whose visits are interleaved.
  std::pair<double, double> interleaved(Subject &subject, runtime::LoadedKernel &peer, std::vector<void *> &peerBuffers,
                                        bool cold) {
    std::vector<double> ours, theirs;
    for (int visit = 0; visit < 2 * rounds; ++visit) {
      bool isOurs = visit % 4 == 0 || visit % 4 == 3; // A B B A
      (isOurs ? ours : theirs)
          .push_back(isOurs ? measure(*subject.candidates.front().loaded, subject.pointers, &subject, cold)
                            : measure(peer, peerBuffers, nullptr, cold));
    }
    return {median(std::move(ours)), median(std::move(theirs))};
  }

  double measure(runtime::LoadedKernel &kernel, std::span<void *const> buffers, Subject *subject, bool cold) {
    runtime::MeasureOptions options;
    options.repetitions = runsPerVisit;
    options.warmupMs = 100; // OpenBLAS's threads spin for tens of milliseconds after its last product.
    options.maxSeconds = 1;
    options.cold = cold;
    return median(take(device->measure(kernel, buffers, subject ? subject->workspace->data() : nullptr, options)));
  }

  Subject tuned(const Case &given, bool report = true) {
    Subject subject;
    subject.module = mlir::parseSourceString<mlir::ModuleOp>(given.text, &context);
    if (!subject.module)
      std::exit(1);
    mlir::Block &body = (*subject.module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
    subject.region = take(codegen::makeRegion(body));
    std::string reasons;
    const codegen::KernelTemplate *chosen = codegen::templateFor(subject.region, target, &reasons);
    if (!chosen) {
      std::fprintf(stderr, "%s: %s\n", given.name.c_str(), reasons.c_str());
      std::exit(1);
    }
    tuner::RegionOracle oracle(body);
    tuner::HostBuffers inputs = oracle.makeInputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ir::ScalarInput &input = subject.region.graph.inputs[i];
      const std::size_t bytes = static_cast<std::size_t>(elementCount(input.shape)) * byteWidth(input.type);
      void *memory = subject.owned.emplace_back(take(device->allocate(bytes)))->data();
      succeed(tuner::uploadRepeated(*device, memory, bytes, inputs[i]));
    }
    tuner::HostBuffers outputs;
    for (const ir::ScalarOutput &output : subject.region.graph.outputs) {
      outputs.emplace_back(static_cast<std::size_t>(elementCount(output.shape)) * byteWidth(output.type));
      subject.owned.push_back(take(device->allocate(outputs.back().size())));
    }
    for (auto &buffer : subject.owned)
      subject.pointers.push_back(buffer->data());

    for (const auto &[estimateUs, config] : chosen->estimated(subject.region, target)) {
      codegen::KernelPlan plan = take(chosen->emit(subject.region, config, target));
      if (!subject.workspace || subject.workspace->size() < plan.workspaceBytes)
        subject.workspace = take(device->allocate(plan.workspaceBytes));
      Candidate candidate{config, take(device->load(plan, take(compiler->compile(plan)))), 0, estimateUs};
      for (std::size_t i = 0; i < outputs.size(); ++i)
        succeed(device->fill(subject.pointers[inputs.size() + i], 0xff, outputs[i].size()));
      succeed(candidate.loaded->launch(nullptr, subject.pointers, subject.workspace->data()));
      for (std::size_t i = 0; i < outputs.size(); ++i)
        succeed(device->download(outputs[i].data(), subject.pointers[inputs.size() + i], outputs[i].size()));
      succeed(oracle.check(inputs, tuner::readFrom(outputs)));
      candidate.us = measure(*candidate.loaded, subject.pointers, &subject, false);
      subject.candidates.push_back(std::move(candidate));
    }
    std::sort(subject.candidates.begin(), subject.candidates.end(),
              [](const Candidate &a, const Candidate &b) { return a.us < b.us; });
    if (report)
      for (const Candidate &candidate : subject.candidates)
        std::printf("    %10.1f us (modelled %10.1f)  %s\n", candidate.us, candidate.modelled,
                    candidate.config.str().c_str());
    return subject;
  }

  int threads;
  const ir::Target &target = *ir::findTarget("cpu");
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  std::unique_ptr<runtime::DeviceBuffer> copyFrom, copyTo;
  mlir::MLIRContext context;
};

} // namespace

int main(int argc, char **argv) {
  using namespace kfuse::bench;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<std::string> parts(argv + 1, argv + argc);
  auto wanted = [&](const char *part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  const char *threads = std::getenv("KFUSE_THREADS");
  Bench bench(threads ? std::max(1, std::atoi(threads)) : static_cast<int>(std::thread::hardware_concurrency()));
  if (wanted("matmul"))
    for (std::int64_t size : {512, 1024, 2048})
      for (DType type : {DType::F32, DType::BF16, DType::F16})
        for (bool transposed : {false, true})
          bench.matmul(type, size, size, size, transposed);
  if (wanted("skinny"))
    for (std::int64_t M : {1, 4, 16})
      for (DType type : {DType::F32, DType::BF16})
        for (bool transposed : {false, true})
          bench.matmul(type, M, 4096, 4096, transposed);
  if (wanted("pointwise"))
    for (const Case &given :
         {op("add", "4096x8192", "f32", 2), op("add", "8192x8192", "bf16", 2), op("gelu", "8192x8192", "bf16", 1),
          op("gelu", "4096x8192", "f32", 1), op("silu", "4096x8192", "f32", 1), op("exp", "8192x8192", "f16", 1),
          transpose("4096", "8192", "f32")})
      bench.memoryBound(given);
  if (wanted("rows"))
    for (const Case &given : {op("softmax", "32768x1024", "f32", 1), op("softmax", "16384x4096", "bf16", 1),
                              norm("rms_norm", "16384", "4096", "bf16"), norm("rms_norm", "8192", "4096", "f32"),
                              norm("layer_norm", "16384", "4096", "bf16"), norm("layer_norm", "32768", "1024", "f32"),
                              norm("rms_norm", "65536", "1000", "bf16"), columnSum("16384", "4096", "f32")})
      bench.memoryBound(given);
  auto attentionOf = [&](std::int64_t rows, std::int64_t size, const std::string &type, bool isCausal) {
    const AttentionCases cases = attention(8, rows, size, type, isCausal);
    if (wanted("attention") || wanted(("attention=" + cases.whole.name).c_str()))
      bench.attention(cases);
  };
  for (std::int64_t rows : {512, 1024, 4096})
    for (std::int64_t size : {64, 128})
      for (const char *type : {"f32", "bf16"})
        for (bool isCausal : {false, true})
          attentionOf(rows, size, type, isCausal);
}
