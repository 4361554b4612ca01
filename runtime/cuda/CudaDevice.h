// A CUDA device through the driver API, in its primary context.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/CudaDifference.h"
#include "runtime/cuda/CudaDigest.h"
#include "runtime/cuda/CudaTimer.h"
#include "runtime/cuda/Nvml.h"
#include "runtime/cuda/PrimaryContext.h"

#include <optional>

namespace kfuse::runtime::cuda {

/// Facts of device `ordinal`, read without making a context.
Result<GpuFacts> gpuFacts(const DriverApi &api, int ordinal);

class CudaDevice final : public Device {
public:
  CudaDevice(ContextRef context, GpuFacts facts) : context(std::move(context)), facts(std::move(facts)) {}

  std::string sku() const override { return facts.name; }
  std::string driver() const override { return facts.driver; }
  std::string target() const override { return facts.target; }
  std::string id() const override { return facts.id; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override;
  Result<void> upload(void *device, const void *host, std::size_t bytes) override;
  Result<void> uploadAll(std::span<const Transfer> transfers) override;
  Result<void> download(void *host, const void *device, std::size_t bytes) override;
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override;
  Result<std::uint64_t> digest(const void *device, std::size_t bytes) override;
  Result<bool> sumDifferences(DType type, const void *found, const void *expected, std::size_t count,
                              void *sums) override;
  Result<void> copy(Stream stream, void *to, const void *from, std::size_t bytes) override;
  Result<void> writeWord(Stream stream, void *to, std::uint32_t word) override;
  Result<void> synchronize(Stream stream) override;
  Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) override;
  Result<std::unique_ptr<TimedRuns>> prepareRuns(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                                 const MeasureOptions &options) override;
  Result<std::vector<double>> measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                      const MeasureOptions &options) override;
  Result<std::vector<double>> measureRuns(const Enqueue &run, const MeasureOptions &options) override;
  Result<std::unique_ptr<Replay>> makeReplay() override;
  std::optional<Conditions> conditions() override;

private:
  Result<CudaTimer *> timerHere();

  ContextRef context;
  GpuFacts facts;
  std::optional<Nvml> nvml;                 ///< Opened by the first conditions(): 20 ms.
  std::optional<CudaTimer> timer;           ///< Made by the first measurement.
  std::optional<CudaDigest> sum;            ///< Made by the first digest().
  std::optional<CudaDifference> difference; ///< Made by the first sumDifferences(). Callers serialise all three.
};

} // namespace kfuse::runtime::cuda
