#include "Commands.h"
#include "ModelOptions.h"
#include "Table.h"
#include "ir/reference/Evaluator.h"
#include "ir/reference/Policy.h"
#include "tuner/Measurement.h"
#include "tuner/Npy.h"
#include "tuner/api/Handles.h"
#include "tuner/model/ProgramBuilder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

namespace kfuse::tools {
namespace {

using reference::HostTensor;
using Json = nlohmann::ordered_json;

struct RunOptions : ModelOptions {
  std::vector<std::string> inputs; ///< "name=file.npy" or "name=random".
  std::string output;
  bool check = false;
  int iterations = 1;
};

/// Seeded noise of a size that deep blocks survive: matrices scaled by 1 / sqrt(K), so that a product
/// keeps the variance of its input; indices small, to be valid positions in any table.
HostTensor randomTensor(const TensorDesc &desc, Role role, std::uint64_t seed) {
  if (!isFloat(desc.type))
    return reference::integers(desc.type, desc.shape, seed, 0, desc.type == DType::Bool ? 2 : 8);
  if (role != Role::Parameter || desc.shape.size() < 2)
    return reference::uniform(desc.type, desc.shape, seed);
  auto widest = static_cast<double>(std::min(desc.shape[desc.shape.size() - 2], desc.shape.back()));
  return reference::normal(desc.type, desc.shape, seed, 1 / std::sqrt(widest));
}

Result<HostTensor> readTensor(const TensorDesc &desc, const std::string &file) {
  Result<tuner::NpyArray> array = tuner::readNpy(file);
  if (!array)
    return array.error();
  if (array->shape != desc.shape)
    return Error{ErrorCode::Usage, fmt::format("{} holds {}, input '{}' takes {}", file, toString(array->shape),
                                               desc.name, toString(desc.shape))};
  Result<tuner::NpyArray> converted = tuner::convert(std::move(*array), desc.type);
  if (!converted)
    return Error{converted.error().code, file + ": " + converted.error().message};
  return HostTensor{desc.type, desc.shape, std::move(converted->data)};
}

/// Host copies of everything the model takes, by name.
class Arguments {
public:
  Result<void> gather(const Model &model, const std::vector<std::string> &given) {
    for (const std::string &binding : given) {
      std::size_t equals = binding.find('=');
      if (equals == std::string::npos)
        return Error{ErrorCode::Usage, "--input " + binding + " is not of the form name=file.npy or name=random"};
      files[binding.substr(0, equals)] = binding.substr(equals + 1);
    }
    for (auto [list, role] : {std::pair(&model.inputs(), Role::Input),
                              {&model.parameters(), Role::Parameter},
                              {&model.states(), Role::State}})
      for (const TensorDesc &desc : *list)
        if (Result<void> made = make(model, desc, role); !made)
          return made;
    if (!files.empty())
      return Error{ErrorCode::Usage, "--input names '" + files.begin()->first + "', which the model does not take"};
    return {};
  }
  const HostTensor &operator[](const std::string &name) const { return tensors.at(name); }

private:
  Result<void> make(const Model &model, const TensorDesc &desc, Role role) {
    auto file = files.extract(desc.name);
    std::span<const std::byte> stored = model.parameterData(desc.name);
    if (!file.empty() && file.mapped() != "random") {
      Result<HostTensor> read = readTensor(desc, file.mapped());
      if (!read)
        return read.error();
      tensors[desc.name] = std::move(*read);
    } else if (!stored.empty()) {
      tensors[desc.name] = {desc.type, desc.shape, {stored.begin(), stored.end()}};
    } else {
      tensors[desc.name] = randomTensor(desc, role, tensors.size() + 1);
    }
    return {};
  }

