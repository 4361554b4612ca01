// Loads a model, compiles it for this machine, and runs it once on zeros.
#include <kfuse/kfuse.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char **arguments) {
  auto model = kfuse::Model::load(count > 1 ? arguments[1] : "block.onnx");
  if (!model)
    return std::puts(model.error().message.c_str()), 1;
  auto program = kfuse::compile(*model).value(); // tunes what the store does not hold

  std::vector<kfuse::Buffer> memory; // of the device; pointers of your own serve as well
  auto zeros = [&](const std::vector<kfuse::TensorDesc> &tensors) {
    std::vector<void *> pointers;
    for (const kfuse::TensorDesc &tensor : tensors) {
      memory.push_back(program.allocate(tensor.bytes()).value());
      if (!memory.back().upload(std::vector<char>(tensor.bytes()).data()))
        std::abort();
      pointers.push_back(memory.back().data());
    }
    return pointers;
  };
  auto weights = program.prepare(zeros(program.parameters())).value(); // once per weight set
  auto session = program.newSession(weights).value();                  // one per stream
  auto ran = session.run(nullptr, zeros(program.inputs()), zeros(program.outputs()));
  return ran && program.synchronize() ? 0 : 1;
}
