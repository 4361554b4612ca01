#include "ImportedModel.h"

#include "ir/import/onnx/RoundWeights.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>

using namespace kfuse;

namespace {

/// A file of its own for each test, which is gone behind it.
struct Scratch {
  std::filesystem::path path;
  explicit Scratch(const std::string &name)
      : path(std::filesystem::temp_directory_path() / ("kfuse_rounded_" + std::to_string(getpid()) + name)) {}
  ~Scratch() { std::filesystem::remove(path); }
};

/// The weights of y = x w + b, [3, 4], as rows of the identity give them.
std::vector<double> weightsOf(const std::string &file) {
  ImportedModel model(file);
  REQUIRE_MESSAGE(model, model.error());
  auto rows = [&](const std::vector<double> &x) {
    return model.evaluate({{"x", reference::tensorOf(DType::F32, {2, 3}, x)}})["y"];
  };
  std::vector<double> first = rows({1, 0, 0, 0, 1, 0}), last = rows({0, 0, 1, 0, 0, 0}), weights;
  for (std::size_t i = 0; i < 12; ++i)
    weights.push_back((i < 8 ? first[i] : last[i - 8]) - last[4 + i % 4]);
  return weights;
}

} // namespace

TEST_CASE("roundWeights: each weight is off by half a step at most, and the layer's error is that of the file") {
  const std::vector<double> exact = weightsOf(testData("external.onnx"));
  for (std::int64_t bits : {4, 8})
    for (bool symmetric : {false, true}) {
      CAPTURE(bits);
      CAPTURE(symmetric);
      Scratch file(".onnx");
      auto layers = ir::roundWeights(testData("external.onnx"), file.path, {bits, 16, symmetric});
      REQUIRE_MESSAGE(layers, layers.error().message);
      REQUIRE(layers->size() == 1);
      CHECK(layers->front().node == "gemm");
      CHECK(layers->front().n == 4);
      CHECK(layers->front().k == 3);
      const std::vector<double> rounded = weightsOf(file.path.string());
      const double codes = std::exp2(bits) - 1;
      double error = 0, size = 0;
      for (std::size_t column = 0; column < 4; ++column) {
        double low = 0, high = 0;
        for (std::size_t i = column; i < 12; i += 4)
          low = std::min(low, exact[i]), high = std::max(high, exact[i]);
        const double step = symmetric ? std::max(-low, high) / (std::exp2(bits - 1) - 1) : (high - low) / codes;
        for (std::size_t i = column; i < 12; i += 4) {
          // The zero is rounded, too, and may cut an end by half a step.
          CHECK(std::fabs(rounded[i] - exact[i]) <= (symmetric ? 0.501 : 1.001) * step);
          error += (rounded[i] - exact[i]) * (rounded[i] - exact[i]);
          size += exact[i] * exact[i];
        }
      }
      CHECK(layers->front().error == doctest::Approx(std::sqrt(error / size)).epsilon(1e-3));
      CHECK(layers->front().error > 0);
    }
}

TEST_CASE("roundWeights: what it does not take is said") {
  Scratch file(".onnx");
  auto message = [&](const char *model, ir::RoundingOptions options) {
    auto layers = ir::roundWeights(testData(model), file.path, options);
    REQUIRE_FALSE(layers);
    return layers.error().message;
  };
  CHECK(message("external.onnx", {3, 128, false}).ends_with("weights of 3 bits; 4 or 8"));
  CHECK(message("external.onnx", {4, 100, false}).ends_with("groups of 100; a power of two from 16 to 2^20"));
  CHECK(message("relu_opset12.onnx", {}).ends_with("has no MatMul or Gemm with weights of floats in the file"));
  CHECK(message("write_models.py", {}).ends_with("kfuse quantize takes ONNX files"));
}
