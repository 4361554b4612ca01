// What goes into a pack, of compiled models.
#pragma once

#include "runtime/pack/Pack.h"
#include "tuner/api/Handles.h"
#include "tuner/model/ModelCompiler.h"

#include <string>
#include <utility>

namespace kfuse::tuner {

using Packed = std::pair<runtime::PackVariant, runtime::VariantPrograms>;

/// The variant of a pack that `compiled` becomes.
Packed packedOf(const CompiledModel &compiled);

/// The same kernels as PTX for `target`, "compute_80": what they do must be in all devices from there on.
Result<Packed> asPtx(Packed packed, const std::string &target, runtime::KernelCompiler &compiler);

/// The manifest of a model with these edges, without variants.
runtime::Manifest manifestOf(const Edges &edges, std::vector<int> updatedStates, std::string name);

/// What a pack says of itself, as JSON: describePack().
std::string describe(const runtime::Pack &pack);

/// A model as a pack tells of it: its edges and the weights that are in the pack, no graph.
Result<Model> modelOfPack(const std::string &path);

} // namespace kfuse::tuner
