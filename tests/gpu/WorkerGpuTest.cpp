// The GPU in a worker process, with candidates that go wrong there in every way.
#include "tests/gpu/Gpu.h"
#include "tests/unit/SampleProgram.h"
#include "tests/unit/TemporaryFolder.h"
#include "tests/unit/tuner/search/FaultyKernels.h"

#include "ir/reference/Tensor.h"
#include "runtime/worker/RemoteDevice.h"
#include "tuner/record/Key.h"
#include "tuner/search/Tuner.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace kfuse;
using namespace kfuse::test;
using namespace kfuse::tuner;
using kfuse::tuner::test::faultyCudaPlan;
using kfuse::tuner::test::Flaw;

namespace {

std::unique_ptr<runtime::Device> remoteGpu() {
  return runtime::makeRemoteDevice(take(runtime::listGpus()).front().device(), {"cuda", "0"});
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

TEST_CASE("CudaDevice: a digest tells every change, in the last bytes too") {
  Gpu gpu;
  std::vector<std::uint8_t> bytes(10'000'003);
  std::iota(bytes.begin(), bytes.end(), 0);
  auto memory = take(gpu.device->allocate(bytes.size()));
  auto digestOf = [&] {
    succeed(gpu.device->upload(memory->data(), bytes.data(), bytes.size()));
    return take(gpu.device->digest(memory->data(), bytes.size()));
  };
  const std::uint64_t whole = digestOf();
  CHECK(digestOf() == whole);
  for (std::size_t at : {std::size_t(0), std::size_t(7), bytes.size() / 2, bytes.size() - 9, bytes.size() - 1}) {
    CAPTURE(at);
    bytes[at] ^= 0x80;
    CHECK(digestOf() != whole);
    bytes[at] ^= 0x80;
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 24); // Words that change places.
  CHECK(digestOf() != whole);
}

TEST_CASE("CudaDevice: sums of differences are those of the host, of every type and the last elements too") {
  Gpu gpu;
  constexpr std::size_t count = 3 * runtime::DifferenceSums::elements * 128 + 77;
  const std::size_t runs = (count + runtime::DifferenceSums::elements - 1) / runtime::DifferenceSums::elements;
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    CAPTURE(static_cast<int>(type));
    reference::HostTensor found = reference::normal(type, {static_cast<std::int64_t>(count)}, 1),
                          expected = reference::normal(type, {static_cast<std::int64_t>(count)}, 2);
    auto a = take(gpu.device->allocate(found.bytes.size())), b = take(gpu.device->allocate(found.bytes.size())),
         room = take(gpu.device->allocate(runs * sizeof(runtime::DifferenceSums)));
    auto sum = [&](const runtime::DeviceBuffer &from) {
      succeed(gpu.device->upload(a->data(), found.bytes.data(), found.bytes.size()));
      succeed(gpu.device->upload(b->data(), expected.bytes.data(), expected.bytes.size()));
      CHECK(take(gpu.device->sumDifferences(type, a->data(), from.data(), count, room->data())));
      std::vector<runtime::DifferenceSums> sums(runs);
      succeed(gpu.device->download(sums.data(), room->data(), room->size()));
      return sums;
    };
    const std::vector<runtime::DifferenceSums> sums = sum(*b);
    const std::vector<double> x = reference::toDoubles(found), y = reference::toDoubles(expected);
    for (std::size_t run = 0; run < runs; ++run) {
      double error = 0, size = 0;
      for (std::size_t i = run * runtime::DifferenceSums::elements;
           i < std::min(count, (run + 1) * runtime::DifferenceSums::elements); ++i)
        error += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
      REQUIRE(sums[run].error == doctest::Approx(error));
      REQUIRE(sums[run].size == doctest::Approx(size));
    }
    CHECK(sum(*a)[5].error == 0);
    std::memset(found.bytes.data() + found.bytes.size() - byteWidth(type), 0xff, byteWidth(type)); // Poison.
    const std::vector<runtime::DifferenceSums> poisoned = sum(*a);
    CHECK_FALSE(std::isfinite(poisoned.back().size));
    CHECK(std::isfinite(poisoned[runs - 2].size));
  }
  CHECK_FALSE(take(gpu.device->sumDifferences(DType::I32, nullptr, nullptr, 4, nullptr)));
}

TEST_CASE("RemoteDevice: the GPU comes back after a kernel that faults and one that does not end") {
  Gpu gpu;
  std::unique_ptr<runtime::Device> device = remoteGpu();
  device->limitRuns(0.5);
  for (Flaw flaw : {Flaw::None, Flaw::Crash, Flaw::None, Flaw::Hang, Flaw::None}) {
    CAPTURE(static_cast<int>(flaw));
    codegen::KernelPlan plan = faultyCudaPlan(flaw, device->target());
    auto start = std::chrono::steady_clock::now();
    auto x = take(device->allocate(4 * tuner::test::faultyElements)), y = take(device->allocate(x->size()));
    auto kernel = take(device->load(plan, take(gpu.compiler->compile(plan))));
    const double opening = secondsSince(start);
    std::array<void *, 2> buffers{x->data(), y->data()};
    Result<void> ran = kernel->launch(nullptr, buffers, nullptr);
    if (ran)
      ran = device->synchronize(nullptr);
    MESSAGE("flaw " << static_cast<int>(flaw) << ": open and load " << opening << " s, run "
                    << secondsSince(start) - opening << " s" << (ran ? "" : ": " + ran.error().message));
    CHECK(bool(ran) == (flaw == Flaw::None));
    if (!ran) {
      CHECK(ran.error().code == (flaw == Flaw::Hang ? ErrorCode::Timeout : ErrorCode::NoDevice));
      start = std::chrono::steady_clock::now();
      succeed(device->restart());
      MESSAGE("restart " << secondsSince(start) << " s");
    }
  }
}

TEST_CASE("RemoteDevice: runs of a whole program on the GPU take what they take here") {
  Gpu gpu;
  constexpr std::int64_t count = 1 << 20;
  const runtime::Program program = gpu.compile(sampleProgram(count));
  auto medianOf = [&](runtime::Device &device) {
    std::vector<std::unique_ptr<runtime::DeviceBuffer>> memory;
    std::vector<void *> arguments, results;
    auto place = [&](std::vector<void *> &pointers) {
      memory.push_back(take(device.allocate(count * sizeof(float))));
      succeed(device.fill(memory.back()->data(), 0x3f, count * sizeof(float)));
      pointers.push_back(memory.back()->data());
    };
    for (std::size_t i = 0; i < program.arguments.size(); ++i)
      place(arguments);
    for (int state : program.resultState)
      if (state < 0)
        place(results);
      else
        results.push_back(nullptr);
    auto runs = take(device.prepareProgramRuns(program, arguments, results));
    const double us = median(take(runs->measure({.repetitions = 100, .warmupMs = 20, .cold = true})));
    float y = 0, seed = 0;
    succeed(device.download(&y, results[0], sizeof y));
    std::memset(&seed, 0x3f, sizeof seed);
    CHECK(y == 2 * seed * sampleScale(0));
    return us;
  };
  const std::unique_ptr<runtime::Device> remote = remoteGpu();
  const double here = medianOf(*gpu.device), there = medianOf(*remote);
  MESSAGE("a run takes " << here << " us here, " << there << " us in a worker");
  CHECK(there == doctest::Approx(here).epsilon(0.2));
}

TEST_CASE("search: on the GPU each bad candidate is a row with its reason, and the good one wins") {
  Gpu gpu;
  std::unique_ptr<runtime::Device> device = remoteGpu();
  const ir::Target &target = *ir::findTarget(device->target());
  tuner::test::TemporaryFolder folder;
  std::unique_ptr<Store> store = take(Store::open(folder.path / "store.db", {}));
  TuningContext context{target, *gpu.compiler, device.get(), *store, nominalPeaks(target), {}};
  context.options.secondsPerKernel = 60;
  auto planOf = [&](Flaw flaw) { return faultyCudaPlan(flaw, target.name); };
  TuningTask task = tuner::test::faultyTask({Flaw::Slow, Flaw::Crash, Flaw::CompileError, Flaw::Overrun, Flaw::Hang,
                                             Flaw::InputWrite, Flaw::WrongResult, Flaw::None},
                                            planOf);
  auto start = std::chrono::steady_clock::now();
  std::vector<TunedKernel> kernels = take(tune(context, std::span(&task, 1)));
  MESSAGE("eight candidates, four of which cost the worker its life: " << secondsSince(start) << " s");
  CHECK(kernels.front().report.config == "id=7");
  CHECK(kernels.front().report.failed == 6);
  auto failureOf = [&](Flaw flaw) -> std::string {
    std::optional<Measurement> row =
        store->findMeasurement(tuningKey(planOf(flaw), gpu.compiler->version(), device->sku()));
    return row && row->failure ? std::string(toString(row->failure->kind)) + ": " + row->failure->message : "none";
  };
  CHECK(failureOf(Flaw::Slow) == "none");
  CHECK(failureOf(Flaw::Crash).find("crash: ") == 0);
  CHECK(failureOf(Flaw::CompileError).find("compile: ") == 0);
  CHECK(failureOf(Flaw::Overrun) == "overrun: wrote behind the end of output 0");
  CHECK(failureOf(Flaw::Hang) == "timeout: synchronize took more than 1 s and was ended");
  CHECK(failureOf(Flaw::InputWrite) == "overrun: wrote into input 0");
  CHECK(failureOf(Flaw::WrongResult).find("wrong result: ") == 0);
  MESSAGE(failureOf(Flaw::Crash));
}
