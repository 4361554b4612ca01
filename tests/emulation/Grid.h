// A launch on the emulated device: its blocks, their threads, their barriers, and what is on its way
// to them.
//
// Threads are fibers: one runs until it waits, or is held up for a while where it meets others, at random, so that any
// of them is ahead at times. Blocks start in order, as many clusters as find room together. What is copied
// asynchronously arrives either at once, or when no thread goes on without it; then in any order.
#pragma once

#include "codegen/KernelPlan.h"
#include "tests/emulation/EmulatorApi.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::test {

using Task = std::function<void()>;

struct Block;
struct Fiber;

/// Threads that wait for each other, over and over.
struct Barrier {
  unsigned expected = 0, arrived = 0, generation = 0;
  std::vector<Fiber *> waiting{};

  void arrive() {
    ++arrived;
    completePhase();
  }
  /// One that would have arrived does not come any more.
  void leave() {
    --expected;
    completePhase();
  }

private:
  void completePhase();
};

/// PTX's mbarrier, in its eight bytes of shared memory.
struct TransactionBarrier {
  std::uint64_t parity : 1, expected : 20, pending : 20;
  std::int64_t bytes : 23; ///< Announced and not there.
};
static_assert(sizeof(TransactionBarrier) == 8);

/// What a thread has started, in groups for whose end it waits.
class Groups {
public:
  void add(Task task) { open.push_back(std::move(task)); }
  void commit() { groups.push_back(std::exchange(open, {})); }
  /// Ends all groups but the latest `pending`.
  void end(std::size_t pending);
  bool empty() const { return groups.empty() && open.empty(); }

private:
  std::vector<Task> open;
  std::deque<std::vector<Task>> groups;
};

/// Where a thread, or the grid, goes on. Not a ucontext_t: each switch between those is two calls of the kernel.
struct Context {
  void *registers[5]; ///< The frame, the stack, the address: __builtin_setjmp's.
};

/// The memory of a thread's stack, which the next launch takes again.
class Stack {
public:
  static constexpr std::size_t bytes = 128 << 10;
  Stack();
  ~Stack();
  Stack(Stack &&other) noexcept : memory(std::exchange(other.memory, nullptr)) {}
  Stack &operator=(Stack &&other) noexcept {
    std::swap(memory, other.memory);
    return *this;
  }
  char *begin() const { return memory; }

private:
  char *memory;
};

/// One CUDA thread.
struct Fiber {
  Stack stack;
  Block *block = nullptr;
  unsigned number = 0; ///< In its block.
  Index3 index{};
  Context context{};
  bool hasBegun = false;
  unsigned heldUntil = 0;                     ///< The round.
  std::optional<unsigned> arrivedAtCluster{}; ///< The generation.
  unsigned exchanges = 0;                     ///< So many values it has exchanged with its warp.
  Groups copies{}, products{}, stores{};
  std::vector<Task> unwritten{}; ///< Stores that have read shared memory, and not written memory.
};

/// Numbers below a bound: of threads that can go on.
class Numbers {
public:
  void assign(unsigned bound) { words.assign((bound + 63) / 64, 0); }
  void add(unsigned number) { words[number / 64] |= std::uint64_t{1} << number % 64; }
  void remove(unsigned number) { words[number / 64] &= ~(std::uint64_t{1} << number % 64); }
  /// The first from `number` on, if there is one.
  std::optional<unsigned> next(unsigned number) const;

private:
  std::vector<std::uint64_t> words;
};

/// A thread that waits for a phase of this parity to end.
struct Awaiting {
  Fiber *fiber;
  const TransactionBarrier *barrier;
  bool parity;
};

struct Cluster;

/// A copy of a kernel's library: the code and the `__shared__` variables of one block.
struct Library {
  static constexpr std::size_t mostArguments = 96;
  void *entry; ///< Takes pointers.
  std::span<unsigned char> variables;
};

