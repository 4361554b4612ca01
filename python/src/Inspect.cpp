#include "Bindings.h"

namespace kfuse::python {
namespace {

/// What `tell`, called without the GIL, returned.
template <class Tell> auto withoutGil(const Tell &tell) {
  nb::gil_scoped_release released;
  return tell();
}

} // namespace

// JSON; kfuse/__init__.py makes dictionaries of it.
void bindInspect(nb::module_ &module) {
  module.def("_explain", [](const Model &model, const std::string &target, bool simplify) {
    return valueOf(withoutGil([&] { return explain(model, target, simplify); }));
  });
  module.def("_targets", [] { return withoutGil(describeTargets); });
  module.def("_default_store", &defaultStore);
  module.def("_export_store",
             [](const std::string &path) { return valueOf(withoutGil([&] { return exportStore(path); })); });
  module.def("_verify_store",
             [](const std::string &path) { return valueOf(withoutGil([&] { return verifyStore(path); })); });
}

} // namespace kfuse::python
