#include "runtime/worker/Process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fs = std::filesystem;

namespace kfuse::runtime::worker {
namespace {

constexpr double fallSeconds = 1;  ///< A process that crashes has closed its socket a moment before it is gone.
constexpr double killSeconds = 20; ///< Ending a kernel that runs on a GPU takes the driver a while.

/// Where the code at `address` was loaded from: the library, or the program.
fs::path moduleOf(const void *address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname ? fs::path(info.dli_fname) : fs::path();
}

/// Descriptors below these of the worker's own would be overwritten while they are moved into place.
int moveUp(int descriptor) {
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, memoryDescriptor + 1);
  ::close(descriptor);
  return moved;
}

/// What the child has open, and nothing else.
class Descriptors {
public:
  Descriptors(int socket, int memory) {
    posix_spawn_file_actions_init(&actions);
    for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, socket, socketDescriptor);
    posix_spawn_file_actions_adddup2(&actions, memory, memoryDescriptor);
    posix_spawn_file_actions_addclosefrom_np(&actions, memoryDescriptor + 1);
  }
  ~Descriptors() { posix_spawn_file_actions_destroy(&actions); }
  Descriptors(const Descriptors &) = delete;
  Descriptors &operator=(const Descriptors &) = delete;

  posix_spawn_file_actions_t actions{};
};

/// The usual signals, and a process group of its own: a Ctrl-C at the terminal is the parent's to handle.
class Attributes {
public:
  Attributes() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes); }
  Attributes(const Attributes &) = delete;
  Attributes &operator=(const Attributes &) = delete;

  posix_spawnattr_t attributes{};
};

Error noWorker(const std::string &why) { return {ErrorCode::Io, "no worker process to measure in: " + why}; }

} // namespace

Result<fs::path> findProgram() {
  if (const char *named = std::getenv("KFUSE_WORKER"); named && *named)
    return fs::path(named);
  std::string places;
  std::error_code error;
  for (const fs::path &module :
       {fs::read_symlink("/proc/self/exe", error), moduleOf(reinterpret_cast<const void *>(&findProgram))})
    for (const char *place : {".", "../bin", "../libexec/kfuse", "../../libexec/kfuse"}) {
      fs::path program = (fs::absolute(module.parent_path(), error) / place / "kfuse-worker").lexically_normal();
      if (::access(program.c_str(), X_OK) == 0)
        return program;
      places += (places.empty() ? "" : ", ") + program.string();
    }
  return noWorker("kfuse-worker is not at " + places + "; set KFUSE_WORKER to its path");
}

Result<Process> Process::start(const std::vector<std::string> &arguments, const std::stop_token &stop) {
  if (stop.stop_requested())
    return Error{ErrorCode::Cancelled, "cancelled before a worker process was started"};
  Result<fs::path> program = findProgram();
  if (!program)
    return program.error();
  Result<SharedMemory> memory = SharedMemory::make();
  if (!memory)
    return memory.error();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return noWorker(std::strerror(errno));
  Channel channel(ends[0]);
  Channel childs(moveUp(ends[1])); // Closed here when the child has its own.

  std::string name = program->string();
  std::vector<char *> argv{name.data()};
  std::vector<std::string> copies = arguments;
  for (std::string &argument : copies)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  int memoryCopy = fcntl(memory->descriptor(), F_DUPFD_CLOEXEC, memoryDescriptor + 1);
  if (childs.descriptor() < 0 || memoryCopy < 0) {
    Error error = noWorker(std::string("too many open files: ") + std::strerror(errno));
    if (memoryCopy >= 0)
      ::close(memoryCopy);
    return error;
  }
  Descriptors descriptors(childs.descriptor(), memoryCopy);
  Attributes attributes;
  pid_t id = 0;
  int failed = posix_spawn(&id, name.c_str(), &descriptors.actions, &attributes.attributes, argv.data(), environ);
  ::close(memoryCopy);
  if (failed != 0)
    return noWorker(name + " does not start: " + std::strerror(failed));
  channel.setPeer({id, stop});
  return Process(id, std::move(channel), std::move(*memory));
}

Process::Process(Process &&other) noexcept
    : channel(std::move(other.channel)), memory(std::move(other.memory)), id(std::exchange(other.id, 0)),
      status(other.status) {}

Process &Process::operator=(Process &&other) noexcept {
  std::swap(channel, other.channel);
  std::swap(memory, other.memory);
  std::swap(id, other.id);
  std::swap(status, other.status);
  return *this;
}

Process::~Process() {
  kill();
  waitFor(killSeconds);
}

void Process::kill() {
  if (id != 0)
    ::kill(id, SIGKILL);
}

bool Process::waitFor(double seconds) {
  constexpr std::chrono::milliseconds pause(1);
  auto end = Channel::Clock::now() + std::chrono::duration<double>(seconds);
  while (id != 0) {
    if (pid_t found = waitpid(id, &status, WNOHANG); found == id || (found < 0 && errno != EINTR)) {
      id = 0;
      break;
    }
    if (Channel::Clock::now() > end)
      return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::string Process::howItEnded() {
  if (!waitFor(fallSeconds)) {
    kill();
    if (!waitFor(killSeconds))
      return "a signal that it does not heed";
  }
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "status " + std::to_string(WEXITSTATUS(status));
}

} // namespace kfuse::runtime::worker
