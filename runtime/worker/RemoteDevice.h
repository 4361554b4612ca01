// A device that lives in a worker process: what a kernel does there cannot harm this one.
#pragma once

#include "runtime/Device.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace kfuse::runtime {

/// The device that `kfuse-worker ARGUMENTS` opens; the worker starts with the first call that needs it.
///
/// Every call has a deadline. Timeout when a kernel runs for longer than limitRuns() allows (60 s until it is
/// called), Crash when the worker ended by itself, or was stopped by a signal and left so for 2 s; then all calls fail
/// until restart(). Once `stop` asks for it every call is Cancelled within 50 ms, and the worker ended. Pointers are
/// the worker's and mean nothing here. Errors of the device come as they are there.
std::unique_ptr<Device> makeRemoteDevice(DeviceFacts facts, std::vector<std::string> arguments,
                                         std::stop_token stop = {});

/// Which of several equal devices a worker opens.
struct WorkerPlace {
  std::string id;                     ///< Device::id().
  std::vector<std::string> arguments; ///< The arguments of kfuse-worker.
};

/// The same on the device that `choose` names, which is asked once, when the first call has to know. All facts but the
/// id are those of any of them.
std::unique_ptr<Device> makeRemoteDevice(DeviceFacts facts, std::function<WorkerPlace()> choose,
                                         std::stop_token stop = {});

} // namespace kfuse::runtime
