// States of models of lengths: caches of several sequences, into which a run writes any number of tokens.
#include "LengthFixture.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("lengths: tokens of some sequences are written into their caches, and nothing of others") {
  for (DType type : {DType::F32, DType::BF16}) {
    Fixture block(cached, {{"batch", 1, 4}, {"tokens", 1, 21}}, type);
    for (Lengths lengths : {Lengths{4, 21}, {1, 1}, {3, 1}, {1, 13}, {2, 7}, {3, 20}, {4, 1}})
      block.checkAt(lengths);
  }
}

TEST_CASE("lengths: sequences together, a prompt and tokens behind it, are what programs of one alone give") {
  constexpr std::int64_t most = 4, tokens = 9, steps = 3, hidden = 16;
  Fixture together(cached, {{"batch", 1, most}, {"tokens", 1, 21}}, DType::F32),
      prompt(cached, {{"batch", 1, 1}, {"tokens", tokens, tokens}}, DType::F32),
      decode(cached, {{"batch", 1, 1}, {"tokens", 1, 1}}, DType::F32);
  auto part = [](const HostTensor &whole, std::int64_t sequence, std::int64_t of) {
    const auto size = static_cast<std::ptrdiff_t>(whole.bytes.size()) / of;
    Shape shape = whole.shape;
    shape[0] = shape[0] / of;
    return HostTensor{
        whole.type, shape, {whole.bytes.begin() + sequence * size, whole.bytes.begin() + (sequence + 1) * size}};
  };
  auto checkClose = [](const HostTensor &a, const HostTensor &b) {
    const std::vector<double> found = reference::toDoubles(a), expected = reference::toDoubles(b);
    REQUIRE(found.size() == expected.size());
    CHECK(std::ranges::equal(found, expected, [](double x, double y) { return std::abs(x - y) < 1e-4; }));
  };
  for (std::int64_t sequences = 1; sequences <= most; ++sequences) {
    CAPTURE(sequences);
    std::vector<HostTensor> states;
    for (const TensorDesc &desc : together.model.states())
      states.push_back(randomTensor(desc, states.size() + 5, Role::State));
    std::vector<std::vector<HostTensor>> own(static_cast<std::size_t>(sequences));
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::size_t i = 0; i < states.size(); ++i)
        own[static_cast<std::size_t>(s)].push_back(
            together.model.states()[i].name == "table" ? states[i] : part(states[i], s, most));
    for (std::int64_t step = 0, at = 0; step <= steps; at += step == 0 ? tokens : 1, ++step) {
      const std::int64_t count = step == 0 ? tokens : 1;
      const HostTensor x = reference::normal(DType::F32, {sequences, count, hidden}, 50 + step, 1);
      std::vector<double> from; // Each sequence is one position further than the one before.
      for (std::int64_t s = 0; s < sequences; ++s)
        from.push_back(static_cast<double>(at + s));
      const HostTensor positions = reference::tensorOf(DType::I64, {sequences}, from);
      const HostTensor y = together.runOn({sequences, count}, {x, positions}, states);
      for (std::int64_t s = 0; s < sequences; ++s)
        checkClose(part(y, s, sequences), (step == 0 ? prompt : decode)
                                              .runOn({1, count}, {part(x, s, sequences), part(positions, s, sequences)},
                                                     own[static_cast<std::size_t>(s)]));
    }
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::size_t i = 0; i < states.size(); ++i)
        if (together.model.states()[i].name != "table")
          checkClose(part(states[i], s, most), own[static_cast<std::size_t>(s)][i]);
  }
}

TEST_CASE("lengths: a file's cache of any number of sequences takes any number of rows") {
  LoadOptions options;
  options.dims = {{"batch", 1, 4}, {"rows", 1, 5}};
  Fixture file(Model::load(KFUSE_TEST_DIR "/data/cache_tensor_scatter_any.onnx", options).value());
  for (Lengths lengths : {Lengths{4, 5}, {1, 1}, {3, 2}, {2, 4}, {4, 1}})
    file.checkAt(lengths);
}