  std::map<std::string, std::string> files;
  std::map<std::string, HostTensor> tensors;
};

/// Device copies of a list of tensors.
class DeviceTensors {
public:
  Result<void> upload(const Executable &program, const std::vector<TensorDesc> &descs, const Arguments &arguments) {
    for (const TensorDesc &desc : descs) {
      Result<void *> pointer = add(program, desc);
      if (!pointer)
        return pointer.error();
      if (Result<void> copied = buffers.back().upload(arguments[desc.name].bytes.data()); !copied)
        return copied;
    }
    return {};
  }
  /// Outputs start as NaN, so that an element nobody wrote shows; an updated state is its own output.
  Result<void> poisonOutputs(const Executable &program, const DeviceTensors &inputs) {
    for (std::size_t i = 0; i < program.outputs().size(); ++i) {
      if (int state = program.updatedStates()[i]; state >= 0) {
        share(inputs.buffers[program.inputs().size() + static_cast<std::size_t>(state)]);
        continue;
      }
      const TensorDesc &desc = program.outputs()[i];
      Result<void *> pointer = add(program, desc);
      if (!pointer)
        return pointer.error();
      std::vector<std::byte> ones(desc.bytes(), std::byte{0xff});
      if (Result<void> copied = buffers.back().upload(ones.data()); !copied)
        return copied;
    }
    return {};
  }
  Result<HostTensor> download(std::size_t i, const TensorDesc &desc) const {
    HostTensor tensor = HostTensor::zeros(desc.type, desc.shape);
    if (Result<void> copied = buffers[i].download(tensor.bytes.data()); !copied)
      return copied.error();
    return tensor;
  }
  std::vector<void *> pointers;

private:
  Result<void *> add(const Executable &program, const TensorDesc &desc) {
    Result<Buffer> buffer = program.allocate(desc.bytes());
    if (!buffer)
      return buffer.error();
    share(*buffer);
    return pointers.back();
  }
  void share(const Buffer &buffer) {
    pointers.push_back(buffer.data());
    buffers.push_back(buffer);
  }
  std::vector<Buffer> buffers;
};

struct RunResult {
  std::vector<HostTensor> outputs;
  tuner::Timing timing; ///< Of the runs after the first.
};

Result<RunResult> execute(const Executable &program, const Arguments &arguments, int iterations) {
  DeviceTensors parameters, inputs, outputs;
  for (auto [tensors, descs] :
       {std::pair(&parameters, &program.parameters()), {&inputs, &program.inputs()}, {&inputs, &program.states()}})
    if (Result<void> done = tensors->upload(program, *descs, arguments); !done)
      return done.error();
  if (Result<void> done = outputs.poisonOutputs(program, inputs); !done)
    return done.error();
  Result<Weights> weights = program.prepare(parameters.pointers);
  if (!weights)
    return weights.error();
  Result<Session> session = program.newSession(*weights);
  if (!session)
    return session.error();

  RunResult result;
  auto runOnce = [&]() -> Result<double> {
    auto start = std::chrono::steady_clock::now();
    if (Result<void> ran = session->run(nullptr, inputs.pointers, outputs.pointers); !ran)
      return ran.error();
    if (Result<void> done = program.synchronize(); !done)
      return done.error();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> times;
  for (int i = 0; i < iterations; ++i) {
    Result<double> us = runOnce();
    if (!us)
      return us.error();
    times.push_back(*us);
    if (i == 0) // A later run would update states again: results are those of the first.
      for (std::size_t o = 0; o < program.outputs().size(); ++o) {
        Result<HostTensor> output = outputs.download(o, program.outputs()[o]);
        if (!output)
          return output.error();
        result.outputs.push_back(std::move(*output));
      }
  }
  if (times.size() > 1)
    times.erase(times.begin());
  result.timing = tuner::summarise(std::move(times));
  return result;
}

/// The reference evaluator on the graph as written, and the numerics policy's verdict on every output.
Result<std::vector<reference::Verdict>> checkOutputs(const Model &model, const Arguments &arguments,
                                                     const std::vector<HostTensor> &outputs) {
  mlir::ModuleOp module = *model.internals().model.module;
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<HostTensor> ordered;
  ordered.reserve(main.getNumArguments());
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    ordered.push_back(arguments[tuner::describeArgument(main, i).name]);
  return reference::checkOutputs(main.getBody().front(), ordered, outputs);
}

std::string safeFileName(std::string name) {
  for (char &c : name)
    if (c == '/' || c == '\\' || c == '\0')
      c = '_';
  return name;
}

Result<void> writeOutputs(const std::string &folder, const Executable &program,
                          const std::vector<HostTensor> &outputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Error{ErrorCode::Io, "cannot make the folder " + folder + ": " + error.message()};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::filesystem::path path = std::filesystem::path(folder) / (safeFileName(program.outputs()[i].name) + ".npy");
    if (Result<void> written = tuner::writeNpy(path, {outputs[i].type, outputs[i].shape, outputs[i].bytes}); !written)
      return written;
  }
  return {};
}

int report(const RunOptions &options, const Executable &program, const RunResult &result,
           const std::vector<reference::Verdict> &verdicts) {
  Json json{{"time_us", result.timing.medianUs}, {"iterations", options.iterations}, {"outputs", Json::array()}};
  Table table({"output", "type", "shape", ">error", ">allowed", "verdict"});
  bool allRight = true;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const TensorDesc &desc = program.outputs()[i];
    Json row{{"name", desc.name}, {"type", toString(desc.type)}, {"shape", desc.shape}};
    std::vector<std::string> cells{desc.name,    std::string(toString(desc.type)), toString(desc.shape), "-", "-",
                                   "not checked"};
    if (!verdicts.empty()) {
      const reference::Verdict &verdict = verdicts[i];
      allRight &= verdict.right;
      row["error"] = verdict.error;
      row["limit"] = verdict.limit;
      row["right"] = verdict.right;
      cells = {desc.name,
               cells[1],
               cells[2],
               fmt::format("{:.2e}", verdict.error),
               fmt::format("{:.2e}", verdict.limit),
               verdict.right ? "right" : verdict.message};
    }
    json["outputs"].push_back(std::move(row));
    table.add(std::move(cells));
  }
  if (options.json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print("{}{} a run (median of {}, host clock)\n", table.str(), formatTime(result.timing.medianUs),
               result.timing.samples);
  return allRight ? 0
                  : fail({ErrorCode::WrongResult,
                          "outputs differ from the reference evaluator's beyond the numerics policy"});
}

int run(const RunOptions &options) {
  Result<Model> model = options.load();
  if (!model)
    return fail(model.error());
  Arguments arguments;
  if (Result<void> gathered = arguments.gather(*model, options.inputs); !gathered)
    return fail(gathered.error());
  CompileOptions compileOptions;
  compileOptions.target = options.target;
  compileOptions.store = options.store;
  compileOptions.threads = options.threads;
  compileOptions.effort = static_cast<Effort>(options.tuningEffort());
  compileOptions.seconds = options.budgetSeconds;
  compileOptions.simplify = !options.noSimplify;
  compileOptions.requireTuned = options.requireTuned;
  if (options.showsProgress())
    compileOptions.progress = [](const Progress &at) {
      showProgress({.kernel = std::string(at.kernel),
                    .index = static_cast<std::size_t>(at.kernelsDone),
                    .count = static_cast<std::size_t>(at.kernels),
                    .tried = at.candidatesDone,
                    .planned = at.candidates});
      return true;
    };
  compileOptions.log = [](std::string_view line) { warn(std::string(line)); };
  Result<Executable> program = compile(*model, compileOptions);
  if (!program)
    return fail(program.error());
  Result<RunResult> result = execute(*program, arguments, options.iterations);
  if (!result)
    return fail(result.error());
  if (!options.output.empty())
    if (Result<void> written = writeOutputs(options.output, *program, result->outputs); !written)
      return fail(written.error());
  std::vector<reference::Verdict> verdicts;
  if (options.check) {
    Result<std::vector<reference::Verdict>> checked = checkOutputs(*model, arguments, result->outputs);
    if (!checked)
      return fail(checked.error());
    verdicts = std::move(*checked);
  }
  return report(options, *program, *result, verdicts);
}

} // namespace

void addRun(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("run", "Run a model, with kernels from the store or tuned now");
  auto options = std::make_shared<RunOptions>();
  options->addTo(*command);
  options->addTuningTo(*command);
  command->add_option("--input", options->inputs, "name=file.npy or name=random; what is not given is random");
  command->add_option("--output", options->output, "Folder for NAME.npy of each output");
  command->add_flag("--check", options->check, "Compare with the reference evaluator; exit status 5 when wrong");
  command->add_option("--iterations", options->iterations, "Runs; the first is not timed")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->footer("Examples:\n  kfuse run block.onnx --check\n  kfuse run block.onnx --input x=x.npy --output out "
                  "--iterations 100");
  command->callback([options, &status] { status = run(*options); });
}

} // namespace kfuse::tools