struct Block {
  Cluster *cluster = nullptr;
  unsigned rank = 0;
  Index3 index{};
  unsigned alive = 0;     ///< Threads.
  unsigned onTheWay = 0;  ///< Copies to its shared memory.
  unsigned heldUntil = 0; ///< As a whole: the round.
  Library library{};
  std::vector<Fiber> fibers;
  Numbers ready;
  std::vector<Awaiting> awaiting;
  unsigned phasesSeen = 0;          ///< When what they wait for was last looked at.
  std::array<Barrier, 16> barriers; ///< The first is __syncthreads'.
  std::vector<Barrier> warps;
  static constexpr std::size_t scratchBytes = std::size_t{32 * 64};
  std::vector<unsigned char> scratch; ///< Two for each warp.
  std::unique_ptr<unsigned char[], void (*)(void *)> shared{nullptr, std::free};
};

struct Cluster {
  std::vector<Block> blocks;
  Barrier barrier;
  unsigned alive = 0; ///< Threads of all blocks.
};

/// When asynchronous copies arrive.
enum class Copies { Early, Late };

class Grid {
public:
  /// Blocks that are on the device together, or those of one cluster.
  static constexpr std::size_t mostBlocks = 16;
  static std::size_t blocksAtOnce(const codegen::Launch &launch);

  /// A library for each of the blocks that run together.
  Grid(const codegen::Launch &launch, const std::vector<Library> &libraries, std::vector<void *> arguments,
       Copies copies);

  /// What went wrong, or nothing.
  std::string run();

  //===- For the thread that runs ----------------------------------------------------------------//

  Fiber &fiber() const { return *thread; }
  Block &block() const { return *place; }
  unsigned threadInBlock() const { return thread->number; }
  unsigned warp() const { return thread->number / 32; }
  std::span<const std::byte> sharedMemory() const {
    return std::as_bytes(std::span(place->shared.get(), launch.sharedBytes));
  }
  bool areCopiesLate() const { return copies == Copies::Late; }

  /// Ends the launch.
  [[noreturn]] void fail(std::string message);
  void yield();
  void passBarrier(Barrier &barrier);
  void waitFor(Barrier &barrier, unsigned generation);
  void waitFor(const TransactionBarrier &barrier, bool parity);
  /// Others may go on, and this thread may be held up.
  void letOthers();

  unsigned addressOf(const void *pointer);
  /// `bytes` at an address of this block, or of any of the cluster.
  unsigned char *at(unsigned address, unsigned bytes);
  unsigned char *inCluster(unsigned address, unsigned bytes);
  TransactionBarrier &barrierAt(unsigned address);
  TransactionBarrier &barrierInCluster(unsigned address);
  /// Ends the barrier's phase, if all have arrived and all bytes are there.
  void completePhase(TransactionBarrier &barrier);
  /// Brings `bytes` to `to`, late or at once, and counts them at a barrier beside it.
  void bring(unsigned to, unsigned barrier, unsigned bytes, Task copy);

private:
  struct Arrival {
    Block *block;
    Task land;
  };

  Block &blockOf(unsigned address);

  void start(Cluster &cluster);
  void end(Cluster &cluster);
  void runThreads(Cluster &cluster);
  void landOne();
  void maybeHold();
  void resume(Fiber &fiber);
  static void wake(Block &block);
  /// The next of the random numbers below `bound`.
  unsigned below(unsigned bound);
  static void enter();
  [[noreturn]] void endThread();

  const codegen::Launch &launch;
  std::vector<void *> arguments;
  const Copies copies;
  Index3 size{};
  std::vector<Cluster> clusters;              ///< Those on the device.
  unsigned count = 0, started = 0, ended = 0; ///< Clusters of the launch.
  std::vector<Arrival> arriving;
  unsigned random = 1;
  unsigned phases = 0;                 ///< So many phases of transaction barriers have ended.
  unsigned round = 0, idleRounds = 0;  ///< Idle: threads only looked for something to change.
  bool hasRun = false, isHeld = false; ///< In this round: some thread has run; some could have.
  std::string failure;

  Context scheduler{};
  Fiber *thread = nullptr;
  Block *place = nullptr;
};

/// The one whose threads run, and the indices of the one that does.
extern Grid *running;
extern Place runningPlace;

} // namespace kfuse::test
