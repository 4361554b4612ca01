// Loads a model, compiles it for this machine, and runs it once on zeros.
#include <kfuse/kfuse.h>

#include <cstdio>
#include <vector>

namespace {

/// Tensors of zeros in memory of the device; pointers of your own serve as well.
struct Zeros {
  std::vector<kfuse::Buffer> memory;
  std::vector<void *> pointers;

  Zeros(const kfuse::Executable &program, const std::vector<kfuse::TensorDesc> &tensors) {
    for (const kfuse::TensorDesc &tensor : tensors) {
      memory.push_back(program.allocate(tensor.bytes()).value());
      memory.back().upload(std::vector<char>(tensor.bytes()).data()).value();
      pointers.push_back(memory.back().data());
    }
  }
};

} // namespace

int main(int count, char **arguments) try {
  auto model = kfuse::Model::load(count > 1 ? arguments[1] : "block.onnx").value();
  auto program = kfuse::compile(model).value(); // tunes what the store does not hold
  Zeros parameters(program, program.parameters()), inputs(program, program.inputs()),
      outputs(program, program.outputs());
  auto weights = program.prepare(parameters.pointers).value(); // once per weight set
  auto session = program.newSession(weights).value();          // one per stream
  session.run(nullptr, inputs.pointers, outputs.pointers).value();
  program.synchronize().value();
} catch (const kfuse::Exception &error) { // what value() of an error throws
  std::fprintf(stderr, "error: %s\n", error.what());
  return static_cast<int>(error.code());
}
