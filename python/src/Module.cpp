// The extension module kfuse._kfuse: include/kfuse for Python. kfuse/__init__.py makes the package of it.
#include "Bindings.h"

NB_MODULE(_kfuse, module) {
  // torch's compiled graphs, and a user's globals, hold programs when the interpreter ends.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = KFUSE_VERSION;
  kfuse::python::bindModel(module);
  kfuse::python::bindGraph(module);
  kfuse::python::bindProgram(module);
  kfuse::python::bindWeights(module);
  kfuse::python::bindSession(module);
  kfuse::python::bindInspect(module);
}
