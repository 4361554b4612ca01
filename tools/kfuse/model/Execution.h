// A compiled model on its device with everything it takes, ready to run: for commands that run models.
#pragma once

#include "ir/reference/Tensor.h"
#include "kfuse/compiler.h"
#include "tools/kfuse/model/ModelOptions.h"

#include <map>
#include <string>
#include <vector>

namespace kfuse::tools {

/// Options of every command that runs a model.
struct ExecutionOptions : ModelOptions {
  std::vector<std::string> inputs; ///< Bindings of Arguments::gather.

  void addTo(CLI::App &command);
};

/// Host copies of everything the model takes, by name.
class Arguments {
public:
  /// `given`: "name=file.npy", "name=random", or "name=4095" for that number everywhere. What is not given is
  /// random, but for parameters that `weights` or the model's file hold.
  Result<void> gather(const Model &model, const std::vector<std::string> &given,
                      const std::optional<runtime::Safetensors> &weights);
  /// The lengths that the shapes of the files in `given` are of; of what none tells, the largest. Usage where two
  /// files disagree.
  static Result<std::vector<std::int64_t>> lengthsOf(const Model &model, const std::vector<std::string> &given);
  const reference::HostTensor &operator[](const std::string &name) const { return tensors.at(name); }

private:
  Result<void> make(const Model &model, const TensorDesc &desc, Role role,
                    const std::optional<runtime::Safetensors> &weights);

  std::map<std::string, std::string> bindings;
  std::map<std::string, reference::HostTensor> tensors;
};

/// A model as a command runs it.
struct OpenedModel {
  Model model; ///< The model at the run's lengths.
  std::vector<std::int64_t> lengths;
  Arguments arguments;
  Executable program;
  double compileSeconds; ///< What the search and the compiler took, or the store.
};
Result<OpenedModel> openModel(const ExecutionOptions &options);

/// Device copies of a list of tensors.
class DeviceTensors {
public:
  Result<void> upload(const Executable &program, const std::vector<TensorDesc> &descs, const Arguments &arguments);
  /// Outputs start as NaN, so that an element nobody wrote shows; an updated state is its own output.
  Result<void> poisonOutputs(const Executable &program, const Model &model, const DeviceTensors &inputs);
  Result<reference::HostTensor> download(std::size_t i, const TensorDesc &desc) const;
  std::vector<void *> pointers;

private:
  Result<void *> add(const Executable &program, const TensorDesc &desc);
  void share(const Buffer &buffer);
  std::vector<Buffer> buffers;
};

class Execution {
public:
  /// Uploads the arguments and prepares the weights.
  static Result<Execution> make(const OpenedModel &opened);
  /// One run; complete when the stream is.
  Result<void> enqueue(Stream stream) { return enqueue(stream, outputs); }
  /// One of other lengths, up to those that the model was opened for: tensors of theirs begin where its own do.
  Result<void> enqueue(Stream stream, std::span<const std::int64_t> shorter) {
    return session.run(stream, inputs.pointers, outputs.pointers, shorter);
  }
  /// The same into other memory for the outputs, of makeOutputs().
  Result<void> enqueue(Stream stream, const DeviceTensors &into) {
    return session.run(stream, inputs.pointers, into.pointers, lengths);
  }
  Result<DeviceTensors> makeOutputs() const;
  Result<std::vector<reference::HostTensor>> download() const;

private:
  Execution(const OpenedModel &opened, Weights weights, Session session)
      : model(opened.model), lengths(opened.lengths), program(opened.program), weights(std::move(weights)),
        session(std::move(session)) {}

  Model model;
  std::vector<std::int64_t> lengths;
  Executable program;
  DeviceTensors parameters, inputs, outputs;
  Weights weights;
  Session session;
};

} // namespace kfuse::tools
