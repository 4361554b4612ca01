#include "tests/emulation/Grid.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace kfuse::test {

Grid *running = nullptr;
Place runningPlace{};

namespace {

constexpr std::size_t guardBytes = 1024; ///< Behind a block's shared memory, and at the end of a stack.
constexpr unsigned char poison = 0xff;
constexpr unsigned longestHold = 64; ///< A thread's, in rounds; a block's is four times that.

unsigned volume(const std::array<std::uint32_t, 3> &extents) { return extents[0] * extents[1] * extents[2]; }

bool isIntact(const void *guard) {
  static const std::vector<unsigned char> untouched(guardBytes, poison);
  return std::memcmp(guard, untouched.data(), guardBytes) == 0;
}

template <std::size_t> using Argument = void *;
template <std::size_t... i> void call(void *entry, const std::vector<void *> &arguments, std::index_sequence<i...>) {
  reinterpret_cast<void (*)(Argument<i>...)>(entry)(arguments[i]...);
}

Index3 indexOf(unsigned number, const std::array<std::uint32_t, 3> &extents) {
  return {number % extents[0], number / extents[0] % extents[1], number / extents[0] / extents[1]};
}

/// switchContext() saves where it is called, and goes on elsewhere. It returns when somebody goes on there.
[[noreturn, gnu::noinline]] void goOn(Context &at) { __builtin_longjmp(at.registers, 1); }
[[gnu::noinline]] void switchContext(Context &from, Context &to) {
  if (__builtin_setjmp(from.registers) == 0)
    goOn(to);
}

/// The same to a function that never returns, on a stack of its own.
[[gnu::noinline]] void beginOn(Context &from, const Stack &stack, void (*function)()) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack.begin();
  context.uc_stack.ss_size = Stack::bytes;
  makecontext(&context, function, 0);
  if (__builtin_setjmp(from.registers) == 0)
    setcontext(&context);
}

std::vector<char *> spareStacks;

} // namespace

Stack::Stack() {
  if (!spareStacks.empty()) {
    memory = spareStacks.back();
    spareStacks.pop_back();
    return;
  }
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    std::abort(); // Out of memory, as operator new would be.
  memory = static_cast<char *>(pages);
}

Stack::~Stack() {
  if (memory)
    spareStacks.push_back(memory);
}

void Groups::end(std::size_t pending) {
  for (; groups.size() > pending; groups.pop_front())
    for (const Task &task : groups.front())
      task();
}

void Barrier::completePhase() {
  if (arrived < expected || arrived == 0)
    return;
  arrived = 0;
  ++generation;
  for (const Fiber *fiber : waiting)
    fiber->block->ready.add(fiber->number);
  waiting.clear();
}

std::optional<unsigned> Numbers::next(unsigned number) const {
  for (std::size_t i = number / 64; i < words.size(); ++i, number = 0)
    if (const std::uint64_t rest = words[i] >> number % 64 << number % 64)
      return static_cast<unsigned>(i * 64) + static_cast<unsigned>(std::countr_zero(rest));
  return std::nullopt;
}

std::size_t Grid::blocksAtOnce(const codegen::Launch &launch) {
  const std::size_t ofCluster = volume(launch.cluster);
  return std::min<std::size_t>(std::max(mostBlocks / ofCluster, std::size_t{1}) * ofCluster, volume(launch.grid));
}

Grid::Grid(const codegen::Launch &launch, const std::vector<Library> &libraries, std::vector<void *> arguments,
           Copies copies)
    : launch(launch), arguments(std::move(arguments)), copies(copies) {
  const unsigned threads = volume(launch.block), warps = (threads + 31) / 32, ofCluster = volume(launch.cluster);
  size = {launch.grid[0], launch.grid[1], launch.grid[2]};
  count = size.x * size.y * size.z / ofCluster;
  this->arguments.resize(Library::mostArguments); // Extra arguments do no harm.
  clusters.resize(blocksAtOnce(launch) / ofCluster);
  auto library = libraries.begin();
  for (Cluster &cluster : clusters) {
    cluster.blocks.resize(ofCluster);
    for (unsigned rank = 0; rank < ofCluster; ++rank) {
      Block &block = cluster.blocks[rank];
      block.cluster = &cluster;
      block.rank = rank;
      block.library = *library++;
      block.fibers.resize(threads);
      block.scratch.resize(2 * warps * Block::scratchBytes);
      block.shared.reset(
          static_cast<unsigned char *>(aligned_alloc(1024, (launch.sharedBytes + 1023) / 1024 * 1024 + guardBytes)));
    }
  }
}

