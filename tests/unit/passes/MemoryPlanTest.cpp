#include "PassHarness.h"
#include "RandomGraph.h"

#include "passes/MemoryPlan.h"
#include "passes/OffsetPacking.h"

#include <algorithm>
#include <span>
#include <utility>

using namespace kfuse;
using namespace kfuse::test;
using passes::PackedBuffer;

TEST_CASE("packed buffers that live together never overlap, and the bound holds") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<PackedBuffer> buffers(1 + random() % 40);
    for (PackedBuffer &buffer : buffers) {
      buffer.bytes = 256 * (1 + static_cast<int64_t>(random() % 50));
      buffer.lifetime.first = static_cast<int>(random() % 30);
      buffer.lifetime.last = buffer.lifetime.first + static_cast<int>(random() % 8);
    }
    int64_t bytes = passes::packOffsets(buffers), bound = passes::mostLiveBytes(buffers), end = 0;
    for (const PackedBuffer &a : buffers) {
      CHECK(a.offset % 256 == 0);
      end = std::max(end, a.offset + a.bytes);
      for (const PackedBuffer &b : buffers) {
        bool meet = a.lifetime.first <= b.lifetime.last && b.lifetime.first <= a.lifetime.last;
        bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        CHECK((&a == &b || !meet || apart));
      }
    }
    CHECK(bytes == end);
    CHECK(bytes >= bound);
    CHECK(bytes <= 1.5 * bound); // Far worse than ever seen: the packing has broken.
  }
}

TEST_CASE("thousands of buffers that live together are packed in no time, and never overlap") {
  std::mt19937 random(1);
  std::vector<PackedBuffer> buffers(6000);
  for (PackedBuffer &buffer : buffers) {
    buffer.bytes = 256 * (1 + static_cast<int64_t>(random() % 50));
    buffer.lifetime.first = static_cast<int>(random() % 6000);
    buffer.lifetime.last = buffer.lifetime.first + static_cast<int>(random() % 3000);
  }
  const int64_t bytes = passes::packOffsets(buffers);
  CHECK(bytes <= 1.5 * passes::mostLiveBytes(buffers));
  size_t overlaps = 0;
  for (const PackedBuffer &a : buffers)
    for (const PackedBuffer &b : buffers) {
      bool meet = a.lifetime.first <= b.lifetime.last && b.lifetime.first <= a.lifetime.last;
      bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      overlaps += &a != &b && meet && !apart;
    }
  CHECK(overlaps == 0);
}

TEST_CASE("a chain ping-pongs between two buffers") {
  std::vector<PackedBuffer> buffers;
  for (int step = 0; step < 10; ++step)
    buffers.push_back({1024, {step, step + 1}, 0});
  CHECK(passes::packOffsets(buffers) == 2048);
  CHECK(passes::mostLiveBytes(buffers) == 2048);
}

