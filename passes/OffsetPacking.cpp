#include "passes/OffsetPacking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace kfuse::passes {
namespace {

using Order = std::vector<unsigned>;

/// The offset of the smallest gap that fits between `placed`, else behind them all.
int64_t bestFit(int64_t bytes, llvm::SmallVectorImpl<const PackedBuffer *> &placed) {
  llvm::sort(placed, [](const PackedBuffer *a, const PackedBuffer *b) { return a->offset < b->offset; });
  int64_t end = 0, best = -1, smallest = std::numeric_limits<int64_t>::max();
  for (const PackedBuffer *neighbour : placed) {
    int64_t gap = neighbour->offset - end;
    if (gap >= bytes && gap < smallest) {
      best = end;
      smallest = gap;
    }
    end = std::max(end, neighbour->offset + neighbour->bytes);
  }
  return best >= 0 ? best : end;
}

int64_t packInOrder(llvm::MutableArrayRef<PackedBuffer> buffers, const Order &order,
                    const InterferenceGraph &interference) {
  std::vector<bool> isPlaced(buffers.size());
  int64_t peak = 0;
  for (unsigned number : order) {
    llvm::SmallVector<const PackedBuffer *> placed;
    for (auto neighbour : llvm::make_range(boost::adjacent_vertices(number, interference)))
      if (isPlaced[neighbour])
        placed.push_back(&buffers[neighbour]);
    PackedBuffer &buffer = buffers[number];
    buffer.offset = bestFit(buffer.bytes, placed);
    isPlaced[number] = true;
    peak = std::max(peak, buffer.offset + buffer.bytes);
  }
  return peak;
}

/// Pairs of buffers that live at the same time.
int64_t pairsAlive(llvm::ArrayRef<PackedBuffer> buffers) {
  std::vector<int> begins, ends;
  for (const PackedBuffer &buffer : buffers) {
    begins.push_back(buffer.lifetime.first);
    ends.push_back(buffer.lifetime.last);
  }
  llvm::sort(begins);
  llvm::sort(ends);
  int64_t pairs = 0, begun = 0, ended = 0;
  for (int begin : begins) {
    while (ends[ended] < begin)
      ++ended;
    pairs += begun++ - ended;
  }
  return pairs;
}

/// The free ranges of an arena: what begins takes the smallest that fits, what ends gives its own back.
class FreeRanges {
public:
  int64_t take(int64_t bytes) {
    auto found = bySize.lower_bound({bytes, 0});
    if (found == bySize.end())
      return std::exchange(end, end + bytes);
    auto [size, offset] = *found;
    remove(offset, size);
    if (size > bytes)
      add(offset + bytes, size - bytes);
    return offset;
  }
  void giveBack(int64_t offset, int64_t bytes) {
    auto behind = byOffset.lower_bound(offset);
    if (behind != byOffset.end() && behind->first == offset + bytes) {
      bytes += behind->second;
      remove(behind->first, behind->second);
    }
    behind = byOffset.lower_bound(offset);
    if (behind != byOffset.begin())
      if (auto [before, size] = *std::prev(behind); before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    add(offset, bytes);
  }
  int64_t bytes() const { return end; }

private:
  void add(int64_t offset, int64_t size) {
    byOffset[offset] = size;
    bySize.insert({size, offset});
  }
  void remove(int64_t offset, int64_t size) {
    byOffset.erase(offset);
    bySize.erase({size, offset});
  }

  std::map<int64_t, int64_t> byOffset;
  std::set<std::pair<int64_t, int64_t>> bySize;
  int64_t end = 0;
};

int64_t packAsTheyBegin(llvm::MutableArrayRef<PackedBuffer> buffers) {
  Order order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  llvm::stable_sort(order,
                    [&](unsigned a, unsigned b) { return buffers[a].lifetime.first < buffers[b].lifetime.first; });
  std::set<std::pair<int, unsigned>> living; // (last step, number)
  FreeRanges free;
  for (unsigned number : order) {
    for (; !living.empty() && living.begin()->first < buffers[number].lifetime.first; living.erase(living.begin()))
      free.giveBack(buffers[living.begin()->second].offset, buffers[living.begin()->second].bytes);
    buffers[number].offset = free.take(buffers[number].bytes);
    living.insert({buffers[number].lifetime.last, number});
  }
  return free.bytes();
}

} // namespace

int64_t mostLiveBytes(llvm::ArrayRef<PackedBuffer> buffers) {
  std::map<int, int64_t> change; // Bytes that begin or end to live before a step.
  for (const PackedBuffer &buffer : buffers) {
    change[buffer.lifetime.first] += buffer.bytes;
    change[buffer.lifetime.last + 1] -= buffer.bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [step, bytes] : change)
    most = std::max(most, live += bytes);
  return most;
}

int64_t packOffsets(llvm::MutableArrayRef<PackedBuffer> buffers) {
  llvm::SmallVector<Lifetime> lifetimes;
  for (const PackedBuffer &buffer : buffers)
    lifetimes.push_back(buffer.lifetime);
  // Each round looks at every pair: fewer rounds where they are many, none where only that would take seconds.
  constexpr int64_t mostRounds = 16, mostPairs = 1 << 20, mostLooks = 1 << 23;
  const int64_t pairs = std::max<int64_t>(pairsAlive(buffers), 1), rounds = std::min(mostRounds, mostLooks / pairs);
  if (pairs > mostPairs)
    return packAsTheyBegin(buffers);
  InterferenceGraph interference = interferenceOf(lifetimes);

  auto span = [&](unsigned i) { return int64_t{buffers[i].lifetime.last} - buffers[i].lifetime.first + 1; };
  using Weight = std::function<int64_t(unsigned)>;
  const Weight weights[] = {[&](unsigned i) { return buffers[i].bytes; }, span,
                            [&](unsigned i) { return buffers[i].bytes * span(i); },
                            [&](unsigned i) { return -int64_t{buffers[i].lifetime.first}; }};
  std::vector<int64_t> best;
  const int64_t bound = mostLiveBytes(buffers);
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const Weight &weight : weights) {
    Order order(buffers.size());
    std::iota(order.begin(), order.end(), 0U);
    llvm::stable_sort(order, [&](unsigned a, unsigned b) { return weight(a) > weight(b); });
    // Again and again with the buffers at the top placed first.
    for (int64_t round = 0; round < rounds && smallest > bound; ++round) {
      int64_t peak = packInOrder(buffers, order, interference);
      if (peak < smallest) {
        smallest = peak;
        best.clear();
        for (const PackedBuffer &buffer : buffers)
          best.push_back(buffer.offset);
      }
      std::stable_partition(order.begin(), order.end(),
                            [&](unsigned i) { return buffers[i].offset + buffers[i].bytes == peak; });
    }
  }
  for (auto [buffer, offset] : llvm::zip_equal(buffers, best))
    buffer.offset = offset;
  return smallest;
}

} // namespace kfuse::passes
