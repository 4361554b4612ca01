// Models of lengths that a run gives, of any number of buckets: what they compute and touch, share and refuse.
#include "LengthFixture.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/Device.h"
#include "tests/Skip.h"
#include "tuner/api/Lengths.h"
#include "tuner/model/PlannedModel.h"
#include "tuner/model/PreparedKeys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace kfuse;
using namespace kfuse::test;

namespace {

template <class R> void checkError(const R &result, ErrorCode code, std::string_view message) {
  REQUIRE_FALSE(static_cast<bool>(result));
  CAPTURE(result.error().message);
  CHECK((result.error().code == code));
  CHECK(result.error().message.find(message) != std::string::npos);
}

} // namespace

TEST_CASE("lengths: every length of a feed-forward block is right, and touches nothing behind its tensors") {
  for (DType type : {DType::F32, DType::BF16}) {
    Fixture ffn(feedForward, {{"rows", 1, 40}}, type);
    for (std::int64_t rows = 1; rows <= 40; ++rows)
      ffn.checkAt({rows});
  }
}

TEST_CASE("lengths: batches and tokens of an encoder with masks and pooling") {
  for (DType type : {DType::F32, DType::BF16}) {
    Fixture encoder(bert, {{"batch", 1, 3}, {"tokens", 1, 21}}, type);
    for (Lengths lengths : {Lengths{1, 1}, {1, 7}, {2, 21}, {3, 5}, {2, 13}, {3, 1}, {3, 21}, {1, 20}})
      encoder.checkAt(lengths);
  }
}

TEST_CASE("lengths: a table that ends where the longest does") {
  Fixture encoder(bert, {{"batch", 2, 2}, {"tokens", 57, 64}}, DType::F32);
  for (std::int64_t tokens : {64, 57, 61})
    encoder.checkAt({2, tokens});
}

TEST_CASE("lengths: a causal block with rotary embeddings") {
  for (DType type : {DType::F32, DType::BF16}) {
    Fixture block(llama, {{"tokens", 1, 70}}, type);
    for (std::int64_t tokens : {70, 1, 2, 3, 7, 33, 65, 64, 17, 69})
      block.checkAt({tokens});
  }
}

TEST_CASE("lengths: an image's tokens behind one of their own") {
  for (DType type : {DType::F32, DType::BF16}) {
    Fixture images(vit, {{"batch", 1, 4}, {"patches", 2, 19}}, type);
    for (Lengths lengths : {Lengths{1, 2}, {4, 19}, {3, 11}, {2, 3}, {4, 2}, {3, 18}})
      images.checkAt(lengths);
  }
}

TEST_CASE("lengths: what an earlier run left never reaches a shorter one") {
  Fixture encoder(bert, {{"batch", 1, 2}, {"tokens", 9, 16}}, DType::F32);
  encoder.checkAt({2, 16});
  // The arena holds what is no number wherever the longer run has written.
  auto &session = *encoder.session;
  std::vector<HostTensor> nan;
  std::vector<void *> inputs, outputs;
  for (auto [list, isInput] : {std::pair(&encoder.model.inputs(), true), {&encoder.model.outputs(), false}})
    for (const TensorDesc &desc : *list) {
      HostTensor &tensor = nan.emplace_back(HostTensor::zeros(desc.type, desc.shape));
      if (isFloat(desc.type))
        std::ranges::fill(tensor.bytes, std::byte{0xff});
      (isInput ? inputs : outputs).push_back(tensor.bytes.data());
    }
  REQUIRE(session.run(nullptr, inputs, outputs, Lengths{2, 16}));
  encoder.checkAt({1, 9});
  encoder.checkAt({2, 11});
}

TEST_CASE("lengths: weights are prepared once for all buckets") {
  Fixture block(llama, {{"tokens", 1, 700}}, DType::F32);
  const Executable::Impl &impl = block.program->internals();
  REQUIRE(impl.programs.size() > 1);
  std::set<std::string> distinct;
  std::size_t all = 0;
  for (const LengthProgram &program : impl.programs) {
    distinct.insert(program.compiled.preparedKeys.begin(), program.compiled.preparedKeys.end());
    all += program.compiled.preparedKeys.size();
  }
  CHECK(block.weights->internals().prepared.size() == distinct.size());
  MESSAGE(all << " prepared values of " << impl.programs.size() << " programs are " << distinct.size());
}

