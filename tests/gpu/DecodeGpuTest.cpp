// One compiled program that decodes a thousand tokens, one behind the other.
#include "codegen/cuda/text/DeviceLibrary.h"
#include "examples/blocks/Blocks.h"
#include "ir/GraphModule.h"
#include "tests/gpu/Gpu.h"
#include "tests/unit/RandomModels.h"

#include <cmath>
#include <functional>

using namespace kfuse;
using namespace kfuse::test;

namespace {

constexpr std::int64_t tokens = 1000, cacheLength = 1024, batch = 2, lag = 3;
constexpr examples::LlamaDims dims{.d = 64, .queryHeads = 8, .keyHeads = 2, .headSize = 32, .hidden = 128};

/// The block's program on a device, its caches empty.
class Decoder {
public:
  Decoder(runtime::Device &device, runtime::Program compiled, const Arguments &arguments)
      : device(device), program(std::move(compiled)) {
    for (const TensorDesc &argument : program.arguments)
      memory[argument.name] = uploaded(arguments.at(argument.name));
    for (const TensorDesc &argument : program.arguments)
      inputs.push_back(memory.at(argument.name)->data());
    for (std::size_t i = 0; i < program.results.size(); ++i)
      if (program.resultState[i] < 0)
        memory[program.results[i].name] = take(device.allocate(program.results[i].bytes()));
    for (const TensorDesc &result : program.results)
      outputs.push_back(memory.at(result.name)->data());
    context = take(runtime::makeContext(program, device));
  }

  /// What the block gives for each token; nothing waits between two of them.
  std::vector<HostTensor> decode(const HostTensor &xs, const HostTensor &positions) {
    auto allX = uploaded(xs), allPositions = uploaded(positions), all = uploaded(xs);
    const std::size_t x = xs.bytes.size() / tokens, position = positions.bytes.size() / tokens;
    for (std::int64_t t = 0; t < tokens; ++t) {
      copy(memory.at("x")->data(), at(*allX, t * x), x);
      copy(memory.at("position")->data(), at(*allPositions, t * position), position);
      succeed(context->run(nullptr, inputs, outputs));
      copy(at(*all, t * x), memory.at("y")->data(), x);
    }
    succeed(device.synchronize(nullptr));
    std::vector<HostTensor> ys(tokens, HostTensor::zeros(xs.type, {batch, 1, dims.d}));
    for (std::int64_t t = 0; t < tokens; ++t)
      succeed(device.download(ys[t].bytes.data(), at(*all, t * x), x));
    return ys;
  }

  HostTensor read(const std::string &name, HostTensor like) const {
    succeed(device.download(like.bytes.data(), memory.at(name)->data(), like.bytes.size()));
    return like;
  }

private:
  static void *at(const runtime::DeviceBuffer &buffer, std::size_t offset) {
    return static_cast<std::byte *>(buffer.data()) + offset;
  }
  void copy(void *to, const void *from, std::size_t bytes) { succeed(device.copy(nullptr, to, from, bytes)); }
  std::unique_ptr<runtime::DeviceBuffer> uploaded(const HostTensor &tensor) {
    auto buffer = take(device.allocate(tensor.bytes.size()));
    succeed(device.upload(buffer->data(), tensor.bytes.data(), tensor.bytes.size()));
    return buffer;
  }

  runtime::Device &device;
  runtime::Program program;
  std::map<std::string, std::unique_ptr<runtime::DeviceBuffer>> memory;
  std::vector<void *> inputs, outputs;
  std::unique_ptr<runtime::Context> context;
};

Decoder decoderFor(mlir::ModuleOp module, const ir::Target &target, runtime::Device &device,
                   runtime::KernelCompiler &compiler, const Arguments &arguments) {
  ModelRunner runner(target, device, compiler);
  auto planned = take(tuner::planModel(module, target));
  return {device, runner.program(planned, planned.main), runner.prepared(planned, arguments)};
}

/// Weights that keep values of size 1, empty caches.
Arguments blockArguments(mlir::func::FuncOp main) {
  Arguments arguments;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    std::string name = nameOf(main.getArgAttrDict(i), i);
    Shape shape = ir::shapeOf(main.getArgument(i));
    DType type = ir::dtypeOf(main.getArgument(i).getType());
    bool isEmpty = !isFloat(type) || name.find("cache") != std::string::npos;
    double deviation = shape.size() == 1 ? 1 : 1 / std::sqrt(static_cast<double>(shape.back()));
    arguments[name] = isEmpty ? HostTensor::zeros(type, shape) : reference::normal(type, shape, i + 1, deviation);
  }
  return arguments;
}

double difference(const HostTensor &a, const HostTensor &b) {
  std::vector<double> x = reference::toDoubles(a), y = reference::toDoubles(b);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    error += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
  return std::sqrt(error / size);
}

} // namespace

TEST_CASE("one program decodes a thousand tokens right") {
  Gpu gpu;
  auto compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  auto cpu = runtime::openCpu();
  auto cpuCompiler = runtime::makeCpuCompiler();
  const Graph block = take(examples::llamaDecode(batch, cacheLength, dims));
  mlir::ModuleOp module = block.internals().module.get();
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  Arguments arguments = blockArguments(main);

  // The second sequence begins `lag` tokens later.
  HostTensor xs = reference::normal(DType::BF16, {tokens, batch, 1, dims.d}, 7);
  std::vector<double> at;
  for (std::int64_t t = 0; t < tokens; ++t)
    at.insert(at.end(), {double(t), double(std::max<std::int64_t>(t - lag, 0))});
  HostTensor positions = reference::tensorOf(DType::I64, {tokens, batch}, at);

  Decoder here = decoderFor(module, *ir::findTarget(gpu.device->target()), *gpu.device, *compiler, arguments);
  Decoder there = decoderFor(module, *ir::findTarget("cpu"), *cpu, *cpuCompiler, arguments);
  std::vector<HostTensor> ys = here.decode(xs, positions), expected = there.decode(xs, positions);

  // Each is within the policy's 1e-2 of the exact values.
  for (std::int64_t t = 0; t < tokens; ++t) {
    CAPTURE(t);
    CHECK(difference(ys[t], expected[t]) <= 2e-2);
  }
  for (const char *cache : {"k_cache", "v_cache"}) {
    CAPTURE(cache);
    arguments[cache] = here.read(cache, arguments[cache]);
    CHECK(difference(arguments[cache], there.read(cache, arguments[cache])) <= 2e-2);
  }

  // The cache holds all that a token saw, and what lies behind its position does not count.
  for (std::int64_t t : {lag, tokens / 2, tokens - 1}) {
    CAPTURE(t);
    auto slice = [&](const HostTensor &all, HostTensor one) {
      std::copy_n(all.bytes.begin() + static_cast<std::ptrdiff_t>(t * one.bytes.size()), one.bytes.size(),
                  one.bytes.begin());
      return one;
    };
    arguments["x"] = slice(xs, arguments["x"]);
    arguments["position"] = slice(positions, arguments["position"]);
    std::vector<HostTensor> ordered;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      ordered.push_back(arguments.at(nameOf(main.getArgAttrDict(i), i)));
    auto verdicts = reference::checkOutputs(main.getBody().front(), ordered,
                                            std::array{ys[t], arguments["k_cache"], arguments["v_cache"]});
    REQUIRE_MESSAGE(verdicts, verdicts.error().message);
    for (const reference::Verdict &verdict : *verdicts)
      CHECK_MESSAGE(verdict.right, verdict.message);
  }
}
