// Misuse of the public interface: each is an error, none ends the process.
#include "TemporaryFolder.h"

#include "kfuse/half.h"
#include "kfuse/kfuse.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

using namespace kfuse;

namespace {

constexpr int size = 64; // Elements of 256 bytes.

/// y = relu(x) + w.
Result<Graph> smallGraph() {
  GraphBuilder g;
  Tensor x = g.input("x", DType::F32, {size}), w = g.parameter("w", DType::F32, {size});
  g.output("y", g.add(g.relu(x), w));
  return g.build();
}

Model smallModel() { return Model::fromGraph(smallGraph().value()).value(); }

CompileOptions untimed(const tuner::test::TemporaryFolder &folder) {
  CompileOptions options;
  options.target = "cpu";
  options.store = (folder.path / "store.db").string();
  options.effort = Effort::None;
  return options;
}

/// A program, its weights and a session, all for one test.
struct Running {
  tuner::test::TemporaryFolder folder;
  Executable program = compile(smallModel(), untimed(folder)).value();
  Buffer x = program.allocate(4 * size).value(), w = program.allocate(4 * size).value(),
         y = program.allocate(4 * size).value();
  std::array<void *, 1> inputs{x.data()}, parameters{w.data()}, outputs{y.data()};
  Weights weights = program.prepare(parameters).value();
  Session session = program.newSession(weights).value();
};

template <class R> void checkUsage(const R &result, std::string_view message) {
  REQUIRE_FALSE(static_cast<bool>(result));
  CHECK((result.error().code == ErrorCode::Usage));
  CAPTURE(result.error().message);
  CHECK(result.error().message.find(message) != std::string::npos);
}

template <class Call> Error thrownBy(const Call &call) {
  try {
    call();
  } catch (const Exception &thrown) {
    CHECK(thrown.error().message == thrown.what());
    CHECK((thrown.code() == thrown.error().code));
    return thrown.error();
  }
  FAIL("nothing was thrown");
  return {};
}

/// The error of compiling the small model with options that `change` has set.
template <class Change> Result<Executable> compiledWith(const Change &change) {
  tuner::test::TemporaryFolder folder;
  CompileOptions options = untimed(folder);
  change(options);
  return compile(smallModel(), options);
}

} // namespace

TEST_CASE("api: the value of an error throws the error") {
  Result<int> failed = Error{ErrorCode::Io, "no such file"};
  CHECK(thrownBy([&] { (void)failed.value(); }).message == "no such file");
  CHECK((thrownBy([&] { (void)*failed; }).code == ErrorCode::Io));
  CHECK(thrownBy([&] { (void)std::move(failed).value(); }).message == "no such file");
  const Result<std::string> fixed = Error{ErrorCode::BadModel, "bad"};
  CHECK(thrownBy([&] { (void)fixed->size(); }).message == "bad");
  const Result<void> nothing = Error{ErrorCode::Timeout, "late"};
  CHECK((thrownBy([&] { nothing.value(); }).code == ErrorCode::Timeout));
  CHECK_THROWS_AS(nothing.value(), std::exception);
}

TEST_CASE("api: the error of a value throws, too") {
  Result<int> whole = 5;
  CHECK(whole.value() == 5);
  CHECK((thrownBy([&] { (void)whole.error(); }).code == ErrorCode::Usage));
  Result<void> done;
  done.value();
  CHECK((thrownBy([&] { (void)done.error(); }).code == ErrorCode::Usage));
}

TEST_CASE("api: types that are none") {
  const auto none = static_cast<DType>(99);
  CHECK(byteWidth(none) == 0);
  CHECK(toString(none) == "no type");
  CHECK_FALSE(isFloat(none));
  CHECK_FALSE(isFloat8(none));
  CHECK(TensorDesc{"x", none, {2}}.bytes() == 0);
  std::array<std::byte, 8> stored{};
  storeFloat(none, 1, stored.data());
  storeFloat(DType::Bool, 1, stored.data());
  CHECK(stored == std::array<std::byte, 8>{});
  CHECK(std::isnan(readFloat(DType::Bool, stored.data())));
}

