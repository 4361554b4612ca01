// Real worker processes: kfuse-worker of this build, each with an NVRTC of its own.
#include "ChildProcess.h"
#include "Pace.h"

#include "runtime/Elf.h"
#include "runtime/worker/RemoteCompiler.h"
#include "tests/Skip.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

const std::vector<codegen::DeviceHeader> headers{{"kfuse/factor.cuh", "#pragma once\nconstexpr float factor = 3;\n"}};

codegen::KernelPlan planOf(const std::string &factor) {
  codegen::KernelPlan plan;
  plan.name = "sample", plan.target = "sm_90a";
  plan.source = "#include <kfuse/factor.cuh>\n"
                "extern \"C\" __global__ void sample(float *x) { x[threadIdx.x] *= " +
                factor + "; }\n";
  return plan;
}

/// Null, with a message, on a machine without NVRTC.
std::unique_ptr<KernelCompiler> local() {
  Result<std::unique_ptr<KernelCompiler>> made = makeCudaCompiler(headers);
  if (made && (*made)->compile(planOf("factor")))
    return std::move(*made);
  kfuse::testing::skip("no NVRTC");
  return nullptr;
}

/// Refuses to compile: who asks it has no worker.
struct NoCompiler final : KernelCompiler {
  explicit NoCompiler(std::string version) : itsVersion(std::move(version)) {}
  std::string version() const override { return itsVersion; }
  Result<CompiledKernel> compile(const codegen::KernelPlan &) override { return Error{ErrorCode::Internal, "here"}; }

  std::string itsVersion;
};

} // namespace

TEST_CASE("RemoteCompiler: several at once give what one here gives") {
  std::unique_ptr<KernelCompiler> here = local();
  if (!here)
    return;
  Result<CompiledKernel> expected = here->compile(planOf("factor"));
  REQUIRE(expected);
  std::unique_ptr<KernelCompiler> remote = makeRemoteCompiler(std::make_unique<NoCompiler>(here->version()), headers);
  CHECK(remote->version() == here->version());
  std::array<Result<CompiledKernel>, 3> kernels{Error{}, Error{}, Error{}};
  std::vector<std::thread> threads;
  for (auto &kernel : kernels)
    threads.emplace_back([&] {
      kernel = remote->compile(planOf("factor"));
      if (kernel) // Again, in a worker that has compiled before.
        kernel = remote->compile(planOf("factor"));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Result<CompiledKernel> &kernel : kernels) {
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    CHECK(kernel->image == expected->image);
    CHECK(kernel->facts == expected->facts);
    CHECK(kernel->assembly == expected->assembly);
    CHECK(kernel->compileMs > 0);
  }
}

TEST_CASE("RemoteCompiler: what does not compile is told as it is here, and the worker goes on") {
  std::unique_ptr<KernelCompiler> here = local();
  if (!here)
    return;
  std::unique_ptr<KernelCompiler> remote = makeRemoteCompiler(std::make_unique<NoCompiler>(here->version()), headers);
  Result<CompiledKernel> wrong = remote->compile(planOf("nothing"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::Compile);
  CHECK(wrong.error().message == here->compile(planOf("nothing")).error().message);
  CHECK(remote->compile(planOf("factor")));
}

TEST_CASE("RemoteCompiler: one that does not come to an end is ended, and the next kernel gets another") {
  std::unique_ptr<KernelCompiler> here = local();
  if (!here)
    return;
  std::unique_ptr<KernelCompiler> remote =
      makeRemoteCompiler(std::make_unique<NoCompiler>(here->version()), headers, std::chrono::seconds(5));
  codegen::KernelPlan endless = planOf("Tree<28, 1>::leaves");
  endless.source = "template <int height, int number> struct Tree { static constexpr int leaves = "
                   "Tree<height - 1, 2 * number>::leaves + Tree<height - 1, 2 * number + 1>::leaves; };\n"
                   "template <int number> struct Tree<0, number> { static constexpr int leaves = 1; };\n" +
                   endless.source;
  Result<CompiledKernel> kernel = remote->compile(endless);
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().code == ErrorCode::Compile);
  CHECK(kernel.error().message ==
        "kernel 'sample' does not compile for sm_90a: the compiler took more than 5 s and was ended");
  CHECK(remote->compile(planOf("factor")));
}

TEST_CASE("RemoteCompiler: one that somebody stopped is ended, and another compiles") {
  std::unique_ptr<KernelCompiler> here = local();
  if (!here)
    return;
  std::unique_ptr<KernelCompiler> remote = makeRemoteCompiler(std::make_unique<NoCompiler>(here->version()), headers);
  REQUIRE(remote->compile(planOf("factor")));
  REQUIRE(tuner::test::signalWorkers(SIGSTOP) == 1);
  const auto start = std::chrono::steady_clock::now();
  CHECK(remote->compile(planOf("factor")));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("RemoteCompiler: a stop ends what is compiled, and nothing else is") {
  std::unique_ptr<KernelCompiler> here = local();
  if (!here)
    return;
  CHECK(tuner::test::soonest(1500, [&] {
          std::stop_source stop;
          std::unique_ptr<KernelCompiler> remote = makeRemoteCompiler(
              std::make_unique<NoCompiler>(here->version()), headers, std::chrono::seconds(60), stop.get_token());
          REQUIRE(remote->compile(planOf("factor")));
          REQUIRE(tuner::test::signalWorkers(SIGSTOP) == 1); // It would not answer.
          std::jthread stopper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            stop.request_stop();
          });
          const double start = tuner::test::wallMs();
          CHECK(remote->compile(planOf("factor")).error().code == ErrorCode::Cancelled);
          const double ms = tuner::test::wallMs() - start;
          CHECK(remote->compile(planOf("factor")).error().code == ErrorCode::Cancelled);
          CHECK(tuner::test::signalWorkers(0) == 0);
          return ms;
        }) < 1500);
}

TEST_CASE("RemoteCompiler: where no worker starts the compiler here does it") {
  const char *worker = std::getenv("KFUSE_WORKER");
  const std::string before = worker ? worker : "";
  setenv("KFUSE_WORKER", "/nowhere/kfuse-worker", 1);
  Result<CompiledKernel> kernel =
      makeRemoteCompiler(std::make_unique<NoCompiler>("none 1"), headers)->compile(planOf("factor"));
  worker ? setenv("KFUSE_WORKER", before.c_str(), 1) : unsetenv("KFUSE_WORKER");
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().message == "here");
}

TEST_CASE("RemoteCompiler: a worker with another NVRTC than the one that the version tells does not compile") {
  Result<CompiledKernel> kernel =
      makeRemoteCompiler(std::make_unique<NoCompiler>("none 1"), headers)->compile(planOf("factor"));
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().message == "here");
}
