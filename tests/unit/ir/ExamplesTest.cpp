// The example blocks: their committed text, and what they compute.
#include "examples/blocks/Catalogue.h"
#include "ir/GraphModule.h"
#include "ir/dialect/Kfuse.h"
#include "ir/reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace kfuse;
using namespace kfuse::examples;
using reference::HostTensor;

namespace {

const std::filesystem::path models = std::filesystem::path(KFUSE_TEST_DIR) / ".." / "examples" / "models";

std::string contents(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph built(Result<Graph> graph) {
  if (!graph)
    FAIL(graph.error().message);
  return *graph;
}

using Named = std::map<std::string, HostTensor>;

/// The results by name, in f64; parameters are noise by their name, the other arguments given.
Named evaluate(const Graph &graph, const Named &given) {
  auto main = graph.internals().module.get().lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<HostTensor> arguments;
  for (mlir::BlockArgument argument : main.getArguments()) {
    std::string name = main.getArgAttrOfType<mlir::StringAttr>(argument.getArgNumber(), ir::nameAttrName).str();
    if (auto found = given.find(name); found != given.end()) {
      arguments.push_back(found->second);
      continue;
    }
    Shape shape = ir::shapeOf(argument);
    double deviation = 1 / std::sqrt(static_cast<double>(shape.back()));
    arguments.push_back(reference::normal(ir::dtypeOf(argument.getType()), shape, std::hash<std::string>()(name),
                                          shape.size() == 1 ? 1 : deviation));
  }
  auto values = reference::evaluate(main.getBody().front(), arguments, reference::Mode::Exact);
  if (!values)
    FAIL(values.error().message);
  Named results;
  for (unsigned i = 0; i < values->size(); ++i)
    results[main.getResultAttrOfType<mlir::StringAttr>(i, ir::nameAttrName).str()] = reference::toTensor((*values)[i]);
  return results;
}

/// Row `i` of a tensor seen as [rows, size] f32.
std::span<float> row(HostTensor &tensor, std::int64_t i, std::int64_t size) {
  return {reinterpret_cast<float *>(tensor.bytes.data()) + i * size, static_cast<std::size_t>(size)};
}

double relativeDifference(const HostTensor &a, const HostTensor &b) {
  REQUIRE(a.shape == b.shape);
  std::vector<double> x = reference::toDoubles(a), y = reference::toDoubles(b);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

} // namespace

TEST_CASE("examples: the committed text is what the builders give") {
  std::size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(models))
    files += entry.path().extension() == ".mlir";
  CHECK(files == catalogue().size());
  for (const Example &example : catalogue()) {
    CAPTURE(example.name);
    bool isSame = contents(models / (example.name + ".mlir")) == built(example.build()).text();
    CHECK_MESSAGE(isSame, "if the block changed on purpose, run: write_blocks examples/models");
  }
}

TEST_CASE("examples: heads that do not divide are refused") {
  CHECK(gpt2Block(1, 8, 100, 3).error().message ==
        "gpt2Block: 100 channels do not divide into 3 heads; give a multiple");
  LlamaDims dims{.queryHeads = 8, .keyHeads = 3};
  CHECK(llamaDecode(1, 8, dims).error().message ==
        "llama: 8 query heads do not share 3 key heads evenly; give a multiple");
}

TEST_CASE("examples: no token sees a later one") {
  constexpr std::int64_t tokens = 6, d = 32;
  LlamaDims dims{.d = d, .queryHeads = 4, .keyHeads = 2, .headSize = 8, .hidden = 48};
  for (const Graph &graph :
       {built(gpt2Block(1, tokens, d, 4, DType::F32)), built(llamaPrefill(1, tokens, dims, DType::F32))}) {
    HostTensor x = reference::normal(DType::F32, {1, tokens, d}, 1);
    HostTensor before = evaluate(graph, {{"x", x}})["y"];
    row(x, tokens - 2, d)[3] += 1;
    HostTensor after = evaluate(graph, {{"x", x}})["y"];
    for (std::int64_t token = 0; token < tokens; ++token) {
      CAPTURE(token);
      CHECK(std::ranges::equal(row(before, token, d), row(after, token, d)) == (token < tokens - 2));
    }
  }
}

TEST_CASE("examples: decoding token by token gives the prefill's rows") {
  constexpr std::int64_t batch = 2, tokens = 16, lag = 3; // The second sequence begins `lag` steps later.
  const std::int64_t d = tinyLlama.d;
  HostTensor prompt = reference::normal(DType::F32, {batch, tokens, d}, 7);
  HostTensor expected = evaluate(built(llamaPrefill(batch, tokens, tinyLlama, DType::F32)), {{"x", prompt}})["y"];

  Graph decode = built(llamaDecode(batch, tokens, tinyLlama, DType::F32));
  const Shape cacheShape{batch, tinyLlama.keyHeads, tokens, tinyLlama.headSize};
  Named given{{"k_cache", HostTensor::zeros(DType::F32, cacheShape)},
              {"v_cache", HostTensor::zeros(DType::F32, cacheShape)}};
  HostTensor decoded = HostTensor::zeros(DType::F32, prompt.shape);
  for (std::int64_t step = 0; step < tokens + lag; ++step) {
    const std::int64_t at[batch] = {std::min(step, tokens - 1), std::max<std::int64_t>(step - lag, 0)};
    HostTensor x = HostTensor::zeros(DType::F32, {batch, 1, d});
    for (std::int64_t b = 0; b < batch; ++b)
      std::ranges::copy(row(prompt, b * tokens + at[b], d), row(x, b, d).begin());
    given["x"] = x;
    given["position"] =
        reference::tensorOf(DType::I64, {batch}, {static_cast<double>(at[0]), static_cast<double>(at[1])});
    Named results = evaluate(decode, given);
    for (std::int64_t b = 0; b < batch; ++b)
      std::ranges::copy(row(results["y"], b, d), row(decoded, b * tokens + at[b], d).begin());
    given["k_cache"] = results["k_cache"];
    given["v_cache"] = results["v_cache"];
  }
  // The cache rounds keys and values to f32, 6e-8 each; within one evaluation they stay f64.
  CHECK(relativeDifference(decoded, expected) < 1e-6);
}