TEST_CASE("lengths: programs of one network share what they prepare of its weights") {
  Fixture longer(llama, {{"tokens", 33, 70}}, DType::F32), shorter(llama, {{"tokens", 1, 32}}, DType::F32);
  std::vector<void *> parameters;
  for (const TensorDesc &desc : longer.model.parameters())
    parameters.push_back(longer.tensors[desc.name].bytes.data());
  const Weights weights = longer.program->prepare(parameters).value();
  const Weights shared = shorter.program->prepare(parameters, weights).value();
  for (const auto &[key, buffer] : weights.internals().prepared)
    CHECK(shared.internals().prepared.at(key).data() == buffer.data());
  shorter.tensors = longer.tensors;
  shorter.weights = shared;
  shorter.session = std::make_unique<Session>(shorter.program->newSession(shared).value());
  shorter.checkAt({17});
  checkError(shorter.program->prepare(std::span(parameters).first(1), weights), ErrorCode::Usage, "got 1 parameters");
  HostTensor other = longer.tensors[longer.model.parameters()[0].name];
  parameters[0] = other.bytes.data();
  checkError(shorter.program->prepare(parameters, weights), ErrorCode::Usage, "is not where the weights to share");
}

TEST_CASE("lengths: models that are compiled together prepare weights alike, each once") {
  const std::vector<Model> models{modelOf(llama, {{"tokens", 1, 70}}, DType::F32),
                                  modelOf(llama, {{"tokens", 1, 2}}, DType::F32)};
  tuner::test::TemporaryFolder folder;
  CompileOptions options;
  options.target = "cpu";
  options.store = (folder.path / "store.db").string();
  options.effort = Effort::None;
  Result<std::vector<Executable>> programs = compile(models, options);
  REQUIRE_MESSAGE(programs, programs.error().message);
  REQUIRE(programs->size() == 2);
  CHECK((*programs)[1].dims() == models[1].dims());
  std::vector<HostTensor> tensors;
  std::vector<void *> parameters;
  for (const TensorDesc &desc : models[0].parameters())
    parameters.push_back(tensors.emplace_back(randomTensor(desc, tensors.size() + 1, Role::Parameter)).bytes.data());
  const Weights prefill = (*programs)[0].prepare(parameters).value();
  const Weights decode = (*programs)[1].prepare(parameters, prefill).value();
  CHECK_FALSE(prefill.internals().prepared.empty());
  REQUIRE(decode.internals().prepared.size() == prefill.internals().prepared.size());
  for (const auto &[key, buffer] : prefill.internals().prepared)
    CHECK(decode.internals().prepared.at(key).data() == buffer.data());
  checkError(compile(std::span<const Model>(), options), ErrorCode::Usage, "there is no model to compile");
}

TEST_CASE("lengths: programs of all sizes prepare weights as the first one does") {
  const CausalBlock block{.heads = 32, .shared = 8, .size = 128, .wide = 14336};
  std::vector<tuner::LengthBucket> buckets;
  std::vector<mlir::ModuleOp> modules;
  const ir::Target &target = *ir::findTarget("sm_90a");
  auto keysOf = [](const tuner::PlannedModel &planned) {
    return planned.prepare ? tuner::preparedKeys(planned.prepare->function) : std::vector<std::string>();
  };
  std::set<std::string> alone;
  std::size_t aloneCount = 0;
  for (std::int64_t tokens : {2048, 64, 16, 1}) {
    buckets.push_back(
        tuner::bucketOf(modelOf(block, {{"tokens", tokens, tokens + 1}}, DType::BF16), {{"tokens", tokens, tokens + 1}})
            .value());
    modules.push_back(*buckets.back().model.internals().model.module);
    const tuner::PlannedModel planned = tuner::planModel(modules.back(), target).value();
    const std::vector<std::string> keys = keysOf(planned);
    alone.insert(keys.begin(), keys.end());
    aloneCount = std::max(aloneCount, keys.size());
  }
  CHECK(alone.size() > aloneCount); // Each by itself prepares some otherwise.
  const std::vector<tuner::PlannedModel> planned = tuner::planModels(modules, target).value();
  for (const tuner::PlannedModel &program : planned)
    CHECK(keysOf(program) == keysOf(planned[0]));
}

