#include "runtime/worker/Server.h"

#include "runtime/Program.h"
#include "runtime/worker/Process.h"
#include "runtime/worker/Protocol.h"

#include <unistd.h>

#include <map>
#include <thread>
#include <tuple>

namespace kfuse::runtime::worker {
namespace {

Json answer(const Result<void> &result) { return result ? Json{{"value", nullptr}} : Json{{"error", result.error()}}; }

class Server {
public:
  Server(Device &device, Channel &channel, SharedMemory &memory) : device(device), channel(channel), memory(memory) {}

  void run() {
    for (Json request; channel.receive(request) == Channel::Outcome::Done;) {
      Json reply = (this->*calls.at(request["call"]))(request);
      if (!reply.is_null() && channel.send(reply) != Channel::Outcome::Done)
        return;
    }
  }

private:
  Json allocate(const Json &request) {
    Result<std::unique_ptr<DeviceBuffer>> buffer = device.allocate(request["bytes"]);
    if (!buffer)
      return answer(buffer.error());
    std::uint64_t address = toNumber((*buffer)->data());
    buffers[++lastId] = std::move(*buffer);
    return {{"value", {lastId, address}}};
  }
  Json free(const Json &request) {
    buffers.erase(request["id"].get<std::uint64_t>());
    return {};
  }
  Json upload(const Json &request) {
    return answer(device.upload(toAddress(request["at"]), memory.data(), request["bytes"]));
  }
  Json download(const Json &request) {
    return answer(device.download(memory.data(), toAddress(request["at"]), request["bytes"]));
  }
  Json fill(const Json &request) {
    return answer(device.fill(toAddress(request["at"]), request["value"].get<unsigned char>(), request["bytes"]));
  }
  Json digest(const Json &request) {
    Result<std::uint64_t> sum = device.digest(toAddress(request["at"]), request["bytes"]);
    return sum ? Json{{"value", *sum}} : answer(sum.error());
  }
  Json sumDifferences(const Json &request) {
    Result<bool> summed =
        device.sumDifferences(request["type"].get<DType>(), toAddress(request["found"]), toAddress(request["expected"]),
                              request["count"], toAddress(request["sums"]));
    return summed ? Json{{"value", *summed}} : answer(summed.error());
  }
  Json copy(const Json &request) {
    return answer(device.copy(nullptr, toAddress(request["to"]), toAddress(request["from"]), request["bytes"]));
  }
  Json synchronize(const Json &) { return answer(device.synchronize(nullptr)); }

  Json load(const Json &request) {
    Result<std::unique_ptr<LoadedKernel>> kernel =
        device.load(request["plan"].get<codegen::KernelPlan>(), request["kernel"].get<CompiledKernel>());
    if (!kernel)
      return answer(kernel.error());
    kernels[++lastId] = std::move(*kernel);
    return {{"value", lastId}};
  }
  Json unload(const Json &request) {
    kernels.erase(request["id"].get<std::uint64_t>());
    return {};
  }
  Json launch(const Json &request) {
    return answer(kernelOf(request).launch(nullptr, buffersOf(request), toAddress(request["workspace"])));
  }
  Json prepareMeasuring(const Json &) { return answer(device.prepareMeasuring()); }
  Json prepare(const Json &request) {
    Result<std::unique_ptr<TimedRuns>> runs =
        device.prepareRuns(kernelOf(request), buffersOf(request), toAddress(request["workspace"]),
                           request["options"].get<MeasureOptions>());
    return runs ? keep(std::move(*runs)) : answer(runs.error());
  }
  Json prepareProgram(const Json &request) {
    Result<Program> program = Program::deserialise(request["program"].get<std::vector<std::byte>>());
    if (!program)
      return answer(program.error());
    Result<std::unique_ptr<TimedRuns>> runs =
        device.prepareProgramRuns(*program, toAddresses(request["arguments"]), toAddresses(request["results"]));
    return runs ? keep(std::move(*runs)) : answer(runs.error());
  }
  Json forget(const Json &request) {
    prepared.erase(request["id"].get<std::uint64_t>());
    return {};
  }
  Json measure(const Json &request) {
    TimedRuns &runs = *prepared.at(request["id"].get<std::uint64_t>());
    Result<std::vector<double>> times = runs.measure(request["options"].get<MeasureOptions>());
    return times ? Json{{"value", *times}} : answer(times.error());
  }

