// The extension module kfuse._kfuse: include/kfuse for Python. kfuse/__init__.py makes the package of it.
#include "Bindings.h"

NB_MODULE(_kfuse, module) {
  kfuse::python::bindModel(module);
  kfuse::python::bindGraph(module);
  kfuse::python::bindProgram(module);
  kfuse::python::bindSession(module);
  kfuse::python::bindInspect(module);
}