TEST_CASE("lengths: a product stores a run's rows where the caller wants them") {
  const CausalBlock block{.heads = 32, .shared = 8, .size = 128, .wide = 14336};
  for (std::int64_t tokens : {64, 256, 1024}) {
    const std::vector<Dim> dims{{"tokens", tokens / 2 + 1, tokens}};
    const tuner::LengthBucket bucket = tuner::bucketOf(modelOf(block, dims, DType::BF16), dims).value();
    const tuner::PlannedModel planned =
        tuner::planModel(*bucket.model.internals().model.module, *ir::findTarget("sm_90a")).value();
    CHECK(std::ranges::any_of(planned.kernels, [](const tuner::PlannedKernel &kernel) {
      return kernel.region.ops.find("matmul") != std::string::npos &&
             kernel.region.ops.find("state_update") != std::string::npos;
    }));
  }
}

TEST_CASE("lengths: mistakes are errors that say what to do") {
  Fixture ffn(feedForward, {{"rows", 2, 9}}, DType::F32);
  std::vector<void *> none;
  HostTensor x = HostTensor::zeros(DType::F32, {9, 24});
  std::vector<void *> one{x.bytes.data()};
  checkError(ffn.session->run(nullptr, one, one, Lengths{1}), ErrorCode::Usage,
             "'rows' is 1; the model is compiled for rows=2..9, load it with another range");
  checkError(ffn.session->run(nullptr, one, one, Lengths{10}), ErrorCode::Usage, "'rows' is 10");
  checkError(ffn.session->run(nullptr, one, one), ErrorCode::Usage, "got 0 lengths, expected 1, of rows=2..9");
  checkError(ffn.program->outputShapes(Lengths{10}), ErrorCode::Usage, "'rows' is 10");
  checkError(ffn.model.at(Lengths{10}), ErrorCode::Usage, "'rows' is 10");
  auto loaded = [](std::vector<Dim> dims) {
    return Model::fromGraphs(
        [](std::span<const std::int64_t> n) {
          GraphBuilder g;
          feedForward(g, DType::F32, n);
          return g.build();
        },
        dims);
  };
  checkError(loaded({{"rows", 0, 4}}), ErrorCode::Usage, "the range of 'rows' is 0..4; give one of 1 or more");
  checkError(loaded({{"rows", 5, 4}}), ErrorCode::Usage, "the range of 'rows' is 5..4");
  checkError(loaded({{"rows", 1, 4}, {"rows", 1, 4}}), ErrorCode::Usage, "one range");
  checkError(loaded({{"rows", 1, 4}, {"others", 1, 4}}), ErrorCode::Usage,
             "no input has a dimension that follows 'others'");
  checkError(loaded({}), ErrorCode::Usage, "no ranges are given");
}

TEST_CASE("lengths: tensors say which of their dimensions follow what") {
  const Model model = modelOf(vit, {{"batch", 1, 4}, {"patches", 2, 19}}, DType::F32);
  CHECK(model.dims() == std::vector<Dim>{{"batch", 1, 4}, {"patches", 2, 19}});
  CHECK(model.inputs()[0].shape == Shape{4, 19, 12});
  CHECK(model.inputs()[0].dims == std::vector<Dim>{{"batch", 1, 4}, {"patches", 2, 19}, {"", 12, 12}});
  CHECK(model.outputs()[1].dims == std::vector<Dim>{{"batch", 1, 4}, {"patches + 1", 3, 20}, {"", 32, 32}});
  CHECK(model.parameters()[0].dims.empty());
}

TEST_CASE("lengths: ops that cannot read them are named, or few lengths have programs of their own") {
  // A norm along the tokens.
  Build across = [](GraphBuilder &g, DType type, std::span<const std::int64_t> n) {
    g.output("y", g.rmsNorm(g.input("x", type, {3, n[0]}), {}));
  };
  CompileOptions options;
  options.target = "cpu";
  options.effort = Effort::None;
  checkError(compile(modelOf(across, {{"tokens", 1, 30}}, DType::F32), options), ErrorCode::BadModel,
             "rms_norm: it normalises along a dimension that follows a length");
  Fixture few(across, {{"tokens", 3, 9}}, DType::F32);
  CHECK(few.program->internals().programs.size() == 7);
  for (std::int64_t tokens = 3; tokens <= 9; ++tokens)
    few.checkAt({tokens});
}

