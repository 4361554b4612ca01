// y = gelu(x w + b) on the CPU through an installed kfuse, checked against plain loops.
#include <kfuse/kfuse.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int M = 64, K = 48, N = 32;

template <class T> T orFail(kfuse::Result<T> result) {
  if (result)
    return std::move(*result);
  std::fprintf(stderr, "error: %s\n", result.error().message.c_str());
  std::exit(static_cast<int>(result.error().code));
}
void orFail(const kfuse::Result<void> &result) {
  if (!result) {
    std::fprintf(stderr, "error: %s\n", result.error().message.c_str());
    std::exit(static_cast<int>(result.error().code));
  }
}

kfuse::Result<kfuse::Graph> buildGraph() {
  kfuse::GraphBuilder g;
  kfuse::Tensor x = g.input("x", kfuse::DType::F32, {M, K});
  kfuse::Tensor w = g.parameter("w", kfuse::DType::F32, {K, N});
  kfuse::Tensor b = g.parameter("b", kfuse::DType::F32, {N});
  g.output("y", g.gelu(g.add(g.matmul(x, w), b)));
  return g.build();
}

/// Numbers in [-1, 1] without a pattern that 48 terms would cancel.
std::vector<float> noise(std::size_t count, double step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i * i + 1)));
  return values;
}

kfuse::Buffer upload(const kfuse::Executable &program, const std::vector<float> &values) {
  kfuse::Buffer buffer = orFail(program.allocate(values.size() * sizeof(float)));
  orFail(buffer.upload(values.data()));
  return buffer;
}

/// ||y - exact|| / ||exact||.
double relativeError(const std::vector<float> &x, const std::vector<float> &w, const std::vector<float> &b,
                     const std::vector<float> &y) {
  double difference = 0, size = 0;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double sum = b[n];
      for (int k = 0; k < K; ++k)
        sum += static_cast<double>(x[m * K + k]) * w[k * N + n];
      double exact = sum / 2 * (1 + std::erf(sum / std::sqrt(2.0)));
      difference += (y[m * N + n] - exact) * (y[m * N + n] - exact);
      size += exact * exact;
    }
  return std::sqrt(difference / size);
}

} // namespace

int main() {
  std::vector<float> x = noise(M * K, 0.7), w = noise(K * N, 1.3), b = noise(N, 2.1), y(M * N, NAN);
  kfuse::Model model = orFail(kfuse::Model::fromGraph(orFail(buildGraph())));
  kfuse::CompileOptions options;
  options.target = "cpu";
  kfuse::Executable program = orFail(kfuse::compile(model, options));

  kfuse::Buffer xBuffer = upload(program, x), wBuffer = upload(program, w), bBuffer = upload(program, b),
                yBuffer = upload(program, y);
  void *parameters[] = {wBuffer.data(), bBuffer.data()}, *inputs[] = {xBuffer.data()}, *outputs[] = {yBuffer.data()};
  kfuse::Weights weights = orFail(program.prepare(parameters));
  kfuse::Session session = orFail(program.newSession(weights));
  orFail(session.run(nullptr, inputs, outputs));
  orFail(program.synchronize());
  orFail(yBuffer.download(y.data()));

  double error = relativeError(x, w, b, y);
  bool isRight = error <= 1e-5; // False for NaN.
  std::printf("gelu(x w + b), %dx%dx%d f32 on the CPU: relative error %.1e, %s\n", M, K, N, error,
              isRight ? "right" : "WRONG, expected at most 1e-5");
  return isRight ? 0 : static_cast<int>(kfuse::ErrorCode::WrongResult);
}
