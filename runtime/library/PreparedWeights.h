// The weights of a pack's program, as the C interface hands them out.
#pragma once

#include "runtime/library/LoadedProgram.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse::runtime {

/// Memory that parameters are in, or none.
using Parameters = std::vector<const void *>;

/// A program's fixed arguments: parameters, and what its preparation makes of them.
class PreparedWeights {
public:
  /// `parameters` are the manifest's, in order; those that are null come with the pack.
  static Result<std::shared_ptr<const PreparedWeights>> make(std::shared_ptr<const LoadedProgram> program,
                                                             Parameters parameters);
  const std::shared_ptr<const LoadedProgram> program;
  /// Per argument of a bucket's main: its memory if it is fixed, else null.
  const std::vector<void *> &fixed(std::size_t bucket) const { return pointers[bucket]; }

private:
  explicit PreparedWeights(std::shared_ptr<const LoadedProgram> program) : program(std::move(program)) {}
  Result<void> takeFromPack(Parameters &parameters);
  Result<void> prepare(const VariantPrograms &programs, const Parameters &parameters);
  Result<void> fixArguments(const VariantPrograms &programs, const Parameters &parameters);
  Result<bool> allocatePrepared(const VariantPrograms &programs, std::vector<void *> &results);
  void *pointerOf(std::string_view parameter, const Parameters &parameters) const;
  bool isRead(std::string_view parameter) const;

  std::vector<std::unique_ptr<DeviceBuffer>> uploaded;           ///< Parameters that came with the pack.
  std::map<std::string, std::unique_ptr<DeviceBuffer>> prepared; ///< What the preparations computed, by their keys.
  std::vector<std::vector<void *>> pointers;
};

} // namespace kfuse::runtime
