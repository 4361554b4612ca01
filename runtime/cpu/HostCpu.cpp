#include "runtime/cpu/HostCpu.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace kfuse::runtime::cpu {
namespace {

constexpr std::size_t usualCacheBytes = 32 << 20; // Used where the system does not tell.

HostCpu askHost() {
  HostCpu cpu;
  cpu.model = llvm::sys::getHostCPUName().str();
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> present;
  for (const auto &feature : features)
    if (feature.second)
      present.push_back("+" + feature.first().str());
  std::sort(present.begin(), present.end());
  for (const std::string &feature : present)
    cpu.features += (cpu.features.empty() ? "" : ",") + feature;
  cpu.vectorBits = features.lookup("avx512f") ? 512 : features.lookup("avx") ? 256 : 128;
  cpu.hasBf16Conversion = features.lookup("avx512bf16");
  cpu.cores = std::max(1U, std::thread::hardware_concurrency());
  long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  cpu.lastLevelCacheBytes = cache > 0 ? static_cast<std::size_t>(cache) : usualCacheBytes;
  return cpu;
}

} // namespace

const HostCpu &hostCpu() {
  static const HostCpu cpu = askHost();
  return cpu;
}

} // namespace kfuse::runtime::cpu
