// Decodes 16 tokens one by one with a cache, and compares with the whole prompt at once:
//
//   decode [TARGET]
//
// A state is memory of the caller that each run updates in place: here the keys and values so far.
#include "examples/Tensors.h"
#include "examples/blocks/Catalogue.h"
#include "kfuse/kfuse.h"

#include <cstdio>
#include <optional>

using namespace kfuse::examples;

namespace {

constexpr std::int64_t tokens = 16;
constexpr kfuse::DType type = kfuse::DType::F32;
/// Each of the two stays within 1e-5 of exact in f32.
constexpr double tolerance = 2e-5;

/// One block on the device, with its memory.
class Block {
public:
  Block(kfuse::Result<kfuse::Graph> graph, const kfuse::CompileOptions &options)
      : program(compile(std::move(graph), options)), outputs(allocateOutputs(program)) {
    for (const kfuse::TensorDesc &desc : program.parameters())
      parameters.add(program, desc, weight(desc));
    for (const kfuse::TensorDesc &desc : program.inputs())
      inputs.add(program, desc, Bytes(desc.bytes()));
    for (const kfuse::TensorDesc &desc : program.states())
      inputs.add(program, desc, Bytes(desc.bytes()));
    session = orFail(program.newSession(orFail(program.prepare(parameters.pointers))));
  }

  /// Input `i` as the next run sees it.
  void set(std::size_t i, const void *values) { orFail(inputs.buffers[i].upload(values)); }

  /// y of one run.
  std::vector<double> run() {
    orFail(session->run(nullptr, inputs.pointers, outputs.pointers));
    orFail(program.synchronize());
    Bytes y(outputs.buffers[0].size());
    orFail(outputs.buffers[0].download(y.data()));
    return toDoubles(y, type);
  }

private:
  static kfuse::Executable compile(kfuse::Result<kfuse::Graph> graph, const kfuse::CompileOptions &options) {
    kfuse::Model model = orFail(kfuse::Model::fromGraph(orFail(std::move(graph))));
    return orFail(kfuse::compile(model, options));
  }

  /// Both blocks name their parameters alike and so get the same weights.
  static Bytes weight(const kfuse::TensorDesc &desc) {
    RotaryTables angles = rotaryTables(tokens, tinyLlama.headSize);
    return desc.name == "cos"   ? toBytes(angles.cos, type)
           : desc.name == "sin" ? toBytes(angles.sin, type)
                                : seeded(desc);
  }

  kfuse::Executable program;
  DeviceTensors parameters, inputs, outputs;
  std::optional<kfuse::Session> session;
};

} // namespace

int main(int argc, char **argv) {
  kfuse::CompileOptions options;
  if (argc > 1)
    options.target = argv[1];
  Block prefill(llamaPrefill(1, tokens, tinyLlama, type), options);
  Block decode(llamaDecode(1, tokens, tinyLlama, type), options);

  Bytes prompt = seeded({"prompt", type, {tokens, tinyLlama.d}});
  prefill.set(0, prompt.data());
  std::vector<double> expected = prefill.run(), decoded;
  for (std::int64_t position = 0; position < tokens; ++position) {
    decode.set(0, prompt.data() + position * prompt.size() / tokens);
    decode.set(1, &position);
    std::vector<double> y = decode.run();
    decoded.insert(decoded.end(), y.begin(), y.end());
  }

  double difference = relativeDifference(decoded, expected);
  bool agrees = difference <= tolerance; // False for NaN.
  std::printf("%s: %lld tokens decoded; relative difference from prefill %.1e, allowed %.1e\n", options.target.c_str(),
              static_cast<long long>(tokens), difference, tolerance);
  return agrees ? 0 : static_cast<int>(kfuse::ErrorCode::WrongResult);
}
