#include "Bindings.h"
#include "Call.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

namespace kfuse::python {
namespace {

std::atomic<int> &generation() {
  static std::atomic<int> forks = 0;
  return forks;
}

class PySession {
public:
  PySession(nb::object program, nb::object weights, const nb::object &states)
      : program(std::move(program)), weights(std::move(weights)),
        executable(nb::cast<const Program &>(this->program).executable),
        prepared(nb::cast<const PreparedWeights &>(this->weights)),
        session(valueOf(executable.newSession(prepared.weights))), bound(executable.states().size()),
        spare(std::make_unique<Call>(this->program)), madeIn(processGeneration()) {
    if (!states.is_none())
      takeByName(dictOf(states, "states"), executable.states(), bound, "state");
  }

  nb::object operator()(const nb::tuple &args, const CallOptions &options, const nb::dict &named) {
    std::unique_ptr<Call> call = resolve(args, options, named);
    run(*call);
    if (isGiven(options.stream))
      tellAllocators(*call);
    if (call->mustWait)
      waitFor(executable, call->stream);
    nb::object made = call->results();
    call->clear();
    spare = std::move(call);
    return made;
  }

  /// Microseconds of each of `count` runs as C++ does them: what the benchmark compares with.
  std::vector<double> timeNative(int count, const nb::args &args, const nb::object &out) {
    const std::unique_ptr<Call> call = resolve(args, {out, {}, {}}, nb::steal<nb::dict>(nullptr));
    nb::gil_scoped_release released;
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      call->run(session).value();
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    return times;
  }

private:
  std::unique_ptr<Call> resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named);
  void run(const Call &call);
  void tellAllocators(const Call &call);

  nb::object program, weights;
  const Executable &executable;
  const PreparedWeights &prepared;
  Session session;
  std::vector<nb::object> bound; ///< States that hold for every run.
  std::unique_ptr<Call> spare;   ///< Null while a run is under way, and where one failed.
  int madeIn;
  std::optional<std::intptr_t> toldWeights; ///< The stream that the weights' allocator was told of last.
};

std::unique_ptr<Call> PySession::resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named) {
  if (madeIn != processGeneration())
    raiseUsage("this Session was made before fork(), which ends its threads and its GPU's context; compile the model "
               "in the child");
  std::unique_ptr<Call> call = spare ? std::move(spare) : std::make_unique<Call>(program);
  call->resolve(args, options, named, bound);
  return call;
}

void PySession::run(const Call &call) {
  Result<void> ran;
  {
    nb::gil_scoped_release released;
    ran = call.run(session);
  }
  if (!ran)
    raise(ran.error());
}

void PySession::tellAllocators(const Call &call) {
  call.tellAllocators();
  if (toldWeights != call.stream)
    call.tellAllocators(prepared.tensors);
  toldWeights = call.stream;
}

} // namespace

nb::object newSession(nb::object program, const nb::object &weights, const nb::object &states) {
  nb::object prepared =
      weights.is_none() ? nb::cast(prepare(nb::cast<const Program &>(program), weights, false)) : nb::borrow(weights);
  if (!nb::isinstance<PreparedWeights>(prepared))
    raiseUsage("weights are given as " + typeName(prepared) + ", expected what Program.prepare() returned");
  return nb::cast(new PySession(std::move(program), std::move(prepared), states), nb::rv_policy::take_ownership);
}

int processGeneration() { return generation().load(std::memory_order_relaxed); }

namespace {

/// Session.__call__ as Python's C interface wants it: through nanobind's functions a call would take 0.3 us more.
PyObject *callSession(PyObject *self, PyObject *args, PyObject *keywords) noexcept {
  try {
    CallOptions options;
    auto named = nb::steal<nb::dict>(nullptr);
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &key, &value);) {
      auto is = [key](const char *name) { return PyUnicode_CompareWithASCIIString(key, name) == 0; };
      if (nb::object *option = is("out")      ? &options.out
                               : is("stream") ? &options.stream
                               : is("states") ? &options.states
                                              : nullptr) {
        *option = nb::borrow(value);
        continue;
      }
      if (!named.is_valid())
        named = nb::dict();
      named[nb::handle(key)] = nb::handle(value);
    }
    return (*nb::inst_ptr<PySession>(self))(nb::borrow<nb::tuple>(args), options, named).release().ptr();
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyType_Slot sessionSlots[] = {{Py_tp_call, reinterpret_cast<void *>(callSession)}, {0, nullptr}};

} // namespace

void bindSession(nb::module_ &module) {
  nb::class_<PySession>(
      module, "Session", nb::type_slots(sessionSlots),
      "One stream's running state. Make one per thread and stream.\n\n"
      "A call enqueues one run: inputs in order or by name. It returns the outputs, a tuple where there are several; "
      "of\n"
      "an updated state the state's own tensor.\n\n"
      "out is a list of tensors to write (None: made by the first input's framework), or a dictionary by name. stream\n"
      "is a CUDA stream: its pointer, a torch or cupy stream, or what has __cuda_stream__; else the current stream of\n"
      "the first input's framework. states gives states by name, over those of Program.session().")
      .def("_time_native", &PySession::timeNative, nb::arg("count"), nb::arg("args"), nb::kw_only(),
           nb::arg("out") = nb::none());
  module.def("_forked", [] { ++generation(); });
}

} // namespace kfuse::python
