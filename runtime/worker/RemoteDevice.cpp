#include "runtime/worker/RemoteDevice.h"

#include "runtime/Program.h"
#include "runtime/worker/Process.h"
#include "runtime/worker/Protocol.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

namespace kfuse::runtime {
namespace worker {
namespace {

// The limit of calls that run no kernel; more than a busy machine needs.
constexpr double startSeconds = 60, callSeconds = 60;

/// Seconds of a run. One thread may start the worker while another already says how long runs may take.
using Limit = std::atomic<double>;

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", value);
  return text;
}

/// One life of the worker.
class Session {
public:
  /// Crash or Timeout when the worker ended or was ended before it said that the device is open.
  static Result<std::shared_ptr<Session>> start(const std::vector<std::string> &arguments,
                                                const std::stop_token &stop) {
    Result<Process> process = Process::start(arguments, stop);
    if (!process)
      return process.error();
    auto session = std::make_shared<Session>(std::move(*process));
    Json hello;
    if (Result<void> received = session->receive(hello, startSeconds, "starting"); !received)
      return received.error();
    if (hello.contains("error"))
      return hello["error"].get<Error>();
    if (int version = hello.value("protocol", 0); version != protocolVersion)
      return Error{ErrorCode::NoDevice, "kfuse-worker speaks protocol " + std::to_string(version) + ", expected " +
                                            std::to_string(protocolVersion) + "; install the one of this kfuse"};
    return session;
  }

  explicit Session(Process process) : process(std::move(process)) {}

  /// Asks and waits for the answer, of type T.
  template <class T> Result<T> call(const Json &request, double seconds) {
    std::scoped_lock lock(mutex);
    Json reply;
    if (Result<void> asked = exchange(request, reply, seconds); !asked)
      return asked.error();
    try {
      if (reply.contains("error"))
        return reply["error"].get<Error>();
      return reply.at("value").get<T>();
    } catch (const Json::exception &) {
      return fall(Error{ErrorCode::Crash, "the worker's answer to " + request["call"].get<std::string>() +
                                              " made no sense: its memory was overwritten"});
    }
  }

  /// For what has no answer. A worker that is gone has nothing left to free.
  void tell(const Json &request) {
    std::scoped_lock lock(mutex);
    if (!ended)
      (void)process.channel.send(request, deadline(callSeconds));
  }

  /// Bytes to or from the device, a piece of the shared memory at a time.
  template <class Move> Result<void> inPieces(std::size_t bytes, const Move &move) {
    std::scoped_lock lock(transfers);
    for (std::size_t at = 0; at < bytes; at += SharedMemory::bytes)
      if (Result<void> moved = move(process.memory.data(), at, std::min(bytes - at, SharedMemory::bytes)); !moved)
        return moved;
    return {};
  }

private:
  static Channel::Deadline deadline(double seconds) {
    return Channel::Clock::now() +
           std::chrono::duration_cast<Channel::Clock::duration>(std::chrono::duration<double>(seconds));
  }

  Result<void> exchange(const Json &request, Json &reply, double seconds) {
    if (ended)
      return *ended;
    // A send that fails shows as a worker that ended, too.
    (void)process.channel.send(request, deadline(seconds));
    return receive(reply, seconds, request["call"].get<std::string>());
  }

  Result<void> receive(Json &message, double limit, const std::string &call) {
    switch (process.channel.receive(message, deadline(limit))) {
    case Channel::Outcome::Done:
      return {};
    case Channel::Outcome::TooLate:
      return fall(Error{ErrorCode::Timeout, call + " took more than " + seconds(limit) + " and was ended"});
    case Channel::Outcome::Cancelled:
      return fall(Error{ErrorCode::Cancelled, "cancelled in " + call});
    case Channel::Outcome::Suspended:
      return fall(Error{ErrorCode::Crash, "the worker process was stopped by a signal in " + call + ", and ended"});
    case Channel::Outcome::Closed:
      break;
    }
    return fall(Error{ErrorCode::Crash, "the worker process ended with " + process.howItEnded() + " in " + call});
  }

  /// Ends the worker; `why` is the answer to all further calls.
  Error fall(Error why) {
    process.kill();
    ended = why;
    return why;
  }

  Process process;
  std::mutex mutex, transfers;
  std::optional<Error> ended;
};

/// Something that the worker holds, under its number, until this goes.
class Handle {
public:
  Handle(std::weak_ptr<Session> session, std::uint64_t id, const char *release)
      : session(std::move(session)), id(id), release(release) {}
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() {
    if (std::shared_ptr<Session> live = session.lock())
      live->tell({{"call", release}, {"id", id}});
  }

  template <class T> Result<T> call(const Json &request, double seconds) const {
    if (std::shared_ptr<Session> live = session.lock())
      return live->call<T>(request, seconds);
    return Error{ErrorCode::Internal,
                 request["call"].get<std::string>() + " was called for what was made before the device was restarted"};
  }

