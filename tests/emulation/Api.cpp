#include "tests/emulation/Api.h"

#include "tests/emulation/Grid.h"
#include "tests/emulation/TensorBox.h"
#include "tests/emulation/Wgmma.h"

#include <cstring>
#include <map>
#include <span>
#include <utility>

namespace kfuse::test {
namespace {

void addThreads(EmulatorApi &api) {
  api.thread = [] { return running->threadIndex(); };
  api.block = [] { return running->block().index; };
  api.grid = [] { return running->gridSize(); };
  api.yield = [] { running->yield(); };
  api.fail = [](const char *message) { running->fail(message); };
}

void addBarriers(EmulatorApi &api) {
  api.syncBlock = [] {
    running->letOthers();
    running->meet(running->block().barriers[0]);
  };
  api.syncWarp = [] { running->meet(running->block().warps[running->lane() / 32]); };
  api.syncNamed = [](int number, int threads) {
    Barrier &barrier = running->block().barriers[number];
    barrier.expected = static_cast<unsigned>(threads);
    running->letOthers();
    running->meet(barrier);
  };
  api.arriveNamed = [](int number, int threads) {
    Barrier &barrier = running->block().barriers[number];
    barrier.expected = static_cast<unsigned>(threads);
    barrier.arrive();
    running->letOthers();
  };
}

void addClusters(EmulatorApi &api) {
  api.blockInCluster = [] { return running->block().rank; };
  api.arriveAtCluster = [] {
    Fiber &fiber = running->fiber();
    Barrier &barrier = running->block().cluster->barrier;
    if (fiber.arrivedAtCluster)
      running->fail("a thread arrives at its cluster again before it has waited for it");
    fiber.arrivedAtCluster = barrier.generation;
    barrier.arrive();
    running->letOthers();
  };
  api.waitForCluster = [] {
    Fiber &fiber = running->fiber();
    if (!fiber.arrivedAtCluster)
      running->fail("a thread waits for its cluster and has not arrived");
    running->waitFor(running->block().cluster->barrier, *std::exchange(fiber.arrivedAtCluster, std::nullopt));
  };
}

void addSharedMemory(EmulatorApi &api) {
  api.warpScratch = [] { return running->block().scratch.data() + running->lane() / 32 * 32 * 64; };
  api.shared = [] { return running->block().shared.get(); };
  api.addressOf = [](const void *pointer) { return running->addressOf(pointer); };
  api.at = [](unsigned address, unsigned bytes) { return running->at(address, bytes); };
}

void addCopies(EmulatorApi &api) {
  api.copy = [](void *to, const void *from, int size, int bytes) {
    Task copy = [=] {
      std::memset(to, 0, size);
      std::memcpy(to, from, bytes);
    };
    if (running->areCopiesLate())
      running->fiber().copies.add(std::move(copy));
    else
      copy();
  };
  api.commit = [] { running->fiber().copies.commit(); };
  api.wait = [](int pending) { running->fiber().copies.end(pending); };
}

void addTransactions(EmulatorApi &api) {
  api.initBarrier = [](unsigned barrier, unsigned arrivals) {
    *reinterpret_cast<TransactionBarrier *>(running->at(barrier, sizeof(TransactionBarrier))) = {0, arrivals, arrivals,
                                                                                                 0};
  };
  api.arrive = [](unsigned barrier, unsigned expectedBytes) {
    TransactionBarrier &counter = running->barrierAt(barrier);
    if (counter.pending == 0)
      running->fail("more arrivals at a barrier than it expects");
    counter.bytes += expectedBytes;
    --counter.pending;
    counter.settle();
    running->letOthers();
  };
  api.isComplete = [](unsigned barrier, unsigned parity) { return running->barrierAt(barrier).parity != parity; };
  api.waitBarrier = [](unsigned barrier, unsigned parity) {
    running->waitFor(running->barrierAt(barrier), parity != 0);
  };
  api.send = [](unsigned to, const void *from, unsigned bytes, unsigned barrier) {
    unsigned char *target = running->at(to, bytes);
    const std::string value(static_cast<const char *>(from), bytes);
    running->bring(barrier, bytes, [=] { std::memcpy(target, value.data(), bytes); });
  };
}

/// A box as it lies in shared memory: 128 bytes are the least that TMA writes at a place of its own.
unsigned char *boxAt(unsigned address, const EmulatedTensor &tensor) {
  unsigned char *box = running->at(address, 128);
  running->at(address + tensor.boxBytes() - 16, 16);
  return box - address % (1U << blockBits);
}

/// All but the latest `pending` have read shared memory, or are in memory.
void endStores(Fiber &fiber, int pending, bool inMemory) {
  fiber.stores.end(pending);
  if (inMemory)
    for (const Task &write : std::exchange(fiber.unwritten, {}))
      write();
}

void addTma(EmulatorApi &api) {
  api.loadBox = [](unsigned to, const void *map, const int *place, int rank, unsigned barrier, unsigned blocks) {
    const auto &tensor = *static_cast<const EmulatedTensor *>(map);
    if (tensor.recipe.sizes.size() != static_cast<std::size_t>(rank))
      running->fail("a box of another rank than its tensor's");
    const std::vector<int> at(place, place + rank);
    auto bring = [&](unsigned whose) {
      unsigned char *shared = boxAt(to | whose, tensor);
      running->bring(barrier | whose, tensor.boxBytes(), [=, &tensor] {
        tensor.forEachPiece(at, to, [&](unsigned address, const std::byte *memory, unsigned bytes) {
          if (memory)
            std::memcpy(shared + address, memory, bytes);
          else
            std::memset(shared + address, 0, bytes);
        });
      });
    };
    if (blocks == 0)
      return bring(0);
    for (unsigned i = 0; i < 32; ++i)
      if (blocks >> i & 1)
        bring((i + 1) << blockBits);
  };
  api.storeBox = [](const void *map, const int *place, int rank, unsigned from) {
    const auto &tensor = *static_cast<const EmulatedTensor *>(map);
    unsigned char *shared = boxAt(from, tensor);
    Fiber &fiber = running->fiber();
    Task store = [=, &tensor, &fiber, at = std::vector<int>(place, place + rank)] {
      std::map<std::byte *, std::string> read;
      tensor.forEachPiece(at, from, [&](unsigned address, std::byte *memory, unsigned bytes) {
        if (memory)
          read[memory] = std::string(reinterpret_cast<char *>(shared) + address, bytes);
      });
      fiber.unwritten.push_back([read = std::move(read)] {
        for (const auto &[memory, bytes] : read)
          std::memcpy(memory, bytes.data(), bytes.size());
      });
    };
    fiber.stores.add(std::move(store));
    fiber.stores.commit();
    if (!running->areCopiesLate())
      endStores(fiber, 0, true);
  };
  api.waitStores = [](int pending, bool inMemory) { endStores(running->fiber(), pending, inMemory); };
}

/// Products read their operands as late as they may: when they are waited for.
void addProducts(EmulatorApi &api) {
  api.multiply = [](const char *text, float *sums, unsigned long long rows, unsigned long long columns,
                    bool accumulate) {
    static std::map<std::string, WgmmaInstruction> known;
    auto [found, isNew] = known.try_emplace(text);
    if (isNew && !WgmmaInstruction::parse(text, found->second))
      running->fail("no instruction that is emulated: " + std::string(text));
    running->fiber().products.add([=, &instruction = found->second, thread = running->lane() % 128] {
      const auto *shared = reinterpret_cast<const std::byte *>(running->block().shared.get());
      instruction.multiply(shared, thread, sums, rows, columns, accumulate);
    });
  };
  api.commitProducts = [] { running->fiber().products.commit(); };
  api.waitProducts = [](int pending) { running->fiber().products.end(pending); };
}

} // namespace

const EmulatorApi &emulatorApi() {
  static const EmulatorApi api = [] {
    EmulatorApi made{};
    for (auto add :
         {addThreads, addBarriers, addClusters, addSharedMemory, addCopies, addTransactions, addTma, addProducts})
      add(made);
    return made;
  }();
  return api;
}

} // namespace kfuse::test