std::string Grid::run() {
  running = this;
  runningPlace.grid = size;
  for (Cluster &cluster : clusters)
    start(cluster);
  constexpr unsigned mostIdle = 100'000;
  for (; ended < count && failure.empty(); ++round) {
    hasRun = isHeld = false;
    ++idleRounds;
    for (Cluster &cluster : clusters)
      if (cluster.alive > 0 && failure.empty())
        runThreads(cluster);
    const bool isStuck = !hasRun && !isHeld;
    if (!arriving.empty() && (isStuck || idleRounds > longestHold))
      landOne();
    else if (failure.empty() && (isStuck || idleRounds > mostIdle))
      failure = "no thread goes on, and nothing is on its way";
  }
  return failure;
}

/// Clusters lie in the grid as blocks do in a cluster.
void Grid::start(Cluster &cluster) {
  const std::array<std::uint32_t, 3> &extents = launch.cluster;
  const Index3 at = indexOf(started++, {size.x / extents[0], size.y / extents[1], size.z / extents[2]});
  const unsigned threads = volume(launch.block);
  cluster.alive = threads * static_cast<unsigned>(cluster.blocks.size());
  cluster.barrier = {cluster.alive};
  for (Block &block : cluster.blocks) {
    const Index3 inCluster = indexOf(block.rank, extents);
    block.index = {at.x * extents[0] + inCluster.x, at.y * extents[1] + inCluster.y, at.z * extents[2] + inCluster.z};
    block.alive = threads;
    block.barriers = {Barrier{threads}};
    block.warps.clear();
    for (unsigned first = 0; first < threads; first += 32)
      block.warps.push_back({std::min(32U, threads - first)});
    std::memset(block.shared.get(), poison, launch.sharedBytes + guardBytes);
    std::fill(block.library.variables.begin(), block.library.variables.end(), poison);
    block.heldUntil = round + below(longestHold); // Blocks of a cluster do not begin together.
    block.ready.assign(threads);
    block.awaiting.clear();
    for (unsigned number = 0; number < threads; ++number) {
      Fiber fresh{.stack = std::move(block.fibers[number].stack),
                  .block = &block,
                  .number = number,
                  .index = indexOf(number, launch.block)};
      std::memset(fresh.stack.begin(), poison, guardBytes);
      block.ready.add(number);
      block.fibers[number] = std::move(fresh);
    }
  }
}

/// The next one takes its place.
void Grid::end(Cluster &cluster) {
  idleRounds = 0;
  ++ended;
  for (const Block &block : cluster.blocks) {
    if (!isIntact(block.shared.get() + launch.sharedBytes))
      failure = "a block wrote behind its shared memory";
    for (const Fiber &fiber : block.fibers)
      if (!isIntact(fiber.stack.begin()))
        failure = "a thread needs more than its stack";
  }
  if (started < count)
    start(cluster);
}

void Grid::enter() {
  Grid &grid = *running;
  call(grid.place->library.entry, grid.arguments, std::make_index_sequence<Library::mostArguments>());
  grid.endThread();
}

void Grid::endThread() {
  for (const Task &write : thread->unwritten)
    write();
  if (!thread->stores.empty())
    fail("a thread ended before its stores had read shared memory");
  if (thread->arrivedAtCluster)
    fail("a thread ended between arriving at its cluster and waiting for it");
  place->ready.remove(thread->number);
  place->cluster->barrier.leave();
  --place->cluster->alive;
  if (--place->alive == 0 && place->onTheWay > 0)
    fail("a block ended while copies to its shared memory were on their way");
  idleRounds = 0;
  goOn(scheduler);
}

void Grid::resume(Fiber &fiber) {
  runningPlace.thread = fiber.index, runningPlace.block = place->index;
  if (fiber.hasBegun)
    return switchContext(scheduler, fiber.context);
  fiber.hasBegun = true;
  beginOn(scheduler, fiber.stack, enter);
}

/// Those whose phase has ended.
void Grid::wake(Block &block) {
  std::erase_if(block.awaiting, [&](const Awaiting &one) {
    const bool hasEnded = one.barrier->parity != one.parity;
    if (hasEnded)
      block.ready.add(one.fiber->number);
    return hasEnded;
  });
}

/// Each that can, until it waits.
void Grid::runThreads(Cluster &cluster) {
  for (Block &block : cluster.blocks) {
    place = &block;
    if (block.phasesSeen != phases) {
      block.phasesSeen = phases;
      wake(block);
    }
    for (auto next = block.ready.next(0); next; next = block.ready.next(*next + 1)) {
      thread = &block.fibers[*next];
      if (std::max(thread->heldUntil, block.heldUntil) > round) {
        isHeld = true;
        continue;
      }
      hasRun = true;
      resume(*thread);
      if (!failure.empty())
        return;
    }
  }
  if (cluster.alive == 0)
    end(cluster);
}

unsigned Grid::below(unsigned bound) {
  random = random * 1664525 + 1013904223; // Numerical Recipes' generator; its upper bits vary most.
  return (random >> 16) % bound;
}