TEST_CASE("lengths: masks stand where elements mix, and nowhere else") {
  auto countsOf = [](const Build &build) {
    const Model model = modelOf(build, {{"n", 5, 9}}, DType::F32);
    Result<tuner::LengthBucket> bucket = tuner::bucketOf(model, model.dims());
    REQUIRE_MESSAGE(bucket, bucket.error().message);
    CHECK(bucket->edges.readsLengths);
    std::map<std::string, int> counts;
    mlir::ModuleOp module = *bucket->model.internals().model.module;
    module.walk([&](mlir::Operation *op) { ++counts[op->getName().getStringRef().str()]; });
    return counts;
  };
  auto rows = countsOf(feedForward);
  CHECK(rows["kfuse.gather"] == 1); // The input's rows.
  CHECK(rows["kfuse.state_update"] == 1);
  CHECK(rows["kfuse.where"] == 1); // Which of the output's rows are written.
  auto causal = countsOf(llama);
  CHECK(causal["kfuse.gather"] == 3);
  CHECK(causal["kfuse.where"] == 4); // The graph's own, the softmax's, the values', and the output's.
}

TEST_CASE("lengths: GPUs have kernels for graphs that read them, which compile") {
  const auto compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  if (!compiler)
    kfuse::testing::skip(compiler.error().message);
  for (const char *target : {"sm_80", "sm_90a"})
    for (const auto &[build, dims] : {std::pair<Build, std::vector<Dim>>(feedForward, {{"rows", 65, 128}}),
                                      {bert, {{"batch", 2, 4}, {"tokens", 33, 64}}},
                                      {bert, {{"batch", 1, 9}, {"tokens", 1, 61}}},
                                      {bert, {{"batch", 1, 1}, {"tokens", 1, 61}}},
                                      {bert, {{"batch", 1, 9}, {"tokens", 1, 1}}},
                                      {llama, {{"tokens", 129, 256}}},
                                      {vit, {{"batch", 2, 4}, {"patches", 17, 32}}}}) {
      const Model model = modelOf(build, dims, DType::BF16);
      Result<tuner::LengthBucket> bucket = tuner::bucketOf(model, model.dims());
      REQUIRE_MESSAGE(bucket, bucket.error().message);
      Result<tuner::PlannedModel> planned =
          tuner::planModel(*bucket->model.internals().model.module, *ir::findTarget(target));
      REQUIRE_MESSAGE(planned, planned.error().message);
      for (const tuner::PlannedKernel &kernel : planned->kernels) {
        const std::vector<codegen::TileConfig> configs =
            kernel.kernelTemplate->candidates(kernel.region, *planned->target);
        REQUIRE_FALSE(configs.empty());
        Result<codegen::KernelPlan> plan =
            kernel.kernelTemplate->emit(kernel.region, configs.front(), *planned->target);
        REQUIRE_MESSAGE(plan, plan.error().message);
        if (compiler) {
          const Result<runtime::CompiledKernel> compiled = (*compiler)->compile(*plan);
          CHECK_MESSAGE(compiled, compiled.error().message << plan->source);
        }
      }
    }
}

TEST_CASE("lengths: a dimension of several factors comes apart between them, not inside what follows a length") {
  const passes::Factor batch{3, 0, 1, 0}, tokens{5, 1, 1, 0}, longer{6, 1, 1, 1};
  const passes::Axes apart{batch, tokens, passes::Axis::fixed(8)};
  std::optional<passes::Axes> rows = passes::regroup(apart, {15, 8});
  REQUIRE(rows);
  CHECK((*rows)[0].at({2, 4}) == 8);
  CHECK(passes::regroup(*rows, {3, 5, 2, 4}) ==
        std::optional(passes::Axes{batch, tokens, passes::Axis::fixed(2), passes::Axis::fixed(4)}));
  CHECK(passes::regroup(passes::Axes{passes::Axis::fixed(8), tokens}, {2, 20}).has_value());
  CHECK_FALSE(passes::regroup(apart, {5, 24}));
  CHECK_FALSE(passes::regroup(passes::Axes{longer}, {2, 3}));
  // 8 elements for each token are rows of 8 again.
  std::optional<passes::Axes> flat = passes::regroup(passes::Axes{tokens, passes::Axis::fixed(8)}, {40});
  REQUIRE(flat);
  CHECK(passes::regroup(*flat, {5, 8}) == std::optional(passes::Axes{tokens, passes::Axis::fixed(8)}));
}

