#include "runtime/worker/RemoteCompiler.h"

#include "runtime/worker/Process.h"
#include "runtime/worker/Protocol.h"

#include <mutex>
#include <optional>
#include <utility>

namespace kfuse::runtime {
namespace worker {
namespace {

class RemoteCompiler final : public KernelCompiler {
public:
  RemoteCompiler(std::unique_ptr<KernelCompiler> here, std::span<const codegen::DeviceHeader> headers)
      : here(std::move(here)), headers(headers.begin(), headers.end()) {}

  std::string version() const override { return here->version(); }

  Result<CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    std::optional<Process> process = take();
    if (!process)
      return here->compile(plan);
    Json reply;
    (void)process->channel.send({{"plan", plan}}); // One that fails shows as a worker that ended, too.
    if (process->channel.receive(reply) != Channel::Outcome::Done)
      return Error{ErrorCode::Compile, "kernel '" + plan.name + "' does not compile for " + plan.target +
                                           ": the compiler ended with " + process->howItEnded()};
    giveBack(std::move(*process));
    if (reply.contains("error"))
      return reply["error"].get<Error>();
    auto kernel = reply["kernel"].get<CompiledKernel>();
    kernel.compileMs = reply["ms"], kernel.log = reply["log"], kernel.assembly = reply["assembly"];
    return kernel;
  }

private:
  /// An idle worker, or a new one; nothing where none starts.
  std::optional<Process> take() {
    {
      std::scoped_lock lock(mutex);
      if (!idle.empty()) {
        Process process = std::move(idle.back());
        idle.pop_back();
        return process;
      }
    }
    Result<Process> process = Process::start({"nvrtc", "0"});
    Json hello;
    if (!process || process->channel.send({{"headers", headers}}) != Channel::Outcome::Done ||
        process->channel.receive(hello) != Channel::Outcome::Done || hello.value("protocol", 0) != protocolVersion)
      return std::nullopt;
    return std::move(*process);
  }
  void giveBack(Process process) {
    std::scoped_lock lock(mutex);
    idle.push_back(std::move(process));
  }

  std::unique_ptr<KernelCompiler> here;
  std::vector<codegen::DeviceHeader> headers;
  std::mutex mutex;
  std::vector<Process> idle;
};

} // namespace
} // namespace worker

std::unique_ptr<KernelCompiler> makeRemoteCompiler(std::unique_ptr<KernelCompiler> here,
                                                   std::span<const codegen::DeviceHeader> headers) {
  return std::make_unique<worker::RemoteCompiler>(std::move(here), headers);
}

} // namespace kfuse::runtime
