// Decodes tokens one by one with a cache, and compares with the whole prompt at once:
//
//   decode [TARGET [TOKENS [f32|f16|bf16]]]
//
// A state is memory of the caller that each run updates in place: here the keys and values so far.
#include "examples/Tensors.h"
#include "examples/blocks/Catalogue.h"
#include "kfuse/kfuse.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

using namespace kfuse::examples;

namespace {

/// Each of the two ways stays within half of it of exact.
double toleranceOf(kfuse::DType type) {
  return type == kfuse::DType::F32 ? 2e-5 : type == kfuse::DType::F16 ? 4e-3 : 2e-2;
}

/// One block on the device, with its memory.
class Block {
public:
  Block(kfuse::Result<kfuse::Graph> graph, std::int64_t tokens, kfuse::DType type, const kfuse::CompileOptions &options)
      : type(type), program(compile(std::move(graph), options)), outputs(allocateOutputs(program)) {
    for (const kfuse::TensorDesc &desc : program.parameters())
      parameters.add(program, desc, weight(desc, tokens));
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
  static Bytes weight(const kfuse::TensorDesc &desc, std::int64_t tokens) {
    RotaryTables angles = rotaryTables(tokens, tinyLlama.headSize);
    return desc.name == "cos"   ? toBytes(angles.cos, desc.type)
           : desc.name == "sin" ? toBytes(angles.sin, desc.type)
                                : seeded(desc);
  }

  kfuse::DType type;
  kfuse::Executable program;
  DeviceTensors parameters, inputs, outputs;
  std::optional<kfuse::Session> session;
};

} // namespace

int main(int argc, char **argv) {
  kfuse::CompileOptions options;
  if (argc > 1)
    options.target = argv[1];
  const std::int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 16;
  const std::optional<kfuse::DType> given = kfuse::parseDType(argc > 3 ? argv[3] : "f32");
  if (tokens < 1 || !given || !kfuse::isFloat(*given))
    fail({kfuse::ErrorCode::Usage, "usage: decode [TARGET [TOKENS [f32|f16|bf16]]]"});
  const kfuse::DType type = *given;
  Block prefill(llamaPrefill(1, tokens, tinyLlama, type), tokens, type, options);
  Block decode(llamaDecode(1, tokens, tinyLlama, type), tokens, type, options);

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
  const double tolerance = toleranceOf(type);
  bool agrees = difference <= tolerance; // False for NaN.
  std::printf("%s: %lld tokens decoded; relative difference from prefill %.1e, allowed %.1e\n", options.target.c_str(),
              static_cast<long long>(tokens), difference, tolerance);
  return agrees ? 0 : static_cast<int>(kfuse::ErrorCode::WrongResult);
}
