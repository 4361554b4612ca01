#include "tests/unit/tuner/GpuHere.h"

#include "tests/Skip.h"
#include "tuner/peaks/Peaks.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::tuner;

TEST_CASE("peaks: those of this CPU are plausible") {
  Peaks nominal = nominalPeaks(*ir::findTarget("cpu"));
  Peaks peaks = measureCpuPeaks(2, nominal);
  CHECK(peaks.measured);
  for (double bandwidth : {peaks.readBytesPerUs, peaks.writeBytesPerUs, peaks.copyBytesPerUs}) {
    CHECK(bandwidth > 0.5e3); // 0.5 GB/s, whatever runs beside.
    CHECK(bandwidth < 2e6);
  }
  CHECK(peaks.f32Burst > 1e3); // 1 GFLOP/s.
  CHECK(peaks.f32Burst < 1e6);
  CHECK(peaks.f32Sustained <= peaks.f32Burst);
  CHECK(peaks.launchUs == nominal.launchUs);
}

TEST_CASE("peaks: those of this GPU are plausible, and measured once") {
  const std::unique_ptr<test::GpuHere> gpu = test::GpuHere::find();
  if (!gpu)
    return kfuse::testing::skip("no GPU here");
  std::string warnings;
  auto find = [&] {
    LockPatience patience;
    return findPeaks(
        *gpu->store, gpu->target(), gpu->device.get(), *gpu->compiler, 0,
        [&](const std::string &line) { warnings += line; }, patience);
  };
  Peaks peaks = find();
  MESSAGE(gpu->device->sku() << ": read " << peaks.readBytesPerUs / 1e6 << ", write " << peaks.writeBytesPerUs / 1e6
                             << ", copy " << peaks.copyBytesPerUs / 1e6 << " TB/s; f32 " << peaks.f32Burst / 1e6
                             << " and " << peaks.f32Sustained / 1e6 << ", bf16 " << peaks.halfBurst / 1e6 << " and "
                             << peaks.halfSustained / 1e6 << " TFLOP/s; empty kernel " << peaks.launchUs << " us");
  CHECK(warnings.empty());
  CHECK(peaks.measured);
  Peaks nominal = nominalPeaks(gpu->target());
  for (double Peaks::*bandwidth : {&Peaks::readBytesPerUs, &Peaks::writeBytesPerUs, &Peaks::copyBytesPerUs}) {
    CHECK(peaks.*bandwidth > 0.4 * nominal.*bandwidth);
    CHECK(peaks.*bandwidth < 1.1 * nominal.*bandwidth);
  }
  CHECK(peaks.f32Burst > 0.5 * nominal.f32Burst);
  CHECK(peaks.f32Burst < 1.2 * nominal.f32Burst);
  CHECK(peaks.halfBurst > 0.5 * nominal.halfBurst);
  CHECK(peaks.halfBurst < 1.2 * nominal.halfBurst);
  CHECK(peaks.launchUs > 0.2);
  CHECK(peaks.launchUs < 20);
  CHECK(find() == peaks); // From the store, to the last bit.
}

TEST_CASE("peaks: without a device the datasheet's are used and nothing is stored") {
  test::TemporaryFolder folder;
  std::unique_ptr<Store> store = std::move(*Store::open(folder.path / "store.db", {}));
  const ir::Target &target = *ir::findTarget("sm_90a");
  struct NoCompiler : runtime::KernelCompiler {
    std::string version() const override { return "none"; }
    Result<runtime::CompiledKernel> compile(const codegen::KernelPlan &) override { return Error{}; }
  } compiler;
  LockPatience patience;
  CHECK(findPeaks(*store, target, nullptr, compiler, 0, {}, patience) == nominalPeaks(target));
  CHECK_FALSE(store->findPeaks(""));
}
