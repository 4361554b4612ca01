#include "runtime/Device.h"

#include "runtime/Program.h"

#include <utility>

namespace kfuse::runtime {
namespace {

/// Where nothing can be kept from one measurement for the next.
class RepeatedRuns final : public TimedRuns {
public:
  RepeatedRuns(Device &device, LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
               const MeasureOptions &order)
      : device(device), kernel(kernel), buffers(buffers.begin(), buffers.end()), workspace(workspace),
        isCold(order.cold), programmaticLaunch(order.programmaticLaunch) {}

  Result<std::vector<double>> measure(const MeasureOptions &options) override {
    MeasureOptions inOrder = options;
    inOrder.cold = isCold;
    inOrder.programmaticLaunch = programmaticLaunch;
    return device.measure(kernel, buffers, workspace, inOrder);
  }

private:
  Device &device;
  LoadedKernel &kernel;
  std::vector<void *> buffers;
  void *workspace;
  bool isCold, programmaticLaunch;
};

class ProgramRuns final : public TimedRuns {
public:
  ProgramRuns(Device &device, Program program, std::span<void *const> arguments, std::span<void *const> results)
      : device(device), program(std::move(program)), arguments(arguments.begin(), arguments.end()),
        results(results.begin(), results.end()) {}

  Result<void> prepare() {
    Result<std::unique_ptr<Context>> made = makeContext(program, device);
    if (!made)
      return made.error();
    context = std::move(*made);
    return {};
  }
  Result<std::vector<double>> measure(const MeasureOptions &options) override {
    return device.measureRuns([this](Stream stream) { return context->run(stream, arguments, results); }, options);
  }

private:
  Device &device;
  const Program program;
  std::vector<void *> arguments, results;
  std::unique_ptr<Context> context; ///< The program's.
};

} // namespace

Result<void> Device::uploadAll(std::span<const Transfer> transfers) {
  for (const auto &[to, from] : transfers)
    if (Result<void> uploaded = upload(to, from.data(), from.size()); !uploaded)
      return uploaded;
  return {};
}

Result<void> Device::writeWord(Stream, void *, std::uint32_t) {
  return Error{ErrorCode::Usage, "a word is written by the device of the process that runs programs"};
}

Result<std::unique_ptr<TimedRuns>> Device::prepareProgramRuns(const Program &program, std::span<void *const> arguments,
                                                              std::span<void *const> results) {
  auto runs = std::make_unique<ProgramRuns>(*this, program, arguments, results);
  if (Result<void> prepared = runs->prepare(); !prepared)
    return prepared.error();
  return std::unique_ptr<TimedRuns>(std::move(runs));
}

Result<std::unique_ptr<TimedRuns>> Device::prepareRuns(LoadedKernel &kernel, std::span<void *const> buffers,
                                                       void *workspace, const MeasureOptions &options) {
  return std::unique_ptr<TimedRuns>(std::make_unique<RepeatedRuns>(*this, kernel, buffers, workspace, options));
}

/// FNV-1a (Fowler, Noll, Vo) over words instead of bytes.
Result<std::uint64_t> Device::digest(const void *device, std::size_t bytes) {
  std::vector<std::uint64_t> words((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (Result<void> read = download(words.data(), device, bytes); !read)
    return read.error();
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint64_t word : words)
    hash = (hash ^ word) * 0x100000001b3;
  return hash;
}

} // namespace kfuse::runtime