  const std::weak_ptr<Session> session;
  const std::uint64_t id;

private:
  const char *release;
};

class RemoteBuffer final : public DeviceBuffer {
public:
  RemoteBuffer(std::weak_ptr<Session> session, std::uint64_t id, void *address, std::size_t bytes)
      : handle(std::move(session), id, "free"), address(address), bytes(bytes) {}
  void *data() const override { return address; }
  std::size_t size() const override { return bytes; }

private:
  Handle handle;
  void *address;
  std::size_t bytes;
};

Json toNumbers(std::span<void *const> addresses) {
  Json numbers = Json::array();
  for (void *address : addresses)
    numbers.push_back(toNumber(address));
  return numbers;
}

Json kernelRequest(const char *call, std::uint64_t id, std::span<void *const> buffers, void *workspace) {
  return {{"call", call}, {"id", id}, {"buffers", toNumbers(buffers)}, {"workspace", toNumber(workspace)}};
}

class RemoteRuns final : public TimedRuns {
public:
  RemoteRuns(std::weak_ptr<Session> session, std::uint64_t id, std::shared_ptr<const Limit> limit)
      : handle(std::move(session), id, "forget"), limit(std::move(limit)) {}

  Result<std::vector<double>> measure(const MeasureOptions &options) override {
    // Warm-up and sampling each end with the run they are in.
    const double most = options.warmupMs * 1e-3 + options.maxSeconds + 3 * *limit;
    return handle.call<std::vector<double>>({{"call", "measure"}, {"id", handle.id}, {"options", options}}, most);
  }

private:
  Handle handle;
  std::shared_ptr<const Limit> limit; ///< The device's, which may change it.
};

class RemoteKernel final : public LoadedKernel {
public:
  RemoteKernel(std::weak_ptr<Session> session, std::uint64_t id, std::shared_ptr<const Limit> limit)
      : handle(std::move(session), id, "unload"), limit(std::move(limit)) {}

  Result<void> launch(Stream, std::span<void *const> buffers, void *workspace) override {
    Result<Json> done = handle.call<Json>(kernelRequest("launch", handle.id, buffers, workspace), *limit);
    return done ? Result<void>() : done.error();
  }
  Result<std::unique_ptr<TimedRuns>> prepareRuns(std::span<void *const> buffers, void *workspace,
                                                 const MeasureOptions &options) {
    Json request = kernelRequest("prepare", handle.id, buffers, workspace);
    request["options"] = options;
    Result<std::uint64_t> runs = handle.call<std::uint64_t>(request, callSeconds);
    if (!runs)
      return runs.error();
    return std::unique_ptr<TimedRuns>(std::make_unique<RemoteRuns>(handle.session, *runs, limit));
  }

private:
  Handle handle;
  std::shared_ptr<const Limit> limit; ///< The device's, which may change it.
};

class RemoteDevice final : public Device {
public:
  RemoteDevice(DeviceFacts facts, std::function<WorkerPlace()> choose, std::stop_token stop)
      : facts(std::move(facts)), choose(std::move(choose)), stop(std::move(stop)) {}