void Grid::landOne() {
  std::swap(arriving[below(static_cast<unsigned>(arriving.size()))], arriving.back());
  Arrival arrival = std::move(arriving.back());
  arriving.pop_back();
  --arrival.block->onTheWay;
  arrival.land();
  idleRounds = 0;
}

void Grid::maybeHold() {
  constexpr unsigned oneThreadOf = 32, oneBlockOf = 512;
  if (below(oneThreadOf) > 0)
    return;
  if (below(oneBlockOf / oneThreadOf) > 0)
    thread->heldUntil = round + 1 + below(longestHold);
  else
    place->heldUntil = round + 1 + below(4 * longestHold);
  yield();
}

void Grid::letOthers() {
  idleRounds = 0;
  maybeHold();
}

void Grid::fail(std::string message) {
  const Index3 block = place->index;
  failure = std::move(message) + " (block " + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
            std::to_string(block.z) + ", thread " + std::to_string(thread->number) + ")";
  place->ready.remove(thread->number);
  goOn(scheduler);
}

void Grid::yield() { switchContext(thread->context, scheduler); }

void Grid::passBarrier(Barrier &barrier) {
  const unsigned generation = barrier.generation;
  barrier.arrive();
  waitFor(barrier, generation);
}

void Grid::waitFor(Barrier &barrier, unsigned generation) {
  if (barrier.generation != generation)
    return;
  barrier.waiting.push_back(thread);
  place->ready.remove(thread->number);
  yield();
  maybeHold();
}

void Grid::waitFor(const TransactionBarrier &barrier, bool parity) {
  if (barrier.parity == parity) {
    place->awaiting.push_back({thread, &barrier, parity});
    place->ready.remove(thread->number);
    yield();
  }
  maybeHold();
}

//===- Shared memory -----------------------------------------------------------------------------//

unsigned Grid::addressOf(const void *pointer) {
  const auto *byte = static_cast<const unsigned char *>(pointer), *dynamic = place->shared.get(),
             *variables = place->library.variables.data();
  if (byte >= dynamic && byte <= dynamic + launch.sharedBytes)
    return static_cast<unsigned>(byte - dynamic);
  if (byte < variables || byte >= variables + place->library.variables.size())
    fail("the address of something outside shared memory");
  return static_cast<unsigned>(staticShared + (byte - variables));
}

unsigned char *Grid::at(unsigned address, unsigned bytes) {
  if (address >> blockBits != 0)
    fail("an address of the cluster where only one of this block will do");
  return inCluster(address, bytes);
}

Block &Grid::blockOf(unsigned address) {
  const unsigned whose = address >> blockBits;
  if (whose > place->cluster->blocks.size())
    fail("an address in a block that the cluster does not have");
  return whose == 0 ? *place : place->cluster->blocks[whose - 1];
}

unsigned char *Grid::inCluster(unsigned address, unsigned bytes) {
  const Block &block = blockOf(address);
  if (block.alive == 0)
    fail("an access to the shared memory of a block that has ended");
  const unsigned inBlock = address & ((1U << blockBits) - 1);
  const bool isStatic = inBlock >= staticShared;
  const std::size_t offset = isStatic ? inBlock - staticShared : inBlock,
                    size = isStatic ? block.library.variables.size() : launch.sharedBytes;
  unsigned char *pointer = (isStatic ? block.library.variables.data() : block.shared.get()) + offset;
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0)
    fail("an access to shared memory of " + std::to_string(bytes) + " bytes at " + std::to_string(offset));
  if (offset + bytes > size)
    fail("an access behind " + std::to_string(size) + " bytes of shared memory, at " + std::to_string(offset));
  return pointer;
}

TransactionBarrier &Grid::barrierAt(unsigned address) {
  at(address, sizeof(TransactionBarrier));
  return barrierInCluster(address);
}

TransactionBarrier &Grid::barrierInCluster(unsigned address) {
  auto &barrier = *reinterpret_cast<TransactionBarrier *>(inCluster(address, sizeof(TransactionBarrier)));
  if (barrier.pending > barrier.expected || barrier.expected == 0 || barrier.expected == (1U << 20) - 1)
    fail("a barrier that is not initialised, at " + std::to_string(address));
  return barrier;
}

void Grid::completePhase(TransactionBarrier &barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0)
    return;
  barrier.parity ^= 1, barrier.pending = barrier.expected;
  ++phases;
}

void Grid::bring(unsigned to, unsigned barrier, unsigned bytes, Task copy) {
  TransactionBarrier &counter = barrierInCluster(barrier);
  Block &block = blockOf(to);
  if (&blockOf(barrier) != &block)
    fail("a copy that counts at the barrier of another block than it goes to");
  Task land = [this, &counter, bytes, copy = std::move(copy)] {
    copy();
    counter.bytes -= bytes;
    completePhase(counter);
  };
  idleRounds = 0;
  if (!areCopiesLate())
    return land();
  ++block.onTheWay;
  arriving.push_back({&block, std::move(land)});
}

} // namespace kfuse::test
