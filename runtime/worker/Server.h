// The worker's side: does on its device what the parent asks.
#pragma once

#include "runtime/Device.h"

#include <functional>

namespace kfuse::runtime::worker {

/// Opens the device and serves it over the inherited descriptors until the parent is gone; the exit status.
int serve(const std::function<Result<std::unique_ptr<Device>>()> &open);

} // namespace kfuse::runtime::worker
