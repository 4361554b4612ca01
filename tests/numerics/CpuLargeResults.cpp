// Results that go past the caches, as those do that outgrow them: here, every result.
#include "CpuRegion.h"

using namespace kfuse;
using namespace kfuse::test;
using reference::uniform;

namespace {

/// Checks every config for a processor whose cache holds nothing. Whether any goes past the cache.
bool checkWithoutCache(const std::string &function, const std::vector<HostTensor> &arguments) {
  ir::Target target = CpuRegion::target();
  target.l2Bytes = 0;
  CpuRegion region(function);
  bool isPast = false;
  for (const codegen::TileConfig &config : region.candidates()) {
    region.check(arguments, config, target);
    isPast |= region.plan(config, target).source.find("nontemporal") != std::string::npos;
  }
  return isPast;
}

bool checkWithoutCache(const std::string &op, DType type, const Shape &shape, const Shape &result) {
  HostTensor x = uniform(type, shape, 3), y = HostTensor::zeros(type, result);
  return checkWithoutCache(functionText(op + " : (" + typeText(x) + ") -> " + typeText(y), {x}), {x});
}

} // namespace

TEST_CASE("cpu: results past the cache") {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CAPTURE(toString(type));
    CHECK(checkWithoutCache("kfuse.exp %arg0", type, {6, 320}, {6, 320}));
    CHECK(checkWithoutCache("kfuse.softmax %arg0", type, {5, 256}, {5, 256}));
    CHECK(checkWithoutCache("kfuse.transpose %arg0 {permutation = array<i64: 1, 0>}", type, {64, 96}, {96, 64}));
  }
}

TEST_CASE("cpu: results past the cache that leave cache lines half written stay in it") {
  CHECK_FALSE(checkWithoutCache("kfuse.exp %arg0", DType::F32, {9}, {9}));
  CHECK_FALSE(checkWithoutCache("kfuse.softmax %arg0", DType::BF16, {5, 100}, {5, 100}));
}
