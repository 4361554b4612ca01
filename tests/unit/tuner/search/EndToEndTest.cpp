#include "SearchFakes.h"
#include "TemporaryFolder.h"

#include "tuner/record/Key.h"
#include "tuner/search/EndToEnd.h"
#include "tuner/search/RunnersUp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

/// Ids of the kernels that a run launches, in order.
using Launched = std::vector<int>;

/// Runs of whole programs take what a test says of the kernels in them.
class RunDevice : public FakeDevice {
public:
  using FakeDevice::FakeDevice;

  Result<std::unique_ptr<runtime::TimedRuns>> prepareProgramRuns(const runtime::Program &program,
                                                                 std::span<void *const> arguments,
                                                                 std::span<void *const> results) override {
    if (loadError && visits.size() >= visitsBeforeError)
      return *loadError;
    Launched ids;
    for (const runtime::Step &step : program.steps)
      ids.push_back(std::stoi(program.kernels[step.kernel].plan.source.substr(3)));
    firstArgument = *static_cast<const float *>(arguments[0]);
    stateResult = results.size() > 1 ? results[1] : arguments[0];
    return std::unique_ptr<runtime::TimedRuns>(std::make_unique<Runs>(*this, std::move(ids)));
  }

  std::function<double(const Launched &)> runUs;
  std::optional<Error> loadError;
  std::size_t visitsBeforeError = 0;
  std::vector<Launched> visits;             ///< What was measured, in order.
  std::vector<runtime::MeasureOptions> how; ///< The same visits.
  int runsLoaded = 0, runsAlive = 0, mostAlive = 0;
  float firstArgument = 0;
  void *stateResult = nullptr;

private:
  struct Runs : runtime::TimedRuns {
    Runs(RunDevice &device, Launched ids) : device(device), ids(std::move(ids)) {
      ++device.runsLoaded;
      device.mostAlive = std::max(device.mostAlive, ++device.runsAlive);
    }
    ~Runs() override { --device.runsAlive; }
    Result<std::vector<double>> measure(const runtime::MeasureOptions &options) override {
      device.visits.push_back(ids);
      device.how.push_back(options);
      return std::vector<double>(3, device.runUs(ids));
    }
    RunDevice &device;
    Launched ids;
  };
};

/// Alone the kernels take 10, 10.2, 10.4, 10.45 and 12 us.
const Script someNear{{0, {.us = 10}}, {1, {.us = 10.2}}, {2, {.us = 10.4}}, {3, {.us = 10.45}}, {4, {.us = 12}}};

/// A model of one or more tasks, each launched `uses` times, over one script.
struct Model {
  explicit Model(Script kernels = someNear, int count = 1) : script(std::move(kernels)) {
    for (int i = 0; i < count; ++i) {
      TuningTask &task = tasks.emplace_back(makeTask(script, "of " + std::to_string(i)));
      task.signature += std::to_string(i);
      task.name += std::to_string(i);
      task.uses = 2;
    }
    // Unless a test says so, a run takes what its kernels take alone.
    device.runUs = [this](const Launched &ids) {
      return std::accumulate(ids.begin(), ids.end(), 0.0, [&](double us, int id) { return us + script.at(id).us; });
    };
    options.effort = Effort::Full;
    options.log = [this](const std::string &line) { log += line + "\n"; };
  }

  TuningContext context() {
    return {*ir::findTarget("sm_80"), compiler, &device, *store, nominalPeaks(*ir::findTarget("sm_80")), options};
  }
  std::vector<TunedKernel> tuned() { return std::move(*tune(context(), tasks)); }

  Result<std::optional<EndToEndReport>> choose(std::vector<TunedKernel> &kernels, double seconds = 60) {
    const TuningContext here = context();
    return chooseEndToEnd(here, tasks, kernels, run(), seconds);
  }

