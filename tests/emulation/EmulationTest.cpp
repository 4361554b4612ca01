#include "codegen/cuda/Templates.h"
#include "tests/cuda/Oracle.h"
#include "tests/cuda/Schedules.h"
#include "tests/emulation/Emulator.h"

#include "llvm/ADT/STLExtras.h"
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>

using namespace kfuse;
using namespace kfuse::test;

namespace {

const ir::Target &hopper() { return *ir::findTarget("sm_90a"); }
/// A Hopper whose blocks take several tiles of a small product.
ir::Target hopperOf(int multiprocessors) {
  ir::Target target = hopper();
  target.multiprocessors = multiprocessors;
  return target;
}

/// A few configs spread over a template's space: the first, the last, and some between.
std::vector<codegen::TileConfig> sample(const std::vector<codegen::TileConfig> &all, std::size_t count) {
  std::vector<codegen::TileConfig> chosen;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i)
    chosen.push_back(all[i * (all.size() - 1) / std::max<std::size_t>(1, std::min(count, all.size()) - 1)]);
  return chosen;
}

void check(const RegionCase &given, const std::vector<reference::HostTensor> &inputs, Oracle &oracle,
           const codegen::KernelTemplate &kernel, const codegen::TileConfig &config,
           const ir::Target &target = hopper()) {
  INFO("config " << config.str());
  Result<codegen::KernelPlan> plan = kernel.emit(given.region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  Result<EmulatedKernel> emulated = EmulatedKernel::compile(*plan);
  REQUIRE_MESSAGE(emulated, emulated.error().message << "\n" << plan->source);
  std::vector<reference::HostTensor> before;
  for (Copies copies : {Copies::Early, Copies::Late}) {
    auto outputs = emulated->run(inputs, given.states(), copies);
    REQUIRE_MESSAGE(outputs, outputs.error().message << "\n" << plan->source);
    for (const reference::Verdict &verdict : oracle.judge(*outputs))
      CHECK_MESSAGE(verdict.right, verdict.message << "\n" << plan->source);
    CHECK_MESSAGE((before.empty() || before == *outputs), "another order of threads gives other bits");
    before = std::move(*outputs);
  }
}

void checkAll(const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &kernel, std::size_t configs) {
  const char *only = std::getenv("KFUSE_CASE");
  for (const TemplateCase &source : cases) {
    if (only && source.name != only)
      continue;
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = kernel.match(given.region, hopper());
    REQUIRE_MESSAGE(decision, decision.reason());
    std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    std::vector<codegen::TileConfig> chosen = sample(kernel.candidates(given.region, hopper()), configs);
    if (chosen.empty())
      chosen = sample(kernel.candidates(given.region, *ir::findTarget("sm_80")), configs);
    REQUIRE_FALSE(chosen.empty());
    for (const codegen::TileConfig &config : chosen)
      check(given, inputs, oracle, kernel, config);
  }
}

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

TEST_CASE("Emulated cuda.windows: right for every stride, border and tile") {
  checkAll(slidingCases(), codegen::cuda::windowsTemplate(), 6);
  const char *count = std::getenv("KFUSE_SEEDS");
  checkAll(randomSliding(count ? static_cast<size_t>(std::atoi(count)) : 6), codegen::cuda::windowsTemplate(), 2);
}

TEST_CASE("Emulated cuda.decode_attention: right for every layout, mask and split of the keys") {
  checkAll(decodeCases(), codegen::cuda::decodeAttentionTemplate(), 3);
}

TEST_CASE("Emulated cuda.decode_attention: right for norms of heads of every size, and into caches") {
  checkAll(decodeNormCases(), codegen::cuda::decodeAttentionTemplate(), 2);
}

TEST_CASE("Emulated cuda.decode_attention: right where all but the product before is loaded ahead of the wait") {
  RegionCase given(decodeCases()[4]);
  given.region.isFixed.assign(given.region.isFixed.size(), true);
  given.region.isFixed[0] = false;
  const std::vector<reference::HostTensor> inputs = given.inputs();
  Oracle oracle(given, inputs);
  const codegen::TileConfig config{{"warps", 4}, {"keys", 16}, {"stages", 2}, {"splits", 2}};
  for (int splits : {1, 2, 24}) // More splits than are held at once, some of them without keys.
    check(given, inputs, oracle, codegen::cuda::decodeAttentionTemplate(), config.with("splits", splits));
}

TEST_CASE("Emulated cuda.flash_attention: right for every layout, mask and tile") {
  checkAll(flashCases(), codegen::cuda::flashAttentionTemplate(), 2);
}

TEST_CASE("Emulated cuda.flash_attention: right against a cache, from positions that are read on") {
  checkAll(cacheCases(), codegen::cuda::flashAttentionTemplate(), 4);
}

TEST_CASE("Emulated cuda.flash_attention: right for every split of a cache's keys, and for new rows that it writes") {
  const CacheSketch sketches[] = {
      {.batch = 3, .heads = 6, .keyHeads = 2, .rows = 9, .keys = 401, .size = 32, .writes = true, .step = 71},
      {.type = "f16", .batch = 2, .heads = 2, .keyHeads = 2, .rows = 30, .keys = 390, .size = 48, .step = 61},
      {.batch = 3, .heads = 4, .keyHeads = 2, .rows = 5, .keys = 400, .size = 64, .isLength = true, .step = 60}};
  for (const CacheSketch &sketch : sketches) {
    RegionCase given(cacheCase(sketch));
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (int splits : {1, 3})
      for (auto [rows, warps] : {std::pair{16, 1}, {64, 4}})
        for (int stages : {2, 3}) {
          codegen::TileConfig config{
              {"rows", rows}, {"warps", warps}, {"keys", stages == 3 ? 16 : 32}, {"stages", stages}};
          if (splits > 1)
            config = std::move(config).with("splits", splits);
          if (sketch.heads > sketch.keyHeads)
            config = std::move(config).with("packed", 1);
          check(given, inputs, oracle, codegen::cuda::flashAttentionTemplate(), config);
        }
  }
}

TEST_CASE("Emulated cuda.flash_attention: right for every number of warps and stages") {
  RegionCase given(flashCase({.batch = 1,
                              .heads = 1,
                              .keyHeads = 1,
                              .rows = 150,
                              .keys = 171,
                              .keySize = 32,
                              .valueSize = 32,
                              .mask = "causal"}));
  const std::vector<reference::HostTensor> inputs = given.inputs();
  Oracle oracle(given, inputs);
  for (auto [rows, warps] : {std::pair{256, 8}, {128, 4}, {64, 4}, {64, 2}, {32, 1}, {16, 1}})
    for (int stages : {2, 3, 4})
      check(given, inputs, oracle, codegen::cuda::flashAttentionTemplate(),
            {{"rows", rows}, {"warps", warps}, {"keys", stages == 3 ? 16 : 32}, {"stages", stages}});
}

TEST_CASE("Emulated cuda.flash_attention: right without tensor cores for every number of warps and keys") {
  RegionCase given(flashCase(
      {.type = "f32", .batch = 1, .rows = 150, .keys = 139, .keySize = 24, .valueSize = 44, .mask = "window"}));
  const std::vector<reference::HostTensor> inputs = given.inputs();
  Oracle oracle(given, inputs);
  for (auto [rows, warps] : {std::pair{128, 4}, {64, 4}, {64, 2}, {32, 2}, {32, 1}, {16, 1}})
    for (int keys : {16, 32, 64})
      check(given, inputs, oracle, codegen::cuda::flashAttentionTemplate(),
            {{"rows", rows}, {"warps", warps}, {"keys", keys}, {"stages", 1}, {"scalar", 1}});
}

TEST_CASE("Emulated cuda.flash_attention: right for the rows of a group's heads as those of one head") {
  const FlashSketch sketches[] = {{.heads = 6,
                                   .keyHeads = 2,
                                   .rows = 7,
                                   .keys = 45,
                                   .keySize = 32,
                                   .valueSize = 40,
                                   .mask = "causal",
                                   .offset = "30"},
                                  {.batch = 1,
                                   .heads = 8,
                                   .keyHeads = 1,
                                   .rows = 21,
                                   .keys = 70,
                                   .keySize = 64,
                                   .mask = "window",
                                   .offset = "49",
                                   .tokensFirst = true},
                                  {.heads = 4,
                                   .keyHeads = 1,
                                   .rows = 13,
                                   .keys = 33,
                                   .keySize = 32,
                                   .valueSize = 32,
                                   .mask = "added",
                                   .isGuarded = true},
                                  {.type = "f32",
                                   .heads = 6,
                                   .keyHeads = 2,
                                   .rows = 9,
                                   .keys = 50,
                                   .keySize = 20,
                                   .valueSize = 12,
                                   .mask = "chunked",
                                   .tokensFirst = true}};
  for (const FlashSketch &sketch : sketches) {
    RegionCase given(flashCase(sketch));
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    const bool isScalar = sketch.type == "f32";
    for (auto [rows, warps] : {std::pair{16, 1}, {32, 1}, {64, 4}, {128, 4}})
      for (int keys : {16, 32})
        check(given, inputs, oracle, codegen::cuda::flashAttentionTemplate(),
              {{"rows", rows},
               {"warps", warps},
               {"keys", keys},
               {"stages", isScalar ? 1 : 2},
               {"scalar", isScalar},
               {"packed", 1}});
  }
}

TEST_CASE("Emulated cuda.flash_attention: right for every number of warpgroups and stages, in turns and not") {
  // Warpgroups without rows, that do not see the last tiles of keys, and that do not see the first ones.
  const FlashSketch sketches[] = {
      {.batch = 1, .rows = 230, .keys = 211, .keySize = 72, .valueSize = 40, .mask = "causal", .offset = "-7"},
      {.type = "f16", .batch = 1, .rows = 200, .keys = 230, .keySize = 32, .valueSize = 32, .mask = "window"},
      {.batch = 1, .rows = 210, .keys = 205, .keySize = 32, .valueSize = 32, .mask = "chunked"}};
  for (const FlashSketch &sketch : sketches) {
    RegionCase given(flashCase(sketch));
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (int warps : {8, 12})
      for (int turns : {0, 1})
        check(given, inputs, oracle, codegen::cuda::flashAttentionTemplate(),
              {{"rows", warps * 16},
               {"warps", warps},
               {"keys", turns ? 32 : 80},
               {"stages", turns ? 3 : 2},
               {"turns", turns},
               {"persistent", turns},
               {"resident", warps == 8 && !turns ? 2 : 1},
               {"wgmma", 1}},
              hopperOf(3)); // Four tiles of rows or more.
  }
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

TEST_CASE("Emulated cuda.matmul_sm80: right for every layout, edge and split") {
  checkAll(matmulCases("bf16"), codegen::cuda::matmulSm80Template(), 3);
  checkAll({matmulCases("f16")[6]}, codegen::cuda::matmulSm80Template(), 1);
}

TEST_CASE("Emulated cuda.matmul_sm80: right for 8-bit floats with scales, for tf32, and for two products at once") {
  checkAll(scaledMatmulCases(), codegen::cuda::matmulSm80Template(), 2);
  for (const char *type : {"bf16", "f8E4M3FN"})
    checkAll(gatedCases(type), codegen::cuda::matmulSm80Template(), 2);
  checkAll({tf32Cases()[0], tf32Cases()[1]}, codegen::cuda::matmulSm80Template(), 3);
}

TEST_CASE("Emulated cuda.matmul_sm80: right for operands that are read window by window") {
  checkAll(windowCases("bf16"), codegen::cuda::matmulSm80Template(), 3);
  checkAll({windowCases("f16")[0], windowCases("f16")[2]}, codegen::cuda::matmulSm80Template(), 1);
}

TEST_CASE("Emulated cuda.matmul_simt: right for operands that are read window by window") {
  checkAll({windowCases("f32")[0], windowCases("f32")[1]}, codegen::cuda::matmulSimtTemplate(), 1);
}

TEST_CASE("Emulated cuda.matmul_simt: right in f32 and with computed operands") {
  checkAll(matmulCases("f32"), codegen::cuda::matmulSimtTemplate(), 2);
  checkAll({matmulCases("bf16")[4]}, codegen::cuda::matmulSimtTemplate(), 1);
  checkAll(computedOperandCases(), codegen::cuda::matmulSimtTemplate(), 2);
}

TEST_CASE("Emulated cuda.matmul_stream: right for every type, edge and split of K, and for two products at once") {
  for (const char *type : {"bf16", "f16", "f8E4M3FN"})
    checkAll(streamedCases(type), codegen::cuda::matmulStreamTemplate(), 4);
}

TEST_CASE("Emulated cuda.matmul_low_bits: right for every type of weights, groups, zeros, edges and split of K") {
  for (const char *type : {"bf16", "f16"})
    checkAll(lowBitCases(type), codegen::cuda::matmulLowBitsTemplate(), 4);
}

TEST_CASE("Emulated products of few rows: right for rows that come in segments") {
  for (const char *type : {"bf16", "f16"}) {
    checkAll({pieceRowCases(type)[0]}, codegen::cuda::gemvTemplate(), 4);
    checkAll(pieceRowCases(type), codegen::cuda::matmulStreamTemplate(), 4);
  }
}

TEST_CASE("Emulated cuda.gemv: right for norms of few rows") {
  for (const char *type : {"bf16", "f16", "f32"})
    checkAll(normedRowCases(type), codegen::cuda::gemvTemplate(), 3);
}

TEST_CASE("Emulated cuda.gemv: right in every type for few rows") {
  for (const char *type : {"bf16", "f16", "f32"})
    checkAll({fewRowCases(type)[0], fewRowCases(type)[1]}, codegen::cuda::gemvTemplate(), 3);
  checkAll({scaledMatmulCases()[6], scaledMatmulCases()[7]}, codegen::cuda::gemvTemplate(), 3);
  for (const char *type : {"bf16", "f32", "f8E4M3FN"})
    checkAll({gatedCases(type)[3]}, codegen::cuda::gemvTemplate(), 3);
}

TEST_CASE("Emulated Hopper: one config of every schedule is right") {
  const char *only = std::getenv("KFUSE_CASE");
  for (const Schedule &schedule : schedules(/*withHopper=*/true)) {
    const bool hasManyTiles =
        llvm::any_of(schedule.fields, [](const auto &field) { return field.first == "segments"; });
    if (hasManyTiles || (only && schedule.name != only)) // Below, with fewer of them.
      continue;
    INFO(schedule.name);
    RegionCase given(schedule.region);
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    check(given, inputs, oracle, schedule.source, schedule.config(given.region, hopper()), hopperOf(4));
  }
}

TEST_CASE("Emulated Hopper: last waves are shared right in clusters of every shape") {
  const codegen::KernelTemplate &persistent = codegen::cuda::matmulSm90Template();
  const codegen::TileConfig large{{"cluster_m", 1}, {"cluster_n", 1}, {"k", 64},       {"m", 128},
                                  {"n", 64},        {"segments", 1},  {"pingpong", 1}, {"swizzle", 1},
                                  {"swizzle_n", 0}, {"split_k", 1},   {"stages", 4}},
      small = large.with("m", 64);
  for (auto [name, tile] : {std::pair{"bias_residual_tb_bf16", large}, {"plain_tb_bf16", small}}) {
    const std::vector<TemplateCase> cases = pairwiseProducts(600, 300, 1040);
    RegionCase given(*llvm::find_if(cases, [&](const TemplateCase &one) { return one.name == name; }));
    INFO(name);
    const std::vector<reference::HostTensor> inputs = given.inputs();
    Oracle oracle(given, inputs);
    for (auto [clusterM, clusterN] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      for (int segments : {1, 3}) {
        const codegen::TileConfig config =
            tile.with("cluster_m", clusterM).with("cluster_n", clusterN).with("segments", segments);
        ir::Target target = hopperOf(14);
        auto isStreamK = [&] { // There are flags.
          Result<codegen::KernelPlan> plan = persistent.emit(given.region, config, target);
          REQUIRE_MESSAGE(plan, plan.error().message);
          return plan->zeroedBytes > 0;
        };
        while (target.multiprocessors > 4 && !isStreamK())
          --target.multiprocessors;
        REQUIRE_MESSAGE(isStreamK(), config.str());
        check(given, inputs, oracle, persistent, config, target);
      }
  }
}

TEST_CASE(
    "Emulated Hopper: every pair of a type, a layout and an epilogue is right, in persistent and in split tiles") {
  for (const codegen::KernelTemplate *variant :
       {&codegen::cuda::matmulSm90Template(), &codegen::cuda::matmulSm90SplitTemplate()})
    checkAll(pairwiseProducts(152, 144, 528), *variant, 2);
}

TEST_CASE("Emulated Hopper: random chains are right") {
  for (unsigned seed = 1; seed <= 6; ++seed)
    checkAll({randomChain(seed)}, codegen::cuda::chainTemplate(), 2);
}
