// Sizes that each run gives: their ranges in Python, and what the tensors of a run have to be.
#pragma once

#include "Tensors.h"

#include "kfuse/kfuse.h"

#include <cstdint>
#include <vector>

namespace kfuse::python {

/// The dimensions of {"tokens": (1, 8192)}, in the dictionary's order.
std::vector<Dim> dimsOf(const nb::dict &ranges);
nb::dict rangesOf(const std::vector<Dim> &dims);

/// A program's inputs and outputs as one run has them. Sizes that the run gives are read from its inputs.
class RunEdges {
public:
  /// UsageError where an input does not have one of the lengths as a dimension by itself.
  explicit RunEdges(const Executable &executable);

  /// Those of a run of these inputs. UsageError for a length outside its range.
  void follow(const std::vector<nb::object> &given, const TensorReader &reader);

  const std::vector<std::int64_t> &lengths() const { return sizes; } ///< In the order of the program's dims().
  const std::vector<TensorDesc> &inputs() const { return inputDescs; }
  const std::vector<TensorDesc> &outputs() const { return outputDescs; }
  /// For an input, or for a state, which come behind the inputs.
  std::size_t inputBytes(std::size_t i) const { return bytesOfInputs[i]; }
  std::size_t outputBytes(std::size_t i) const { return bytesOfOutputs[i]; }

private:
  /// Where a length is read, or goes: a dimension of an input.
  struct Axis {
    std::size_t input, axis;
  };
  void countBytes();

  const Executable &executable;
  std::vector<std::vector<Axis>> axes; ///< For each of the program's dims().
  std::vector<std::int64_t> sizes, found;
  std::vector<TensorDesc> inputDescs, outputDescs;
  std::vector<std::size_t> bytesOfInputs, bytesOfOutputs;
};

} // namespace kfuse::python
