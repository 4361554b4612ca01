#include "Bindings.h"
#include "Lengths.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

namespace kfuse::python {
namespace {

std::atomic<int> &generation() {
  static std::atomic<int> forks = 0;
  return forks;
}

/// What a run was given beside its inputs; null or None where it was not.
struct CallOptions {
  nb::object out, stream, states;
};

bool isGiven(const nb::object &option) { return option.is_valid() && !option.is_none(); }

/// The tensors of one run: found first, then checked, then run.
struct Call {
  std::vector<nb::object> inputs, states, outputs; ///< An output that is an updated state, or is to be made, is null.
  std::vector<void *> inputPointers;               ///< Those of the states behind them.
  std::vector<void *> outputPointers;
  std::vector<nb::object> holders;
  const Adapter *leader = nullptr; ///< The first tensor's: its framework makes outputs and gives the stream.
  std::intptr_t stream = 0;
  bool mustWait = false;

  /// For the next one: the vectors keep their memory.
  void clear() {
    for (std::vector<nb::object> *objects : {&inputs, &states, &outputs, &holders})
      objects->clear();
    inputPointers.clear();
    outputPointers.clear();
    leader = nullptr;
    stream = 0;
    mustWait = false;
  }
};

/// Puts what a dictionary gives by name into the list of `descs`.
void takeByName(const nb::dict &given, const std::vector<TensorDesc> &descs, std::vector<nb::object> &tensors,
                const char *what) {
  for (auto [name, tensor] : given) {
    const auto text = nb::cast<std::string>(nb::str(name));
    const auto at = std::ranges::find_if(descs, [&](const TensorDesc &desc) { return desc.name == text; });
    if (at == descs.end())
      raiseUsage("'" + text + "' is no " + what + " of the program; program." + what + "s lists them");
    nb::object &slot = tensors[static_cast<std::size_t>(at - descs.begin())];
    if (slot.is_valid())
      raiseUsage(std::string(what) + " '" + text + "' is given twice");
    slot = nb::borrow(tensor);
  }
}

void refuseMissing(const std::vector<nb::object> &tensors, const std::vector<TensorDesc> &descs, const char *what) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_valid())
      raiseUsage(std::string(what) + " '" + descs[i].name + "' is not given, expected a " +
                 std::string(toString(descs[i].type)) + " of shape " + toString(descs[i].shape));
}

class PySession {
public:
  PySession(nb::object program, nb::object weights, const nb::object &states)
      : program(std::move(program)), weights(std::move(weights)), compiled(nb::cast<const Program &>(this->program)),
        prepared(nb::cast<const PreparedWeights &>(this->weights)),
        session(valueOf(compiled.executable.newSession(prepared.weights))), bound(compiled.executable.states().size()),
        place(compiled.place()), edges(compiled.executable), madeIn(processGeneration()) {
    if (!states.is_none())
      takeByName(dictOf(states, "states"), compiled.executable.states(), bound, "state");
  }

  nb::object operator()(const nb::tuple &args, const CallOptions &options, const nb::dict &named) {
    Call call = resolve(args, options, named);
    run(call);
    if (isGiven(options.stream))
      tellAllocators(call);
    if (call.mustWait)
      waitFor(compiled.executable, call.stream);
    nb::object made = results(call);
    call.clear();
    spare = std::move(call);
    return made;
  }

  /// Microseconds of each of `count` runs as C++ does them: what the benchmark compares with.
  std::vector<double> timeNative(int count, const nb::args &args, const nb::object &out) {
    const Call call = resolve(args, {out, {}, {}}, nb::steal<nb::dict>(nullptr));
    nb::gil_scoped_release released;
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      session.run(asStream(call.stream), call.inputPointers, call.outputPointers, edges.lengths()).value();
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    return times;
  }

private:
  Call resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named);
  void takeTensors(Call &call, const nb::tuple &args, const nb::object &states, const nb::dict &named);
  void takeOutputs(Call &call, const nb::object &out);
  void checkTensors(Call &call);
  void checkOutputs(Call &call);
  void refuseOverlap(const Call &call, std::size_t output) const;
  nb::object makeOutput(const Call &call, const TensorDesc &desc) const;
  void run(Call &call);
  void tellAllocators(const Call &call);
  nb::object results(Call &call) const;

  nb::object program, weights;
  const Program &compiled;
  const PreparedWeights &prepared;
  Session session;
  std::vector<nb::object> bound; ///< States that hold for every run.
  Place place;
  RunEdges edges; ///< What the run under way has.
  Call spare;
  int madeIn;
  std::optional<std::intptr_t> toldWeights; ///< The stream that the weights' allocator was told of last.
};

