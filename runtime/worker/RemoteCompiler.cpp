#include "runtime/worker/RemoteCompiler.h"

#include "runtime/worker/Process.h"
#include "runtime/worker/Protocol.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

namespace kfuse::runtime {
namespace worker {
namespace {

class RemoteCompiler final : public KernelCompiler {
public:
  RemoteCompiler(std::unique_ptr<KernelCompiler> here, std::span<const codegen::DeviceHeader> headers,
                 std::chrono::seconds patience, std::stop_token stop)
      : here(std::move(here)), headers(headers.begin(), headers.end()), patience(patience), stop(std::move(stop)) {}

  std::string version() const override { return here->version(); }

  Result<CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    // One that waited may have been ended by anybody, the kernel for want of memory say: that is not the plan's doing.
    if (std::optional<Process> waited = takeIdle())
      if (std::optional<Result<CompiledKernel>> kernel = ask(*waited, plan))
        return std::move(*kernel);
    std::optional<Process> fresh = start();
    if (stop.stop_requested())
      return cancelled(plan);
    if (!fresh)
      return here->compile(plan);
    if (std::optional<Result<CompiledKernel>> kernel = ask(*fresh, plan))
      return std::move(*kernel);
    return failure(plan, "the compiler ended with " + fresh->howItEnded());
  }

private:
  static Error failure(const codegen::KernelPlan &plan, const std::string &why) {
    return {ErrorCode::Compile, "kernel '" + plan.name + "' does not compile for " + plan.target + ": " + why};
  }

  static Error cancelled(const codegen::KernelPlan &plan) {
    return {ErrorCode::Cancelled, "cancelled while kernel '" + plan.name + "' was compiled"};
  }

  /// The worker's answer, and the worker among the idle again; nothing where it ended or makes no sense.
  /// Another worker's answer where this one was stopped by a signal.
  std::optional<Result<CompiledKernel>> ask(Process &process, const codegen::KernelPlan &plan) {
    Json reply;
    const auto deadline = Channel::Clock::now() + patience;
    (void)process.channel.send({{"plan", plan}}, deadline); // One that fails shows as a worker that ended, too.
    const Channel::Outcome outcome = process.channel.receive(reply, deadline);
    if (outcome == Channel::Outcome::TooLate) {
      process.kill();
      return failure(plan, "the compiler took more than " + std::to_string(patience.count()) + " s and was ended");
    }
    if (outcome == Channel::Outcome::Cancelled) {
      process.kill();
      return cancelled(plan);
    }
    if (outcome == Channel::Outcome::Suspended) { // Whoever did that, it says nothing of the plan.
      process.kill();
      return compile(plan);
    }
    if (outcome != Channel::Outcome::Done)
      return std::nullopt;
    try {
      Result<CompiledKernel> kernel = readAnswer(reply);
      giveBack(std::move(process));
      return kernel;
    } catch (const Json::exception &) {
      process.kill();
      return std::nullopt;
    }
  }
  static Result<CompiledKernel> readAnswer(const Json &reply) {
    if (reply.contains("error"))
      return reply["error"].get<Error>();
    auto kernel = reply.at("kernel").get<CompiledKernel>();
    kernel.compileMs = reply.at("ms"), kernel.log = reply.at("log"), kernel.assembly = reply.at("assembly");
    return kernel;
  }

  std::optional<Process> takeIdle() {
    std::scoped_lock lock(mutex);
    if (idle.empty())
      return std::nullopt;
    Process process = std::move(idle.back());
    idle.pop_back();
    return process;
  }
  /// Nothing where none starts, or one with another NVRTC than `here`: binaries are known by its version.
  std::optional<Process> start() {
    constexpr std::chrono::seconds opening(60); // A worker that opens a device has as long.
    Result<Process> process = Process::start({"nvrtc", "0"}, stop);
    const auto deadline = Channel::Clock::now() + opening;
    Json hello;
    if (!process || process->channel.send({{"headers", headers}}, deadline) != Channel::Outcome::Done ||
        process->channel.receive(hello, deadline) != Channel::Outcome::Done ||
        hello.value("protocol", 0) != protocolVersion || hello.value("version", "") != here->version())
      return std::nullopt;
    return std::move(*process);
  }
  void giveBack(Process process) {
    std::scoped_lock lock(mutex);
    idle.push_back(std::move(process));
  }

  std::unique_ptr<KernelCompiler> here;
  std::vector<codegen::DeviceHeader> headers;
  const std::chrono::seconds patience;
  const std::stop_token stop;
  std::mutex mutex;
  std::vector<Process> idle;
};

} // namespace
} // namespace worker

std::unique_ptr<KernelCompiler> makeRemoteCompiler(std::unique_ptr<KernelCompiler> here,
                                                   std::span<const codegen::DeviceHeader> headers,
                                                   std::chrono::seconds patience, std::stop_token stop) {
  return std::make_unique<worker::RemoteCompiler>(std::move(here), headers, patience, std::move(stop));
}

} // namespace kfuse::runtime