  std::string sku() const override { return facts.sku; }
  std::string driver() const override { return facts.driver; }
  std::string target() const override { return facts.target; }
  std::string id() const override { return place().id; }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    using Placed = std::pair<std::uint64_t, std::uint64_t>;
    Result<Placed> placed = call<Placed>({{"call", "allocate"}, {"bytes", bytes}});
    if (!placed)
      return placed.error();
    return std::unique_ptr<DeviceBuffer>(
        std::make_unique<RemoteBuffer>(session, placed->first, toAddress(placed->second), bytes));
  }
  Result<void> upload(void *device, const void *host, std::size_t bytes) override {
    return inPieces(bytes, [&](std::byte *shared, std::size_t at, std::size_t count) {
      std::memcpy(shared, static_cast<const std::byte *>(host) + at, count);
      return done({{"call", "upload"}, {"at", toNumber(device) + at}, {"bytes", count}});
    });
  }
  Result<void> download(void *host, const void *device, std::size_t bytes) override {
    return inPieces(bytes, [&](const std::byte *shared, std::size_t at, std::size_t count) {
      Result<void> read = done({{"call", "download"}, {"at", toNumber(device) + at}, {"bytes", count}});
      if (read)
        std::memcpy(static_cast<std::byte *>(host) + at, shared, count);
      return read;
    });
  }
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override {
    return done({{"call", "fill"}, {"at", toNumber(device)}, {"value", value}, {"bytes", bytes}});
  }
  Result<std::uint64_t> digest(const void *device, std::size_t bytes) override {
    return call<std::uint64_t>({{"call", "digest"}, {"at", toNumber(device)}, {"bytes", bytes}});
  }
  Result<bool> sumDifferences(DType type, const void *found, const void *expected, std::size_t count,
                              void *sums) override {
    return call<bool>({{"call", "sumDifferences"},
                       {"type", type},
                       {"found", toNumber(found)},
                       {"expected", toNumber(expected)},
                       {"count", count},
                       {"sums", toNumber(sums)}});
  }
  Result<void> copy(Stream, void *to, const void *from, std::size_t bytes) override {
    return done({{"call", "copy"}, {"to", toNumber(to)}, {"from", toNumber(from)}, {"bytes", bytes}});
  }
  Result<void> synchronize(Stream) override { return done({{"call", "synchronize"}}, *limit); }

  Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) override {
    codegen::KernelPlan bare = plan;
    bare.source.clear();
    Result<std::uint64_t> id = call<std::uint64_t>({{"call", "load"}, {"plan", bare}, {"kernel", kernel}});
    if (!id)
      return id.error();
    return std::unique_ptr<LoadedKernel>(std::make_unique<RemoteKernel>(session, *id, limit));
  }
  Result<void> prepareMeasuring() override { return done({{"call", "prepareMeasuring"}}); }
  Result<std::unique_ptr<TimedRuns>> prepareRuns(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                                 const MeasureOptions &options) override {
    return static_cast<RemoteKernel &>(kernel).prepareRuns(buffers, workspace, options);
  }
  Result<std::unique_ptr<TimedRuns>> prepareProgramRuns(const Program &program, std::span<void *const> arguments,
                                                        std::span<void *const> results) override {
    std::vector<std::byte> bytes = program.serialise();
    if (bytes.size() > Channel::longestMessage / 2) // Beside the addresses, with room to spare.
      return Error{ErrorCode::OutOfMemory, "a program of " + std::to_string(bytes.size()) +
                                               " bytes is too large to be sent to a worker, constants and all"};
    Result<std::uint64_t> runs = call<std::uint64_t>({{"call", "prepareProgram"},
                                                      {"program", std::move(bytes)},
                                                      {"arguments", toNumbers(arguments)},
                                                      {"results", toNumbers(results)}});
    if (!runs)
      return runs.error();
    return std::unique_ptr<TimedRuns>(std::make_unique<RemoteRuns>(session, *runs, limit));
  }
  Result<std::vector<double>> measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                      const MeasureOptions &options) override {
    Result<std::unique_ptr<TimedRuns>> runs = prepareRuns(kernel, buffers, workspace, options);
    return runs ? (*runs)->measure(options) : runs.error();
  }

  std::optional<Conditions> conditions() override {
    Result<Json> now = call<Json>({{"call", "conditions"}});
    return now && !now->is_null() ? std::optional(now->get<Conditions>()) : std::nullopt;
  }
  void limitRuns(double seconds) override { *limit = seconds; }
  Result<void> restart() override {
    std::scoped_lock lock(mutex);
    session.reset();
    silent.reset();
    return start();
  }

private:
  const WorkerPlace &place() const {
    std::call_once(asked, [this] { chosen = choose(); });
    return chosen;
  }
  Result<void> start() {
    if (silent)
      return *silent;
    Result<std::shared_ptr<Session>> started = Session::start(place().arguments, stop);
    if (!started && started.error().code == ErrorCode::Crash) // It has run no kernel yet: somebody ended it.
      started = Session::start(place().arguments, stop);
    if (!started && started.error().code == ErrorCode::Timeout)
      silent = Error{ErrorCode::NoDevice, started.error().message};
    if (!started)
      return started.error().code == ErrorCode::Crash ? Error{ErrorCode::NoDevice, started.error().message}
                                                      : silent.value_or(started.error());
    session = std::move(*started);
    return {};
  }
  Result<std::shared_ptr<Session>> running() {
    std::scoped_lock lock(mutex);
    if (!session)
      if (Result<void> started = start(); !started)
        return started.error();
    return session;
  }
  template <class T> Result<T> call(const Json &request, double seconds = callSeconds) {
    Result<std::shared_ptr<Session>> live = running();
    if (!live)
      return live.error();
    return (*live)->call<T>(request, seconds);
  }
  Result<void> done(const Json &request, double seconds = callSeconds) {
    Result<Json> answer = call<Json>(request, seconds);
    return answer ? Result<void>() : answer.error();
  }
  template <class Move> Result<void> inPieces(std::size_t bytes, const Move &move) {
    Result<std::shared_ptr<Session>> live = running();
    if (!live)
      return live.error();
    return (*live)->inPieces(bytes, move);
  }

  const DeviceFacts facts;
  const std::function<WorkerPlace()> choose;
  const std::stop_token stop;
  mutable std::once_flag asked;
  mutable WorkerPlace chosen;
  std::mutex mutex; ///< Guards `session`.
  std::shared_ptr<Session> session;
  std::optional<Error>
      silent; ///< The error of a worker that did not answer in time: no call waits for the next one as long.
  const std::shared_ptr<Limit> limit = std::make_shared<Limit>(callSeconds);
};

} // namespace
} // namespace worker

std::unique_ptr<Device> makeRemoteDevice(DeviceFacts facts, std::vector<std::string> arguments, std::stop_token stop) {
  WorkerPlace place{facts.id, std::move(arguments)};
  return makeRemoteDevice(std::move(facts), [place] { return place; }, std::move(stop));
}

std::unique_ptr<Device> makeRemoteDevice(DeviceFacts facts, std::function<WorkerPlace()> choose, std::stop_token stop) {
  return std::make_unique<worker::RemoteDevice>(std::move(facts), std::move(choose), std::move(stop));
}

} // namespace kfuse::runtime
