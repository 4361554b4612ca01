#include "tools/kfuse/bench/CublasLt.h"

#include <doctest/doctest.h>

#include <array>
#include <dlfcn.h>

using namespace kfuse;
using namespace kfuse::tools;

namespace {

std::vector<std::unique_ptr<runtime::LoadedKernel>> algorithmsOf(DType type, const Products &products) {
  static void *const fake = dlopen(KFUSE_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(fake != nullptr);
  auto found = cublasLtAlgorithms(type, DType::BF16, false, products);
  REQUIRE(found);
  return std::move(*found);
}

} // namespace

TEST_CASE("cuBLASLt: an algorithm that its state rules out is none") {
  CHECK(algorithmsOf(DType::BF16, {1, 16, 16, 16}).size() == 3);
  CHECK(algorithmsOf(DType::BF16, {4, 16, 16, 16}).size() == 6); // Strided, and one by one.
}

TEST_CASE("cuBLASLt: a product that it does not take has no algorithm, which is no error") {
  CHECK(algorithmsOf(DType::F8E5M2, {1, 17, 17, 17}).empty());
  CHECK(algorithmsOf(DType::F8E5M2, {4, 17, 17, 17}).empty());
}

TEST_CASE("cuBLASLt: an algorithm whose call fails costs that algorithm alone") {
  for (const std::int64_t batches : {1, 4}) {
    CAPTURE(batches);
    auto algorithms = algorithmsOf(DType::BF16, {batches, 16, 16, 16});
    const std::size_t offered = algorithms.size();
    std::unique_ptr<runtime::Device> device = runtime::openCpu(1);
    std::array<void *, 3> buffers{};
    REQUIRE(dropFailing(algorithms, *device, buffers, nullptr));
    CHECK(algorithms.size() == offered - (batches > 1 ? 2 : 1));
    for (auto &algorithm : algorithms)
      CHECK(algorithm->launch(nullptr, buffers, nullptr));
  }
}