TEST_CASE("api: options of compile()") {
  checkUsage(compiledWith([](CompileOptions &o) { o.effort = static_cast<Effort>(77); }), "effort 77");
  for (double seconds : {std::nan(""), -1.0, std::numeric_limits<double>::infinity()})
    checkUsage(compiledWith([&](CompileOptions &o) { o.seconds = seconds; }), "seconds");
  checkUsage(compiledWith([](CompileOptions &o) { o.device = -1; }), "-1");
  checkUsage(compiledWith([](CompileOptions &o) { o.device = std::numeric_limits<int>::min(); }), "counted from 0");
  checkUsage(compiledWith([](CompileOptions &o) { o.threads = -1; }), "threads");
  checkUsage(compiledWith([](CompileOptions &o) { o.target = ""; }), "unknown target");
  checkUsage(compiledWith([](CompileOptions &o) { o.target = std::string("cpu\0x", 5); }), "NUL");
  checkUsage(compiledWith([](CompileOptions &o) { o.store = std::string("/tmp/a\0b", 8); }), "NUL");
}

TEST_CASE("api: options of Model::load()") {
  checkUsage(Model::load(std::string("a\0b.onnx", 8)), "NUL");
  CHECK((Model::load("").error().code == ErrorCode::Io));
  checkUsage(Model::load("a.onnx", {.shapes = {{"", {8}}}, .parameters = {}}), "without a name");
  checkUsage(Model::load("a.onnx", {.shapes = {{"x", {-8}}}, .parameters = {}}), "not negative");
}

TEST_CASE("api: a graph's weights from a checkpoint") {
  const std::string folder = KFUSE_TEST_DIR "/data/checkpoints/gptq";
  GraphBuilder g;
  Tensor x = g.input("x", DType::F16, {2, 96}), w = g.parameter("weight", DType::F16, {64, 96});
  g.output("y", g.matmul(x, w, {.b = true}));
  const Graph graph = g.build().value();
  const Model model = Model::fromGraph(graph, folder, "zeros.").value();
  REQUIRE(model.parameters().size() == 3);
  CHECK((model.parameters()[0] == TensorDesc{"qweight", DType::U4, {64, 96}}));
  CHECK((model.parameters()[2] == TensorDesc{"qzeros", DType::U4, {64, 3}}));
  for (const TensorDesc &parameter : model.parameters())
    CHECK(model.parameterData(parameter.name).size() == parameter.bytes());
  CHECK((Model::fromGraph(graph, "/nonexistent").error().code == ErrorCode::Io));
  CHECK((Model::fromGraph(graph, std::string("a\0b", 3)).error().code == ErrorCode::Usage));
  checkUsage(Model::fromGraph(graph, "", "zeros."), "for no checkpoint");
  checkUsage(Model::fromGraph(graph, folder), "has no tensor of an argument's name");
}

TEST_CASE("api: objects that were moved from") {
  Graph graph = smallGraph().value(), otherGraph = std::move(graph);
  CHECK(graph.text().empty());
  checkUsage(Model::fromGraph(graph), "Graph was moved from");

  Model model = smallModel(), otherModel = std::move(model);
  CHECK_FALSE(static_cast<bool>(model));
  CHECK(model.inputs().empty());
  CHECK(model.parameters().empty());
  CHECK(model.states().empty());
  CHECK(model.outputs().empty());
  CHECK(model.parameterData("w").empty());
  checkUsage(compile(model), "Model was moved from");
  checkUsage(compile(Model(nullptr)), "Model was moved from");

  Running at;
  Session session = std::move(at.session);
  checkUsage(at.session.run(nullptr, at.inputs, at.outputs), "Session was moved from");
  Weights weights = std::move(at.weights);
  checkUsage(at.program.newSession(at.weights), "Weights was moved from");
  Executable program = std::move(at.program);
  CHECK(at.program.inputs().empty());
  CHECK(at.program.outputs().empty());
  CHECK(at.program.updatedStates().empty());
  checkUsage(at.program.allocate(4), "Executable was moved from");
  checkUsage(at.program.prepare(at.parameters), "Executable was moved from");
  checkUsage(at.program.newSession(weights), "Executable was moved from");
  checkUsage(at.program.synchronize(), "Executable was moved from");
  Buffer buffer = std::move(at.x);
  CHECK(at.x.data() == nullptr);
  CHECK(at.x.size() == 0);
  checkUsage(at.x.upload("1234"), "Buffer was moved from");
  std::array<char, 4> host{};
  checkUsage(at.x.download(host.data()), "Buffer was moved from");

  at.session = std::move(session); // What it went to works on.
  CHECK(at.session.run(nullptr, at.inputs, at.outputs));
}

