#include "runtime/pack/Selection.h"

#include "runtime/CudaTarget.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

PackVariant gpu(const std::string &target, int multiprocessors, int cuda, const std::string &sku = "") {
  PackVariant variant;
  variant.target = target;
  variant.sku = sku;
  variant.multiprocessors = multiprocessors;
  variant.cuda = cuda;
  return variant;
}

PackVariant cpu(std::vector<std::string> features) {
  PackVariant variant;
  variant.target = "cpu";
  variant.features = std::move(features);
  return variant;
}

/// A variant of each kind of GPU.
Manifest manyGpus() {
  Manifest manifest;
  manifest.variants = {gpu("compute_80", 0, 13000),
                       gpu("compute_75", 0, 13000),
                       gpu("sm_80", 0, 13000),
                       gpu("sm_86", 0, 13000),
                       gpu("sm_90a", 132, 13000),
                       gpu("sm_90a", 132, 13000, "NVIDIA H200"),
                       gpu("sm_90a", 78, 13000, "NVIDIA H20")};
  return manifest;
}

std::string chosen(const Manifest &manifest, const DeviceKind &device, const std::string &forced = "") {
  Result<std::size_t> index = selectVariant(manifest, device, forced);
  return index ? manifest.variants[*index].title() : index.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("selection: SKU, then architecture, then a lower minor version, then PTX") {
  const Manifest manifest = manyGpus();
  CHECK(chosen(manifest, {"sm_90a", "NVIDIA H200", 132, 232448, 13000}) == "sm_90a for NVIDIA H200");
  CHECK(chosen(manifest, {"sm_90a", "NVIDIA H100 80GB HBM3", 132, 232448, 13000}) == "sm_90a");
  CHECK(chosen(manifest, {"sm_80", "NVIDIA A100", 108, 166912, 13000}) == "sm_80");
  CHECK(chosen(manifest, {"sm_89", "NVIDIA L40S", 142, 101376, 13000}) == "sm_86"); // Nearest below.
  CHECK(chosen(manifest, {"sm_100a", "NVIDIA B200", 148, 232448, 13000}) == "compute_80");
  CHECK(chosen(manifest, {"sm_75", "Tesla T4", 40, 65536, 13000}) == "compute_75");
}

TEST_CASE("selection: no variant whose grids count on more multiprocessors") {
  const Manifest manifest = manyGpus();
  CHECK(chosen(manifest, {"sm_90a", "NVIDIA H200 MIG 1g.18gb", 16, 232448, 13000}) == "compute_80");
  Manifest alone;
  alone.variants = {gpu("sm_90a", 132, 13000), gpu("sm_86", 0, 13000)};
  CHECK(chosen(alone, {"sm_90a", "NVIDIA H20", 78, 232448, 13000}) ==
        "the pack holds no program that runs on NVIDIA H20 (sm_90a, 78 multiprocessors, CUDA 13.0): sm_90a (counts on "
        "132 multiprocessors); sm_86 (for another device); make one with kfuse pack --target sm_90a");
}

TEST_CASE("selection: no variant whose blocks take more shared memory than there is") {
  Manifest manifest;
  manifest.variants = {gpu("sm_80", 0, 13000), gpu("compute_80", 0, 13000)};
  manifest.variants[0].sharedBytes = 166912;
  manifest.variants[1].sharedBytes = 101376;
  CHECK(chosen(manifest, {"sm_80", "NVIDIA A100", 108, 166912, 13000}) == "sm_80");
  CHECK(chosen(manifest, {"sm_89", "NVIDIA L40S", 142, 101376, 13000}) == "compute_80");
  manifest.variants.pop_back();
  CHECK(contains(chosen(manifest, {"sm_89", "NVIDIA L40S", 142, 101376, 13000}),
                 "sm_80 (takes 166912 bytes of shared memory)"));
}

TEST_CASE("selection: the order in the file does not matter") {
  Manifest manifest = manyGpus();
  auto byTitle = [](const PackVariant &a, const PackVariant &b) { return a.title() < b.title(); };
  std::ranges::sort(manifest.variants, byTitle);
  do {
    REQUIRE(chosen(manifest, {"sm_90a", "NVIDIA H200", 132, 232448, 13000}) == "sm_90a for NVIDIA H200");
    REQUIRE(chosen(manifest, {"sm_90a", "NVIDIA H100 80GB HBM3", 132, 232448, 13000}) == "sm_90a");
    REQUIRE(chosen(manifest, {"sm_90a", "NVIDIA H100 PCIe", 114, 232448, 13000}) == "sm_90a for NVIDIA H20");
    REQUIRE(chosen(manifest, {"sm_89", "NVIDIA L40S", 142, 101376, 13000}) == "sm_86");
  } while (std::next_permutation(manifest.variants.begin(), manifest.variants.end(), byTitle));
}

TEST_CASE("selection: drivers load cubins of their CUDA's major version, and no newer PTX") {
  Manifest manifest;
  manifest.variants = {gpu("sm_90a", 132, 13020), gpu("compute_80", 0, 13020)};
  CHECK(chosen(manifest, {"sm_90a", "H100", 132, 232448, 13000}) == "sm_90a");
  CHECK(contains(chosen(manifest, {"sm_90a", "H100", 132, 232448, 12080}), "sm_90a (needs a driver for CUDA 13.0)"));
  CHECK(chosen(manifest, {"sm_120a", "RTX 5090", 170, 101376, 13020}) == "compute_80");
  CHECK(contains(chosen(manifest, {"sm_120a", "RTX 5090", 170, 101376, 13000}),
                 "compute_80 (needs a driver for CUDA 13.2)"));
}

TEST_CASE("selection: a processor takes the code of most features among those that it has") {
  Manifest manifest;
  manifest.variants = {cpu({"avx"}), cpu({"avx", "avx2", "fma"}), cpu({"avx", "avx2", "avx512f", "fma"})};
  const DeviceKind device{"cpu", "this processor", 0, 0, 0, {"avx", "avx2", "fma", "sse3"}};
  Result<std::size_t> index = selectVariant(manifest, device, "");
  REQUIRE(index);
  CHECK(*index == 1);
  Result<std::size_t> none = selectVariant(manifest, {"cpu", "this processor", 0, 0, 0, {}}, "");
  REQUIRE_FALSE(none);
  CHECK((none.error().code == ErrorCode::NoDevice));
  CHECK(none.error().message == "the pack holds no program that runs on this processor: cpu (needs avx); cpu (needs "
                                "avx); cpu (needs avx); make one with kfuse pack --target cpu");
}

TEST_CASE("selection: a choice that is forced is made, or is an error") {
  const Manifest manifest = manyGpus();
  const DeviceKind h200{"sm_90a", "NVIDIA H200", 132, 232448, 13000};
  CHECK(chosen(manifest, h200, "compute_80") == "compute_80");
  CHECK(chosen(manifest, h200, "NVIDIA H20") == "sm_90a for NVIDIA H20");
  Result<std::size_t> other = selectVariant(manifest, h200, "sm_86");
  REQUIRE_FALSE(other);
  CHECK((other.error().code == ErrorCode::Usage));
  CHECK(contains(other.error().message, "no program for 'sm_86' runs on NVIDIA H200 (sm_90a, 132"));
  CHECK(contains(other.error().message, "sm_86 (for another device); "));
}

TEST_CASE("targets: what runs where") {
  CHECK(runsOn("sm_90a", "sm_90a"));
  CHECK_FALSE(runsOn("sm_90a", "sm_100a"));
  CHECK(runsOn("sm_80", "sm_89"));
  CHECK_FALSE(runsOn("sm_89", "sm_80"));
  CHECK_FALSE(runsOn("sm_80", "sm_90a"));
  CHECK(runsOn("compute_80", "sm_100a"));
  CHECK_FALSE(runsOn("compute_90a", "sm_100a"));
  CHECK(runsOn("cpu", "cpu"));
  CHECK_FALSE(runsOn("cpu", "sm_80"));
}
