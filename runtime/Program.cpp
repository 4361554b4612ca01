#include "runtime/Program.h"

#include <algorithm>
#include <stdexcept>

namespace kfuse::runtime {
namespace {

using codegen::BufferDesc;
using codegen::KernelArg;
using codegen::KernelPlan;
using codegen::Launch;
using codegen::TensorMapRecipe;

constexpr std::uint64_t maxBytes = std::uint64_t(1) << 47; // The user half of a 64-bit address space.

struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string &what) {
  if (!holds)
    throw Invalid(what);
}

void requireIndex(const std::string &what, std::uint64_t index, std::uint64_t count) {
  require(index < count, what + " " + std::to_string(index) + " of " + std::to_string(count));
}

/// Dense size of a tensor whose type and shape are not trusted yet.
std::uint64_t checkedBytes(const std::string &what, DType type, const Shape &shape) {
  require(type <= lastDType, what + " has the unknown element type " + std::to_string(static_cast<int>(type)));
  std::uint64_t bytes = byteWidth(type);
  for (std::int64_t size : isPacked(type) ? packedShape(shape) : shape) {
    require(size >= 0, what + " has the negative dimension " + std::to_string(size));
    require(size == 0 || bytes <= maxBytes / static_cast<std::uint64_t>(size), what + " is larger than 2^47 bytes");
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

/// Goes through a program and throws Invalid at the first thing that does not fit.
class Validator {
public:
  explicit Validator(const Program &program) : program(program) {}

  void run() const {
    edges();
    require(program.arenaBytes <= maxBytes, "the arena is larger than 2^47 bytes");
    for (const ProgramKernel &kernel : program.kernels)
      plan(kernel.plan);
    for (std::size_t i = 0; i < program.steps.size(); ++i)
      step("step " + std::to_string(i), program.steps[i]);
    for (const PassThrough &pass : program.passThroughs)
      passThrough(pass);
  }

private:
  void edges() const {
    require(program.roles.size() == program.arguments.size(), std::to_string(program.arguments.size()) +
                                                                  " arguments but " +
                                                                  std::to_string(program.roles.size()) + " roles");
    require(program.resultState.size() == program.results.size(),
            std::to_string(program.results.size()) + " results but " + std::to_string(program.resultState.size()) +
                " result states");
    for (const TensorDesc &argument : program.arguments)
      checkedBytes("argument '" + argument.name + "'", argument.type, argument.shape);
    for (Role role : program.roles)
      require(role <= Role::State, "an argument has the unknown role " + std::to_string(static_cast<int>(role)));
    for (std::size_t i = 0; i < program.results.size(); ++i)
      result(program.results[i], program.resultState[i]);
  }

  void result(const TensorDesc &result, int state) const {
    std::string what = "result '" + result.name + "'";
    std::uint64_t bytes = checkedBytes(what, result.type, result.shape);
    if (state == -1)
      return;
    requireIndex(what + " aliases argument", static_cast<std::uint64_t>(state), program.arguments.size());
    require(program.roles[state] == Role::State, what + " aliases an argument that is no state");
    require(bytes == program.arguments[state].bytes(), what + " has " + std::to_string(bytes) + " bytes, its state " +
                                                           std::to_string(program.arguments[state].bytes()));
  }

  void plan(const KernelPlan &plan) const {
    std::string what = "kernel '" + plan.name + "'";
    for (const BufferDesc &buffer : plan.inputs)
      checkedBytes(what + ": an input", buffer.type, buffer.shape);
    for (const BufferDesc &buffer : plan.outputs)
      checkedBytes(what + ": an output", buffer.type, buffer.shape);
    require(plan.inPlace.empty() || plan.inPlace.size() == plan.outputs.size(),
            what + " has " + std::to_string(plan.outputs.size()) + " outputs but says of " +
                std::to_string(plan.inPlace.size()) + " what they alias");
    for (int input : plan.inPlace)
      require(input == -1 || static_cast<std::size_t>(input) < plan.inputs.size(),
              what + ": an output aliases input " + std::to_string(input) + " of " +
                  std::to_string(plan.inputs.size()));
    require(plan.workspaceBytes <= maxBytes && plan.zeroedBytes <= plan.workspaceBytes,
            what + " wants " + std::to_string(plan.zeroedBytes) + " zeroed bytes in a workspace of " +
                std::to_string(plan.workspaceBytes));
    require(plan.zeroedBytes % codegen::zeroedGranule == 0, what + " wants " + std::to_string(plan.zeroedBytes) +
                                                                " zeroed bytes, not a multiple of " +
                                                                std::to_string(codegen::zeroedGranule));
    for (const TensorMapRecipe &recipe : plan.tensorMaps)
      tensorMap(what, plan, recipe);
    for (const Launch &each : plan.launches)
      launch(what, plan, each);
  }

  void tensorMap(const std::string &what, const KernelPlan &plan, const TensorMapRecipe &recipe) const {
    if (recipe.inWorkspace)
      requireIndex(what + ": tensor map at workspace byte", recipe.offsetBytes, plan.workspaceBytes);
    else
      requireIndex(what + ": tensor map of buffer", recipe.buffer, plan.inputs.size() + plan.outputs.size());
    std::size_t rank = recipe.sizes.size();
    require(rank >= 1 && rank <= 5 && recipe.strideBytes.size() == rank - 1 && recipe.box.size() == rank,
            what + ": a tensor map has " + std::to_string(rank) + " sizes, " +
                std::to_string(recipe.strideBytes.size()) + " strides and a box of " +
                std::to_string(recipe.box.size()));
    require(recipe.type <= lastDType, what + ": a tensor map has an unknown element type");
    std::uint32_t swizzle = recipe.swizzleBytes;
    require(swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128,
            what + ": a tensor map swizzles " + std::to_string(swizzle) + " bytes, not 0, 32, 64 or 128");
    require(recipe.offsetBytes % 16 == 0 && recipe.offsetBytes <= maxBytes,
            what + ": a tensor map starts at byte " + std::to_string(recipe.offsetBytes) + ", not a multiple of 16");
  }

  void launch(const std::string &what, const KernelPlan &plan, const Launch &launch) const {
    for (const auto &dims : {launch.grid, launch.block, launch.cluster})
      require(std::find(dims.begin(), dims.end(), 0U) == dims.end(), what + " is launched with a dimension of 0");
    if (const codegen::Residency &residency = launch.residency; residency.isAdaptable())
      require(residency.multiprocessors > 0 && launch.grid[0] <= residency.workBlocks &&
                  residency.workBlocks % launch.cluster[0] == 0,
              what + " has work for " + std::to_string(residency.workBlocks) + " blocks, a grid of " +
                  std::to_string(launch.grid[0]) + " and clusters of " + std::to_string(launch.cluster[0]));
    for (const KernelArg &arg : launch.args) {
      std::uint64_t limit = 0;
      switch (arg.kind) {
      case KernelArg::Kind::Buffer:
        limit = plan.inputs.size() + plan.outputs.size();
        break;
      case KernelArg::Kind::Workspace:
        limit = plan.workspaceBytes;
        break;
      case KernelArg::Kind::TensorMap:
        limit = plan.tensorMaps.size();
        break;
      }
      requireIndex(what + " takes a " + kindName(arg.kind), arg.index, limit);
    }
  }

  static std::string kindName(KernelArg::Kind kind) {
    switch (kind) {
    case KernelArg::Kind::Buffer:
      return "buffer";
    case KernelArg::Kind::Workspace:
      return "workspace byte";
    case KernelArg::Kind::TensorMap:
      return "tensor map";
    }
    throw Invalid("a kernel takes an argument of the unknown kind " + std::to_string(static_cast<int>(kind)));
  }

  void step(const std::string &what, const Step &step) const {
    requireIndex(what + " runs kernel", step.kernel, program.kernels.size());
    const KernelPlan &plan = program.kernels[step.kernel].plan;
    std::size_t inputs = plan.inputs.size();
    require(step.buffers.size() == inputs + plan.outputs.size(),
            what + " binds " + std::to_string(step.buffers.size()) + " buffers, kernel '" + plan.name + "' has " +
                std::to_string(inputs + plan.outputs.size()));
    for (std::size_t i = 0; i < inputs; ++i)
      span(what, step.buffers[i], plan.inputs[i].bytes());
    for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
      span(what, step.buffers[inputs + i], plan.outputs[i].bytes());
      writable(what, step.buffers[inputs + i]);
    }
  }

  /// Checks that `bytes` at `ref` lie inside what they refer to.
  void span(const std::string &what, const BufferRef &ref, std::uint64_t bytes) const {
    std::uint64_t size = spaceBytes(what, ref);
    require(bytes <= size && ref.offset <= size - bytes, what + " uses " + std::to_string(bytes) + " bytes at " +
                                                             std::to_string(ref.offset) + " of a buffer of " +
                                                             std::to_string(size));
  }

  std::uint64_t spaceBytes(const std::string &what, const BufferRef &ref) const {
    switch (ref.space) {
    case BufferRef::Space::Argument:
      requireIndex(what + " uses argument", ref.index, program.arguments.size());
      return program.arguments[ref.index].bytes();
    case BufferRef::Space::Result:
      requireIndex(what + " uses result", ref.index, program.results.size());
      return program.results[ref.index].bytes();
    case BufferRef::Space::Constant:
      return program.constants.size();
    case BufferRef::Space::Arena:
      return program.arenaBytes;
    }
    throw Invalid(what + " uses the unknown space " + std::to_string(static_cast<int>(ref.space)));
  }

  void writable(const std::string &what, const BufferRef &ref) const {
    require(ref.space != BufferRef::Space::Constant, what + " writes to a constant");
    require(ref.space != BufferRef::Space::Argument || program.roles[ref.index] == Role::State,
            what + " writes to argument " + std::to_string(ref.index) + ", which is no state");
  }

  void passThrough(const PassThrough &pass) const {
    requireIndex("a pass-through writes result", pass.result, program.results.size());
    std::string what = "the pass-through to result '" + program.results[pass.result].name + "'";
    require(pass.source.space == BufferRef::Space::Argument || pass.source.space == BufferRef::Space::Constant,
            what + " reads neither an argument nor a constant");
    span(what, pass.source, program.results[pass.result].bytes());
    int state = program.resultState[pass.result];
    bool fromArgument = pass.source.space == BufferRef::Space::Argument;
    if (state == -1 || !fromArgument || pass.source.index == static_cast<std::uint32_t>(state))
      return;
    // It is copied after the steps, when an updated state no longer holds what it held.
    require(std::find(program.resultState.begin(), program.resultState.end(), static_cast<int>(pass.source.index)) ==
                program.resultState.end(),
            what + " reads a state that the program updates");
  }

  const Program &program;
};

} // namespace

Result<void> Program::validate() const {
  try {
    Validator(*this).run();
    return {};
  } catch (const Invalid &invalid) {
    return Error{ErrorCode::BadModel, "program '" + name + "' is inconsistent: " + invalid.what()};
  }
}

Workspace::Workspace(std::span<const Program *const> programs) {
  for (const Program *program : programs)
    for (const ProgramKernel &kernel : program->kernels) {
      zeroed = std::max(zeroed, kernel.plan.zeroedBytes);
      scratch = std::max(scratch, kernel.plan.workspaceBytes - kernel.plan.zeroedBytes);
    }
}

} // namespace kfuse::runtime
