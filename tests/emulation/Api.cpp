#include "tests/emulation/Api.h"

#include "tests/emulation/Grid.h"
#include "tests/emulation/Mma.h"
#include "tests/emulation/TensorBox.h"
#include "tests/emulation/Wgmma.h"

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kfuse::test {
namespace {

void addThreads(EmulatorApi &api) {
  api.place = &runningPlace;
  api.yield = [] { running->yield(); };
  api.fail = [](const char *message) { running->fail(message); };
}

Barrier &namedBarrier(int number, int threads) {
  if (number <= 0 || number >= 16 || threads % 32 != 0)
    running->fail("barrier " + std::to_string(number) + " of " + std::to_string(threads) + " threads");
  Barrier &barrier = running->block().barriers[number];
  if (barrier.arrived > 0 && barrier.expected != static_cast<unsigned>(threads))
    running->fail("threads that disagree how many share barrier " + std::to_string(number));
  barrier.expected = static_cast<unsigned>(threads);
  return barrier;
}

void addBarriers(EmulatorApi &api) {
  api.syncBlock = [] {
    running->letOthers();
    running->passBarrier(running->block().barriers[0]);
  };
  api.syncWarp = [] { running->passBarrier(running->block().warps[running->warp()]); };
  api.syncNamed = [](int number, int threads) {
    running->letOthers();
    running->passBarrier(namedBarrier(number, threads));
  };
  api.arriveNamed = [](int number, int threads) {
    namedBarrier(number, threads).arrive();
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
  api.warpScratch = [] {
    const unsigned turn = running->fiber().exchanges++ % 2;
    return running->block().scratch.data() + (running->warp() * 2 + turn) * Block::scratchBytes;
  };
  api.shared = [] { return running->block().shared.get(); };
  api.addressOf = [](const void *pointer) { return running->addressOf(pointer); };
  api.at = [](unsigned address, unsigned bytes) { return running->at(address, bytes); };
  api.inCluster = [](unsigned address, unsigned bytes) { return running->inCluster(address, bytes); };
}

void addCopies(EmulatorApi &api) {
  api.copy = [](void *to, const void *from, int size, int bytes) {
    auto copy = [=] {
      std::memset(to, 0, size);
      std::memcpy(to, from, bytes);
    };
    if (running->areCopiesLate())
      running->fiber().copies.add(copy);
    else
      copy();
  };
  api.commit = [] { running->fiber().copies.commit(); };
  api.wait = [](int pending) { running->fiber().copies.end(pending); };
}

/// What each lane of the warp gives, once all have.
template <class T> const T *exchanged(const T &mine) {
  static_assert(32 * sizeof(T) <= Block::scratchBytes);
  auto *lanes = reinterpret_cast<T *>(emulatorApi().warpScratch());
  lanes[running->threadInBlock() % 32] = mine;
  emulatorApi().syncWarp();
  return lanes;
}

void addFragments(EmulatorApi &api) {
  api.mma = [](MmaType type, float *sums, const unsigned *rows, const unsigned *columns) {
    addMma(sums, exchanged(Fragment::of(type, rows, columns)), running->threadInBlock() % 32);
  };
  api.loadMatrices = [](unsigned *to, unsigned row, bool isTransposed) {
    const auto *mine = reinterpret_cast<const MatrixRow *>(running->at(row, 16));
    loadMatrices(to, exchanged(*mine), running->threadInBlock() % 32, isTransposed);
  };
}

void arrive(TransactionBarrier &barrier, unsigned expectedBytes) {
  if (barrier.pending == 0)
    running->fail("more arrivals at a barrier than it expects");
  barrier.bytes += expectedBytes;
  --barrier.pending;
  running->completePhase(barrier);
  running->letOthers();
}

void addTransactions(EmulatorApi &api) {
  api.initBarrier = [](unsigned barrier, unsigned arrivals) {
    *reinterpret_cast<TransactionBarrier *>(running->at(barrier, sizeof(TransactionBarrier))) = {0, arrivals, arrivals,
                                                                                                 0};
  };
  api.arrive = [](unsigned barrier, unsigned expectedBytes) { arrive(running->barrierAt(barrier), expectedBytes); };
  api.arriveInCluster = [](unsigned barrier) { arrive(running->barrierInCluster(barrier), 0); };
  api.waitBarrier = [](unsigned barrier, unsigned parity) {
    running->waitFor(running->barrierAt(barrier), parity != 0);
  };
  api.send = [](unsigned to, const void *from, unsigned bytes, unsigned barrier) {
    unsigned char *target = running->inCluster(to, bytes);
    const std::string value(static_cast<const char *>(from), bytes);
    running->bring(to, barrier, bytes, [=] { std::memcpy(target, value.data(), bytes); });
  };
}

/// The tensor of a map that boxes of this rank are brought from or to.
const EmulatedTensor &tensorOf(const void *map, int rank) {
  const auto &tensor = *static_cast<const EmulatedTensor *>(map);
  if (tensor.recipe.sizes.size() != static_cast<std::size_t>(rank))
    running->fail("a box of another rank than its tensor's");
  return tensor;
}

/// The start of the shared memory that has a box, whose address TMA wants to be a multiple of 128.
unsigned char *memoryOf(unsigned box, const EmulatedTensor &tensor) {
  unsigned char *first = running->inCluster(box, 128);
  running->inCluster(box + tensor.boxBytes() - 16, 16);
  return first - box % (1U << blockBits);
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
    const EmulatedTensor &tensor = tensorOf(map, rank);
    const std::vector<int> at(place, place + rank);
    running->at(to, 128);
    running->barrierAt(barrier);
    if (blocks == 0)
      running->fail("a box for no block");
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned whose = (i + 1) << blockBits;
      if (blocks >> i & 1)
        running->bring(to | whose, barrier | whose, tensor.boxBytes(),
                       [=, &tensor, shared = memoryOf(to | whose, tensor)] {
                         tensor.forEachChunk(at, to, [&](unsigned address, const std::byte *memory, unsigned bytes) {
                           if (memory)
                             std::memcpy(shared + address, memory, bytes);
                           else
                             std::memset(shared + address, 0, bytes);
                         });
                       });
    }
  };
  api.storeBox = [](const void *map, const int *place, int rank, unsigned from) {
    const EmulatedTensor &tensor = tensorOf(map, rank);
    running->at(from, 128);
    Fiber &fiber = running->fiber();
    fiber.stores.add([=, &tensor, &fiber, shared = memoryOf(from, tensor), at = std::vector<int>(place, place + rank)] {
      std::vector<std::byte> read;
      std::vector<std::span<std::byte>> places;
      tensor.forEachChunk(at, from, [&](unsigned address, std::byte *memory, unsigned bytes) {
        if (!memory)
          return;
        const auto *chunk = reinterpret_cast<std::byte *>(shared + address);
        read.insert(read.end(), chunk, chunk + bytes);
        places.emplace_back(memory, bytes);
      });
      fiber.unwritten.push_back([read = std::move(read), places = std::move(places)] {
        const std::byte *from = read.data();
        for (std::span<std::byte> to : places) {
          std::memcpy(to.data(), from, to.size());
          from += to.size();
        }
      });
    });
    fiber.stores.commit();
    if (!running->areCopiesLate())
      endStores(fiber, 0, true);
  };
  api.waitStores = [](int pending, bool inMemory) { endStores(running->fiber(), pending, inMemory); };
}

/// Products read their operands at once where copies are late, which finds what has not come; else as late as they may,
/// when they are waited for, which finds what is overwritten too soon.
template <class Multiply> void addProduct(const char *text, Multiply multiply) {
  static std::map<std::string, std::optional<WgmmaInstruction>, std::less<>> known;
  auto found = known.find(std::string_view(text));
  if (found == known.end())
    found = known.emplace(text, WgmmaInstruction::parse(text)).first;
  if (!found->second)
    running->fail("no instruction that is emulated: " + std::string(text));
  auto product = [multiply = std::move(multiply), &instruction = *found->second] {
    if (!multiply(instruction))
      running->fail("a matrix that is not swizzled by 128 bytes, or not where its instruction has it");
  };
  if (running->areCopiesLate())
    product();
  else
    running->fiber().products.add(std::move(product));
}

void addProducts(EmulatorApi &api) {
  api.multiply = [](const char *text, float *sums, unsigned long long rows, unsigned long long columns,
                    bool accumulate) {
    addProduct(text, [=, thread = running->threadInBlock() % 128](const WgmmaInstruction &instruction) {
      return instruction.multiply(running->sharedMemory(), thread, sums, rows, columns, accumulate);
    });
  };
  api.multiplyRows = [](const char *text, float *sums, const unsigned short *rows, unsigned long long columns,
                        bool accumulate) {
    std::array<std::array<unsigned short, 16>, 2> copied{};
    for (int i = 0; i < 32; ++i)
      copied[i / 16][i % 16] = rows[i];
    addProduct(text, [=, thread = running->threadInBlock() % 128](const WgmmaInstruction &instruction) {
      return instruction.multiply(running->sharedMemory(), thread, sums, copied, columns, accumulate);
    });
  };
  api.commitProducts = [] { running->fiber().products.commit(); };
  api.waitProducts = [](int pending) { running->fiber().products.end(pending); };
}

} // namespace

const EmulatorApi &emulatorApi() {
  static const EmulatorApi api = [] {
    EmulatorApi made{};
    for (auto add : {addThreads, addBarriers, addClusters, addSharedMemory, addFragments, addCopies, addTransactions,
                     addTma, addProducts})
      add(made);
    return made;
  }();
  return api;
}

} // namespace kfuse::test
