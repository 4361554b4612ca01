// The tensors of one run: found in what Python gave, checked, and returned.
#pragma once

#include "Bindings.h"
#include "Lengths.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kfuse::python {

/// What a run was given beside its inputs; null or None where it was not.
struct CallOptions {
  nb::object out, stream, states;
};

inline bool isGiven(const nb::object &option) { return option.is_valid() && !option.is_none(); }

/// Puts what a dictionary gives by name into the list of `descs`; a UsageError for an unknown name.
void takeByName(const nb::dict &given, const std::vector<TensorDesc> &descs, std::vector<nb::object> &tensors,
                const char *what);

/// Used for one run after the other, since its vectors keep their memory.
class Call {
public:
  /// `program` is a Program's object, which outlives the call.
  explicit Call(nb::handle program);

  /// Finds the tensors, then checks them; a UsageError names what does not fit. `bound` are the states that hold where
  /// the run is given none.
  void resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named,
               const std::vector<nb::object> &bound);

  Result<void> run(Session &session) const;

  /// A framework frees memory for work behind what is on its own current stream; of a run on another one it is told.
  void tellAllocators(const std::vector<nb::object> &tensors) const;
  void tellAllocators() const;

  /// What the run made, for Python.
  nb::object results();

  /// For the next run.
  void clear();

  std::intptr_t stream = 0;
  bool mustWait = false; ///< Whether memory of the tensors may be reused before the run ends.

private:
  void takeTensors(const nb::tuple &args, const nb::object &given, const nb::dict &named,
                   const std::vector<nb::object> &bound);
  void takeOutputs(const nb::object &out);
  void checkTensors();
  void checkOutputs();
  void refuseOverlap(std::size_t output) const;
  nb::object makeOutput(const TensorDesc &desc) const;

  nb::handle program;
  const Executable &executable;
  Place place;
  RunEdges edges;
  std::vector<nb::object> inputs, states, outputs; ///< An output that is an updated state, or is to be made, is null.
  std::vector<void *> inputPointers;               ///< Those of the states behind them.
  std::vector<void *> outputPointers;
  std::vector<nb::object> holders;
  const Adapter *leader = nullptr; ///< The first tensor's: its framework makes outputs and gives the stream.
};

} // namespace kfuse::python
