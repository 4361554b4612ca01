#include "Call.h"

#include <algorithm>

namespace kfuse::python {

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

namespace {

void refuseMissing(const std::vector<nb::object> &tensors, const std::vector<TensorDesc> &descs, const char *what) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].is_valid())
      raiseUsage(std::string(what) + " '" + descs[i].name + "' is not given, expected a " +
                 std::string(toString(descs[i].type)) + " of shape " + toString(descs[i].shape));
}

} // namespace

Call::Call(nb::handle program)
    : program(program), executable(nb::cast<const Program &>(program).executable),
      place(nb::cast<const Program &>(program).place()), edges(executable) {}

void Call::resolve(const nb::tuple &args, const CallOptions &options, const nb::dict &named,
                   const std::vector<nb::object> &bound) {
  takeTensors(args, options.states, named, bound);
  takeOutputs(options.out);
  if (place.isGpu())
    stream = isGiven(options.stream) ? streamOf(options.stream) : leader ? currentStream(*leader, place) : 0;
  checkTensors();
  checkOutputs();
}

void Call::clear() {
  for (std::vector<nb::object> *objects : {&inputs, &states, &outputs, &holders})
    objects->clear();
  inputPointers.clear();
  outputPointers.clear();
  leader = nullptr;
  stream = 0;
  mustWait = false;
}

void Call::takeTensors(const nb::tuple &args, const nb::object &given, const nb::dict &named,
                       const std::vector<nb::object> &bound) {
  if (args.size() > executable.inputs().size())
    raiseUsage("got " + std::to_string(args.size()) + " inputs, expected " +
               std::to_string(executable.inputs().size()) + "; states are given by states={name: tensor}");
  inputs.resize(executable.inputs().size());
  for (std::size_t i = 0; i < args.size(); ++i)
    inputs[i] = args[i];
  if (named.is_valid())
    takeByName(named, executable.inputs(), inputs, "input");
  refuseMissing(inputs, executable.inputs(), "input");
  states.resize(executable.states().size());
  if (isGiven(given))
    takeByName(dictOf(given, "states"), executable.states(), states, "state");
  for (std::size_t i = 0; i < states.size(); ++i)
    if (!states[i].is_valid())
      states[i] = bound[i];
  refuseMissing(states, executable.states(), "state");
  const nb::object *first = !inputs.empty() ? inputs.data() : states.data();
  leader = inputs.empty() && states.empty() ? nullptr : adapterOf(*first);
}

void Call::takeOutputs(const nb::object &out) {
  outputs.resize(executable.outputs().size());
  if (!isGiven(out))
    return;
  if (nb::isinstance<nb::dict>(out))
    return takeByName(dictOf(out, "out"), executable.outputs(), outputs, "output");
  if (adapterOf(out)) { // A tensor may be a sequence, too.
    if (outputs.size() != 1)
      raiseUsage("out is one tensor, expected a list of " + std::to_string(outputs.size()));
    outputs[0] = out;
    return;
  }
  if (!nb::isinstance<nb::sequence>(out) || nb::len(out) != outputs.size())
    raiseUsage("out is " + typeName(out) +
               (nb::isinstance<nb::sequence>(out) ? " of " + std::to_string(nb::len(out)) : std::string()) +
               ", expected a list of " + std::to_string(outputs.size()) + " tensors, or a dictionary by name");
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (nb::object tensor = out[i]; !tensor.is_none())
      outputs[i] = std::move(tensor);
}

void Call::checkTensors() {
  const TensorReader reader(place, stream);
  inputPointers.reserve(inputs.size() + states.size());
  auto check = [&](const std::vector<nb::object> &tensors, const std::vector<TensorDesc> &descs, Use use) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      View view = reader.read(tensors[i], descs[i], use);
      inputPointers.push_back(view.data);
      if (view.holder.is_valid())
        holders.push_back(std::move(view.holder));
      mustWait |= place.isGpu() && view.adapter->mustWait;
    }
  };
  edges.follow(inputs, reader);
  check(inputs, edges.inputs(), Use::Input);
  check(states, executable.states(), Use::State);
}

void Call::checkOutputs() {
  const TensorReader reader(place, stream);
  const std::vector<TensorDesc> &descs = edges.outputs();
  outputPointers.resize(descs.size());
  for (std::size_t i = 0; i < descs.size(); ++i) {
    const int state = executable.updatedStates()[i];
    if (state >= 0 && !outputs[i].is_valid())
      continue;
    if (!outputs[i].is_valid())
      outputs[i] = makeOutput(descs[i]);
    View view = reader.read(outputs[i], descs[i], Use::Output);
    outputPointers[i] = view.data;
    if (view.holder.is_valid())
      holders.push_back(std::move(view.holder));
    if (state >= 0 && view.data != inputPointers[inputs.size() + static_cast<std::size_t>(state)])
      raiseUsage("output '" + descs[i].name + "' is the state '" +
                 executable.states()[static_cast<std::size_t>(state)].name +
                 "' after its update in place, and the given tensor lies elsewhere; give None");
    if (state < 0)
      refuseOverlap(i);
  }
}

/// Kernels write outputs while others still read.
void Call::refuseOverlap(std::size_t output) const {
  const TensorDesc &desc = executable.outputs()[output];
  const auto *begin = static_cast<const char *>(outputPointers[output]), *end = begin + edges.outputBytes(output);
  auto check = [&](const void *other, std::size_t bytes, const TensorDesc &with, const char *what) {
    const auto *otherBegin = static_cast<const char *>(other);
    if (begin < otherBegin + bytes && otherBegin < end)
      raiseUsage("output '" + desc.name + "' overlaps " + what + " '" + with.name +
                 "' in memory, expected memory of its own");
  };
  for (std::size_t i = 0; i < inputPointers.size(); ++i)
    i < inputs.size() ? check(inputPointers[i], edges.inputBytes(i), executable.inputs()[i], "input")
                      : check(inputPointers[i], edges.inputBytes(i), executable.states()[i - inputs.size()], "state");
  for (std::size_t i = 0; i < output; ++i)
    if (outputPointers[i])
      check(outputPointers[i], edges.outputBytes(i), executable.outputs()[i], "output");
}

nb::object Call::makeOutput(const TensorDesc &desc) const {
  nb::object framework = leader ? leader->framework : nb::module_::import_("kfuse._frameworks").attr("DEFAULT");
  return framework.attr("empty")(nb::tuple(nb::cast(desc.shape)), std::string(toString(desc.type)), place.device,
                                 program);
}

Result<void> Call::run(Session &session) const {
  return session.run(asStream(stream), inputPointers, outputPointers, edges.lengths());
}

void Call::tellAllocators() const {
  for (const std::vector<nb::object> *tensors : {&inputs, &states, &outputs})
    tellAllocators(*tensors);
}

void Call::tellAllocators(const std::vector<nb::object> &tensors) const {
  if (!place.isGpu())
    return;
  for (const nb::object &tensor : tensors)
    if (const Adapter *adapter = tensor.is_valid() && !tensor.is_none() ? adapterOf(tensor) : nullptr)
      adapter->framework.attr("record_stream")(tensor, place.device, stream);
}

nb::object Call::results() {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_valid())
      outputs[i] = states[static_cast<std::size_t>(executable.updatedStates()[i])];
    else if (leader && leader->mustWait)
      outputs[i] = leader->framework.attr("finish")(outputs[i]);
  }
  if (outputs.size() == 1)
    return outputs.front();
  return nb::tuple(nb::cast(outputs));
}

} // namespace kfuse::python
