// Generates tokens with a decoder as PyTorch exports it, whose file takes and returns its cache:
//
//   generate models/decoders/llama_past.onnx models/decoders/llama_past.tokens [TARGET [tuned]]
//
// LoadOptions::states makes one state of each past and present: a run writes its new rows behind those that are there,
// and copies nothing. The second file holds a prompt and the tokens that PyTorch's generate() makes of it, a line each,
// with which these are compared.
#include "examples/Tensors.h"
#include "kfuse/kfuse.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

using namespace kfuse::examples;

namespace {

using Tokens = std::vector<std::int64_t>;

/// A prompt and what follows it.
struct Expected {
  Tokens prompt, following;
};

Expected read(const char *path) {
  std::ifstream file(path);
  Expected expected;
  for (Tokens *tokens : {&expected.prompt, &expected.following}) {
    std::string text;
    std::getline(file, text);
    std::istringstream line(text);
    for (std::int64_t token = 0; line >> token;)
      tokens->push_back(token);
  }
  if (expected.prompt.empty() || expected.following.empty())
    fail({kfuse::ErrorCode::Io, std::string(path) + " does not hold two lines of tokens"});
  return expected;
}

/// A decoder with its cache, one token a step.
class Decoder {
public:
  Decoder(const kfuse::Model &model, std::int64_t capacity, const kfuse::CompileOptions &options)
      : program(orFail(kfuse::compile(model, options))), outputs(allocateOutputs(program)),
        mask(static_cast<std::size_t>(capacity)) {
    for (const kfuse::TensorDesc &desc : program.parameters()) {
      std::span<const std::byte> stored = model.parameterData(desc.name);
      parameters.add(program, desc, {stored.begin(), stored.end()});
    }
    for (const kfuse::TensorDesc &desc : program.inputs())
      inputs.add(program, desc, Bytes(desc.bytes()));
    for (const kfuse::TensorDesc &desc : program.states())
      inputs.add(program, desc, Bytes(desc.bytes())); // Zeros.
    session = orFail(program.newSession(orFail(program.prepare(parameters.pointers))));
  }

  /// The most likely token behind `token` and all before it.
  std::int64_t step(std::int64_t token) {
    mask[static_cast<std::size_t>(length)] = 1;
    set("input_ids", &token);
    set("position_ids", &length);
    set("past_length", &length);
    set("attention_mask", mask.data());
    orFail(session->run(nullptr, inputs.pointers, outputs.pointers));
    orFail(program.synchronize());
    ++length;
    Bytes bytes(outputs.buffers[0].size());
    orFail(outputs.buffers[0].download(bytes.data()));
    const std::vector<double> logits = toDoubles(bytes, outputs.descs[0].type);
    return std::ranges::max_element(logits) - logits.begin();
  }

private:
  void set(const char *name, const void *values) {
    for (std::size_t i = 0; i < program.inputs().size(); ++i)
      if (inputs.descs[i].name == name)
        orFail(inputs.buffers[i].upload(values));
  }

  kfuse::Executable program;
  DeviceTensors parameters, inputs, outputs;
  Tokens mask;             ///< 1 for each token so far, 0 behind them.
  std::int64_t length = 0; ///< Rows of the cache.
  std::optional<kfuse::Session> session;
};

} // namespace

int main(int argc, char **argv) {
  const bool isTuned = argc == 5 && std::string(argv[4]) == "tuned";
  if (argc < 3 || argc > 5 || (argc == 5 && !isTuned))
    fail({kfuse::ErrorCode::Usage, "usage: generate MODEL.onnx MODEL.tokens [TARGET [tuned]]"});
  const Expected expected = read(argv[2]);
  const auto capacity = static_cast<std::int64_t>(expected.prompt.size() + expected.following.size());
  kfuse::LoadOptions load;
  load.states = {"past_key_values*=present*:" + std::to_string(capacity)};
  load.shapes = {{"attention_mask", {1, capacity}}};
  kfuse::CompileOptions options;
  options.effort = isTuned ? kfuse::Effort::Quick : kfuse::Effort::None; // Tuning takes a minute.
  if (argc > 3)
    options.target = argv[3];
  Decoder decoder(orFail(kfuse::Model::load(argv[1], load)), capacity, options);

  std::int64_t next = 0;
  for (std::int64_t token : expected.prompt)
    next = decoder.step(token);
  Tokens generated{next};
  const auto start = std::chrono::steady_clock::now();
  while (generated.size() < expected.following.size())
    generated.push_back(decoder.step(generated.back()));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  const auto [differs, other] = std::ranges::mismatch(generated, expected.following);
  const bool agrees = differs == generated.end();
  std::printf("%zu tokens, %.0f a second; %s\n", generated.size(),
              static_cast<double>(generated.size() - 1) / seconds.count(),
              agrees ? "the same as PyTorch's" : "other than PyTorch's");
  if (!agrees)
    std::printf("token %td is %lld instead of %lld\n", differs - generated.begin(), static_cast<long long>(*differs),
                static_cast<long long>(*other));
  return agrees ? 0 : static_cast<int>(kfuse::ErrorCode::WrongResult);
}
