#include "tuner/search/CompileAhead.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

/// Compiles names in the order in which it is asked; the first waits for `gate`.
class RecordingCompiler : public runtime::KernelCompiler {
public:
  std::string version() const override { return "recording 1"; }
  Result<runtime::CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    if (plan.name.starts_with("gate")) {
      isAtGate = true;
      isAtGate.notify_all();
      gate.wait(false);
    }
    std::scoped_lock lock(mutex);
    order += plan.name + " ";
    if (plan.name.ends_with("throws"))
      throw std::runtime_error("out of memory");
    return runtime::CompiledKernel{.image = {}, .facts = {}, .compileMs = 0, .log = plan.name, .assembly = ""};
  }
  void open() {
    gate = true;
    gate.notify_all();
  }

  std::atomic<bool> gate = false, isAtGate = false;
  std::mutex mutex;
  std::string order;
};

codegen::KernelPlan named(const std::string &name) {
  codegen::KernelPlan plan;
  plan.name = plan.source = name;
  return plan;
}

} // namespace

TEST_CASE("CompileAhead: in the order wanted, but what is taken first, and nothing that was dropped") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 1);
  for (const char *name : {"gate", "a", "b", "c", "a"})
    ahead.want(name, named(name));
  compiler.isAtGate.wait(false);
  ahead.drop("b");
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    compiler.open();
  });
  CHECK(ahead.take("c", named("c"))->log == "c");
  ahead.finishBy(std::chrono::steady_clock::now() + std::chrono::hours(1));
  CHECK(compiler.order == "gate c a ");
  CHECK(ahead.take("a", named("a"))->log == "a");
  CHECK_FALSE(ahead.isReady("a"));
  CHECK(ahead.take("never wanted", named("d"))->log == "d");
}

TEST_CASE("CompileAhead: what is wanted first goes before what waits, also where it waits itself, and once") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 1);
  for (const char *name : {"gate", "a", "b"})
    ahead.want(name, named(name));
  compiler.isAtGate.wait(false);
  for (const char *name : {"c", "b", "gate"})
    ahead.wantFirst(name, named(name));
  compiler.open();
  ahead.finishBy(std::chrono::steady_clock::now() + std::chrono::hours(1));
  CHECK(compiler.order == "gate b c a ");
}

TEST_CASE("CompileAhead: what is dropped is forgotten when it ends, unless it is wanted again") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 1);
  const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
  ahead.want("gate", named("gate"));
  compiler.isAtGate.wait(false);
  SUBCASE("dropped") {
    ahead.drop("gate");
    compiler.open();
    ahead.finishBy(later);
    CHECK_FALSE(ahead.isReady("gate"));
  }
  SUBCASE("wanted again") {
    ahead.drop("gate");
    ahead.want("gate", named("gate"));
    compiler.open();
    ahead.finishBy(later);
    CHECK(ahead.isReady("gate"));
    CHECK(compiler.order == "gate ");
    ahead.drop("gate");
    CHECK_FALSE(ahead.isReady("gate"));
  }
}

TEST_CASE("CompileAhead: plans of one code are compiled once, whoever asks for it and when") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 2);
  auto plan = [](const std::string &head, const std::string &code, unsigned blocks) {
    codegen::KernelPlan made = named("gate");
    made.source = "// " + head + "\n" + code;
    codegen::Launch &launch = made.launches.emplace_back();
    launch.entry = "f";
    launch.grid = {blocks, 1, 1};
    return made;
  };
  ahead.want("64 rows", plan("64 rows", "f()", 4));
  compiler.isAtGate.wait(false);
  ahead.want("128 rows", plan("128 rows", "f()", 8)); // While it is compiled.
  CHECK_FALSE(ahead.isReady("128 rows"));
  compiler.open();
  CHECK(ahead.take("64 rows", plan("64 rows", "f()", 4))->log == "gate");
  CHECK(ahead.take("128 rows", plan("128 rows", "f()", 8))->log == "gate");
  CHECK(ahead.take("256 rows", plan("256 rows", "f()", 16))->log == "gate"); // Behind it.
  CHECK(compiler.order == "gate ");
  CHECK(ahead.take("other", plan("64 rows", "g()", 4))->log == "gate");
  CHECK(compiler.order == "gate gate ");
}

TEST_CASE("CompileAhead: a plan whose code did not compile for another is compiled itself") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 2);
  codegen::KernelPlan failing = named("gate throws"), same = failing;
  same.name = "same code";
  ahead.want("failing", failing);
  compiler.isAtGate.wait(false);
  ahead.want("same", same);
  compiler.open();
  CHECK_FALSE(ahead.take("failing", failing));
  CHECK(ahead.take("same", same)->log == "same code");
  CHECK(compiler.order == "gate throws same code ");
}

TEST_CASE("CompileAhead: at the deadline what has not begun is dropped") {
  RecordingCompiler compiler;
  CompileAhead ahead(compiler, 1);
  ahead.want("gate", named("gate"));
  ahead.want("late", named("late"));
  compiler.isAtGate.wait(false);
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    compiler.open();
  });
  ahead.finishBy(std::chrono::steady_clock::now());
  CHECK(ahead.isReady("gate"));
  CHECK_FALSE(ahead.isReady("late"));
  CHECK(compiler.order == "gate ");
}

TEST_CASE("CompileAhead: what the compiler throws is an error of that plan; the end waits for no queue") {
  RecordingCompiler compiler;
  {
    CompileAhead ahead(compiler, 1);
    CHECK(ahead.take("throws", named("throws")).error().message == "out of memory");
    ahead.want("gate", named("gate"));
    for (int i = 0; i < 100; ++i)
      ahead.want(std::to_string(i), named(std::to_string(i)));
    compiler.open();
  }
  CHECK(compiler.order.size() < 100);
}

TEST_CASE("CompileAhead: a stop ends waiting, and what has not begun is not compiled") {
  RecordingCompiler compiler;
  std::stop_source stop;
  {
    CompileAhead ahead(compiler, 1, stop.get_token());
    for (const char *name : {"gate", "a", "b"})
      ahead.want(name, named(name));
    compiler.isAtGate.wait(false);
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      stop.request_stop();
    });
    CHECK(ahead.take("a", named("a")).error().code == ErrorCode::Cancelled);
    ahead.finishBy(std::chrono::steady_clock::now() + std::chrono::hours(1));
    compiler.open();
  }
  CHECK(compiler.order == "gate ");
}