Call PySession::resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named) {
  if (madeIn != processGeneration())
    raiseUsage("this Session was made before fork(), which ends its threads and its GPU's context; compile the model "
               "in the child");
  Call call = std::exchange(spare, {});
  takeTensors(call, args, options.states, named);
  takeOutputs(call, options.out);
  if (place.isGpu())
    call.stream = isGiven(options.stream) ? streamOf(options.stream)
                  : call.leader           ? currentStream(*call.leader, place)
                                          : 0;
  checkTensors(call);
  checkOutputs(call);
  return call;
}

void PySession::takeTensors(Call &call, const nb::tuple &args, const nb::object &states, const nb::dict &named) {
  const Executable &executable = compiled.executable;
  if (args.size() > executable.inputs().size())
    raiseUsage("got " + std::to_string(args.size()) + " inputs, expected " +
               std::to_string(executable.inputs().size()) + "; states are given by states={name: tensor}");
  call.inputs.resize(executable.inputs().size());
  for (std::size_t i = 0; i < args.size(); ++i)
    call.inputs[i] = args[i];
  if (named.is_valid())
    takeByName(named, executable.inputs(), call.inputs, "input");
  refuseMissing(call.inputs, executable.inputs(), "input");
  call.states.resize(executable.states().size());
  if (isGiven(states))
    takeByName(dictOf(states, "states"), executable.states(), call.states, "state");
  for (std::size_t i = 0; i < call.states.size(); ++i)
    if (!call.states[i].is_valid())
      call.states[i] = bound[i];
  refuseMissing(call.states, executable.states(), "state");
  const nb::object *first = !call.inputs.empty() ? call.inputs.data() : call.states.data();
  call.leader = call.inputs.empty() && call.states.empty() ? nullptr : adapterOf(*first);
}

void PySession::takeOutputs(Call &call, const nb::object &out) {
  const std::vector<TensorDesc> &outputs = compiled.executable.outputs();
  call.outputs.resize(outputs.size());
  if (!isGiven(out))
    return;
  if (nb::isinstance<nb::dict>(out))
    return takeByName(dictOf(out, "out"), outputs, call.outputs, "output");
  if (adapterOf(out)) { // A tensor may be a sequence, too.
    if (outputs.size() != 1)
      raiseUsage("out is one tensor, expected a list of " + std::to_string(outputs.size()));
    call.outputs[0] = out;
    return;
  }
  if (!nb::isinstance<nb::sequence>(out) || nb::len(out) != outputs.size())
    raiseUsage("out is " + typeName(out) +
               (nb::isinstance<nb::sequence>(out) ? " of " + std::to_string(nb::len(out)) : std::string()) +
               ", expected a list of " + std::to_string(outputs.size()) + " tensors, or a dictionary by name");
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (nb::object tensor = out[i]; !tensor.is_none())
      call.outputs[i] = std::move(tensor);
}

void PySession::checkTensors(Call &call) {
  const TensorReader reader(place, call.stream);
  call.inputPointers.reserve(call.inputs.size() + call.states.size());
  auto check = [&](const std::vector<nb::object> &tensors, const std::vector<TensorDesc> &descs, Use use) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      View view = reader.read(tensors[i], descs[i], use);
      call.inputPointers.push_back(view.data);
      if (view.holder.is_valid())
        call.holders.push_back(std::move(view.holder));
      call.mustWait |= place.isGpu() && view.adapter->mustWait;
    }
  };
  edges.follow(call.inputs, reader);
  check(call.inputs, edges.inputs(), Use::Input);
  check(call.states, compiled.executable.states(), Use::State);
}

