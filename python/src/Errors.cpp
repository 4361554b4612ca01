#include "Errors.h"

namespace kfuse::python {

void raise(const Error &error) {
  nb::object thrown =
      nb::module_::import_("kfuse.errors").attr("of_code")(static_cast<int>(error.code), error.message.c_str());
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(thrown.ptr())), thrown.ptr());
  throw nb::python_error();
}

std::string typeName(nb::handle given) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(given.ptr()))).attr("__qualname__"));
}

nb::dict dictOf(const nb::object &given, const char *what) {
  if (!nb::isinstance<nb::dict>(given))
    raiseUsage(std::string(what) + " is given as " + typeName(given) + ", expected a dictionary of tensors by name");
  return nb::borrow<nb::dict>(given);
}

} // namespace kfuse::python
