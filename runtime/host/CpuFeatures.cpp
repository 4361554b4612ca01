#include "runtime/host/CpuFeatures.h"

#include "runtime/pack/Selection.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace kfuse::runtime {
namespace {

enum Register { Eax, Ebx, Ecx, Edx };

/// Registers whose contents the system keeps between threads, by the bits of XCR0 that say so.
enum State : std::uint64_t { None = 0, Vectors = 0x6, WideVectors = 0xe6 };

/// Where cpuid tells of a feature: Intel's manual, volume 2, CPUID; AMD's, volume 3, appendix E. Left out is what LLVM
/// uses only where a program asks for it by name, as for AES.
struct Feature {
  const char *name;
  unsigned leaf, subleaf;
  Register place;
  unsigned bit;
  State needs = None;
};

constexpr Feature features[] = {
    {"sse3", 1, 0, Ecx, 0},
    {"ssse3", 1, 0, Ecx, 9},
    {"fma", 1, 0, Ecx, 12, Vectors},
    {"sse4.1", 1, 0, Ecx, 19},
    {"sse4.2", 1, 0, Ecx, 20},
    {"movbe", 1, 0, Ecx, 22},
    {"popcnt", 1, 0, Ecx, 23},
    {"avx", 1, 0, Ecx, 28, Vectors},
    {"f16c", 1, 0, Ecx, 29, Vectors},
    {"bmi", 7, 0, Ebx, 3},
    {"avx2", 7, 0, Ebx, 5, Vectors},
    {"bmi2", 7, 0, Ebx, 8},
    {"avx512f", 7, 0, Ebx, 16, WideVectors},
    {"avx512dq", 7, 0, Ebx, 17, WideVectors},
    {"adx", 7, 0, Ebx, 19},
    {"avx512ifma", 7, 0, Ebx, 21, WideVectors},
    {"avx512cd", 7, 0, Ebx, 28, WideVectors},
    {"avx512bw", 7, 0, Ebx, 30, WideVectors},
    {"avx512vl", 7, 0, Ebx, 31, WideVectors},
    {"avx512vbmi", 7, 0, Ecx, 1, WideVectors},
    {"avx512vbmi2", 7, 0, Ecx, 6, WideVectors},
    {"gfni", 7, 0, Ecx, 8},
    {"avx512vnni", 7, 0, Ecx, 11, WideVectors},
    {"avx512bitalg", 7, 0, Ecx, 12, WideVectors},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, WideVectors},
    {"avx512fp16", 7, 0, Edx, 23, WideVectors},
    {"avxvnni", 7, 1, Eax, 4, Vectors},
    {"avx512bf16", 7, 1, Eax, 5, WideVectors},
    {"avxifma", 7, 1, Eax, 23, Vectors},
    {"avxvnniint8", 7, 1, Edx, 4, Vectors},
    {"avxneconvert", 7, 1, Edx, 5, Vectors},
    {"avxvnniint16", 7, 1, Edx, 10, Vectors},
    {"lzcnt", 0x80000001, 0, Ecx, 5},
    {"xop", 0x80000001, 0, Ecx, 11, Vectors},
    {"fma4", 0x80000001, 0, Ecx, 16, Vectors},
    {"tbm", 0x80000001, 0, Ecx, 21},
};

std::array<unsigned, 4> cpuid(unsigned leaf, unsigned subleaf) {
  std::array<unsigned, 4> registers{};
  __get_cpuid_count(leaf, subleaf, &registers[Eax], &registers[Ebx], &registers[Ecx], &registers[Edx]);
  return registers; // Zeros where there is no such leaf.
}

/// XCR0; 0 where the system has not turned it on.
std::uint64_t keptState() {
  constexpr unsigned osxsave = 27;
  if (!(cpuid(1, 0)[Ecx] >> osxsave & 1))
    return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t(high) << 32 | low;
}

} // namespace

std::vector<std::string> cpuFeatures() {
  const std::uint64_t kept = keptState();
  std::vector<std::string> present;
  for (const Feature &feature : features)
    if (cpuid(feature.leaf, feature.subleaf)[feature.place] >> feature.bit & 1 &&
        (kept & feature.needs) == feature.needs)
      present.emplace_back(feature.name);
  std::ranges::sort(present);
  return present;
}

std::vector<std::string> knownCpuFeatures() {
  std::vector<std::string> names;
  for (const Feature &feature : features)
    names.emplace_back(feature.name);
  return names;
}

DeviceKind cpuKind() { return {.target = "cpu", .sku = "this processor", .features = cpuFeatures()}; }

} // namespace kfuse::runtime
