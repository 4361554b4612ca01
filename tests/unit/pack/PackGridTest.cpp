// Which devices a packed program's grids let it run on.
#include "runtime/pack/Selection.h"
#include "tests/unit/SampleProgram.h"
#include "tuner/api/Packs.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

/// A program for an H200 whose second kernel has this grid, and the one that a pack falls back to.
Manifest packOf(const codegen::Residency &residency) {
  tuner::CompiledModel compiled;
  compiled.main = test::sampleProgram(100);
  compiled.main.kernels[1].plan.launches[0].residency = residency;
  compiled.compiler = "nvrtc 13.0";
  const std::vector<LengthProgram> forHopper{{compiled}};
  compiled.main = test::sampleProgram(100);
  compiled.main.target = "compute_80";
  const std::vector<LengthProgram> fallback{{compiled}};
  const BucketTable table = BucketTable::make({}, {}).value();
  Manifest manifest;
  manifest.variants = {tuner::packedOf(forHopper, table).first, tuner::packedOf(fallback, table).first};
  return manifest;
}

/// What a device of Hopper's with so many multiprocessors runs.
std::string chosenOn(int multiprocessors, const Manifest &manifest) {
  const DeviceKind device{"sm_90a", "a Hopper", multiprocessors, 232448, 13000, {}};
  return manifest.variants[selectVariant(manifest, device, "").value()].target;
}

} // namespace

TEST_CASE("pack grids: persistent kernels for 132 multiprocessors run on an H100 PCIe, an H20 and a part of a GPU") {
  const Manifest manifest = packOf({.multiprocessors = 132, .heldBlocks = 132, .workBlocks = 1000});
  CHECK(manifest.variants[0].multiprocessors == 0);
  for (int multiprocessors : {148, 132, 114, 78, 16})
    CHECK(chosenOn(multiprocessors, manifest) == "sm_90a");
}

TEST_CASE("pack grids: where blocks wait for each other, fewer multiprocessors take the next variant") {
  const Manifest manifest = packOf({.multiprocessors = 132, .heldBlocks = 132});
  CHECK(manifest.variants[0].multiprocessors == 132);
  for (int multiprocessors : {148, 132})
    CHECK(chosenOn(multiprocessors, manifest) == "sm_90a");
  for (int multiprocessors : {114, 78, 16})
    CHECK(chosenOn(multiprocessors, manifest) == "compute_80");
}
