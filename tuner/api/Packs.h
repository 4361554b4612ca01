// What goes into a pack, of compiled models.
#pragma once

#include "runtime/pack/Pack.h"
#include "tuner/api/Handles.h"
#include "tuner/model/ModelCompiler.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::tuner {

using Packed = std::pair<runtime::PackVariant, std::vector<runtime::VariantPrograms>>;

/// The variant of a pack that programs become, those of a table's buckets or one.
Packed packedOf(std::span<const LengthProgram> programs, const runtime::BucketTable &table);

/// The same kernels as PTX for `target`, "compute_80": what they do must be in all devices from there on.
Result<Packed> asPtx(Packed packed, const std::string &target, runtime::KernelCompiler &compiler);

/// The manifest of a model with these edges and dims(), without variants.
runtime::Manifest manifestOf(const Edges &edges, const std::vector<Dim> &dims, std::vector<int> updatedStates,
                             std::string name);

/// What a pack says of itself, as JSON: describePack().
std::string describe(const runtime::Pack &pack);

/// Tensors as a pack's manifest tells of them.
Edges edgesOfPack(const runtime::Manifest &manifest);

/// A model as a pack tells of it: its edges and the weights that come with it, no graph.
Result<Model> modelOfPack(const std::string &path, const runtime::WeightsSource &source);
/// The same with the shapes that a run of its `program` has for these lengths.
Result<Model> modelOfRun(const Model &pack, const Executable &program, std::span<const std::int64_t> lengths);

} // namespace kfuse::tuner
