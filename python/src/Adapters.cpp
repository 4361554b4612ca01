#include "Tensors.h"

#include <memory>

namespace kfuse::python {
namespace {

const ExchangeApi *exchangeOf(nb::handle type) {
  nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api"))
    return nullptr;
  const auto *api = static_cast<const ExchangeApi *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  return api->header.major == 1 && api->viewOf && api->currentStream ? api : nullptr;
}

std::unique_ptr<Adapter> makeAdapter(nb::handle type) {
  auto adapter = std::make_unique<Adapter>();
  adapter->type = nb::borrow(type);
  adapter->framework = nb::module_::import_("kfuse._frameworks").attr("framework_of")(type);
  if (adapter->framework.is_none())
    return adapter;
  adapter->exchange = exchangeOf(type);
  adapter->hasBuffer = nb::cast<bool>(adapter->framework.attr("has_buffer"));
  adapter->immutableBecause = nb::cast<std::string>(adapter->framework.attr("immutable_because"));
  adapter->mustWait = nb::cast<bool>(adapter->framework.attr("must_wait"));
  return adapter;
}

} // namespace

const Adapter *adapterOf(nb::handle tensor) {
  // Few types in a process; guarded by the GIL. It is never destroyed, for the interpreter ends before statics do.
  static auto &known = *new std::vector<std::unique_ptr<Adapter>>();
  const auto *type = reinterpret_cast<PyObject *>(Py_TYPE(tensor.ptr()));
  for (const std::unique_ptr<Adapter> &adapter : known)
    if (adapter->type.ptr() == type)
      return adapter->framework.is_none() ? nullptr : adapter.get();
  std::unique_ptr<Adapter> made = makeAdapter(nb::handle(type));
  return known.emplace_back(std::move(made))->framework.is_none() ? nullptr : known.back().get();
}

std::intptr_t streamOf(nb::handle given) {
  if (PyLong_Check(given.ptr()))
    return nb::cast<std::intptr_t>(given);
  return nb::cast<std::intptr_t>(nb::module_::import_("kfuse._frameworks").attr("stream_pointer")(given));
}

std::intptr_t currentStream(const Adapter &adapter, Place place) {
  constexpr int cuda = 2; // kDLCUDA.
  if (adapter.exchange) {
    void *stream = nullptr;
    if (adapter.exchange->currentStream(cuda, place.device, &stream) != 0)
      throw nb::python_error();
    return reinterpret_cast<std::intptr_t>(stream);
  }
  return nb::cast<std::intptr_t>(adapter.framework.attr("current_stream")(place.device));
}

} // namespace kfuse::python
