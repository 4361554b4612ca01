// The ceilings of a device: measured once, then kept in the store.
#pragma once

#include "ir/Target.h"
#include "runtime/Device.h"
#include "tuner/peaks/DeviceLock.h"
#include "tuner/record/Roofline.h"
#include "tuner/store/Store.h"

namespace kfuse::tuner {

/// The stored peaks of the device, else nominal ones: nothing is measured or stored.
Peaks knownPeaks(Store &store, const ir::Target &target, const runtime::Device *device);

/// The stored peaks of the device; else they are measured and stored (0.3 s on a CPU, 2 s on a GPU).
/// Nominal ones where `device` is null, or where measuring fails, with a line to `warn` (none where it was cancelled).
/// `cpuThreads` 0 stands for one per core; `compiler` compiles for `target`.
Peaks findPeaks(Store &store, const ir::Target &target, runtime::Device *device, runtime::KernelCompiler &compiler,
                int cpuThreads, const Store::Warn &warn, LockPatience &patience);

/// Bandwidths over arrays of several times the last-level cache, rates from independent chains of
/// multiply-adds in registers. They time plain C++ on `threads` threads, not a kernel of ours. The half
/// rates are the f32 ones: kfuse widens halves on the CPU.
Peaks measureCpuPeaks(int threads, const Peaks &nominal);

/// Times small kernels on the device. The half rate comes from the matrix instruction of the target:
/// mma.sync, or wgmma on sm_90a; where kfuse knows no probe for it (sm_100a, sm_103a) it stays nominal.
Result<Peaks> measureCudaPeaks(runtime::Device &device, runtime::KernelCompiler &compiler, const ir::Target &target);

} // namespace kfuse::tuner
