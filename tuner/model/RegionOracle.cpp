#include "tuner/model/RegionOracle.h"

#include "codegen/AttentionRegion.h"
#include "codegen/KeyBounds.h"
#include "ir/dialect/Kfuse.h"
#include "ir/dialect/ScatteredRows.h"
#include "ir/reference/Policy.h"
#include "tuner/model/Noise.h"

#include "mlir/IR/Operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace mlir;
using kfuse::reference::HostTensor;

namespace kfuse::tuner {
namespace {

constexpr int runs = 32, runLength = 32;

/// Row-major offsets to look at: everything, when that is not more than the samples would be.
std::vector<std::int64_t> sampleOffsets(std::int64_t size, unsigned seed) {
  std::vector<std::int64_t> offsets;
  if (size <= std::int64_t{runs} * runLength) {
    for (std::int64_t i = 0; i < size; ++i)
      offsets.push_back(i);
    return offsets;
  }
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> anywhere(0, size - runLength);
  for (int run = 0; run < runs; ++run) {
    std::int64_t first = run == 0 ? 0 : run == 1 ? size - runLength : anywhere(random);
    for (int i = 0; i < runLength; ++i)
      offsets.push_back(first + i);
  }
  return offsets;
}

/// Offsets in an updated state of elements that its update writes: of a long cache, samples anywhere would miss them.
/// None where the position is computed.
std::vector<std::int64_t> writtenOffsets(ir::StateUpdateOp update, std::span<const HostTensor> arguments) {
  Value source = update.getPosition();
  while (auto reshape = source.getDefiningOp<ir::ReshapeOp>())
    source = reshape.getOperand();
  auto argument = dyn_cast<BlockArgument>(source);
  if (!argument || ir::scattersRows(update))
    return {};
  const std::vector<double> positions = reference::toDoubles(arguments[argument.getArgNumber()]);
  const Shape value = ir::shapeOf(update.getValue()), state = ir::shapeOf(update.getState());
  const std::size_t axis = update.getAxis();
  std::mt19937_64 random(axis);
  std::uniform_int_distribution<std::int64_t> anywhere(0, elementCount(value) - 1);
  std::vector<std::int64_t> offsets;
  for (int sample = 0; sample < runs * 4; ++sample) {
    std::vector<std::int64_t> index(value.size());
    std::int64_t rest = anywhere(random), offset = 0;
    for (std::size_t dim = value.size(); dim-- > 0; rest /= value[dim])
      index[dim] = rest % value[dim];
    const auto position = static_cast<std::int64_t>(positions[positions.size() == 1 ? 0 : index[0]]);
    if (position < 0 || position > state[axis] - value[axis])
      continue;
    index[axis] += position;
    for (std::size_t dim = 0; dim < state.size(); ++dim)
      offset = offset * state[dim] + index[dim];
    offsets.push_back(offset);
  }
  return offsets;
}

std::vector<HostTensor> toTensors(Block &body, const HostBuffers &inputs) {
  std::vector<HostTensor> tensors;
  for (auto [argument, bytes] : llvm::zip_equal(body.getArguments(), inputs))
    tensors.push_back({ir::dtypeOf(argument.getType()), ir::shapeOf(argument), bytes});
  return tensors;
}

} // namespace

namespace {

/// Whether it says where rows are written, of which no two may be at one place.
bool isOfScatteredRows(BlockArgument argument) {
  return llvm::any_of(argument.getOwner()->getOps<ir::StateUpdateOp>(), [&](ir::StateUpdateOp update) {
    Value source = update.getPosition();
    while (auto reshape = source.getDefiningOp<ir::ReshapeOp>())
      source = reshape.getOperand();
    return source == argument && ir::scattersRows(update);
  });
}

/// 0, 1, ...
std::vector<std::byte> counted(DType type, const Shape &shape) {
  std::vector<double> numbers(static_cast<std::size_t>(elementCount(shape)));
  std::iota(numbers.begin(), numbers.end(), 0);
  return reference::tensorOf(type, shape, numbers).bytes;
}

void forEachInput(const ir::ScalarGraph &graph, ir::Scalar s, llvm::function_ref<void(unsigned)> visit) {
  if (graph[s].kind == ir::ScalarNode::Kind::Load)
    visit(static_cast<unsigned>(graph[s].input));
  for (ir::Scalar operand : graph[s].operands)
    forEachInput(graph, operand, visit);
}

/// Inputs of an attention that say where the keys of each row begin: late ones would leave it nothing to do.
std::set<unsigned> rowStarts(Block &body) {
  std::set<unsigned> starts;
  if (body.getOps<ir::AttentionOp>().empty())
    return starts;
  const Result<codegen::Region> region = codegen::makeAttentionRegion(body);
  if (!region)
    return starts;
  const ir::ScalarGraph &scores = region->attention()->scores;
  const codegen::KeyBounds bounds = codegen::keyBounds(scores);
  for (const codegen::ReadBound &bound : bounds.firsts)
    for (const codegen::ReadBound::Term &term : bound.terms)
      if (bound.isOfRow)
        forEachInput(scores, term.value, [&](unsigned input) { starts.insert(input); });
  for (const codegen::ReadBound &bound : bounds.lasts)
    for (const codegen::ReadBound::Term &term : bound.terms)
      forEachInput(scores, term.value, [&](unsigned input) { starts.erase(input); });
  return starts;
}

} // namespace

HostBuffers RegionOracle::makeInputs() const {
  HostBuffers inputs;
  const IndexRange late = indexRange(body), early{0, late.high - late.low};
  const std::set<unsigned> starts = rowStarts(body);
  for (BlockArgument argument : body.getArguments()) {
    const DType type = ir::dtypeOf(argument.getType());
    const IndexRange indices = starts.count(argument.getArgNumber()) ? early : late;
    inputs.push_back(isOfScatteredRows(argument)
                         ? counted(type, ir::shapeOf(argument))
                         : argumentNoise(argument, indices, argument.getArgNumber() + 1, 1, large.get()));
  }
  return inputs;
}

Result<void> RegionOracle::expect(const HostBuffers &inputs) {
  std::lock_guard lock(mutex);
  return takeSamples(inputs);
}

Result<void> RegionOracle::check(const HostBuffers &inputs, const ReadOutput &read) {
  std::lock_guard lock(mutex);
  if (Result<void> taken = takeSamples(inputs); !taken)
    return taken;
  for (Sample &sample : samples)
    if (Result<void> right = checkSample(sample, inputs, read); !right)
      return right;
  return {};
}

Result<void> RegionOracle::checkAlso(const HostBuffers &inputs, std::size_t result, std::vector<std::int64_t> offsets) {
  std::lock_guard lock(mutex);
  if (Result<void> taken = takeSamples(inputs); !taken)
    return taken;
  return takeSample(toTensors(body, inputs), static_cast<unsigned>(result), std::move(offsets));
}

/// Unless they were taken.
Result<void> RegionOracle::takeSamples(const HostBuffers &inputs) {
  if (!samples.empty())
    return {};
  const std::vector<HostTensor> arguments = toTensors(body, inputs);
  for (auto [result, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    std::vector<std::int64_t> offsets = sampleOffsets(elementCount(ir::shapeOf(value)), result + 1);
    if (auto update = value.getDefiningOp<ir::StateUpdateOp>()) {
      const std::vector<std::int64_t> written = writtenOffsets(update, arguments);
      offsets.insert(offsets.end(), written.begin(), written.end());
    }
    if (Result<void> taken = takeSample(arguments, result, std::move(offsets)); !taken)
      return taken;
  }
  return {};
}

Result<void> RegionOracle::takeSample(std::span<const HostTensor> arguments, unsigned result,
                                      std::vector<std::int64_t> offsets) {
  Result<reference::Values> expected = reference::evaluateAt(body, arguments, result, offsets, reference::Mode::Exact);
  if (!expected)
    return expected.error();
  samples.push_back({result, std::move(offsets), std::move(*expected), {}});
  return {};
}

Result<void> RegionOracle::checkSample(Sample &sample, const HostBuffers &inputs, const ReadOutput &read) {
  DType type = sample.expected.type;
  reference::Values found{type, sample.expected.shape, {}};
  found.numbers.resize(sample.offsets.size());
  const std::size_t width = byteWidth(type);
  for (std::size_t begin = 0, end = 0; begin < sample.offsets.size(); begin = end) { // Neighbours together.
    for (end = begin + 1; end < sample.offsets.size() && sample.offsets[end] == sample.offsets[end - 1] + 1;)
      ++end;
    std::vector<std::byte> bytes((end - begin) * width);
    if (Result<void> done = read(sample.result, static_cast<std::size_t>(sample.offsets[begin]) * width, bytes); !done)
      return done;
    reference::readNumbers(type, bytes.data(), 0, 1, static_cast<std::int64_t>(end - begin), &found.numbers[begin]);
  }

  auto rounded = [&]() -> Result<reference::Values> {
    if (!sample.rounded) { // It takes 70 ms where rows are long.
      Result<reference::Values> values = reference::evaluateAt(body, toTensors(body, inputs), sample.result,
                                                               sample.offsets, reference::Mode::RoundEachOp);
      if (!values)
        return values;
      sample.rounded = std::move(*values);
    }
    return *sample.rounded;
  };
  auto spread = [&](std::span<const std::int64_t> elements) -> Result<std::vector<double>> {
    std::vector<std::int64_t> offsets;
    for (std::int64_t element : elements)
      offsets.push_back(sample.offsets[element]);
    return reference::spreadAt(body, toTensors(body, inputs), sample.result, offsets);
  };
  const bool isElementwise = reference::isElementwise(body, sample.result);
  Result<reference::Verdict> verdict =
      reference::judge(found, sample.expected, rounded, isElementwise ? reference::Spread(spread) : nullptr);
  if (!verdict)
    return verdict.error();
  if (verdict->right)
    return {};
  return Error{ErrorCode::WrongResult, fmt::format("result {}, {} elements sampled: {}", sample.result,
                                                   sample.offsets.size(), verdict->message)};
}

} // namespace kfuse::tuner
