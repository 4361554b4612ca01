// What the public interface tells of models, targets, stores and programs.
#include "TemporaryFolder.h"

#include "kfuse/kfuse.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <vector>

using namespace kfuse;
using nlohmann::json;

namespace {

/// concat(relu(x) w, x), where the operands are given as vectors.
Model model() {
  GraphBuilder g;
  const Tensor x = g.input("x", DType::F32, {16, 16}), w = g.parameter("w", DType::F32, {16, 16});
  const std::vector<Tensor> operand{x};
  const std::vector<Tensor> pieces{g.matmul(g.pointwise("relu", operand), w), x};
  g.output("y", g.concat(pieces, 1));
  return Model::fromGraph(g.build().value()).value();
}

Executable program(const tuner::test::TemporaryFolder &folder) {
  CompileOptions options;
  options.target = "cpu";
  options.store = (folder.path / "store.db").string();
  options.effort = Effort::None;
  return compile(model(), options).value();
}

} // namespace

TEST_CASE("inspect: explain") {
  const json told = json::parse(explain(model(), "sm_90a").value());
  CHECK(told["target"] == "sm_90a");
  CHECK(told["kernels"].size() > 0);
  CHECK(explain(model(), "sm_1").error().message.find("sm_1") != std::string::npos);
  Model gone = model();
  Model kept = std::move(gone);
  CHECK((explain(gone, "cpu").error().code == ErrorCode::Usage)); // NOLINT(bugprone-use-after-move)
}

TEST_CASE("inspect: targets") {
  const json told = json::parse(describeTargets());
  CHECK(told["devices"][0]["target"] == "cpu");
  CHECK(told["targets"].size() > 5);
}

TEST_CASE("inspect: programs and stores") {
  tuner::test::TemporaryFolder folder;
  const Executable compiled = program(folder);
  CHECK(compiled.target() == "cpu");
  CHECK(compiled.device() == -1);
  const json plan = json::parse(compiled.plan());
  const std::string svg = compiled.rooflineSvg();
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
  CHECK(svg.find("<script") == std::string::npos);

  const std::string store = (folder.path / "store.db").string();
  const json exported = json::parse(exportStore(store).value());
  CHECK(exported["choices"].size() == plan["kernels"].size());
  CHECK(json::parse(verifyStore(store).value())["whole"] == true);
  for (const std::string &none : {(folder.path / "none.db").string(), (folder.path).string()})
    CHECK((exportStore(none).error().code == ErrorCode::Io));
  CHECK((verifyStore(std::string("a\0b", 3)).error().code == ErrorCode::Usage));
  CHECK_FALSE(defaultStore().empty());
}