  /// y and the state s of each launch; x is read by all.
  WholeRun run() {
    auto build = [this](std::span<const TunedKernel> kernels) -> Result<runtime::Program> {
      runtime::Program program;
      program.target = "sm_80";
      const Shape shape{static_cast<std::int64_t>(elements)};
      program.arguments = {{"x", DType::F32, shape}, {"s", DType::F32, shape}};
      program.roles = {Role::Input, Role::State};
      program.results = {{"y", DType::F32, shape}, {"s_next", DType::F32, shape}};
      program.resultState = {-1, 1};
      for (std::uint32_t i = 0; i < kernels.size(); ++i) {
        program.kernels.push_back({kernels[i].plan, kernels[i].binary});
        for (int use = 0; use < tasks[i].uses; ++use)
          program.steps.push_back({i, {{}, {}}});
      }
      return program;
    };
    auto makeArgument = [](std::size_t) {
      const std::array<float, 2> noise{0.25F, 0.5F};
      const auto bytes = std::as_bytes(std::span(noise));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    return {build, makeArgument};
  }

  std::string storedConfig(const TunedKernel &kernel) { return store->findChoice(kernel.report.region)->config.str(); }

  TemporaryFolder folder;
  Script script;
  FakeCompiler compiler{script};
  RunDevice device{script};
  std::unique_ptr<Store> store = std::move(*Store::open(folder.path / "store.db", {}));
  std::vector<TuningTask> tasks;
  TuneOptions options;
  std::string log;
};

/// Where a run takes 20 us with the winner of the search.
void checkNothingTaken(Model &m) {
  std::vector<TunedKernel> kernels = m.tuned();
  Result<std::optional<EndToEndReport>> report = m.choose(kernels);
  REQUIRE(report);
  REQUIRE(*report);
  CHECK((*report)->taken == 0);
  CHECK((*report)->us == 20);
  CHECK(kernels[0].report.config == "id=0");
  CHECK(m.storedConfig(kernels[0]) == "id=0");
}

} // namespace

TEST_CASE("end to end: of kernels that are near each other alone that one is chosen with which a run takes least") {
  Model m;
  m.device.runUs = [](const Launched &ids) { return ids == Launched{2, 2} ? 19.0 : 20.0; };
  std::vector<TunedKernel> kernels = m.tuned();
  REQUIRE(kernels[0].report.config == "id=0");
  Result<std::optional<EndToEndReport>> report = m.choose(kernels);
  REQUIRE(report);
  REQUIRE(*report);
  CHECK(kernels[0].report.config == "id=2");
  CHECK(kernels[0].report.measuredUs == 10.4);
  CHECK(kernels[0].plan.source == "id=2 of 0");
  CHECK((*report)->us == 19);
  CHECK((*report)->aloneUs == doctest::Approx(20));
  CHECK((*report)->tried == 3); // id=4 takes a fifth more alone.
  CHECK((*report)->taken == 1);
  CHECK(m.log.find("double0: id=2 instead of id=0, by the time of the whole run") != std::string::npos);

  // The next process finds it, and it is new no more.
  m.device.visits.clear();
  std::vector<TunedKernel> again = m.tuned();
  CHECK(again[0].report.fromCache);
  CHECK(again[0].report.config == "id=2");
  CHECK(again[0].binary == kernels[0].binary);
  report = m.choose(again);
  REQUIRE(report);
  CHECK_FALSE(*report);
  CHECK(m.device.visits.empty());
}

TEST_CASE("end to end: a kernel keeps its place where nobody makes a run shorter by more than a tie") {
  Model m;
  m.device.runUs = [](const Launched &ids) { return ids == Launched{0, 0} ? 20.0 : 19.97; };
  checkNothingTaken(m);
}

TEST_CASE("end to end: a run is timed as a model's, cold, interleaved, loaded anew for each pair of them") {
  Model m;
  std::vector<TunedKernel> kernels = m.tuned();
  m.device.runUs = [](const Launched &ids) { return ids[0] == 1 ? 30.0 : ids[0] == 0 ? 20.03 : 20.0; };
  REQUIRE(m.choose(kernels));
  const std::vector<Launched> firstTurns{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {3, 3}, {2, 2}, {1, 1}, {0, 0}};
  REQUIRE(m.device.visits.size() > 18);
  CHECK(m.device.visits[0] == Launched{0, 0}); // To warm up, and to see how long a visit takes.
  CHECK(std::equal(firstTurns.begin(), firstTurns.end(), m.device.visits.begin() + 2));
  CHECK(std::count(m.device.visits.begin(), m.device.visits.end(), Launched{1, 1}) == 4);  // It left after a round.
  CHECK(std::count(m.device.visits.begin(), m.device.visits.end(), Launched{0, 0}) == 10); // 0.15 % are not decided.
  CHECK(m.device.runsLoaded == static_cast<int>(m.device.visits.size()) / 2);
  CHECK(m.device.mostAlive == 5); // One of them is loaded while what it replaces is there.
  CHECK(m.device.runsAlive == 0);
  CHECK(std::ranges::all_of(m.device.how, &runtime::MeasureOptions::cold));
  CHECK(m.device.how[0].warmupMs == 40); // The card may have been idle.
  CHECK(m.device.how[2].warmupMs == 2);
  CHECK(m.device.firstArgument == 0.25F);
  CHECK(m.device.stateResult == nullptr);
}

