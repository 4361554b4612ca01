// What each file adds to the module, and the classes that several of them know.
#pragma once

#include "Errors.h"

#include "kfuse/kfuse.h"

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

namespace kfuse::python {

void bindModel(nb::module_ &module);   ///< TensorDesc, Model, load.
void bindGraph(nb::module_ &module);   ///< Tensor, GraphBuilder.
void bindProgram(nb::module_ &module); ///< Progress, Program, compile.
void bindSession(nb::module_ &module); ///< Weights, Session.
void bindInspect(nb::module_ &module); ///< explain, targets, stores.

/// The type of a name, "bf16"; a UsageError lists the names.
DType typeNamed(const std::string &name);

/// Prepared parameters, and the tensors that they may still lie in.
struct HeldWeights {
  Weights weights;
  nb::object program;
  std::vector<nb::object> held; ///< Tensors of the caller and views of them.
};

} // namespace kfuse::python
