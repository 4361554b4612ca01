#include "tools/kfuse/bench/BlockTimes.h"

#define __device__
#define __forceinline__ inline
#include "codegen/cuda/device/base/marks.cuh"

#include <doctest/doctest.h>

using kfuse::tools::BlockTimes, kfuse::tools::Mark, kfuse::tools::Moment, kfuse::tools::momentRoom,
    kfuse::tools::timesOfLaunches;

namespace {

// The device library's own.
static_assert(static_cast<int>(kfuse::Moment::goesOn) == static_cast<int>(Moment::GoesOn) &&
              static_cast<int>(kfuse::Moment::ends) == static_cast<int>(Moment::Ends) &&
              static_cast<std::size_t>(kfuse::Moment::count) == momentRoom && sizeof(kfuse::Mark) == sizeof(Mark));

constexpr std::size_t slots = 4;

struct Marks {
  Mark all[momentRoom * slots] = {};
  /// At slots in any order: what a block finds free depends on the time.
  void put(Moment moment, std::initializer_list<std::uint64_t> times) {
    std::size_t slot = slots;
    for (std::uint64_t at : times)
      all[static_cast<std::size_t>(moment) * slots + --slot] = {at, 100 + at};
  }
};

std::uint64_t at(const BlockTimes &times, Moment moment) { return times.at[static_cast<std::size_t>(moment)]; }

} // namespace

TEST_CASE("timesOfLaunches: tiles of a block belong to the launch behind whose wait they come") {
  Marks marks;
  // The second launch starts and waits before the first has its tiles: it may start early.
  marks.put(Moment::Starts, {10, 25});
  marks.put(Moment::Waits, {11, 26});
  marks.put(Moment::GoesOn, {20, 60});
  marks.put(Moment::HasTile, {30, 40, 70});
  marks.put(Moment::HasSums, {35, 45, 75});
  marks.put(Moment::Ends, {50, 80});
  const std::size_t steps[] = {3, 7};
  const std::vector<BlockTimes> times = timesOfLaunches(marks.all, 5, steps);
  REQUIRE(times.size() == 2);
  CHECK(times[0].step == 3);
  CHECK(times[1].step == 7);
  CHECK(times[1].block == 5);
  CHECK(times[1].multiprocessor == 160);
  CHECK(at(times[0], Moment::Starts) == 10);
  CHECK(at(times[1], Moment::Starts) == 25);
  CHECK(at(times[1], Moment::Waits) == 26);
  CHECK(at(times[0], Moment::HasTile) == 30); // Its first tile's.
  CHECK(at(times[0], Moment::HasSums) == 45); // Its last tile's.
  CHECK(at(times[0], Moment::Ends) == 50);
  CHECK(at(times[1], Moment::HasTile) == 70);
  CHECK(at(times[1], Moment::HasSums) == 75);
}

TEST_CASE("timesOfLaunches: what a kernel does not mark is not there") {
  Marks marks;
  marks.put(Moment::Waits, {11, 26});
  marks.put(Moment::GoesOn, {20, 60});
  marks.put(Moment::Ends, {80});
  const std::size_t steps[] = {0, 1};
  const std::vector<BlockTimes> times = timesOfLaunches(marks.all, 0, steps);
  REQUIRE(times.size() == 2);
  CHECK(at(times[0], Moment::Starts) == 0);
  CHECK(at(times[0], Moment::HasTile) == 0);
  CHECK(at(times[0], Moment::Ends) == 0);
  CHECK(at(times[1], Moment::Ends) == 80);
}

TEST_CASE("timesOfLaunches: a block whose waits lie on top of each other is left out") {
  Marks marks;
  marks.put(Moment::GoesOn, {20});
  const std::size_t steps[] = {0, 1};
  CHECK(timesOfLaunches(marks.all, 0, steps).empty());
}
