#include "tools/kfuse/bench/BlockTimes.h"

#include <algorithm>
#include <iterator>

namespace kfuse::tools {
namespace {

using Marks = std::vector<Mark>;

/// What happens at one moment.
Marks inOrder(std::span<const Mark> slots) {
  Marks marks;
  std::copy_if(slots.begin(), slots.end(), std::back_inserter(marks),
               [](const Mark &mark) { return mark.nanoseconds != 0; });
  std::sort(marks.begin(), marks.end(), [](const Mark &a, const Mark &b) { return a.nanoseconds < b.nanoseconds; });
  return marks;
}

/// Those at `from` or later and before `to`.
std::span<const Mark> between(const Marks &marks, std::uint64_t from, std::uint64_t to) {
  const auto isBefore = [](const Mark &mark, std::uint64_t time) { return mark.nanoseconds < time; };
  return {std::lower_bound(marks.begin(), marks.end(), from, isBefore),
          std::lower_bound(marks.begin(), marks.end(), to, isBefore)};
}

} // namespace

std::vector<BlockTimes> timesOfLaunches(std::span<const Mark> marks, std::size_t block,
                                        std::span<const std::size_t> steps) {
  const std::size_t slots = marks.size() / momentRoom, launches = steps.size();
  std::array<Marks, momentNames.size()> of;
  for (std::size_t moment = 0; moment < of.size(); ++moment)
    of[moment] = inOrder(marks.subspan(moment * slots, slots));
  const auto all = [&](Moment moment) -> const Marks & { return of[static_cast<std::size_t>(moment)]; };
  const Marks &goOn = all(Moment::GoesOn);
  if (goOn.size() != launches)
    return {};

  std::vector<BlockTimes> times(launches);
  for (std::size_t i = 0; i < launches; ++i) {
    const auto put = [&](Moment moment, std::uint64_t at) { times[i].at[static_cast<std::size_t>(moment)] = at; };
    times[i].step = steps[i], times[i].block = block, times[i].multiprocessor = goOn[i].multiprocessor;
    for (Moment once : {Moment::Starts, Moment::Waits, Moment::GoesOn})
      if (all(once).size() == launches)
        put(once, all(once)[i].nanoseconds);
    const std::uint64_t from = goOn[i].nanoseconds, to = i + 1 < launches ? goOn[i + 1].nanoseconds : UINT64_MAX;
    if (const std::span<const Mark> tiles = between(all(Moment::HasTile), from, to); !tiles.empty())
      put(Moment::HasTile, tiles.front().nanoseconds);
    for (Moment last : {Moment::HasSums, Moment::Ends})
      if (const std::span<const Mark> found = between(all(last), from, to); !found.empty())
        put(last, found.back().nanoseconds);
  }
  return times;
}

} // namespace kfuse::tools
