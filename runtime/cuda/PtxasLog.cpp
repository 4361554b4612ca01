#include "runtime/cuda/PtxasLog.h"

#include <algorithm>
#include <charconv>

namespace kfuse::runtime::cuda {
namespace {

/// The number right before every occurrence of `unit` in `log`: its largest, or 0.
int largestBefore(std::string_view log, std::string_view unit) {
  int largest = 0;
  for (std::size_t at = log.find(unit); at != std::string_view::npos; at = log.find(unit, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9')
      --begin;
    int value = 0;
    std::from_chars(log.data() + begin, log.data() + at, value);
    largest = std::max(largest, value);
  }
  return largest;
}

} // namespace

// ptxas info    : Compiling entry function 'add' for 'sm_90a'
// ptxas info    : Function properties for add
//     16 bytes stack frame, 24 bytes spill stores, 24 bytes spill loads
// ptxas info    : Used 32 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ResourceFacts parseResourceFacts(std::string_view log) {
  ResourceFacts facts;
  facts.registers = largestBefore(log, " registers");
  facts.spillBytes = largestBefore(log, " bytes spill stores") + largestBefore(log, " bytes spill loads");
  facts.stackBytes = largestBefore(log, " bytes stack frame");
  facts.staticSharedBytes = largestBefore(log, " bytes smem");
  return facts;
}

std::string firstErrorLine(std::string_view log) {
  std::string_view first;
  while (!log.empty()) {
    std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos)
      return std::string(line);
    if (first.empty())
      first = line;
  }
  return std::string(first);
}

} // namespace kfuse::runtime::cuda
