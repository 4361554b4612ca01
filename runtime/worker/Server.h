// The worker's side: does on its device, or with its compiler, what the parent asks.
#pragma once

#include "runtime/Device.h"

#include <functional>

namespace kfuse::runtime::worker {

/// Opens the device and serves it over the inherited descriptors until the parent is gone; the exit status.
int serve(const std::function<Result<std::unique_ptr<Device>>()> &open);

/// The same of a compiler, for kernels that include the headers which the parent sends first.
int serveCompiler(
    const std::function<Result<std::unique_ptr<KernelCompiler>>(std::span<const codegen::DeviceHeader>)> &make);

} // namespace kfuse::runtime::worker
