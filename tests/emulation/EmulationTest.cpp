// Elementwise and row kernels are right, and what the device library is made of.
#include "codegen/cuda/Templates.h"
#include "tests/emulation/EmulatedChecks.h"
#include "tests/emulation/Emulator.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Two outputs of a kernel of floats, each of as many as its one input.
std::array<reference::HostTensor, 2> emulate(const std::string &entry, const std::string &source,
                                             const std::vector<float> &given, uint32_t blocks) {
  const auto count = static_cast<int64_t>(given.size());
  codegen::KernelPlan plan;
  plan.target = hopper().name;
  plan.inputs = {{DType::F32, {count}}};
  plan.outputs = {{DType::F32, {count}}, {DType::F32, {count}}};
  plan.inPlace = {-1, -1};
  plan.source = source;
  codegen::Launch launch;
  launch.entry = entry;
  launch.grid[0] = blocks;
  launch.args = {{codegen::KernelArg::Kind::Buffer, 0},
                 {codegen::KernelArg::Kind::Buffer, 1},
                 {codegen::KernelArg::Kind::Buffer, 2}};
  plan.launches = {launch};
  Result<EmulatedKernel> emulated = EmulatedKernel::compile(plan);
  REQUIRE_MESSAGE(emulated, emulated.error().message);
  reference::HostTensor input = reference::HostTensor::zeros(DType::F32, {count});
  std::memcpy(input.bytes.data(), given.data(), given.size() * sizeof(float));
  auto outputs = emulated->run(std::vector{input}, plan.inPlace, Copies::Early);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  return {(*outputs)[0], (*outputs)[1]};
}

std::vector<float> floatsOf(const reference::HostTensor &tensor) {
  std::vector<float> floats(tensor.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tensor.bytes.data(), tensor.bytes.size());
  return floats;
}

} // namespace

TEST_CASE("Emulated cuda.pointwise: right on every access pattern") {
  checkAll(pointwiseCases(), codegen::cuda::pointwiseTemplate(), 3);
}

TEST_CASE("Emulated cuda.pointwise: a quotient is rounded to its type before it is rounded to an integer") {
  struct Case {
    const char *type;
    double x, by, expected;
  };
  for (const Case &one : {Case{"f16", 28.359375, 0.7, 40}, // 40.502, in f16 40.5.
                          Case{"bf16", 304, 3, 102},       // 101.33, in bf16 101.5.
                          Case{"f32", 304, 3, 101}}) {
    const std::string t = std::string("tensor<67x") + one.type + ">";
    const RegionCase given({one.type, "func.func @f(%a: " + t + ", %b: " + t + ") -> " + t +
                                          " {\n  %0 = kfuse.div %a, %b : (" + t + ", " + t + ") -> " + t +
                                          "\n  %1 = kfuse.round %0 : (" + t + ") -> " + t + "\n  return %1 : " + t +
                                          "\n}"});
    const codegen::KernelTemplate &kernel = codegen::cuda::pointwiseTemplate();
    const Emulated emulated = emulate(kernel, given, kernel.candidates(given.region, hopper()).front());
    const DType type = emulated.plan.inputs.front().type;
    const std::vector inputs{reference::tensorOf(type, {67}, std::vector<double>(67, one.x)),
                             reference::tensorOf(type, {67}, std::vector<double>(67, one.by))};
    auto outputs = emulated.kernel.run(inputs, emulated.plan.inPlace, Copies::Early);
    REQUIRE_MESSAGE(outputs, outputs.error().message);
    CHECK(reference::toDoubles((*outputs)[0]) == std::vector<double>(67, one.expected));
  }
}

TEST_CASE("Emulated cuda.side_by_side: right for parts of any size") {
  checkAll(sideBySideCases(), codegen::cuda::sideBySideTemplate(), 3);
}

TEST_CASE("Emulated cuda.transpose: right for every layout and tile") {
  checkAll(transposeCases(), codegen::cuda::transposeTemplate(), 4);
}

TEST_CASE("Emulated cuda.transpose: whole chunks of rows that begin anywhere, in tiles of every shape") {
  for (const TemplateCase &source : transposeCases()) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> configs = codegen::cuda::transposeTemplate().candidates(given.region, hopper());
    std::erase_if(configs, [](const codegen::TileConfig &config) { return !config.has("chunks_down"); });
    INFO(source.name);
    CHECK(configs.empty() == !llvm::is_contained({"transpose_33x47_to_47x33_f32", "transpose_70x101_to_101x70_f16",
                                                  "transpose_300x141_to_141x300_bf16",
                                                  "transpose_3x40x75_to_3x75x40_f32", "transpose_gelu_unaligned"},
                                                 source.name));
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (const codegen::TileConfig &config : configs)
      check(given, inputs, oracle, codegen::cuda::transposeTemplate(), config);
  }
}

