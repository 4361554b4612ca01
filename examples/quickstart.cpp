// Compiles a model for this machine, tuning what is not in the store yet, and runs it once:
//
//   quickstart MODEL.onnx|MODEL.mlir [TARGET]
//
// Weights come from the model's file; what it does not hold is seeded noise.
#include "examples/Tensors.h"
#include "kfuse/kfuse.h"

#include <cmath>
#include <cstdio>

using namespace kfuse::examples;

namespace {

Bytes weightOf(const kfuse::Model &model, const kfuse::TensorDesc &desc) {
  std::span<const std::byte> stored = model.parameterData(desc.name);
  return stored.empty() ? seeded(desc) : Bytes(stored.begin(), stored.end());
}

/// "y [1x128x768 bf16] has norm 35.2".
void print(const kfuse::TensorDesc &desc, const kfuse::Buffer &buffer) {
  std::printf("%s [%s %s]", desc.name.c_str(), kfuse::toString(desc.shape).c_str(),
              std::string(kfuse::toString(desc.type)).c_str());
  if (isFloat(desc.type)) {
    Bytes bytes(buffer.size());
    orFail(buffer.download(bytes.data()));
    double squares = 0;
    for (double value : toDoubles(bytes, desc.type))
      squares += value * value;
    std::printf(" has norm %g", std::sqrt(squares));
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3)
    fail({kfuse::ErrorCode::Usage, "expected quickstart MODEL.onnx|MODEL.mlir [TARGET]"});
  kfuse::Model model = orFail(kfuse::Model::load(argv[1]));
  kfuse::CompileOptions options;
  if (argc == 3)
    options.target = argv[2];
  kfuse::Executable program = orFail(kfuse::compile(model, options));

  DeviceTensors parameters, inputs, outputs = allocateOutputs(program);
  for (const kfuse::TensorDesc &desc : program.parameters())
    parameters.add(program, desc, weightOf(model, desc));
  for (const kfuse::TensorDesc &desc : program.inputs())
    inputs.add(program, desc, seeded(desc));
  for (const kfuse::TensorDesc &desc : program.states())
    inputs.add(program, desc, Bytes(desc.bytes()));

  kfuse::Weights weights = orFail(program.prepare(parameters.pointers));
  kfuse::Session session = orFail(program.newSession(weights));
  orFail(session.run(nullptr, inputs.pointers, outputs.pointers));
  orFail(program.synchronize());

  for (std::size_t i = 0; i < outputs.descs.size(); ++i)
    print(outputs.descs[i], outputs.buffers[i]);
}
