// The GPU under test, with the little that its tests share.
#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/PrimaryContext.h"

#include <doctest/doctest.h>

#include <vector>

namespace kfuse::test {

/// The value, or a failed test case that prints the error.
template <class T> T take(Result<T> result) {
  REQUIRE_MESSAGE(result, result.error().message);
  return std::move(*result);
}

inline void succeed(const Result<void> &result) { REQUIRE_MESSAGE(result, result.error().message); }

struct Gpu {
  std::unique_ptr<runtime::Device> device = take(runtime::openCuda());
  std::unique_ptr<runtime::KernelCompiler> compiler = take(runtime::makeCudaCompiler());
  const runtime::cuda::DriverApi &api = *take(runtime::cuda::DriverApi::get());
  runtime::cuda::ContextRef context = take(runtime::cuda::PrimaryContext::retain(api, 0));

  /// Clusters, tensor maps and dependent launches.
  bool isHopper() const { return take(runtime::listGpus()).front().capability >= 90; }

  std::unique_ptr<runtime::LoadedKernel> load(codegen::KernelPlan plan) {
    plan.target = device->target();
    return take(device->load(plan, take(compiler->compile(plan))));
  }

  /// The same program, compiled for this device.
  runtime::Program compile(runtime::Program program) {
    program.target = device->target();
    for (runtime::ProgramKernel &kernel : program.kernels) {
      kernel.plan.target = program.target;
      kernel.binary = take(compiler->compile(kernel.plan));
    }
    return program;
  }

  runtime::cuda::StreamHandle stream() { return take(runtime::cuda::makeStream(context)); }
  void synchronize(runtime::Stream stream = nullptr) { succeed(device->synchronize(stream)); }
};

/// Floats on the GPU.
class GpuArray {
public:
  GpuArray(Gpu &gpu, const std::vector<float> &values) : gpu(gpu), count(values.size()) {
    memory = take(gpu.device->allocate(count * sizeof(float)));
    succeed(gpu.device->upload(data(), values.data(), count * sizeof(float)));
  }
  /// NaN everywhere.
  GpuArray(Gpu &gpu, std::size_t count) : gpu(gpu), count(count) {
    memory = take(gpu.device->allocate(count * sizeof(float)));
    succeed(gpu.device->fill(data(), 0xff, count * sizeof(float)));
  }

  void *data() const { return memory->data(); }
  std::vector<float> read() const {
    std::vector<float> values(count);
    succeed(gpu.device->download(values.data(), data(), count * sizeof(float)));
    return values;
  }

private:
  Gpu &gpu;
  std::size_t count;
  std::unique_ptr<runtime::DeviceBuffer> memory;
};

} // namespace kfuse::test