void PySession::checkOutputs(Call &call) {
  const TensorReader reader(place, call.stream);
  const std::vector<TensorDesc> &outputs = edges.outputs();
  call.outputPointers.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int state = compiled.executable.updatedStates()[i];
    if (state >= 0 && !call.outputs[i].is_valid())
      continue;
    if (!call.outputs[i].is_valid())
      call.outputs[i] = makeOutput(call, outputs[i]);
    View view = reader.read(call.outputs[i], outputs[i], Use::Output);
    call.outputPointers[i] = view.data;
    if (view.holder.is_valid())
      call.holders.push_back(std::move(view.holder));
    if (state >= 0 && view.data != call.inputPointers[call.inputs.size() + static_cast<std::size_t>(state)])
      raiseUsage("output '" + outputs[i].name + "' is the state '" +
                 compiled.executable.states()[static_cast<std::size_t>(state)].name +
                 "' after its update in place, and the given tensor lies elsewhere; give None");
    if (state < 0)
      refuseOverlap(call, i);
  }
}

/// Kernels write outputs while others still read.
void PySession::refuseOverlap(const Call &call, std::size_t output) const {
  const Executable &executable = compiled.executable;
  const TensorDesc &desc = executable.outputs()[output];
  const auto *begin = static_cast<const char *>(call.outputPointers[output]), *end = begin + edges.outputBytes(output);
  auto check = [&](const void *other, std::size_t bytes, const TensorDesc &with, const char *what) {
    const auto *otherBegin = static_cast<const char *>(other);
    if (begin < otherBegin + bytes && otherBegin < end)
      raiseUsage("output '" + desc.name + "' overlaps " + what + " '" + with.name +
                 "' in memory, expected memory of its own");
  };
  const std::size_t inputs = call.inputs.size();
  for (std::size_t i = 0; i < call.inputPointers.size(); ++i)
    i < inputs ? check(call.inputPointers[i], edges.inputBytes(i), executable.inputs()[i], "input")
               : check(call.inputPointers[i], edges.inputBytes(i), executable.states()[i - inputs], "state");
  for (std::size_t i = 0; i < output; ++i)
    if (call.outputPointers[i])
      check(call.outputPointers[i], edges.outputBytes(i), executable.outputs()[i], "output");
}

nb::object PySession::makeOutput(const Call &call, const TensorDesc &desc) const {
  nb::object framework =
      call.leader ? call.leader->framework : nb::module_::import_("kfuse._frameworks").attr("DEFAULT");
  return framework.attr("empty")(nb::tuple(nb::cast(desc.shape)), std::string(toString(desc.type)), place.device,
                                 program);
}

void PySession::run(Call &call) {
  Result<void> ran;
  {
    nb::gil_scoped_release released;
    ran = session.run(asStream(call.stream), call.inputPointers, call.outputPointers, edges.lengths());
  }
  if (!ran)
    raise(ran.error());
}

/// A framework frees memory for work behind what is on its own current stream; of a run on another one it is told.
void PySession::tellAllocators(const Call &call) {
  if (!place.isGpu())
    return;
  auto tell = [&](const std::vector<nb::object> &tensors) {
    for (const nb::object &tensor : tensors)
      if (const Adapter *adapter = tensor.is_valid() && !tensor.is_none() ? adapterOf(tensor) : nullptr)
        adapter->framework.attr("record_stream")(tensor, place.device, call.stream);
  };
  tell(call.inputs);
  tell(call.states);
  tell(call.outputs);
  if (toldWeights != call.stream)
    tell(prepared.tensors);
  toldWeights = call.stream;
}

nb::object PySession::results(Call &call) const {
  std::vector<nb::object> &outputs = call.outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_valid())
      outputs[i] = call.states[static_cast<std::size_t>(compiled.executable.updatedStates()[i])];
    else if (call.leader && call.leader->mustWait)
      outputs[i] = call.leader->framework.attr("finish")(outputs[i]);
  }
  if (outputs.size() == 1)
    return outputs.front();
  return nb::tuple(nb::cast(outputs));
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