namespace {

/// Runs the kernels of a planned function in order and writes each value's number over its bytes: no
/// value may be lost before its last reader.
void checkNoValueIsOverwritten(mlir::func::FuncOp function, const passes::MemoryPlan &plan) {
  std::vector<mlir::Value> owner(static_cast<size_t>(plan.arenaBytes / passes::arenaAlignment));
  auto slots = [&](mlir::Value value) {
    int64_t offset = plan.offsets.lookup(value), bytes = ir::bytesOf(value);
    return std::make_pair(offset / passes::arenaAlignment,
                          (offset + bytes + passes::arenaAlignment - 1) / passes::arenaAlignment);
  };
  for (auto fused : function.getOps<ir::FusedOp>()) {
    for (mlir::Value input : fused.getInputs()) {
      mlir::Value storage = plan.storageOf(input);
      if (!plan.offsets.count(storage))
        continue;
      auto [begin, end] = slots(storage);
      for (int64_t slot = begin; slot < end; ++slot)
        CHECK(owner[slot] == storage);
    }
    for (mlir::Value result : fused.getResults())
      if (plan.offsets.count(result)) {
        CHECK(plan.offsets.lookup(result) % passes::arenaAlignment == 0);
        auto [begin, end] = slots(result);
        REQUIRE(end <= static_cast<int64_t>(owner.size()));
        for (int64_t slot = begin; slot < end; ++slot)
          owner[slot] = result;
      }
  }
}

/// A result that takes an input's memory while the kernel still reads it: each element may depend on that
/// input's element in its own place alone. Asked of the evaluator, one element at a time.
int checkInPlaceIsElementwise(mlir::func::FuncOp function, const passes::MemoryPlan &plan, unsigned seed) {
  std::mt19937 random(seed);
  int reused = 0;
  for (auto fused : function.getOps<ir::FusedOp>())
    for (auto [number, result] : llvm::enumerate(fused.getResults()))
      for (auto [i, input] : llvm::enumerate(fused.getInputs())) {
        auto ours = plan.offsets.find(result), theirs = plan.offsets.find(plan.storageOf(input));
        bool overlap = ours != plan.offsets.end() && theirs != plan.offsets.end() &&
                       ours->second < theirs->second + ir::bytesOf(input) &&
                       theirs->second < ours->second + ir::bytesOf(result);
        if (!overlap)
          continue;
        ++reused;
        REQUIRE(ours->second == theirs->second);
        std::vector<HostTensor> arguments;
        for (mlir::Value argument : fused.getBody().front().getArguments())
          arguments.push_back(randomArgument(argument, random()));
        auto evaluated = [&, number = number] {
          auto values = reference::evaluate(fused.getBody().front(), arguments, Mode::Exact);
          REQUIRE(values);
          return std::move((*values)[number]);
        };
        Values before = evaluated();
        for (int trial = 0; trial < 4; ++trial) {
          std::span<float> elements(reinterpret_cast<float *>(arguments[i].bytes.data()),
                                    arguments[i].bytes.size() / sizeof(float));
          size_t changed = random() % elements.size();
          float old = std::exchange(elements[changed], elements[changed] + 3);
          Values after = evaluated();
          elements[changed] = old;
          for (std::int64_t element = 0; element < after.size(); ++element)
            if (element != static_cast<std::int64_t>(changed))
              CHECK(after.real(element) == before.real(element));
        }
      }
  return reused;
}

} // namespace

TEST_CASE("no kernel of a random model overwrites what a later one reads") {
  passes::ScalarFormCostModel any(cpuTarget());
  SmallRegionsOnly small(cpuTarget(), 1); // Leaves elementwise kernels, which work in place.
  int reused = 0;
  for (unsigned seed = 0; seed < 60; ++seed)
    for (const ir::CostModel *model :
         {static_cast<const ir::CostModel *>(&any), static_cast<const ir::CostModel *>(&small)}) {
      CAPTURE(seed);
      ParsedModule parsed(RandomGraph(seed).text());
      REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
      REQUIRE(runPasses(*parsed.module, [&](mlir::PassManager &manager) { passes::buildPipeline(manager, *model); }) ==
              "");
      auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
      passes::MemoryPlan plan = passes::planMemory(main);
      CHECK(plan.arenaBytes >= plan.lowerBoundBytes);
      CHECK(plan.arenaBytes <= plan.separateBytes);
      checkNoValueIsOverwritten(main, plan);
      reused += checkInPlaceIsElementwise(main, plan, seed);
    }
  CHECK(reused >= 20); // Or the law was not asked.
}

TEST_CASE("the arena of random graphs of 500 values is within 5 % of its lower bound in the median") {
  constexpr int values = 500;
  std::vector<double> ratios;
  for (unsigned seed = 0; seed < 101; ++seed) {
    // Each value is computed from up to three others: mostly late ones, some far back as a residual is.
    std::mt19937 random(seed);
    std::geometric_distribution<int> near(0.3), far(0.02);
    std::vector<PackedBuffer> buffers(values);
    for (int i = 0; i < values; ++i) {
      buffers[i] = {passes::arenaAlignment << random() % 8, {i, i}, 0};
      buffers[i].bytes += static_cast<int64_t>(random() % 4) * passes::arenaAlignment;
      for (unsigned operand = 0; operand < 1 + random() % 3; ++operand) {
        int back = 1 + (random() % 4 ? near(random) : far(random));
        if (back <= i)
          buffers[i - back].lifetime.last = i;
      }
    }
    auto bound = static_cast<double>(passes::mostLiveBytes(buffers));
    ratios.push_back(static_cast<double>(passes::packOffsets(buffers)) / bound);
  }
  std::sort(ratios.begin(), ratios.end());
  CAPTURE(ratios.back());
  CHECK(ratios[ratios.size() / 2] <= 1.05);
}