TEST_CASE("Emulated cuda.columns: right for every split of rows over threads and blocks") {
  checkAll(columnCases(), codegen::cuda::columnsTemplate(), 4);
}

TEST_CASE("Emulated cuda.windows: bands on tensor cores, where images share their weights") {
  int withBands = 0;
  for (const TemplateCase &source : slidingCases()) {
    RegionCase given(source);
    std::vector<codegen::TileConfig> configs = codegen::cuda::windowsTemplate().candidates(given.region, hopper());
    std::erase_if(configs, [](const codegen::TileConfig &config) { return !config.has("stages"); });
    INFO(source.name);
    CHECK(configs.empty() == (source.name.find("_images") == std::string::npos));
    if (configs.empty())
      continue;
    ++withBands;
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (const codegen::TileConfig &config : configs)
      check(given, inputs, oracle, codegen::cuda::windowsTemplate(), config);
  }
  CHECK(withBands == 3);
}

TEST_CASE("Emulated cuda.windows: an infinity or NaN beside a window does not reach its sum through a band's zeros") {
  const std::vector<TemplateCase> cases = slidingCases();
  const auto source =
      llvm::find_if(cases, [](const TemplateCase &c) { return c.name == "depthwise_3x3_of_9_images_f16"; });
  REQUIRE(source != cases.end());
  RegionCase given(*source);
  std::vector<codegen::TileConfig> configs = codegen::cuda::windowsTemplate().candidates(given.region, hopper());
  std::erase_if(configs, [](const codegen::TileConfig &config) { return !config.has("stages"); });
  std::vector<reference::HostTensor> inputs = given.inputs();
  reference::Values images = reference::toValues(inputs[0]);
  const std::array<double, 3> strays{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()};
  for (size_t i = 0; i < strays.size(); ++i)
    images.numbers[(2 * i + 1) * images.numbers.size() / 7].real = strays[i];
  inputs[0] = reference::toTensor(images);
  Oracle oracle(given, inputs);
  for (const codegen::TileConfig &config : configs)
    check(given, inputs, oracle, codegen::cuda::windowsTemplate(), config);
}

TEST_CASE("Emulated cuda.windows: right for every stride, border and tile") {
  checkAll(slidingCases(), codegen::cuda::windowsTemplate(), 6);
  const char *count = std::getenv("KFUSE_SEEDS");
  checkAll(randomSliding(count ? static_cast<size_t>(std::atoi(count)) : 6), codegen::cuda::windowsTemplate(), 2);
}

TEST_CASE("Emulated handover: every float arrives, any NaN among them, and zeros stay behind") {
  std::vector<float> given;
  for (unsigned bits : {0u, 0x80000000u, 0x3f800000u, 0x7f800000u, 0xffffffffu, 0x7fffffffu, 0x7fc00000u, 1u})
    given.push_back(std::bit_cast<float>(bits));
  const auto [out, between] = emulate("handOver", R"(#include <kfuse/handover.cuh>
using namespace kfuse;
extern "C" __global__ void handOver(const float *in, float *out, float *between) {
  for (int i = 0; i < 8; i += 4) {
    *reinterpret_cast<Vector<float, 4> *>(between + i) = {};
    Handover<4> coming;
    coming.look(between + i);
    const bool tooEarly = coming.isThere();
    Handover<4>::give(between + i, *reinterpret_cast<const Vector<float, 4> *>(in + i));
    coming.look(between + i);
    *reinterpret_cast<Vector<float, 4> *>(out + i) =
        coming.isThere() && !tooEarly ? coming.take(between + i) : Vector<float, 4>{-7, -7, -7, -7};
  }
}
)",
                                      given, 1);
  const std::vector<float> arrived = floatsOf(out);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (std::isnan(given[i]))
      CHECK(std::isnan(arrived[i]));
    else
      CHECK(std::bit_cast<unsigned>(arrived[i]) == std::bit_cast<unsigned>(given[i]));
  CHECK(between == reference::HostTensor::zeros(DType::F32, {8}));
}

