// kfuse::compile as a program calls it: stopped from another thread, and given a store that others may write.
#include "Pace.h"
#include "TemporaryFolder.h"

#include "kfuse/compiler.h"
#include "tuner/store/StoreUpkeep.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <sys/stat.h>
#include <thread>

using namespace kfuse;

namespace {

struct Fixture {
  Fixture() {
    options.target = "cpu";
    options.threads = 1;
    options.store = folder.path / "store.db";
    options.log = [this](std::string_view line) { log += std::string(line) + "\n"; };
  }
  Model model = std::move(*Model::load(KFUSE_TEST_DIR "/../examples/models/ffn_tiny.mlir"));
  tuner::test::TemporaryFolder folder;
  std::string log;
  CompileOptions options;
};

} // namespace

TEST_CASE("compile: a stop from another thread cancels within a second, and what was measured is kept") {
  CHECK(tuner::test::soonest(2500, [] { // A second, on a machine that does nothing else.
          Fixture f;
          f.options.effort = Effort::Full;
          std::stop_source stop;
          f.options.stop = stop.get_token();
          std::atomic<bool> hasMeasured = false;
          f.options.progress = [&](const Progress &at) {
            hasMeasured = hasMeasured || at.candidatesDone > 0;
            hasMeasured.notify_all();
            return true;
          };
          double asked = 0;
          std::jthread stopper([&] {
            hasMeasured.wait(false);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            asked = tuner::test::wallMs();
            stop.request_stop();
          });
          Result<Executable> cancelled = compile(f.model, f.options);
          const double ended = tuner::test::wallMs();
          stopper.join();
          REQUIRE_FALSE(cancelled);
          CHECK(cancelled.error().code == ErrorCode::Cancelled);
          CHECK(f.log == "");
          CHECK_FALSE(readContents(**tuner::StoreFile::openToRead(f.options.store, {})).measurements.empty());
          return ended - asked;
        }) < 2500);
}

TEST_CASE("compile: who asks to stop before it begins gets nothing") {
  Fixture f;
  std::stop_source stop;
  stop.request_stop();
  f.options.stop = stop.get_token();
  Result<Executable> cancelled = compile(f.model, f.options);
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == ErrorCode::Cancelled);
}

TEST_CASE("compile: machine code of a store that others may write is used where it is trusted") {
  Fixture f;
  f.options.effort = Effort::None;
  REQUIRE(compile(f.model, f.options));
  REQUIRE(chmod(f.options.store.c_str(), 0666) == 0);
  f.options.requireTuned = true;
  Result<Executable> refused = compile(f.model, f.options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::NotTuned);
  CHECK(refused.error().message ==
        "the machine code in store " + f.options.store + " is not trusted, as others may write " + f.options.store +
            " (mode 0666): chmod go-w " + f.options.store + ", or pass --trust-store (trustStore in the API)");
  CHECK(f.log == "");
  f.options.trustStore = true;
  CHECK(compile(f.model, f.options));
  f.options.trustStore = f.options.requireTuned = false;
  CHECK(compile(f.model, f.options));
  CHECK(f.log == refused.error().message + "; kernels are compiled anew\n");
}