TEST_CASE("api: pointers and lists of them") {
  Running at;
  using List = std::span<void *const>;
  checkUsage(at.x.upload(nullptr), "null pointer");
  checkUsage(at.x.download(nullptr), "null pointer");
  CHECK((at.program.allocate(SIZE_MAX).error().code == ErrorCode::OutOfMemory));
  CHECK(at.program.allocate(0));

  checkUsage(at.program.prepare({}), "got 0 parameters, expected 1");
  checkUsage(at.program.prepare(List(at.parameters.data(), 0)), "got 0 parameters");
  checkUsage(at.program.prepare(List(static_cast<void *const *>(nullptr), 1)), "null pointer");
  std::array<void *, 1> null{nullptr};
  checkUsage(at.program.prepare(null), "'w' has a null pointer");

  checkUsage(at.session.run(nullptr, {}, at.outputs), "got 0 inputs and states, expected 1");
  checkUsage(at.session.run(nullptr, at.inputs, {}), "got 0 outputs, expected 1");
  checkUsage(at.session.run(nullptr, List(static_cast<void *const *>(nullptr), 1), at.outputs), "null pointer");
  checkUsage(at.session.run(nullptr, null, at.outputs), "is null");
  checkUsage(at.session.run(nullptr, at.inputs, null), "is null");
  std::array<void *, 1> odd{static_cast<char *>(at.x.data()) + 4};
  checkUsage(at.session.run(nullptr, odd, at.outputs), "aligned");

  Weights second = at.program.prepare(at.parameters).value(); // There may be any number.
  CHECK(at.program.newSession(second).value().run(nullptr, at.inputs, at.outputs));
  Running other;
  checkUsage(at.program.newSession(other.weights), "another program");
}

TEST_CASE("api: what a callback throws is an error") {
  auto thrower = [](auto... /*of any signature*/) -> bool { throw std::runtime_error("thrown in anger"); };
  Result<Executable> failed = compiledWith([&](CompileOptions &options) { options.progress = thrower; });
  REQUIRE_FALSE(failed);
  CHECK((failed.error().code == ErrorCode::Cancelled));
  CHECK(failed.error().message == "the callback 'progress' threw: thrown in anger");

  failed = compiledWith([&](CompileOptions &options) { options.progress = [](auto &&) -> bool { throw 5; }; });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "the callback 'progress' threw: what is no std::exception");

  // A store that is read only is warned of.
  int calls = 0;
  failed = compiledWith([&](CompileOptions &options) {
    options.store = "/proc/kfuse-store.db";
    options.log = [&](std::string_view) {
      ++calls;
      throw std::runtime_error("no log");
    };
  });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "the callback 'log' threw: no log");
  CHECK(calls == 1);
}

TEST_CASE("api: a callback may compile the model itself") {
  tuner::test::TemporaryFolder folder;
  const Model model = smallModel();
  CompileOptions options = untimed(folder);
  bool inner = false;
  options.progress = [&](const Progress &) {
    inner |= static_cast<bool>(compile(model, untimed(folder)));
    return true;
  };
  CHECK(compile(model, options));
  CHECK(inner);
}

TEST_CASE("api: threads share a model, and a session refuses a second one") {
  tuner::test::TemporaryFolder folder;
  const Model model = smallModel();
  std::atomic<int> done = 0;
  auto compileOnce = [&] { done += static_cast<bool>(compile(model, untimed(folder))); };
  std::thread other(compileOnce);
  compileOnce();
  other.join();
  CHECK(done == 2);

  Running at;
  std::atomic<int> refused = 0, ran = 0;
  auto run = [&] {
    for (int i = 0; i < 20000; ++i) {
      Result<void> result = at.session.run(nullptr, at.inputs, at.outputs);
      if (!result)
        CHECK(result.error().message.find("another thread") != std::string::npos);
      ++(result ? ran : refused);
    }
  };
  std::thread second(run);
  run();
  second.join();
  CHECK(ran > 0);
  CHECK(refused + ran == 40000); // How many, the machine decides.
}