TEST_CASE("end to end: runs bound by compute are visited until the card has a clock for them") {
  Model m;
  m.tasks[0].work.flops = 1e12;
  std::vector<TunedKernel> kernels = m.tuned();
  REQUIRE((kernels[0].report.bound.regime == Regime::Compute));
  REQUIRE(m.choose(kernels));
  CHECK(m.device.how[2].warmupMs == 40);
  CHECK(m.device.how[2].maxSeconds == 0.04);
}

TEST_CASE("end to end: quick effort leaves it out") {
  Model m;
  CHECK(budgetOf(m.context()).endToEndSeconds > 0);
  m.options.effort = Effort::Quick;
  CHECK(budgetOf(m.context()).endToEndSeconds == 0);
}

TEST_CASE("end to end: kernels with the largest share come first, and those after them run beside the winners") {
  Model m(someNear, 2);
  m.tasks[1].uses = 3;
  // 2 is worth something in the second kernel only beside 1, or 1 beside 2, in the first.
  m.device.runUs = [](const Launched &ids) {
    const int first = ids.front(), second = ids.back();
    return 50.0 - (second == 2 ? 1 : 0) - (second == 2 && first == 1 ? 1 : 0);
  };
  std::vector<TunedKernel> kernels = m.tuned();
  Result<std::optional<EndToEndReport>> report = m.choose(kernels);
  REQUIRE(report);
  CHECK(m.device.visits[3] == Launched{0, 0, 1, 1, 1}); // The second's, which is launched more often.
  CHECK(kernels[0].report.config == "id=1");
  CHECK(kernels[1].report.config == "id=2");
  CHECK((*report)->us == 48);
  CHECK((*report)->aloneUs == doctest::Approx(50));
  CHECK((*report)->taken == 2);
  CHECK(m.storedConfig(kernels[0]) == "id=1");
  CHECK(m.storedConfig(kernels[1]) == "id=2");
}

TEST_CASE("end to end: winners that are no faster together than what the searches chose are not taken") {
  Model m;
  m.script[1].us = m.script[3].us = 20; // One runner-up is left, and its lead is decided after a round of two.
  m.device.runUs = [&](const Launched &ids) {
    const bool isDecision = m.device.visits.size() > 2 + 8;
    return ids == Launched{0, 0} ? 20.0 : isDecision ? 21.0 : 19.0;
  };
  checkNothingTaken(m);
}

TEST_CASE("end to end: nothing is done for one launch, without runners-up, or without time") {
  auto triesNobody = [](Model &m, double seconds) {
    std::vector<TunedKernel> kernels = m.tuned();
    const std::string config = kernels[0].report.config;
    Result<std::optional<EndToEndReport>> report = m.choose(kernels, seconds);
    return report && !*report && m.device.visits.size() <= 2 && kernels[0].report.config == config;
  };
  Model single, alone({{0, {.us = 10}}, {1, {.us = 11.5}}}), late;
  single.tasks[0].uses = 1;
  CHECK(triesNobody(single, 60));
  CHECK(triesNobody(alone, 60));
  CHECK(triesNobody(late, 0));
}

TEST_CASE("end to end: who takes little of a run is left as it is") {
  Model m(someNear, 2);
  m.tasks[1].uses = 200;
  std::vector<TunedKernel> kernels = m.tuned();
  REQUIRE(m.choose(kernels));
  CHECK_FALSE(m.device.visits.empty());
  CHECK(std::ranges::all_of(m.device.visits, [](const Launched &ids) { return ids.front() == 0; }));
}

