// The device, compiler and store that a target's kernels are tuned with.
#pragma once

#include "tuner/peaks/Peaks.h"
#include "tuner/search/Tuner.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace kfuse::tuner {

struct WorkbenchOptions {
  std::string target = "auto";    ///< A target's or a card's name; auto: the first GPU, else the CPU.
  std::string store;              ///< Empty: Store::defaultPath().
  int threads = 0;                ///< The CPU device's, or those that compile for a GPU; 0: all cores.
  int device = 0;                 ///< CUDA ordinal.
  std::function<int()> measureOn; ///< The ordinal of a GPU like `device` to measure on, asked when there is something
                                  ///< to measure; none: `device`.
  bool requireTuned = false;      ///< The store is only read (Store::openToRead).
  StoreTrust trust = StoreTrust::Checked;
  std::stop_token stop{}; ///< Ends all waiting for workers and devices, and the contexts' tunings, with Cancelled.
  Store::Warn warn;       ///< Hears each line once.
};

struct Workbench {
  const ir::Target *target = nullptr;
  std::shared_ptr<const ir::Target> ownTarget; ///< Holds `target` where a device is here; null elsewhere.
  /// To measure on, in a worker process, which starts when it is needed; null where the target is not present.
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::KernelCompiler> compiler;
  std::unique_ptr<Store> store;
  Peaks peaks; ///< Those of the store, else the datasheet's; measured for the first context that measures.
  int threads = 0, ordinal = 0;                                              ///< As in the options.
  Store::Warn warn;                                                          ///< As in the options; may be null.
  std::stop_token stop{};                                                    ///< As in the options.
  std::shared_ptr<LockPatience> patience = std::make_shared<LockPatience>(); ///< Shared by all contexts.

  /// The device in this process, to run on; NoDevice where the target is not present.
  Result<std::unique_ptr<runtime::Device>> openHere() const;
  /// `threads` are those of the CPU device, or those that compile for a GPU.
  TuningContext context(TuneOptions options);
};

/// Usage for an unknown target (the message lists the known ones), NoDevice where NVRTC is missing,
/// Io for a store that is no kfuse store.
Result<Workbench> openWorkbench(const WorkbenchOptions &options);

/// The target that `name` stands for on this machine.
Result<const ir::Target *> resolveTarget(const std::string &name);

} // namespace kfuse::tuner
