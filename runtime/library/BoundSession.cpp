#include "runtime/library/BoundSession.h"

#include <utility>

namespace kfuse::runtime {
namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

Result<void> checkSize(const TensorDesc &tensor, std::size_t bytes) {
  if (bytes != tensor.bytes())
    return usage("'" + tensor.name + "' is given " + std::to_string(bytes) + " bytes, expected " +
                 std::to_string(tensor.bytes()) + " of " + std::string(toString(tensor.type)) + " " +
                 toString(tensor.shape));
  return {};
}

std::vector<void *> pointersOf(const std::vector<BoundTensor> &tensors) {
  std::vector<void *> pointers;
  for (const BoundTensor &tensor : tensors)
    pointers.push_back(tensor.memory);
  return pointers;
}

} // namespace

Result<std::unique_ptr<BoundSession>> BoundSession::make(std::shared_ptr<const PreparedWeights> weights,
                                                         std::span<std::byte> memory) {
  const LoadedProgram &program = *weights->program;
  Result<BucketContexts> contexts =
      BucketContexts::make(*program.device, mainsOf(program.programs), program.manifest().dims.size(), memory);
  if (!contexts)
    return contexts.error();
  std::unique_ptr<BoundSession> session(new BoundSession(std::move(weights), std::move(*contexts)));
  session->inputs.resize(program.manifest().inputs.size());
  session->states.resize(program.manifest().states.size());
  session->outputs.resize(program.manifest().outputs.size());
  return session;
}

Result<void> BoundSession::bindInput(std::size_t index, BoundTensor tensor) {
  Result<void> fits =
      program().manifest().dims.empty() ? checkSize(program().manifest().inputs[index], tensor.bytes) : Result<void>();
  if (fits)
    inputs[index] = tensor;
  return fits;
}

Result<void> BoundSession::bindState(std::size_t index, BoundTensor tensor) {
  Result<void> fits = checkSize(program().manifest().states[index], tensor.bytes);
  if (fits)
    states[index] = tensor;
  return fits;
}

Result<void> BoundSession::bindOutput(std::size_t index, BoundTensor tensor) {
  Result<void> fits =
      program().manifest().dims.empty() ? checkSize(program().manifest().outputs[index], tensor.bytes) : Result<void>();
  if (fits)
    outputs[index] = tensor;
  return fits;
}

Result<void> BoundSession::checkSizes(const LengthEdges &edges, std::span<const std::int64_t> given) const {
  auto check = [&](const std::vector<TensorDesc> &descs, const std::vector<LengthAxes> &axes,
                   const std::vector<BoundTensor> &bound) -> Result<void> {
    for (std::size_t i = 0; i < descs.size(); ++i) {
      const Shape shape = shapeAt(axes[i], given);
      const std::size_t needed = byteSize(descs[i].type, shape);
      if (bound[i].memory && bound[i].bytes < needed)
        return usage("'" + descs[i].name + "' is given " + std::to_string(bound[i].bytes) + " bytes, this run needs " +
                     std::to_string(needed) + " of " + std::string(toString(descs[i].type)) + " " + toString(shape));
    }
    return {};
  };
  Result<void> fits = check(program().manifest().inputs, edges.inputs, inputs);
  return fits ? check(program().manifest().outputs, edges.results, outputs) : fits;
}

Result<void> BoundSession::run(Stream stream, std::span<const std::int64_t> given) {
  const bool hasLengths = !program().manifest().dims.empty();
  if (Result<void> inside = checkLengths(program().manifest().dims, given); !inside)
    return inside;
  if (isRunning.test_and_set(std::memory_order_acquire))
    return usage("this session is in a run on another thread; make one for each");
  struct Ending {
    std::atomic_flag &flag;
    ~Ending() { flag.clear(std::memory_order_release); }
  } ending{isRunning};
  Result<std::size_t> bucket = hasLengths ? program().table.find(given) : std::size_t(0);
  if (!bucket)
    return bucket.error();
  const VariantPrograms &programs = program().programs[*bucket];
  if (Result<void> fits = hasLengths ? checkSizes(programs.edges, given) : Result<void>(); !fits)
    return fits;
  arguments = weights->fixed(*bucket);
  results = pointersOf(outputs);
  placeArguments(programs.main, programs.edges, pointersOf(inputs), pointersOf(states), results, contexts.lengths(),
                 arguments);
  if (programs.edges.readsLengths)
    if (Result<void> written = writeLengths(*program().device, stream, given, contexts.lengths()); !written)
      return written;
  return contexts[*bucket].run(stream, arguments, results);
}

} // namespace kfuse::runtime
