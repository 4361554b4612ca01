#include "Bindings.h"
#include "Lengths.h"
#include "Waiting.h"

#include <algorithm>

namespace kfuse::python {
namespace {

Effort effortNamed(const std::string &name) {
  if (name == "none")
    return Effort::None;
  if (name == "quick")
    return Effort::Quick;
  if (name == "full")
    return Effort::Full;
  raiseUsage("the effort '" + name + "' is none of none, quick, full");
}

Program compileModel(const Model &model, const std::string &target, const std::string &effort, double budget,
                     const std::string &store, bool requireTuned, bool trustStore, bool simplify, int threads,
                     int device, const nb::object &progress) {
  CompileOptions options;
  options.target = target;
  options.effort = effortNamed(effort);
  options.seconds = budget;
  options.store = store;
  options.requireTuned = requireTuned;
  options.trustStore = trustStore;
  options.simplify = simplify;
  options.threads = threads;
  options.device = device;
  Executable executable = valueOf(runInterruptibly(progress, [&](const std::stop_token &stop, Inbox &inbox) {
    options.stop = stop;
    options.log = [&](std::string_view line) { inbox.log(line); };
    options.progress = [&](const Progress &at) {
      inbox.put(at);
      return true;
    };
    return compile(model, options);
  }));
  return {std::move(executable), model};
}

Program loadPack(const nb::object &path, const std::string &target, int device, int threads,
                 const std::string &variant) {
  const auto name = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
  nb::gil_scoped_release released;
  Result<Executable> executable = kfuse::loadPack(name, {target, device, threads, variant});
  nb::gil_scoped_acquire again;
  return {valueOf(std::move(executable)), std::nullopt};
}

void save(const Program &program, const nb::object &path) {
  const auto name = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
  nb::gil_scoped_release released;
  Result<void> saved = program.executable.save(name);
  nb::gil_scoped_acquire again;
  valueOf(std::move(saved));
}

nb::object planOf(const Program &program) {
  const Executable &executable = program.executable;
  return nb::module_::import_("kfuse._plan").attr("Plan")(executable.plan().c_str(), executable.rooflineSvg().c_str());
}

void bindProgress(nb::module_ &module) {
  nb::class_<HeldProgress>(module, "Progress", "How far tuning has come.")
      .def_ro("kernel", &HeldProgress::kernel, "The kernel that is being tuned.")
      .def_prop_ro("kernels_done", [](const HeldProgress &at) { return at.numbers.kernelsDone; })
      .def_prop_ro("kernels", [](const HeldProgress &at) { return at.numbers.kernels; })
      .def_prop_ro("candidates_done", [](const HeldProgress &at) { return at.numbers.candidatesDone; })
      .def_prop_ro("candidates", [](const HeldProgress &at) { return at.numbers.candidates; })
      .def_prop_ro(
          "best_us", [](const HeldProgress &at) { return at.numbers.bestUs; },
          "The fastest so far, in microseconds; 0 until one was measured.");
}

/// A property that is the executable's.
template <class Member> auto of(Member member) {
  return [member](const Program &program) { return (program.executable.*member)(); };
}

/// An array of kfuse's own, for what makes none itself; a DLPack and buffer exporter.
nb::object array(const Program &program, const std::vector<std::size_t> &shape, const std::string &typeName) {
  const DType type = typeNamed(typeName);
  std::size_t bytes = byteWidth(type);
  for (std::size_t size : shape)
    bytes *= size;
  auto *buffer = new Buffer(valueOf(program.executable.allocate(bytes)));
  const nb::capsule owner(buffer, [](void *held) noexcept { delete static_cast<Buffer *>(held); });
  constexpr int cpu = 1, cuda = 2; // DLDeviceType
  return nb::cast(nb::ndarray<nb::array_api>(buffer->data(), shape.size(), shape.data(), owner, nullptr,
                                             dlpackType(type), program.place().isGpu() ? cuda : cpu,
                                             std::max(program.place().device, 0)));
}

std::string reprOf(const Program &program) {
  const Executable &executable = program.executable;
  return "<kfuse.Program for " + executable.target() + ": " + std::to_string(executable.inputs().size()) + " inputs, " +
         std::to_string(executable.parameters().size()) + " parameters, " + std::to_string(executable.states().size()) +
         " states, " + std::to_string(executable.outputs().size()) + " outputs>";
}

} // namespace

void bindProgram(nb::module_ &module) {
  bindProgress(module);
  nb::class_<Program>(module, "Program", "A compiled model. Immutable; threads may share it.")
      .def_prop_ro("inputs", of(&Executable::inputs))
      .def_prop_ro("parameters", of(&Executable::parameters))
      .def_prop_ro("states", of(&Executable::states))
      .def_prop_ro("outputs", of(&Executable::outputs))
      .def_prop_ro(
          "dims", [](const Program &program) { return rangesOf(program.executable.dims()); },
          nb::sig("def dims(self) -> dict[str, tuple[int, int]]"), "Sizes that each run gives, with their ranges.")
      .def_prop_ro("target", of(&Executable::target), "What it was compiled for: 'cpu', 'sm_90a', ...")
      .def_prop_ro("device", of(&Executable::device), "The CUDA ordinal of its device, -1 on the CPU.")
      .def_prop_ro("updated_states", of(&Executable::updatedStates), "Per output: the state that it is, or -1.")
      .def_prop_ro("plan", &planOf, nb::sig("def plan(self) -> kfuse._plan.Plan"),
                   "Its kernels, their configs, bounds and times: rows, for pandas too.")
      .def("prepare", &prepare, nb::arg("params") = nb::none(), nb::kw_only(), nb::arg("copy") = false,
           nb::sig("def prepare(self, params: dict[str, object] | None = None, *, copy: bool = False) -> Weights"),
           "Folds, merges and packs parameters given by name; what is not given came with the model. What needs no\n"
           "preparation is used in place. copy allows host memory to be copied to the program's device.")
      .def("session", &newSession, nb::arg("weights") = nb::none(), nb::kw_only(), nb::arg("states") = nb::none(),
           nb::sig("def session(self, weights: Weights | None = None, *, states: dict[str, object] | None = None) -> "
                   "Session"),
           "A Session with these weights, by default those that came with the model. states, tensors by name, are\n"
           "updated in place by every run that is not given others.")
      .def(
          "synchronize",
          [](const Program &program, const nb::object &stream) {
            waitFor(program.executable, stream.is_none() ? 0 : streamOf(stream));
          },
          nb::arg("stream") = nb::none(), "Waits for the work of a stream; of the default stream without one.")
      .def("save", &save, nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
           "Writes a pack: its kernels as machine code, without the parameters, which prepare() takes. load_pack() and "
           "C\n"
           "read it without compiling anything; `kfuse pack` makes packs for several targets, and with weights.")
      .def("_array", &array, nb::arg("shape"), nb::arg("type"))
      .def("_repr_html_",
           [](const Program &program) { return nb::cast<std::string>(planOf(program).attr("_repr_html_")()); })
      .def("__repr__", &reprOf);
  module.def("_end_calls", [] { CallsUnderWay::all().endAll(); });
  module.def(
      "load_pack", &loadPack, nb::arg("path"), nb::kw_only(), nb::arg("target") = "auto", nb::arg("device") = 0,
      nb::arg("threads") = 0, nb::arg("variant") = "",
      nb::sig("def load_pack(path: str | os.PathLike[str], *, target: str = 'auto', device: int = 0, "
              "threads: int = 0, variant: str = '') -> Program"),
      "The program of a pack that fits the device best, compiled by `kfuse pack` or saved by Program.save(). A pack\n"
      "is code: load those that you would run as programs. target is \"auto\", \"gpu\" or \"cpu\"; variant is the\n"
      "target or SKU of the program to take.");
  module.def("_compile", &compileModel, nb::arg("model"), nb::arg("target"), nb::arg("effort"), nb::arg("budget"),
             nb::arg("store"), nb::arg("require_tuned"), nb::arg("trust_store"), nb::arg("simplify"),
             nb::arg("threads"), nb::arg("device"), nb::arg("progress").none());
}

} // namespace kfuse::python