TEST_CASE("buckets: a table takes every length of its range, rounded up") {
  for (std::int64_t low : {1, 3, 64})
    for (std::int64_t high : {64, 65, 1000, 8192}) {
      const std::vector<std::int64_t> rungs = tuner::ladder(low, high);
      runtime::BucketTable table = runtime::BucketTable::make({{"n", low, high}}, {rungs}).value();
      for (std::int64_t n = low; n <= high; ++n) {
        const Dim bucket = table.lengths(table.find(Lengths{n}).value())[0];
        REQUIRE(bucket.low <= n);
        REQUIRE(n <= bucket.high);
        REQUIRE((n <= 64 || 4 * bucket.high <= 5 * n + 4));
        REQUIRE((n <= 1024 || 8 * bucket.high <= 9 * n + 8));
      }
    }
  CHECK_FALSE(runtime::BucketTable::make({{"n", 1, 8}}, {{2, 4}}));
  CHECK_FALSE(runtime::BucketTable::make({{"n", 1, 8}}, {{4, 4, 8}}));
}

TEST_CASE("buckets: neighbours that cost little merge, by how often they run") {
  const std::vector<std::int64_t> rungs{1, 2, 4, 8};
  const std::vector<double> us{10, 10.1, 10.2, 20}, often{1, 1, 1, 1}, rare{0.001, 0.001, 0.001, 1}, never{0, 0, 0, 1};
  auto untrimmed = [&](std::size_t, std::size_t top) { return us[top]; };
  CHECK(tuner::mergeRungs(rungs, often, 0.01, untrimmed) == std::vector<std::int64_t>{4, 8});
  CHECK(tuner::mergeRungs(rungs, often, 0.001, untrimmed) == std::vector<std::int64_t>{1, 2, 4, 8});
  // Rare runs do not take twice their time, but those that there are none of.
  CHECK(tuner::mergeRungs(rungs, rare, 0.01, untrimmed) == std::vector<std::int64_t>{4, 8});
  CHECK(tuner::mergeRungs(rungs, never, 0.01, untrimmed) == std::vector<std::int64_t>{8});
  // A program that computes little more than it has to for shorter ones.
  auto trimmed = [&](std::size_t rung, std::size_t top) { return us[rung] * (rung < top ? 1.01 : 1); };
  CHECK(tuner::mergeRungs(rungs, often, 0.01, trimmed) == std::vector<std::int64_t>{8});
  // The next rung's is not always the best: 4 serves 1 and 2 better than 2 serves 1.
  auto uneven = [&](std::size_t rung, std::size_t top) { return us[rung] * (rung == 0 && top == 1 ? 1.5 : 1); };
  CHECK(tuner::mergeRungs(rungs, often, 0.01, uneven) == std::vector<std::int64_t>{8});
  const std::vector<LengthCount> histogram{{{1}, 5}, {{3}, 2}, {{4}, 1}};
  CHECK(tuner::weightsOf(rungs, 1, 0, histogram) == std::vector<double>{5, 0, 3, 0});
}

TEST_CASE("buckets: that of half of all runs is planned first, and decides how weights are prepared") {
  CHECK(tuner::medianOf(std::vector<double>{5, 0, 3, 0}) == 0);
  CHECK(tuner::medianOf(std::vector<double>{1, 1, 3, 1}) == 2);
  CHECK(tuner::medianOf(std::vector<double>{0, 0}) == 0);
  CHECK(tuner::planningOrder(4, 1) == std::vector<std::size_t>{1, 3, 2, 0});
  CHECK(tuner::planningOrder(1, 0) == std::vector<std::size_t>{0});
}
