// What each file adds to the module, and the classes that several of them know.
#pragma once

#include "Errors.h"
#include "Tensors.h"

#include "kfuse/kfuse.h"

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

namespace kfuse::python {

void bindModel(nb::module_ &module);   ///< TensorDesc, Model, load.
void bindGraph(nb::module_ &module);   ///< Tensor, GraphBuilder.
void bindProgram(nb::module_ &module); ///< Progress, Program, compile.
void bindWeights(nb::module_ &module); ///< Weights.
void bindSession(nb::module_ &module); ///< Session.
void bindInspect(nb::module_ &module); ///< explain, targets, stores.

/// The type of a name, "bf16"; a UsageError lists the names.
DType typeNamed(const std::string &name);

struct Program {
  Executable executable;
  std::optional<Model> model; ///< For the weights that came with it; a pack's come with its executable.

  Place place() const { return {executable.device()}; }
};

/// Prepared parameters, and what they may still lie in.
struct PreparedWeights {
  Weights weights;
  std::vector<nb::object>
      tensors; ///< The caller's, in the order of the parameters; None where they came with the model.
  std::vector<nb::object> views;
  std::vector<Buffer> uploaded;
};

/// Program.prepare() in Python.
PreparedWeights prepare(const Program &program, const nb::object &params, bool copy);

/// Program.session() in Python.
nb::object newSession(nb::object program, const nb::object &weights, const nb::object &states);

/// Waits for what was enqueued on a stream, without the GIL.
void waitFor(const Executable &program, std::intptr_t stream);

/// What fork() leaves behind has no threads and no CUDA context: objects remember in which process they were made.
int processGeneration();

inline Stream asStream(std::intptr_t stream) {
  return reinterpret_cast<Stream>(stream); // NOLINT(performance-no-int-to-ptr)
}

} // namespace kfuse::python