TEST_CASE("end to end: what fails or is cancelled changes nothing, whoever had won by then") {
  for (std::size_t visits : {0U, 1U, 20U, 36U}) { // Two to warm up, 16 for each contest, eight to decide.
    CAPTURE(visits);
    for (bool isCancelled : {false, true}) {
      Model m(someNear, 2);
      std::vector<TunedKernel> kernels = m.tuned();
      std::stop_source stop;
      m.device.runUs = [&](const Launched &ids) {
        if (isCancelled && m.device.visits.size() >= visits)
          stop.request_stop();
        return 20.0 - (ids.front() == 2 ? 1 : 0) - (ids.back() == 2 ? 1 : 0);
      };
      m.device.visitsBeforeError = visits;
      m.options.stop = stop.get_token();
      if (isCancelled && visits == 0)
        stop.request_stop();
      if (!isCancelled)
        m.device.loadError = Error{ErrorCode::OutOfMemory, "no room"};
      Result<std::optional<EndToEndReport>> report = m.choose(kernels);
      REQUIRE_FALSE(report);
      CHECK(report.error().code == (isCancelled ? ErrorCode::Cancelled : ErrorCode::OutOfMemory));
      for (const TunedKernel &kernel : kernels) {
        CHECK(kernel.report.config == "id=0");
        CHECK(m.storedConfig(kernel) == "id=0");
      }
    }
  }
}

TEST_CASE("end to end: what another process has stored since stays") {
  Model m;
  std::vector<TunedKernel> kernels = m.tuned();
  Choice other = *m.store->findChoice(kernels[0].report.region);
  other.kernel = "another";
  other.config = {{"id", 9}};
  m.device.runUs = [&](const Launched &ids) {
    m.store->put(other, kernels[0].binary);
    return ids[0] == 2 ? 19.0 : 20.0;
  };
  REQUIRE(m.choose(kernels));
  CHECK(kernels[0].report.config == "id=2"); // For this run.
  CHECK(m.storedConfig(kernels[0]) == "id=9");
}

TEST_CASE("end to end: who is not compiled in half of the time stays out") {
  Model m;
  m.options.compileThreads = 1;
  std::vector<TunedKernel> kernels = m.tuned();
  m.compiler.beforeCompile = [](int id) { std::this_thread::sleep_for(std::chrono::milliseconds(id == 1 ? 1200 : 0)); };
  Result<std::optional<EndToEndReport>> report = m.choose(kernels, 2);
  REQUIRE(report);
  REQUIRE(*report);
  CHECK((*report)->tried == 1);
}

TEST_CASE("runners-up: those timed under this driver that came near, the best of each other kind first") {
  Model m;
  functionsOf(m.tasks[0]).onKindOf = [](const codegen::TileConfig &config) { // 0, 1, 2 are of one kind.
    return codegen::TileConfig{{"kind", config["id"] < 3 ? 0 : 1}};
  };
  std::vector<TunedKernel> kernels = m.tuned();
  auto configsOf = [&](const TuningContext &context) {
    std::string configs;
    for (const RunnerUp &runnerUp : runnersUpOf(context, m.tasks[0], kernels[0]))
      configs += runnerUp.measurement.config.str() + " ";
    return configs;
  };
  CHECK(configsOf(m.context()) == "id=3 id=1 id=2 ");
  auto measurementOf = [&](int id) {
    return *m.store->findMeasurement(tuningKey(*m.tasks[0].space->emit({{"id", id}}), "fake 1", "Fake GPU"));
  };
  const Measurement compared = measurementOf(1);
  Measurement glimpsed = compared, slower = compared;
  glimpsed.timing->samples = 3; // A first look.
  m.store->put(glimpsed);
  CHECK(configsOf(m.context()) == "id=3 id=2 ");
  slower.timing->medianUs = 10.6;
  m.store->put(slower);
  CHECK(configsOf(m.context()) == "id=3 id=2 ");
  m.store->put(compared);
  m.device.driverVersion = "2.0";
  CHECK(configsOf(m.context()).empty());
  m.device.driverVersion = "1.0";
  const auto emit = functionsOf(m.tasks[0]).onEmit; // Config 1 makes another kernel by now, and 3 lacks a field.
  functionsOf(m.tasks[0]).onKindOf = [kindOf = functionsOf(m.tasks[0]).onKindOf](const codegen::TileConfig &config) {
    return kindOf(config["id"] == 3 ? codegen::TileConfig{{"no", 1}} : config); // Nor could its kind be told.
  };
  functionsOf(m.tasks[0]).onEmit = [emit](const codegen::TileConfig &config) {
    Result<codegen::KernelPlan> plan = emit(config);
    if (config["id"] == 1)
      plan->source += "changed";
    return config["id"] == 3 ? emit({{"no", 1}}) : plan;
  };
  CHECK(configsOf(m.context()) == "id=2 ");
}