  Json conditions(const Json &) {
    std::optional<Conditions> now = device.conditions();
    return {{"value", now ? Json(*now) : Json(nullptr)}};
  }

  LoadedKernel &kernelOf(const Json &request) { return *kernels.at(request["id"].get<std::uint64_t>()); }
  static std::vector<void *> toAddresses(const Json &numbers) {
    std::vector<void *> addresses;
    for (const Json &number : numbers)
      addresses.push_back(toAddress(number));
    return addresses;
  }
  static std::vector<void *> buffersOf(const Json &request) { return toAddresses(request["buffers"]); }
  Json keep(std::unique_ptr<TimedRuns> runs) {
    prepared[++lastId] = std::move(runs);
    return {{"value", lastId}};
  }

  using Call = Json (Server::*)(const Json &);
  const std::map<std::string, Call> calls{{"allocate", &Server::allocate},
                                          {"free", &Server::free},
                                          {"upload", &Server::upload},
                                          {"download", &Server::download},
                                          {"fill", &Server::fill},
                                          {"digest", &Server::digest},
                                          {"sumDifferences", &Server::sumDifferences},
                                          {"copy", &Server::copy},
                                          {"synchronize", &Server::synchronize},
                                          {"load", &Server::load},
                                          {"unload", &Server::unload},
                                          {"launch", &Server::launch},
                                          {"prepareMeasuring", &Server::prepareMeasuring},
                                          {"prepare", &Server::prepare},
                                          {"prepareProgram", &Server::prepareProgram},
                                          {"forget", &Server::forget},
                                          {"measure", &Server::measure},
                                          {"conditions", &Server::conditions}};

  Device &device;
  Channel &channel;
  SharedMemory &memory;
  std::map<std::uint64_t, std::unique_ptr<DeviceBuffer>> buffers;
  std::map<std::uint64_t, std::unique_ptr<LoadedKernel>> kernels;
  std::map<std::uint64_t, std::unique_ptr<TimedRuns>> prepared;
  std::uint64_t lastId = 0;
};

/// A kernel may run for ever. When the parent is gone there is nothing to stay for.
void endWithParent(const Channel &channel) {
  std::thread([&channel] {
    channel.waitForHangup();
    _exit(0);
  }).detach();
}

Json answerWith(const Result<CompiledKernel> &kernel) {
  if (!kernel)
    return {{"error", kernel.error()}};
  return {{"kernel", *kernel}, {"ms", kernel->compileMs}, {"log", kernel->log}, {"assembly", kernel->assembly}};
}

/// While the parent is still about to ask: the driver compiles what checks run, which takes a GPU up to 0.1 s. Errors
/// show again when it is asked for.
void prepareChecks(Device &device) {
  std::ignore = device.digest(nullptr, 0);
  std::ignore = device.sumDifferences(DType::F32, nullptr, nullptr, 0, nullptr);
}

} // namespace

int serveCompiler(
    const std::function<Result<std::unique_ptr<KernelCompiler>>(std::span<const codegen::DeviceHeader>)> &make) {
  Channel channel(socketDescriptor);
  endWithParent(channel);
  Json request;
  if (channel.receive(request) != Channel::Outcome::Done)
    _exit(0);
  auto compiler = make(request["headers"].get<std::vector<codegen::DeviceHeader>>());
  channel.send(compiler ? Json{{"protocol", protocolVersion}, {"version", (*compiler)->version()}}
                        : Json{{"error", compiler.error()}});
  while (compiler && channel.receive(request) == Channel::Outcome::Done)
    if (channel.send(answerWith((*compiler)->compile(request["plan"].get<codegen::KernelPlan>()))) !=
        Channel::Outcome::Done)
      break;
  _exit(compiler ? 0 : static_cast<int>(compiler.error().code)); // The watching thread still refers to the channel.
}

int serve(const std::function<Result<std::unique_ptr<Device>>()> &open) {
  Channel channel(socketDescriptor);
  endWithParent(channel);
  Result<SharedMemory> memory = SharedMemory::map(memoryDescriptor);
  Result<std::unique_ptr<Device>> device = memory ? open() : memory.error();
  channel.send(device ? Json{{"protocol", protocolVersion}} : answer(device.error()));
  if (device) {
    prepareChecks(**device);
    Server(**device, channel, *memory).run();
  }
  _exit(device ? 0 : static_cast<int>(device.error().code)); // The watching thread still refers to the channel.
}

} // namespace kfuse::runtime::worker
