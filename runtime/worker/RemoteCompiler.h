// A compiler that lives in processes of its own, as many as compile at a time.
#pragma once

#include "runtime/Device.h"

#include <chrono>
#include <memory>
#include <span>
#include <stop_token>

namespace kfuse::runtime {

/// NVRTC in `kfuse-worker nvrtc 0`, one for each caller at a time, each with `headers`; workers start when they are
/// first needed and stay. NVRTC compiles with a lock: on 16 cores 32 kernels took 1.9 s with 16 threads of one process,
/// 0.75 s in 16 processes. Where no worker starts, `here` compiles, which also tells the version.
///
/// A compiler that crashes takes its worker along: Compile says how it ended. One that takes longer than `patience` for
/// a kernel is ended, which is Compile, too; kernels take 0.2 to 3 s. Once `stop` asks for it all kernels are Cancelled
/// within 50 ms.
std::unique_ptr<KernelCompiler> makeRemoteCompiler(std::unique_ptr<KernelCompiler> here,
                                                   std::span<const codegen::DeviceHeader> headers,
                                                   std::chrono::seconds patience = std::chrono::seconds(60),
                                                   std::stop_token stop = {});

} // namespace kfuse::runtime
