// Models of any length on the GPU: right at every one, and nothing behind the caller's tensors is written, or reaches a
// result.
#include "tests/gpu/Gpu.h"
#include "tests/unit/LengthModels.h"
#include "tests/unit/TemporaryFolder.h"
#include "tuner/api/Handles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <map>

using namespace kfuse;
using namespace kfuse::test;
using reference::HostTensor;

namespace {

using Lengths = std::vector<std::int64_t>;

class LengthsOnGpu {
public:
  LengthsOnGpu(const Build &build, const std::vector<Dim> &dims) : model(modelOf(build, dims, DType::BF16)) {
    CompileOptions options;
    options.store = (folder.path / "store.db").string();
    options.effort = Effort::None;
    program = take(compile(model, options));
    std::vector<void *> pointers;
    for (const TensorDesc &desc : model.parameters())
      pointers.push_back(onGpu(tensors[desc.name] = randomTensor(desc, tensors.size() + 1, Role::Parameter)));
    weights = take(program->prepare(pointers));
    session = std::make_unique<Session>(take(program->newSession(*weights)));
  }

  void checkAt(const Lengths &lengths) {
    CAPTURE(lengths);
    const Model exact = take(model.at(lengths));
    std::vector<void *> inputs, outputs;
    for (const TensorDesc &desc : exact.inputs())
      inputs.push_back(onGpu(tensors[desc.name] = randomTensor(desc, inputs.size() + 77, Role::Input)));
    const std::size_t firstOutput = memory.size();
    for (const TensorDesc &desc : exact.outputs())
      outputs.push_back(onGpu(HostTensor::zeros(desc.type, desc.shape)));
    succeed(session->run(nullptr, inputs, outputs, lengths));
    succeed(program->synchronize());
    std::vector<HostTensor> found, arguments;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorDesc &desc = exact.outputs()[i];
      std::vector<std::byte> bytes(memory[firstOutput + i].size());
      succeed(memory[firstOutput + i].download(bytes.data()));
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(desc.bytes());
      CHECK(std::all_of(end, bytes.end(), [](std::byte byte) { return byte == behind; }));
      found.push_back({desc.type, desc.shape, {bytes.begin(), end}});
    }
    mlir::ModuleOp module = *exact.internals().model.module;
    auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      arguments.push_back(tensors.at(main.getArgAttrOfType<mlir::StringAttr>(i, "kfuse.name").str()));
    for (const reference::Verdict &verdict : take(reference::checkOutputs(main.getBody().front(), arguments, found)))
      CHECK_MESSAGE(verdict.right, verdict.message);
  }

  /// Each program captures one graph, at the first of its runs, and no other length changes any.
  void checkReplays(const std::vector<Lengths> &all) {
    const Executable::Impl &impl = program->internals();
    auto contexts = take(runtime::BucketContexts::make(*impl.device, impl.mains(), impl.dims.size(), {}));
    std::vector<void *> inputs, outputs;
    for (const TensorDesc &desc : model.inputs())
      inputs.push_back(onGpu(randomTensor(desc, inputs.size() + 77, Role::Input)));
    for (const TensorDesc &desc : model.outputs())
      outputs.push_back(onGpu(HostTensor::zeros(desc.type, desc.shape)));
    auto runAll = [&] {
      std::map<std::size_t, runtime::ReplayCounts> counts;
      for (const Lengths &lengths : all) {
        const std::size_t bucket = take(impl.table.find(lengths));
        const LengthProgram &one = impl.programs[bucket];
        std::vector<void *> arguments = weights->internals().fixed[bucket], results = outputs;
        runtime::placeArguments(one.compiled.main, one.edges, inputs, {}, outputs, contexts.lengths(), arguments);
        succeed(runtime::writeLengths(*impl.device, nullptr, lengths, contexts.lengths()));
        succeed(contexts[bucket].run(nullptr, arguments, results));
        counts[bucket] = contexts[bucket].replayCounts();
      }
      succeed(program->synchronize());
      return counts;
    };
    const auto warm = runAll();
    for (const auto &[bucket, counts] : warm)
      CHECK(counts.captures == 1);
    CHECK(runAll() == warm);
  }

private:
  static constexpr std::byte behind{0xff}; ///< As floats that is NaN.

  void *onGpu(const HostTensor &tensor) {
    std::vector<std::byte> bytes = tensor.bytes;
    bytes.resize(bytes.size() + 4096, behind);
    memory.push_back(take(program->allocate(bytes.size())));
    succeed(memory.back().upload(bytes.data()));
    return memory.back().data();
  }

  Model model;
  tuner::test::TemporaryFolder folder;
  std::map<std::string, HostTensor> tensors;
  std::optional<Executable> program;
  std::vector<Buffer> memory;
  std::optional<Weights> weights;
  std::unique_ptr<Session> session;
};

} // namespace

TEST_CASE("lengths on the GPU: a feed-forward block") {
  LengthsOnGpu ffn(feedForward, {{"rows", 1, 700}});
  for (std::int64_t rows : {700, 1, 2, 33, 129, 257, 511, 640, 699})
    ffn.checkAt({rows});
}

TEST_CASE("lengths on the GPU: another length captures no graph, and patches none") {
  LengthsOnGpu ffn(feedForward, {{"rows", 1, 700}});
  ffn.checkReplays({{700}, {1}, {2}, {33}, {129}, {257}, {511}, {640}, {699}});
}

TEST_CASE("lengths on the GPU: batches and tokens of an encoder with masks and pooling") {
  LengthsOnGpu encoder(bert, {{"batch", 1, 9}, {"tokens", 1, 61}});
  for (const Lengths &lengths : {Lengths{9, 61}, {1, 1}, {2, 33}, {8, 7}, {3, 60}, {9, 1}})
    encoder.checkAt(lengths);
}

TEST_CASE("lengths on the GPU: a causal block of sizes that tensor cores take") {
  LengthsOnGpu block(CausalBlock{.heads = 4, .shared = 2, .size = 64, .wide = 640}, {{"tokens", 1, 900}});
  for (std::int64_t tokens : {900, 1, 7, 64, 65, 129, 200, 333, 513, 777, 899})
    block.checkAt({tokens});
}

TEST_CASE("lengths on the GPU: an image's tokens behind one of their own") {
  LengthsOnGpu images(vit, {{"batch", 1, 6}, {"patches", 2, 40}});
  for (const Lengths &lengths : {Lengths{6, 40}, {1, 2}, {4, 19}, {5, 33}, {2, 3}})
    images.checkAt(lengths);
}
