// kfuse bench gemm: tuned products, plain and batched, beside cuBLASLt, every algorithm it offers tried.
#include "tools/kfuse/bench/Bench.h"
#include "tools/kfuse/bench/GemmComparison.h"
#include "tools/kfuse/bench/GemmReport.h"
#include "tools/kfuse/bench/GemmSweep.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/api/Driver.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace kfuse::tools {
namespace {

struct GemmOptions : ModelOptions {
  std::vector<std::string> products; ///< "MxNxK" or "BxMxNxK".
  std::vector<std::int64_t> rows;
  std::string type = "bf16";
};

/// Whether no other product can be measured after `error`, either.
bool endsAll(runtime::Device &device, const Error &error) {
  return error.code == ErrorCode::NoDevice || error.code == ErrorCode::Crash || error.code == ErrorCode::Cancelled ||
         !device.synchronize(nullptr);
}

int benchGemm(const GemmOptions &options) {
  Result<std::vector<Product>> wanted = sweptProducts(options.products, options.rows);
  if (!wanted)
    return fail(wanted.error());
  Result<tuner::Workbench> bench =
      tuner::openWorkbench(tuner::workbenchOptions(options.compilation(), options.stop, warn));
  if (!bench)
    return fail(bench.error());
  if (!bench->device || bench->target->isCpu())
    return fail({ErrorCode::NoDevice, "bench gemm needs a CUDA device, found none; see kfuse targets"});
  Result<std::unique_ptr<runtime::Device>> device = bench->openHere();
  if (!device)
    return fail(device.error());
  const bool showsProgress = options.showsProgress();
  tuner::TuneOptions tuning = tuner::tuneOptions(options.compilation());
  if (showsProgress)
    tuning.progress = showProgress;
  GemmComparison gemm(*bench, **device, std::move(tuning), options.type);
  auto compare = [&, done = 0](const Product &product) mutable {
    if (showsProgress)
      fmt::print(stderr, "\r\033[K[{}/{}] {}", ++done, wanted->size(), product.str());
    return gemm.run(product);
  };
  const GemmReport report =
      GemmReport::of(*wanted, compare, [&](const Error &error) { return endsAll(**device, error); });
  clearProgress();
  fmt::print("{}",
             options.json ? report.json(bench->device->sku(), bench->device->driver(), options.type) : report.table());
  for (const auto &[product, error] : report.missing)
    if (error.code != ErrorCode::Cancelled)
      warn(fmt::format("{} was not measured: {}", product.str(), error.message));
  return report.status();
}

} // namespace

void addBenchGemm(CLI::App &bench, int &status) {
  CLI::App *gemm = bench.add_subcommand("gemm", "Matrix products x[M,K] w[N,K]^T beside cuBLASLt's best algorithm");
  auto options = std::make_shared<GemmOptions>();
  gemm->add_option("--shapes", options->products,
                   "Products: 4096x4096x4096 ..., batches of them: 16x1024x1024x1024;\nelse eight layers of "
                   "transformers and four batches");
  gemm->add_option("--rows", options->rows, "M of those layers; else 1 to 32768");
  gemm->add_option("--type", options->type, "Of the operands; products of 8-bit floats are stored as bf16")
      ->check(CLI::IsMember({"bf16", "f16", "tf32", "f32", "f8E4M3FN", "f8E5M2"}))
      ->capture_default_str();
  gemm->add_flag("--json", options->json, "One JSON object on stdout and nothing else there");
  options->addTuningTo(*gemm);
  gemm->footer("Both are interleaved, each call after the one before, on random operands that rotate past the L2\n"
               "(of tiny products the output says that they do not);\n"
               "the ratio is cuBLASLt's time over kfuse's, the median of 25 pairs. For a batch the peer is the\n"
               "better of one strided call and a call a product. Overlapped: kfuse's, when a call may start before\n"
               "the one ahead has ended, as in a model.\n"
               "Examples:\n  kfuse bench gemm --shapes 4096x4096x4096 8192x8192x8192\n"
               "  kfuse bench gemm --rows 1 16 --json");
  gemm->callback([options, &status] {
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return benchGemm(*options);
    });
  });
}

} // namespace kfuse::tools
