#include "tests/emulation/Emulator.h"

#include "codegen/cuda/DeviceLibrary.h"
#include "kfuse/error.h"
#include "tests/emulation/EmulatorApi.h"

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

namespace kfuse::test {
namespace {

using codegen::KernelArg;
using codegen::Launch;
using reference::HostTensor;

struct Copy {
  void *to;
  const void *from;
  int size, bytes;
  void land() const {
    std::memset(to, 0, size);
    std::memcpy(to, from, bytes);
  }
};

struct Barrier {
  unsigned expected = 0, arrived = 0, generation = 0;
};

/// One CUDA thread.
struct Fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(256 << 10);
  bool done = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

/// The block being run. One at a time: the emulated kernel reaches it through free functions.
struct Block {
  std::vector<Fiber> fibers;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned char> scratch;
  unsigned char *shared = nullptr;
  Index3 index{}, grid{}, size{};
  ucontext_t scheduler{};
  std::size_t current = 0;
  bool lateCopies = true;
  std::string failure;
  std::function<void()> kernel;
};
Block *running = nullptr;

void yield() { swapcontext(&running->fibers[running->current].context, &running->scheduler); }

void arrive(Barrier &barrier) {
  unsigned generation = barrier.generation;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation)
    yield();
}

void landGroups(Fiber &fiber, std::size_t pending) {
  for (; fiber.groups.size() > pending; fiber.groups.pop_front())
    for (const Copy &copy : fiber.groups.front())
      copy.land();
}

Index3 currentThread() {
  auto linear = static_cast<unsigned>(running->current);
  const Index3 &size = running->size;
  return {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
}

EmulatorApi makeApi() {
  EmulatorApi api{};
  api.thread = currentThread;
  api.block = &running->index;
  api.grid = &running->grid;
  api.syncBlock = [] { arrive(running->all); };
  api.syncWarp = [] { arrive(running->warps[running->current / 32]); };
  api.yield = yield;
  api.warpScratch = [] { return running->scratch.data() + running->current / 32 * 32 * 64; };
  api.shared = [] { return running->shared; };
  api.copy = [](void *to, const void *from, int size, int bytes) {
    Copy copy{to, from, size, bytes};
    if (running->lateCopies)
      running->fibers[running->current].open.push_back(copy);
    else
      copy.land();
  };
  api.commit = [] {
    Fiber &fiber = running->fibers[running->current];
    fiber.groups.push_back(std::move(fiber.open));
    fiber.open.clear();
  };
  api.wait = [](int pending) { landGroups(running->fibers[running->current], static_cast<std::size_t>(pending)); };
  api.fail = [](const char *message) {
    running->failure = message;
    running->fibers[running->current].done = true;
    setcontext(&running->scheduler);
  };
  return api;
}

void enterFiber() {
  running->kernel();
  running->fibers[running->current].done = true;
  setcontext(&running->scheduler);
}

/// Switches between the fibers until all have returned.
void runBlock(Block &block) {
  for (std::size_t i = 0; i < block.fibers.size(); ++i) {
    Fiber &fiber = block.fibers[i];
    fiber.done = false;
    fiber.open.clear();
    fiber.groups.clear();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    makecontext(&fiber.context, enterFiber, 0);
  }
  for (std::size_t alive = block.fibers.size(); alive > 0 && block.failure.empty();) {
    alive = 0;
    for (block.current = 0; block.current < block.fibers.size() && block.failure.empty(); ++block.current) {
      if (block.fibers[block.current].done)
        continue;
      swapcontext(&block.scheduler, &block.fibers[block.current].context);
      alive += !block.fibers[block.current].done;
    }
  }
}

std::string runLaunch(const Launch &launch, void *library, const std::vector<void *> &arguments, bool lateCopies) {
  Block block;
  running = &block;
  unsigned threads = launch.block[0] * launch.block[1] * launch.block[2];
  block.fibers.resize(threads);
  block.all.expected = threads;
  block.warps.resize((threads + 31) / 32);
  for (std::size_t warp = 0; warp < block.warps.size(); ++warp)
    block.warps[warp].expected = std::min<unsigned>(32, threads - static_cast<unsigned>(warp) * 32);
  block.scratch.resize(block.warps.size() * 32 * 64);
  std::vector<unsigned char> shared(launch.sharedBytes + 128);
  block.shared = shared.data() + (128 - reinterpret_cast<std::uintptr_t>(shared.data()) % 128) % 128;
  block.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
  block.size = {launch.block[0], launch.block[1], launch.block[2]};
  block.lateCopies = lateCopies;

  static EmulatorApi api;
  api = makeApi();
  reinterpret_cast<void (*)(const EmulatorApi *)>(dlsym(library, "setEmulator"))(&api);
  auto *entry = reinterpret_cast<void (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                                          void *, void *, void *)>(dlsym(library, launch.entry.c_str()));
  if (!entry)
    return "no entry " + launch.entry;
  std::vector<void *> a = arguments; // Extra arguments do no harm.
  a.resize(12);
  block.kernel = [&] { entry(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]); };
  for (block.index.z = 0; block.index.z < block.grid.z; ++block.index.z)
    for (block.index.y = 0; block.index.y < block.grid.y; ++block.index.y)
      for (block.index.x = 0; block.index.x < block.grid.x; ++block.index.x) {
        std::fill(shared.begin(), shared.end(), 0xff);
        runBlock(block);
        if (!block.failure.empty())
          return block.failure;
      }
  return "";
}

/// The kernel as a shared library of the host.
Result<std::filesystem::path> buildLibrary(const codegen::KernelPlan &plan, const std::filesystem::path &folder) {
  namespace fs = std::filesystem;
  fs::create_directories(folder / "kfuse");
  for (const codegen::DeviceHeader &header : codegen::cuda::deviceHeaders())
    if (header.name != "kfuse/ptx.cuh")
      std::ofstream(folder / header.name) << header.text;
  std::ofstream(folder / "kernel.cpp") << plan.source;
  fs::path library = folder / "kernel.so";
  std::string tests = KFUSE_TEST_DIR, command = KFUSE_HOST_COMPILER;
  command += " -std=c++20 -O1 -w -shared -fPIC -o " + library.string() + " -I" + tests + "/.. -I" + tests +
             "/emulation/device -I" + folder.string() + " -include " + tests + "/emulation/device/host.h " +
             (folder / "kernel.cpp").string() + " 2>" + (folder / "log").string();
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(folder / "log");
    return Error{ErrorCode::Compile, std::string(std::istreambuf_iterator<char>(log), {})};
  }
  return library;
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "kfuse-emulation-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

} // namespace

