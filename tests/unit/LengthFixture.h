// Models of lengths that a run gives, against the reference evaluator on the graph of just these lengths. Tensors of
// the caller end where their last element does: behind them is memory that may not be touched.
#pragma once

#include "LengthModels.h"
#include "TemporaryFolder.h"

#include "ir/reference/Policy.h"
#include "kfuse/kfuse.h"
#include "tuner/api/Handles.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace kfuse::test {

using reference::HostTensor;
using Lengths = std::vector<std::int64_t>;

/// Host memory that ends with its last element, as far as 16 bytes of alignment let it: there a page begins that
/// nobody may touch.
class GuardedTensor {
public:
  explicit GuardedTensor(const HostTensor &tensor) : bytes(tensor.bytes.size()) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    aligned = (bytes + 15) / 16 * 16;
    mapped = (aligned + page - 1) / page * page + page;
    base = static_cast<std::byte *>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base != MAP_FAILED);
    REQUIRE(mprotect(base + mapped - page, page, PROT_NONE) == 0);
    start = base + mapped - page - aligned;
    std::memset(start, 0x5a, aligned);
    std::memcpy(start, tensor.bytes.data(), bytes);
  }
  ~GuardedTensor() { munmap(base, mapped); }
  GuardedTensor(const GuardedTensor &) = delete;
  GuardedTensor &operator=(const GuardedTensor &) = delete;

  void *data() const { return start; }
  std::vector<std::byte> read() const { return {start, start + bytes}; }
  bool isWhole() const {
    for (std::size_t i = bytes; i < aligned; ++i)
      if (start[i] != std::byte{0x5a})
        return false;
    return true;
  }

private:
  std::size_t bytes, aligned = 0, mapped = 0;
  std::byte *base = nullptr, *start = nullptr;
};

/// A compiled model of lengths and its parameters.
class Fixture {
public:
  Fixture(const Build &build, const std::vector<Dim> &dims, DType type) : Fixture(modelOf(build, dims, type)) {}
  explicit Fixture(Model given) : model(std::move(given)) {
    CompileOptions options;
    options.target = "cpu";
    options.store = (folder.path / "store.db").string();
    options.effort = Effort::None;
    Result<Executable> compiled = compile(model, options);
    REQUIRE_MESSAGE(compiled, compiled.error().message);
    program = *compiled;
    std::vector<void *> pointers;
    for (const TensorDesc &desc : model.parameters()) {
      tensors[desc.name] = randomTensor(desc, tensors.size() + 1, Role::Parameter);
      pointers.push_back(tensors[desc.name].bytes.data());
    }
    weights = program->prepare(pointers).value();
    session = std::make_unique<Session>(program->newSession(*weights).value());
  }

  void checkAt(const Lengths &lengths) {
    CAPTURE(lengths);
    const Model exact = model.at(lengths).value();
    std::vector<std::unique_ptr<GuardedTensor>> memory;
    std::vector<void *> inputs, outputs;
    for (const TensorDesc &desc : exact.inputs()) {
      tensors[desc.name] = randomTensor(desc, inputs.size() + 77, Role::Input);
      inputs.push_back(memory.emplace_back(std::make_unique<GuardedTensor>(tensors[desc.name]))->data());
    }
    const std::size_t firstState = memory.size();
    std::vector<HostTensor> before; // The states of the largest lengths, of which a run uses the first elements.
    for (std::size_t i = 0; i < exact.states().size(); ++i) {
      const TensorDesc &desc = exact.states()[i];
      before.push_back(randomTensor(model.states()[i], i + 177, Role::State));
      inputs.push_back(memory.emplace_back(std::make_unique<GuardedTensor>(before.back()))->data());
      tensors[desc.name] = firstOf(before.back().bytes, desc);
    }
    const std::size_t firstOutput = memory.size();
    const std::vector<Shape> shapes = program->outputShapes(lengths).value();
    for (const TensorDesc &desc : exact.outputs()) {
      CHECK(shapes[outputs.size()] == desc.shape);
      if (program->updatedStates()[outputs.size()] >= 0) {
        outputs.push_back(nullptr);
        continue;
      }
      HostTensor poison = HostTensor::zeros(desc.type, desc.shape);
      std::ranges::fill(poison.bytes, std::byte{0xff});
      outputs.push_back(memory.emplace_back(std::make_unique<GuardedTensor>(poison))->data());
    }
    const Result<void> ran = session->run(nullptr, inputs, outputs, lengths);
    REQUIRE_MESSAGE(ran, ran.error().message);
    std::vector<HostTensor> found, arguments;
    for (const std::unique_ptr<GuardedTensor> &one : memory)
      CHECK(one->isWhole());
    for (std::size_t i = 0, stored = firstOutput; i < outputs.size(); ++i) {
      const TensorDesc &desc = exact.outputs()[i];
      const int state = program->updatedStates()[i];
      const std::vector<std::byte> bytes =
          memory[state >= 0 ? firstState + static_cast<std::size_t>(state) : stored++]->read();
      found.push_back(firstOf(bytes, desc));
    }
    for (std::size_t i = 0; i < before.size(); ++i) { // What the run has no sequences for is as it was.
      const std::size_t used = exact.states()[i].bytes();
      const std::vector<std::byte> after = memory[firstState + i]->read();
      CHECK(std::ranges::equal(std::span(after).subspan(used), std::span(before[i].bytes).subspan(used)));
    }
    mlir::ModuleOp module = *exact.internals().model.module;
    auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      arguments.push_back(tensors.at(main.getArgAttrOfType<mlir::StringAttr>(i, "kfuse.name").str()));
    auto verdicts = reference::checkOutputs(main.getBody().front(), arguments, found);
    REQUIRE_MESSAGE(verdicts, verdicts.error().message);
    for (const reference::Verdict &verdict : *verdicts)
      CHECK_MESSAGE(verdict.right, verdict.message);
  }

  /// The first output of a run on these inputs, which updates these states.
  HostTensor runOn(const Lengths &lengths, std::vector<HostTensor> inputs, std::vector<HostTensor> &states) {
    std::vector<void *> given, outputs(model.outputs().size(), nullptr);
    for (HostTensor &input : inputs)
      given.push_back(input.bytes.data());
    for (HostTensor &state : states)
      given.push_back(state.bytes.data());
    HostTensor first = HostTensor::zeros(model.outputs()[0].type, program->outputShapes(lengths).value()[0]);
    outputs[0] = first.bytes.data();
    const Result<void> ran = session->run(nullptr, given, outputs, lengths);
    REQUIRE_MESSAGE(ran, ran.error().message);
    return first;
  }

  static HostTensor firstOf(const std::vector<std::byte> &bytes, const TensorDesc &desc) {
    return {desc.type, desc.shape, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(desc.bytes())}};
  }

  Model model;
  tuner::test::TemporaryFolder folder;
  std::map<std::string, HostTensor> tensors;
  std::optional<Executable> program;
  std::optional<Weights> weights;
  std::unique_ptr<Session> session;
};

} // namespace kfuse::test
