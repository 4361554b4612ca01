#include "ir/Target.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <vector>

namespace kfuse::ir {
namespace {

constexpr double teraPerUs = 1e6; // 1 TB/s or 1 TFLOP/s in units per microsecond.

/// What datasheets say of an architecture: dense rates with f32 accumulation, no sparsity.
struct ArchitectureFacts {
  const char *name, *description;
  int capability, multiprocessors;
  int sharedBytesPerBlock, threadsPerSm;
  double l2Megabytes, terabytes;
  double launchUs; ///< Between dependent nodes of one CUDA graph; 1.3 us was measured on an H200.
  double f32Teraflops, halfTeraflops;
};

// clang-format off
constexpr std::array architectureFacts{
    //                name       description               cap  SMs  shared  threads  L2 MB  TB/s  launch   f32   half
    ArchitectureFacts{"sm_80",   "A100",                    80, 108, 166912,   2048,   40, 2.0,   2.0, 19.5,  312},
    ArchitectureFacts{"sm_86",   "A10, A40, RTX 3090",      86,  84, 101376,   1536,    6, 0.7,   2.0,   37,  150},
    ArchitectureFacts{"sm_87",   "Jetson Orin",             87,  16, 166912,   1536,    4, 0.2,   3.0,  5.3,   42},
    ArchitectureFacts{"sm_89",   "L4, L40S, RTX 4090",      89, 128, 101376,   1536,   72, 1.0,   2.0,   82,  165},
    ArchitectureFacts{"sm_90a",  "H100, H200",              90, 132, 232448,   2048,   50, 4.8,   1.3,   67,  989},
    ArchitectureFacts{"sm_100a", "B200",                   100, 148, 232448,   2048,  126, 8.0,   1.3,   80, 2250},
    ArchitectureFacts{"sm_103a", "B300",                   103, 148, 232448,   2048,  126, 8.0,   1.3,   80, 2500},
    ArchitectureFacts{"sm_120a", "RTX 5090, RTX PRO 6000", 120, 170, 101376,   1536,   96, 1.8,   1.5,  105,  210},
};
// clang-format on

constexpr int registersPerSm = 65536; // Each of them has as many.

Target cpu() {
  return {.name = "cpu",
          .description = "any x86-64 with AVX2 or AVX-512",
          .multiprocessors = 2,
          .sharedBytesPerBlock = 1 << 20,
          .l2Bytes = 32e6,
          .memoryBytesPerUs = 0.03 * teraPerUs,
          .launchUs = 2.0,
          .f32FlopsPerUs = 0.1 * teraPerUs,
          .halfFlopsPerUs = 0.1 * teraPerUs};
}

Target architectureOf(const ArchitectureFacts &facts) {
  return {.name = facts.name,
          .description = facts.description,
          .capability = facts.capability,
          .multiprocessors = facts.multiprocessors,
          .sharedBytesPerBlock = facts.sharedBytesPerBlock,
          .registersPerSm = registersPerSm,
          .threadsPerSm = facts.threadsPerSm,
          .l2Bytes = facts.l2Megabytes * 1e6,
          .memoryBytesPerUs = facts.terabytes * teraPerUs,
          .launchUs = facts.launchUs,
          .f32FlopsPerUs = facts.f32Teraflops * teraPerUs,
          .halfFlopsPerUs = facts.halfTeraflops * teraPerUs};
}

const Target *findArchitecture(std::string_view name) {
  for (const Target &target : knownTargets())
    if (target.name == name || target.name == std::string(name) + "a")
      return &target;
  return nullptr;
}

/// What datasheets say of a card beyond its architecture's row.
struct CardFacts {
  const char *architecture, *card;
  int multiprocessors;
  double l2Megabytes, terabytes, f32Teraflops, halfTeraflops;
};

// One card's name may be the beginning of another's ("H100" of "H100 PCIe"): the longest that a device's name holds, as
// whole words, is taken.
constexpr std::array cardFacts{
    CardFacts{"sm_80", "A100-SXM4-40GB", 108, 40, 1.555, 19.5, 312},
    CardFacts{"sm_80", "A100-PCIE-40GB", 108, 40, 1.555, 19.5, 312},
    CardFacts{"sm_80", "A100-SXM4-80GB", 108, 40, 2.039, 19.5, 312},
    CardFacts{"sm_80", "A100 80GB PCIe", 108, 40, 1.935, 19.5, 312},
    CardFacts{"sm_89", "L4", 58, 48, 0.3, 30.3, 121},
    CardFacts{"sm_89", "L40", 142, 96, 0.864, 90.5, 181},
    CardFacts{"sm_89", "L40S", 142, 96, 0.864, 91.6, 362},
    CardFacts{"sm_89", "RTX 4090", 128, 72, 1.008, 82.6, 165},
    CardFacts{"sm_90a", "H100 80GB HBM3", 132, 50, 3.35, 67, 989},
    CardFacts{"sm_90a", "H100 PCIe", 114, 50, 2.04, 51, 756},
    CardFacts{"sm_90a", "H100 NVL", 132, 50, 3.9, 60, 835},
    CardFacts{"sm_90a", "H200", 132, 50, 4.8, 67, 989},
    CardFacts{"sm_90a", "H20", 78, 60, 4.0, 44, 148},
    CardFacts{"sm_100a", "B200", 148, 126, 8.0, 80, 2250},
    CardFacts{"sm_103a", "B300", 148, 126, 8.0, 80, 2500},
    CardFacts{"sm_120a", "RTX 5090", 170, 96, 1.79, 105, 210},
    CardFacts{"sm_120a", "RTX PRO 6000", 188, 128, 1.79, 125, 504},
};

Target cardOf(const CardFacts &facts) {
  Target card = *findArchitecture(facts.architecture);
  card.card = facts.card;
  card.description = facts.card;
  card.multiprocessors = facts.multiprocessors;
  card.l2Bytes = facts.l2Megabytes * 1e6;
  card.memoryBytesPerUs = facts.terabytes * teraPerUs;
  card.f32FlopsPerUs = facts.f32Teraflops * teraPerUs;
  card.halfFlopsPerUs = facts.halfTeraflops * teraPerUs;
  return card;
}

/// Whether the device's name holds the card's as whole words: "NVIDIA L40S" is no "L40".
bool holdsWords(std::string_view deviceName, std::string_view card) {
  auto isWithinWord = [&](std::size_t at) {
    return at < deviceName.size() && std::isalnum(static_cast<unsigned char>(deviceName[at]));
  };
  for (std::size_t at = deviceName.find(card); at != std::string_view::npos; at = deviceName.find(card, at + 1))
    if ((at == 0 || !isWithinWord(at - 1)) && !isWithinWord(at + card.size()))
      return true;
  return false;
}

/// Whether the word of a command line names the card: in any case, with dashes for blanks.
bool isNameOf(std::string_view word, std::string_view card) {
  return std::ranges::equal(word, card, [](unsigned char a, unsigned char b) {
    auto plain = [](unsigned char letter) { return letter == ' ' ? '-' : std::tolower(letter); };
    return plain(a) == plain(b);
  });
}

} // namespace

std::string Target::title() const { return card.empty() ? name : card + " (" + name + ")"; }

double Target::matmulFlopsPerUs(DType type, bool tf32) const {
  if (tf32 && capability >= 80)
    return halfFlopsPerUs / 2;
  if (isFloat8(type) && capability >= 89)
    return 2 * halfFlopsPerUs;
  return type == DType::F32 ? f32FlopsPerUs : halfFlopsPerUs;
}

std::span<const Target> knownTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all{cpu()};
    std::ranges::transform(architectureFacts, std::back_inserter(all), architectureOf);
    return all;
  }();
  return targets;
}

std::span<const Target> knownCards() {
  static const std::vector<Target> cards = [] {
    std::vector<Target> all;
    std::ranges::transform(cardFacts, std::back_inserter(all), cardOf);
    return all;
  }();
  return cards;
}

const Target *findTarget(std::string_view name) {
  if (const Target *architecture = findArchitecture(name))
    return architecture;
  for (const Target &card : knownCards())
    if (isNameOf(name, card.card))
      return &card;
  return nullptr;
}

const Target &targetOfDevice(const Target &architecture, std::string_view deviceName) {
  const Target *found = &architecture;
  for (const Target &card : knownCards())
    if (card.name == architecture.name && card.card.size() > found->card.size() && holdsWords(deviceName, card.card))
      found = &card;
  return *found;
}

Target withMultiprocessors(Target target, int count) {
  const double share = static_cast<double>(count) / target.multiprocessors;
  target.multiprocessors = count;
  target.f32FlopsPerUs *= share;
  target.halfFlopsPerUs *= share;
  return target;
}

} // namespace kfuse::ir