Result<EmulatedKernel> EmulatedKernel::compile(const codegen::KernelPlan &plan) {
  Folder folder; // An open library outlives its file.
  Result<std::filesystem::path> file = buildLibrary(plan, folder.path);
  if (!file)
    return file.error();
  EmulatedKernel kernel;
  kernel.plan = plan;
  kernel.code.reset(dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!kernel.code)
    return Error{ErrorCode::Compile, dlerror()};
  return kernel;
}

Result<std::vector<HostTensor>> EmulatedKernel::run(std::span<const HostTensor> inputs, std::span<const int> states,
                                                    Copies copies) const {
  // Aligned as device memory is.
  auto place = [](const std::vector<std::byte> &bytes) {
    std::shared_ptr<std::byte> memory(static_cast<std::byte *>(aligned_alloc(256, (bytes.size() + 511) / 256 * 256)),
                                      free);
    std::memcpy(memory.get(), bytes.data(), bytes.size());
    return memory;
  };
  std::vector<std::shared_ptr<std::byte>> buffers;
  std::vector<HostTensor> outputs;
  for (const HostTensor &input : inputs)
    buffers.push_back(place(input.bytes));
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    HostTensor output = HostTensor::zeros(plan.outputs[i].type, plan.outputs[i].shape);
    std::fill(output.bytes.begin(), output.bytes.end(), std::byte{0xff});
    buffers.push_back(states[i] >= 0 ? buffers[states[i]] : place(output.bytes));
    outputs.push_back(std::move(output));
  }
  auto workspace = place(std::vector<std::byte>(plan.workspaceBytes + 1, std::byte{0xff}));
  std::memset(workspace.get(), 0, plan.zeroedBytes);
  for (const Launch &launch : plan.launches) {
    std::vector<void *> arguments;
    for (const KernelArg &arg : launch.args)
      arguments.push_back(arg.kind == KernelArg::Kind::Buffer ? buffers[arg.index].get() : workspace.get() + arg.index);
    if (std::string failure = runLaunch(launch, code.get(), arguments, copies == Copies::Late); !failure.empty())
      return Error{ErrorCode::WrongResult, failure};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    std::memcpy(outputs[i].bytes.data(), buffers[inputs.size() + i].get(), outputs[i].bytes.size());
  return outputs;
}

} // namespace kfuse::test
