// Runs models for the semantic fuzzer, many in one process. A line of stdin asks for one:
//
//   HOW TARGET MODEL ARGUMENTS RESULTS [PARAMETERS]
//
// HOW is "simplified" or "written". For "cpu" the model is run: the file ARGUMENTS holds what its inputs and then its
// parameters without data hold, in order, as they lie in memory, and RESULTS receives the outputs so. For a GPU's
// target every kernel is compiled, and the two files are not touched. PARAMETERS is a glob of inputs that are
// parameters. A line of stdout answers: the error code (0: done), and then the edges, NAME:TYPE:SHAPE, or what the
// error says. With --ops the importer's ops are listed instead.
#include "ir/import/onnx/Ops.h"
#include "kfuse/kfuse.h"
#include "tuner/api/Handles.h"
#include "tuner/model/PlannedModel.h"
#include "tuner/model/Workbench.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using namespace kfuse;

namespace {

struct Request {
  std::string how, target, model, arguments, results, parameters;
  bool simplify() const { return how == "simplified"; }
};

/// Memory on the program's device for each of `descs`, in order.
struct Buffers {
  std::vector<Buffer> buffers;
  std::vector<void *> pointers;

  Result<void> add(const Executable &program, const TensorDesc &desc, const std::byte *bytes) {
    Result<Buffer> buffer = program.allocate(desc.bytes());
    if (!buffer)
      return buffer.error();
    buffers.push_back(*buffer);
    pointers.push_back(buffer->data());
    return buffer->upload(bytes);
  }
};

/// The bytes of one tensor after the other, from a file.
class Arguments {
public:
  explicit Arguments(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }

  Result<const std::byte *> next(const TensorDesc &desc) {
    if (bytes.size() - used < desc.bytes())
      return Error{ErrorCode::Usage, "the arguments end within '" + desc.name + "'"};
    used += desc.bytes();
    return reinterpret_cast<const std::byte *>(bytes.data()) + used - desc.bytes();
  }

private:
  std::vector<char> bytes;
  std::size_t used = 0;
};

Result<void> run(const Model &model, const Executable &program, const Request &request) {
  // The file holds them by name: which of a model's inputs are states in place is what importing it says.
  std::map<std::string, const TensorDesc *> byName;
  for (const std::vector<TensorDesc> *descs : {&program.inputs(), &program.states(), &program.parameters()})
    for (const TensorDesc &desc : *descs)
      byName[desc.name] = &desc;
  Arguments given(request.arguments);
  std::map<std::string, const std::byte *> arguments;
  for (const auto &[name, desc] : byName) {
    std::span<const std::byte> stored = model.parameterData(name);
    Result<const std::byte *> bytes = stored.empty() ? given.next(*desc) : Result(stored.data());
    if (!bytes)
      return bytes.error();
    arguments[name] = *bytes;
  }
  Buffers inputs, states, parameters, outputs;
  for (auto [buffers, descs] :
       {std::pair(&inputs, &program.inputs()), {&states, &program.states()}, {&parameters, &program.parameters()}})
    for (const TensorDesc &desc : *descs)
      if (Result<void> added = buffers->add(program, desc, arguments.at(desc.name)); !added)
        return added;
  for (const TensorDesc &desc : program.outputs()) // What is not written is NaN, and no boolean.
    if (Result<void> added = outputs.add(program, desc, std::vector(desc.bytes(), std::byte{0xff}).data()); !added)
      return added;
  for (std::size_t i = 0; i < outputs.buffers.size(); ++i)
    if (const int state = program.updatedStates()[i]; state >= 0) {
      outputs.buffers[i] = states.buffers[state];
      outputs.pointers[i] = states.pointers[state];
    }
  Result<Weights> weights = program.prepare(parameters.pointers);
  if (!weights)
    return weights.error();
  Result<Session> session = program.newSession(*weights);
  if (!session)
    return session.error();
  inputs.pointers.insert(inputs.pointers.end(), states.pointers.begin(), states.pointers.end());
  if (Result<void> ran = session->run(nullptr, inputs.pointers, outputs.pointers); !ran)
    return ran;
  std::ofstream file(request.results, std::ios::binary);
  for (std::size_t i = 0; i < outputs.buffers.size(); ++i) {
    std::vector<char> bytes(program.outputs()[i].bytes());
    if (Result<void> copied = outputs.buffers[i].download(bytes.data()); !copied)
      return copied;
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return {};
}

class Runner {
public:
  explicit Runner(std::string store) : store(std::move(store)) {}

  Result<Model> answer(const Request &request) {
    LoadOptions options;
    if (!request.parameters.empty())
      options.parameters = {request.parameters};
    Result<Model> model = Model::load(request.model, options);
    if (!model)
      return model;
    Result<void> done = request.target == "cpu" ? runHere(*model, request) : compileFor(*model, request);
    return done ? model : done.error();
  }

private:
  Result<void> runHere(const Model &model, const Request &request) {
    CompileOptions options;
    options.target = "cpu";
    options.store = store;
    options.effort = Effort::None;
    options.simplify = request.simplify();
    options.threads = 1;
    Result<Executable> program = compile(model, options);
    return program ? run(model, *program, request) : program.error();
  }

  /// The workbench of a target, with its compiler, is kept: NVRTC takes a while to start.
  Result<void> compileFor(const Model &model, const Request &request) {
    if (!benches.contains(request.target)) {
      Result<tuner::Workbench> opened = tuner::openWorkbench(
          {.target = request.target, .store = store, .threads = 1, .device = 0, .measureOn = {}, .warn = {}});
      if (!opened)
        return opened.error();
      benches.emplace(request.target, std::move(*opened));
    }
    tuner::Workbench &bench = benches.at(request.target);
    Result<tuner::PlannedModel> planned =
        tuner::planModel(*model.internals().model.module, *bench.target, request.simplify());
    if (!planned)
      return planned.error();
    tuner::TuneOptions options;
    options.effort = Effort::None;
    Result<tuner::CompiledModel> compiled = tuner::compileModel(*planned, bench.context(std::move(options)));
    return compiled ? Result<void>() : compiled.error();
  }

  std::string store;
  std::map<std::string, tuner::Workbench> benches;
};

std::string edgesOf(const Model &model) {
  std::string text;
  for (auto [kind, descs] : {std::pair("input", &model.inputs()),
                             {"state", &model.states()},
                             {"parameter", &model.parameters()},
                             {"output", &model.outputs()}})
    for (const TensorDesc &desc : *descs)
      text += std::string(" ") + kind + ":" + desc.name + ":" + std::string(toString(desc.type)) + ":" +
              toString(desc.shape);
  return text;
}

void listOps() {
  using namespace ir::onnx;
  for (llvm::ArrayRef<OnnxOp> table : opTables())
    for (const OnnxOp &op : table)
      std::cout << op.name.str() << "\n";
}

} // namespace

int main(int count, char **arguments) {
  if (count != 2) {
    std::cerr << "usage: kfuse_semantic_runner --ops | STORE\n";
    return 2;
  }
  if (std::string(arguments[1]) == "--ops") {
    listOps();
    return 0;
  }
  Runner runner(arguments[1]);
  for (std::string line; std::getline(std::cin, line);) {
    Request request;
    std::istringstream(line) >> request.how >> request.target >> request.model >> request.arguments >>
        request.results >> request.parameters;
    Result<Model> model = runner.answer(request);
    std::string text = model ? edgesOf(*model) : " " + model.error().message;
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::cout << (model ? 0 : static_cast<int>(model.error().code)) << text << std::endl;
  }
}