TEST_CASE("Emulated gelu: the short forms are as exact as they say, and a NaN stays where it is") {
  // From -12 to 12, then pairs of a value and what must not reach it.
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> given;
  for (int i = 0; i < 4800; ++i)
    given.push_back(static_cast<float>(i - 2400) / 200);
  given.insert(given.end(),
               {nan, 1, 1, nan, -infinity, 1, 1, -infinity, infinity, 1, 1, infinity, -1e30F, 1, 1, -1e30F});
  const auto [first, second] = emulate("apply", R"(#include <kfuse/math.cuh>
using namespace kfuse;
extern "C" __global__ void apply(const float *in, float *narrowed, float *paired) {
  const int i = blockIdx.x * 2;
  const Vector<float, 2> y = geluTanh(Vector<float, 2>{in[i], in[i + 1]});
  for (int j = 0; j < 2; ++j)
    narrowed[i + j] = narrow::gelu(in[i + j]), paired[i + j] = y[j];
}
)",
                                       given, static_cast<uint32_t>(given.size() / 2));
  const std::vector<float> narrowed = floatsOf(first), paired = floatsOf(second);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double x = given[i];
    INFO("x = " << x << ", beside " << given[i ^ 1]);
    if (std::isnan(x)) {
      CHECK(std::isnan(narrowed[i]));
      CHECK(std::isnan(paired[i]));
    } else if (std::isinf(x) && x > 0) {
      CHECK(narrowed[i] == given[i]);
      CHECK(paired[i] == given[i]);
    } else {
      const double u = std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      const double normal = x < -40 ? 0 : x / 2 * std::erfc(-x / std::numbers::sqrt2),
                   tanh = x < -40 ? 0 : x / (1 + std::exp(-u));
      // Fitted down to -5; below, the value is less than 1.5e-6.
      CHECK(std::abs(narrowed[i] - normal) <= (x >= -5 ? std::exp2(-12.5) * std::abs(normal) : 1e-9));
      CHECK(std::abs(paired[i] - tanh) <= 4e-6 * std::max(std::abs(tanh), 1e-7));
    }
  }
}

TEST_CASE("Emulated cuda.rows: right for every split of rows over threads") {
  checkAll(rowCases(), codegen::cuda::rowsTemplate(), 4);
}

TEST_CASE("Emulated cuda.rows: right wherever rows are kept") {
  const codegen::KernelTemplate &rows = codegen::cuda::rowsTemplate();
  RegionCase given({"add_layer_norm_40x768_bf16", R"(
func.func @f(%a: tensor<40x768xbf16>, %b: tensor<40x768xbf16>, %c: tensor<768xbf16>, %d: tensor<768xbf16>) -> tensor<40x768xbf16> {
  %0 = kfuse.add %a, %b : (tensor<40x768xbf16>, tensor<40x768xbf16>) -> tensor<40x768xbf16>
  %r = "kfuse.layer_norm"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<40x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) -> tensor<40x768xbf16>
  return %r : tensor<40x768xbf16>
})"});
  ir::Target oneSm = hopper(); // So that a block of a stream takes several rows.
  oneSm.multiprocessors = 1;
  const std::vector<reference::HostTensor> inputs = given.inputs();
  Oracle oracle(given, inputs);
  const codegen::TileConfig config{{"threads", 128}, {"rows", 1}, {"vector", 4}, {"storage", 0}, {"cluster", 1}};
  for (int storage = 0; storage < 4; ++storage)
    check(given, inputs, oracle, rows, config.with("storage", storage), oneSm);
}

TEST_CASE("Emulated cuda.rows: right for tiles of short rows that begin anywhere") {
  for (const TemplateCase &source : shortRowCases()) {
    INFO(source.name);
    RegionCase given(source);
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (auto [threads, rows, rowsEach] : {std::tuple{8, 16, 1}, {32, 4, 4}, {16, 8, 2}, {4, 32, 3}})
      for (int storage : {0, 1})
        check(given, inputs, oracle, codegen::cuda::rowsTemplate(),
              {{"threads", threads},
               {"rows", rows},
               {"rows_each", rowsEach},
               {"vector", source.name.find("100_") != std::string::npos ? 2 : 1},
               {"storage", storage},
               {"cluster", 1}});
  }
}

TEST_CASE("Emulated cuda.rows: variances of rows far from zero, of rows of one value, and behind an outlier") {
  RegionCase given({"layer_norm_4x776_f32", R"(
func.func @f(%a: tensor<4x776xf32>) -> tensor<4x776xf32> {
  %r = "kfuse.layer_norm"(%a) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<4x776xf32>) -> tensor<4x776xf32>
  return %r : tensor<4x776xf32>
})"});
  std::vector<double> values = reference::toDoubles(given.inputs().front());
  for (int i = 0; i < 776; ++i) {
    values[i] += 30;
    values[776 + i] = 3;
  }
  values[2 * 776] = 1e4;
  values[3 * 776 + 775] = -1e4;
  const std::vector<reference::HostTensor> inputs{reference::tensorOf(DType::F32, {4, 776}, values)};
  Oracle oracle(given, inputs);
  const codegen::TileConfig config{{"threads", 128}, {"rows", 1}, {"vector", 4}, {"storage", 1}, {"cluster", 1}};
  for (int storage : {1, 3})
    check(given, inputs, oracle, codegen::cuda::rowsTemplate(), config.with("storage", storage));
  // Rows that meet at a barrier, or in a warp, and of which some need their second pass.
  for (auto [threads, rowsOfBlock] : {std::pair{32, 4}, {64, 2}, {8, 16}})
    for (int storage : {1, 2})
      check(given, inputs, oracle, codegen::cuda::rowsTemplate(),
            config.with("threads", threads).with("rows", rowsOfBlock).with("storage", storage));
}
