// Emitted CUDA through NVRTC: configs from all over every template's space, for three architectures.
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/matmul/MatmulProblem.h"
#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/Device.h"
#include "tests/Skip.h"
#include "tests/cuda/TemplateCases.h"
#include "tests/unit/TemporaryFolder.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Regions at sizes where every kind of config is offered.
std::vector<TemplateCase> representatives() {
  return {
      {"pointwise", R"(
func.func @f(%a: tensor<4096x4096xbf16>, %b: tensor<4096xbf16>, %c: tensor<4096x4096xf32>) -> tensor<4096x4096xbf16> {
  %0 = kfuse.add %a, %b : (tensor<4096x4096xbf16>, tensor<4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = kfuse.gelu %0 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = kfuse.cast %c : (tensor<4096x4096xf32>) -> tensor<4096x4096xbf16>
  %3 = kfuse.mul %1, %2 : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %3 : tensor<4096x4096xbf16>
})"},
      {"softmax", R"(
func.func @f(%a: tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16> {
  %0 = kfuse.softmax %a : (tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  return %0 : tensor<8192x4096xbf16>
})"},
      {"short_softmax", R"(
func.func @f(%a: tensor<684784x49xbf16>) -> tensor<684784x49xbf16> {
  %0 = kfuse.softmax %a : (tensor<684784x49xbf16>) -> tensor<684784x49xbf16>
  return %0 : tensor<684784x49xbf16>
})"},
      {"long_softmax", R"(
func.func @f(%a: tensor<2048x131072xbf16>) -> tensor<2048x131072xbf16> {
  %0 = kfuse.softmax %a : (tensor<2048x131072xbf16>) -> tensor<2048x131072xbf16>
  return %0 : tensor<2048x131072xbf16>
})"},
      {"transposes_of_two_widths", R"(
func.func @f(%a: tensor<4096x4096xf32>, %b: tensor<4096x4096xbf16>) -> tensor<4096x4096xf32> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %1 = kfuse.transpose %b {permutation = array<i64: 1, 0>} : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = kfuse.cast %1 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
  %3 = kfuse.add %0, %2 : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %3 : tensor<4096x4096xf32>
})"},
      {"transpose_gelu", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %b : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.gelu %1 : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %2 : tensor<8192x8192xbf16>
})"},
      {"decode_attention", R"(
func.func @f(%q: tensor<16x8x4x128xbf16>, %k: tensor<16x8x4096x128xbf16>, %v: tensor<16x8x4096x128xbf16>) -> tensor<16x8x4x128xbf16> {
  %r = kfuse.attention %q, %k, %v : (tensor<16x8x4x128xbf16>, tensor<16x8x4096x128xbf16>, tensor<16x8x4096x128xbf16>) -> tensor<16x8x4x128xbf16> {
  ^bb0(%a: tensor<16x8x4x128xbf16>, %b: tensor<16x8x4096x128xbf16>, %c: tensor<16x8x4096x128xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<16x8x4x128xbf16>, tensor<16x8x4096x128xbf16>) -> tensor<16x8x4x4096xbf16>
    %1 = kfuse.softmax %0 : (tensor<16x8x4x4096xbf16>) -> tensor<16x8x4x4096xbf16>
    %2 = kfuse.matmul %1, %c : (tensor<16x8x4x4096xbf16>, tensor<16x8x4096x128xbf16>) -> tensor<16x8x4x128xbf16>
    kfuse.yield %2 : tensor<16x8x4x128xbf16>
  }
  return %r : tensor<16x8x4x128xbf16>
})"},
      flashCase({.batch = 1,
                 .heads = 32,
                 .keyHeads = 8,
                 .rows = 4096,
                 .keys = 4096,
                 .keySize = 128,
                 .valueSize = 128,
                 .mask = "causal"}),
      flashCase({.batch = 16, .heads = 16, .keyHeads = 16, .rows = 500, .keys = 500, .mask = "added"}),
      cacheCase({.batch = 8, .heads = 32, .keyHeads = 8, .rows = 8, .keys = 4096, .size = 128, .writes = true}),
      cacheCase({.heads = 32, .keyHeads = 8, .rows = 512, .keys = 8192, .size = 128, .window = 4096}),
      {"decode_into_cache", R"(
func.func @f(%x: tensor<6144xbf16>, %k: tensor<8x4096x128xbf16> {kfuse.role = "state"}, %v: tensor<8x4096x128xbf16> {kfuse.role = "state"}, %p: tensor<1xi64> {kfuse.role = "input"}, %cos: tensor<4096x64xbf16>, %sin: tensor<4096x64xbf16>) -> (tensor<8x4096x128xbf16>, tensor<8x4096x128xbf16>, tensor<8x4x128xbf16>) {
  %c0 = kfuse.gather %cos, %p {axis = 0 : i64} : (tensor<4096x64xbf16>, tensor<1xi64>) -> tensor<1x64xbf16>
  %s0 = kfuse.gather %sin, %p {axis = 0 : i64} : (tensor<4096x64xbf16>, tensor<1xi64>) -> tensor<1x64xbf16>
  %q0 = kfuse.slice %x {offsets = array<i64: 0>, strides = array<i64: 1>} : (tensor<6144xbf16>) -> tensor<4096xbf16>
  %q1 = kfuse.reshape %q0 : (tensor<4096xbf16>) -> tensor<8x4x128xbf16>
  %q2 = kfuse.rotary %q1, %c0, %s0 : (tensor<8x4x128xbf16>, tensor<1x64xbf16>, tensor<1x64xbf16>) -> tensor<8x4x128xbf16>
  %k0 = kfuse.slice %x {offsets = array<i64: 4096>, strides = array<i64: 1>} : (tensor<6144xbf16>) -> tensor<1024xbf16>
  %k1 = kfuse.reshape %k0 : (tensor<1024xbf16>) -> tensor<8x1x128xbf16>
  %k2 = kfuse.rotary %k1, %c0, %s0 : (tensor<8x1x128xbf16>, tensor<1x64xbf16>, tensor<1x64xbf16>) -> tensor<8x1x128xbf16>
  %k3 = kfuse.state_update %k, %k2, %p {axis = 1 : i64} : (tensor<8x4096x128xbf16>, tensor<8x1x128xbf16>, tensor<1xi64>) -> tensor<8x4096x128xbf16>
  %v0 = kfuse.slice %x {offsets = array<i64: 5120>, strides = array<i64: 1>} : (tensor<6144xbf16>) -> tensor<1024xbf16>
  %v1 = kfuse.reshape %v0 : (tensor<1024xbf16>) -> tensor<8x1x128xbf16>
  %v2 = kfuse.state_update %v, %v1, %p {axis = 1 : i64} : (tensor<8x4096x128xbf16>, tensor<8x1x128xbf16>, tensor<1xi64>) -> tensor<8x4096x128xbf16>
  %r = kfuse.attention %q2, %k3, %v2, %p : (tensor<8x4x128xbf16>, tensor<8x4096x128xbf16>, tensor<8x4096x128xbf16>, tensor<1xi64>) -> tensor<8x4x128xbf16> {
  ^bb0(%a: tensor<8x4x128xbf16>, %b: tensor<8x4096x128xbf16>, %c: tensor<8x4096x128xbf16>, %d: tensor<1xi64>):
    %0 = kfuse.iota {dim = 0 : i64} : tensor<4096xi64>
    %1 = kfuse.le %0, %d : (tensor<4096xi64>, tensor<1xi64>) -> tensor<4096xi1>
    %2 = kfuse.matmul %a, %b {transpose_b} : (tensor<8x4x128xbf16>, tensor<8x4096x128xbf16>) -> tensor<8x4x4096xbf16>
    %3 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %4 = kfuse.where %1, %2, %3 : (tensor<4096xi1>, tensor<8x4x4096xbf16>, tensor<bf16>) -> tensor<8x4x4096xbf16>
    %5 = kfuse.softmax %4 : (tensor<8x4x4096xbf16>) -> tensor<8x4x4096xbf16>
    %6 = kfuse.matmul %5, %c : (tensor<8x4x4096xbf16>, tensor<8x4096x128xbf16>) -> tensor<8x4x128xbf16>
    kfuse.yield %6 : tensor<8x4x128xbf16>
  }
  return %k3, %v2, %r : tensor<8x4096x128xbf16>, tensor<8x4096x128xbf16>, tensor<8x4x128xbf16>
})"},
      largeSlidingCases()[0],
      largeSlidingCases()[1],
      {"column_sum", R"(
func.func @f(%a: tensor<16384x4096xf32>) -> tensor<4096xf32> {
  %0 = kfuse.reduce %a {function = "sum", axes = array<i64: 0>} : (tensor<16384x4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
})"},
      {"add_layer_norm", R"(
func.func @f(%a: tensor<8192x1000xf32>, %b: tensor<8192x1000xf32>, %c: tensor<1000xf32>, %d: tensor<1000xf32>) -> (tensor<8192x1000xf32>, tensor<8192x1000xf32>) {
  %0 = kfuse.add %a, %b : (tensor<8192x1000xf32>, tensor<8192x1000xf32>) -> tensor<8192x1000xf32>
  %1 = "kfuse.layer_norm"(%0, %c, %d) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<8192x1000xf32>, tensor<1000xf32>, tensor<1000xf32>) -> tensor<8192x1000xf32>
  return %0, %1 : tensor<8192x1000xf32>, tensor<8192x1000xf32>
})"},
      {"matmul_bias_gelu_residual", R"(
func.func @f(%a: tensor<2048x1024xbf16>, %b: tensor<4096x1024xbf16>, %c: tensor<4096xbf16>, %d: tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2048x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<2048x4096xbf16>
  %1 = kfuse.add %0, %c : (tensor<2048x4096xbf16>, tensor<4096xbf16>) -> tensor<2048x4096xbf16>
  %2 = kfuse.gelu %1 : (tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
  %3 = kfuse.add %2, %d : (tensor<2048x4096xbf16>, tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
  return %3 : tensor<2048x4096xbf16>
})"},
      {"odd_matmul", R"(
func.func @f(%a: tensor<3x127x1025xf16>, %b: tensor<3x1025x513xf16>) -> tensor<3x127x513xf16> {
  %0 = kfuse.matmul %a, %b : (tensor<3x127x1025xf16>, tensor<3x1025x513xf16>) -> tensor<3x127x513xf16>
  return %0 : tensor<3x127x513xf16>
})"},
      {"skinny_matmul", R"(
func.func @f(%a: tensor<1x4096xbf16>, %b: tensor<4096x4096xbf16>) -> tensor<1x4096xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<1x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x4096xbf16>
  return %0 : tensor<1x4096xbf16>
})"},
      {"f32_matmul", R"(
func.func @f(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = kfuse.matmul %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %0 : tensor<1024x1024xf32>
})"},
  };
}

/// Products that fill Hopper, with the epilogues that hold most registers, in both layouts.
std::vector<TemplateCase> hopperCases() {
  return {{"bias_gelu_residual", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>, %d: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.gelu %1 : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %3 = kfuse.add %2, %d : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %3 : tensor<8192x8192xbf16>
})"},
          {"bias_residual_through_tma", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>, %d: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.add %1, %d : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %2 : tensor<8192x8192xbf16>
})"},
          {"bias_relu_through_tma", R"(
func.func @f(%a: tensor<8192x8192xbf16>, %b: tensor<8192x8192xbf16>, %c: tensor<8192xbf16>) -> tensor<8192x8192xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = kfuse.add %0, %c : (tensor<8192x8192xbf16>, tensor<8192xbf16>) -> tensor<8192x8192xbf16>
  %2 = kfuse.relu %1 : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %2 : tensor<8192x8192xbf16>
})"},
          {"causal_scores", R"(
func.func @f(%a: tensor<8x4096x128xbf16>, %b: tensor<8x4096x128xbf16>) -> tensor<8x4096x4096xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<8x4096x128xbf16>, tensor<8x4096x128xbf16>) -> tensor<8x4096x4096xbf16>
  %1 = kfuse.iota {dim = 1 : i64} : tensor<1x4096xi32>
  %2 = kfuse.iota {dim = 0 : i64} : tensor<4096x1xi32>
  %3 = kfuse.le %1, %2 : (tensor<1x4096xi32>, tensor<4096x1xi32>) -> tensor<4096x4096xi1>
  %4 = kfuse.constant dense<0xFF80> : tensor<bf16>
  %5 = kfuse.where %3, %0, %4 : (tensor<4096x4096xi1>, tensor<8x4096x4096xbf16>, tensor<bf16>) -> tensor<8x4096x4096xbf16>
  return %5 : tensor<8x4096x4096xbf16>
})"},
          {"odd_both_transposed", R"(
func.func @f(%a: tensor<1000x1000xf16>, %b: tensor<1000x2008xf16>) -> tensor<1000x2008xf32> {
  %0 = kfuse.matmul %a, %b {transpose_a} : (tensor<1000x1000xf16>, tensor<1000x2008xf16>) -> tensor<1000x2008xf16>
  %1 = kfuse.cast %0 : (tensor<1000x2008xf16>) -> tensor<1000x2008xf32>
  return %1 : tensor<1000x2008xf32>
})"}};
}

/// Products whose rows a cluster holds, with the most values of a row beside the sums.
std::vector<TemplateCase> wholeRowCases() {
  return {{"bias_layer_norm_relu", R"(
func.func @f(%a: tensor<32768x1024xbf16>, %b: tensor<1024x1024xbf16>, %c: tensor<1024xbf16>, %d: tensor<1024xbf16>, %e: tensor<1024xbf16>) -> tensor<32768x1024xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %1 = kfuse.add %0, %c : (tensor<32768x1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %2 = "kfuse.layer_norm"(%1, %d, %e) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<32768x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %3 = kfuse.relu %2 : (tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  return %3 : tensor<32768x1024xbf16>
})"},
          largeRowProductCases("f16").back(),
          rowProductCases("bf16").back()};
}

/// Products that do not fill Hopper.
std::vector<TemplateCase> fewTileCases() {
  return {{"bias_residual_16_rows", R"(
func.func @f(%a: tensor<16x4096xbf16>, %b: tensor<4096x4096xbf16>, %c: tensor<4096xbf16>, %d: tensor<16x4096xbf16>) -> tensor<16x4096xbf16> {
  %0 = kfuse.matmul %a, %b : (tensor<16x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<16x4096xbf16>
  %1 = kfuse.add %0, %c : (tensor<16x4096xbf16>, tensor<4096xbf16>) -> tensor<16x4096xbf16>
  %2 = kfuse.add %1, %d : (tensor<16x4096xbf16>, tensor<16x4096xbf16>) -> tensor<16x4096xbf16>
  return %2 : tensor<16x4096xbf16>
})"},
          {"few_tiles", R"(
func.func @f(%a: tensor<250x1024xf16>, %b: tensor<1000x1024xf16>) -> tensor<250x1000xf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<250x1024xf16>, tensor<1000x1024xf16>) -> tensor<250x1000xf16>
  return %0 : tensor<250x1000xf16>
})"},
          {"deep_in_k", R"(
func.func @f(%a: tensor<556x8192xbf16>, %b: tensor<2048x8192xbf16>) -> tensor<556x2048xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<556x8192xbf16>, tensor<2048x8192xbf16>) -> tensor<556x2048xbf16>
  return %0 : tensor<556x2048xbf16>
})"},
          {"shared_rows", R"(
func.func @f(%a: tensor<320x1024xbf16>, %b: tensor<2048x1024xbf16>, %c: tensor<2048xbf16>) -> tensor<320x2048xbf16> {
  %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<320x1024xbf16>, tensor<2048x1024xbf16>) -> tensor<320x2048xbf16>
  %1 = kfuse.add %0, %c : (tensor<320x2048xbf16>, tensor<2048xbf16>) -> tensor<320x2048xbf16>
  %2 = kfuse.relu %1 : (tensor<320x2048xbf16>) -> tensor<320x2048xbf16>
  return %2 : tensor<320x2048xbf16>
})"}};
}

codegen::KernelPlan planOf(const codegen::KernelTemplate &source, const codegen::Region &region,
                           const codegen::TileConfig &config, const ir::Target &target, const std::string &name) {
  Result<codegen::KernelPlan> plan = source.emit(region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  plan->name = name + " " + config.str();
  return std::move(*plan);
}

bool isExhaustive() { return std::getenv("KFUSE_ALL_CONFIGS") != nullptr; }

/// Plans of `count` configs spread over the ranked space of the template that takes the region; of all
/// configs where KFUSE_ALL_CONFIGS is set.
std::vector<codegen::KernelPlan> plans(const codegen::Region &region, const ir::Target &target, std::size_t count) {
  for (const codegen::KernelTemplate *source : codegen::cuda::templates()) {
    if (!source->match(region, target))
      continue;
    std::vector<codegen::TileConfig> configs = source->candidates(region, target);
    REQUIRE(!configs.empty());
    count = isExhaustive() ? configs.size() : std::min(count, configs.size());
    std::vector<codegen::KernelPlan> plans;
    for (std::size_t i = 0; i < count; ++i)
      plans.push_back(planOf(*source, region, configs[i * (configs.size() - 1) / std::max<std::size_t>(1, count - 1)],
                             target, region.name));
    return plans;
  }
  FAIL("no template takes the region");
  return {};
}

/// Null where there is no NVRTC, which the test says.
std::unique_ptr<runtime::KernelCompiler> compilerHere() {
  auto compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  if (compiler)
    return std::move(*compiler);
  kfuse::testing::skip(compiler.error().message);
  return nullptr;
}

/// The search refuses what spills (tests/unit/SearchTest.cpp), so that most kernels may.
enum class Spills { None, Allowed };

/// Compiles all plans on all cores; every one has to compile. How many of them spill.
std::size_t compileAll(const std::vector<codegen::KernelPlan> &all, runtime::KernelCompiler &compiler,
                       Spills spills = Spills::None) {
  std::vector<Result<runtime::CompiledKernel>> kernels(all.size(), Error{});
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < all.size(); i = next++)
        kernels[i] = compiler.compile(all[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::size_t spilled = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name << " on " << all[i].target);
    REQUIRE_MESSAGE(kernels[i], kernels[i].error().message);
    INFO(kernels[i]->log);
    CHECK((spills == Spills::Allowed || kernels[i]->facts.spillBytes == 0));
    spilled += kernels[i]->facts.spillBytes > 0 ? 1 : 0;
    CHECK(kernels[i]->log.find("serialized") ==
          std::string::npos);                                // Products that wait for each other: half the speed.
    CHECK(kernels[i]->facts.staticSharedBytes <= 48 * 1024); // More has to be asked for at the launch.
    CHECK(kernels[i]->facts.registers * static_cast<int>(all[i].launches[0].block[0]) <= 65536);
  }
  return spilled;
}

/// Each two fields of a config with their values: "k=64,m=128".
std::vector<std::string> pairsOf(const codegen::TileConfig &config) {
  std::vector<std::string> fields, pairs;
  std::istringstream text(config.str());
  for (std::string field; std::getline(text, field, ',');)
    fields.push_back(field);
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      pairs.push_back(fields[j] + "," + fields[i]);
  return pairs;
}

/// So many of the configs that any two values of two fields that are together in one of them are in one that is left.
/// The ctest takes these, the target `exhaustive` (KFUSE_ALL_CONFIGS) all.
std::vector<codegen::TileConfig> pairwise(std::vector<codegen::TileConfig> all) {
  if (isExhaustive())
    return all;
  std::vector<std::vector<std::string>> pairs;
  std::set<std::string> open;
  for (const codegen::TileConfig &config : all) {
    pairs.push_back(pairsOf(config));
    open.insert(pairs.back().begin(), pairs.back().end());
  }
  std::vector<codegen::TileConfig> chosen;
  while (!open.empty()) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (const auto count = static_cast<std::size_t>(
              std::ranges::count_if(pairs[i], [&](const std::string &pair) { return open.contains(pair); }));
          count > most)
        best = i, most = count;
    chosen.push_back(all[best]);
    for (const std::string &pair : pairs[best])
      open.erase(pair);
  }
  return chosen;
}

/// The configs that a template offers for a region, pairwise.
std::vector<codegen::KernelPlan> everyPair(const codegen::KernelTemplate &source, const TemplateCase &given) {
  const ir::Target &target = *ir::findTarget("sm_90a");
  RegionCase region(given);
  std::vector<codegen::KernelPlan> plans;
  for (const codegen::TileConfig &config : pairwise(source.candidates(region.region, target)))
    plans.push_back(planOf(source, region.region, config, target, given.name));
  return plans;
}

/// All configs of a variant's space for a product, those that it does not offer included.
std::vector<codegen::EstimatedConfig> spaceOf(const codegen::cuda::MatmulVariant &variant,
                                              const codegen::Region &region, const ir::Target &target) {
  ir::FusionDecision decision = variant.match(region, target);
  REQUIRE_MESSAGE(decision, decision.reason());
  return variant.space(region, *codegen::cuda::MatmulProblem::of(region), target);
}

/// All configs that differ in the order of their tiles alone are one.
codegen::TileConfig withoutOrder(const codegen::TileConfig &config) {
  return config.has("swizzle") ? config.with("swizzle", 1).with("swizzle_n", 0) : config;
}

/// The configs of a variant's space for several products, pairwise, the product being one more field; but for the order
/// of its tiles, which is two numbers of the same text.
std::vector<codegen::KernelPlan> everySchedule(const codegen::cuda::MatmulVariant &variant,
                                               const std::vector<TemplateCase> &products,
                                               const char *target = "sm_90a") {
  const ir::Target &on = *ir::findTarget(target);
  std::vector<codegen::TileConfig> configs;
  std::map<codegen::TileConfig, codegen::TileConfig> inSpace;
  for (std::size_t i = 0; i < products.size(); ++i) {
    INFO(products[i].name);
    const RegionCase given(products[i]);
    for (const auto &[us, config] : spaceOf(variant, given.region, on)) {
      const codegen::TileConfig one = withoutOrder(config).with("product", static_cast<std::int64_t>(i));
      if (inSpace.emplace(one, config).second)
        configs.push_back(one);
    }
  }
  configs = pairwise(std::move(configs));
  std::vector<codegen::KernelPlan> plans;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const RegionCase given(products[i]);
    for (const codegen::TileConfig &config : configs)
      if (config["product"] == static_cast<std::int64_t>(i))
        plans.push_back(planOf(variant, given.region, inSpace.at(config), on, products[i].name));
  }
  return plans;
}

/// The configs that a search tries first, but for the order of their tiles.
std::vector<codegen::KernelPlan> firstChoices(const codegen::KernelTemplate &source, const TemplateCase &given,
                                              std::size_t count) {
  const ir::Target &target = *ir::findTarget("sm_90a");
  const RegionCase region(given);
  INFO(given.name);
  std::vector<codegen::EstimatedConfig> ranked = source.estimated(region.region, target);
  std::ranges::sort(ranked, [](const codegen::EstimatedConfig &a, const codegen::EstimatedConfig &b) {
    return std::tie(a.us, a.config) < std::tie(b.us, b.config);
  });
  std::set<codegen::TileConfig> seen;
  std::vector<codegen::KernelPlan> plans;
  for (const auto &[us, config] : ranked)
    if (plans.size() < count && seen.insert(withoutOrder(config)).second)
      plans.push_back(planOf(source, region.region, config, target, given.name));
  return plans;
}

/// The product of pairwiseProducts() of that name.
TemplateCase productOf(const std::string &name, int m, int n, int k) {
  const std::vector<TemplateCase> products = pairwiseProducts(m, n, k);
  const auto found = std::ranges::find(products, name, &TemplateCase::name);
  REQUIRE(found != products.end());
  return *found;
}

/// Where nvdisasm is: in the path, in a toolkit, or where tools/setup.sh puts it. Empty for nowhere, which the test
/// says.
std::filesystem::path disassembler() {
  namespace fs = std::filesystem;
  auto variable = [](const char *name, const fs::path &otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? fs::path(value) : otherwise;
  };
  std::vector<fs::path> folders{variable("CUDA_HOME", "/usr/local/cuda") / "bin"};
  std::istringstream path(variable("PATH", "").string());
  for (std::string folder; std::getline(path, folder, ':');)
    folders.emplace_back(folder);
  const fs::path wheels =
      variable("XDG_DATA_HOME", variable("HOME", "/") / ".local/share") / "kfuse" / "nvdisasm" / "nvidia";
  std::error_code none;
  for (const fs::directory_entry &toolkit : fs::directory_iterator(wheels, none))
    folders.push_back(toolkit.path() / "bin");
  for (const fs::path &folder : folders)
    if (fs::exists(folder / "nvdisasm", none))
      return folder / "nvdisasm";
  kfuse::testing::skip("there is no nvdisasm, which tools/setup.sh fetches");
  return {};
}

/// The instructions of a kernel's machine code.
std::string disassembled(const runtime::CompiledKernel &kernel, const std::filesystem::path &disassembler) {
  tuner::test::TemporaryFolder folder;
  const std::filesystem::path cubin = folder.path / "kernel.cubin";
  std::ofstream(cubin, std::ios::binary)
      .write(reinterpret_cast<const char *>(kernel.image.data()), static_cast<std::streamsize>(kernel.image.size()));
  const std::filesystem::path listing = folder.path / "kernel.sass";
  REQUIRE(std::system(
              ("'" + disassembler.string() + "' -c '" + cubin.string() + "' >'" + listing.string() + "'").c_str()) ==
          0);
  std::ifstream stream(listing);
  return {std::istreambuf_iterator<char>(stream), {}};
}

} // namespace

TEST_CASE("Compile: every schedule of products, every pair of its values") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  using namespace codegen::cuda;
  compileAll(everySchedule(matmulSm90Template(), hopperCases()), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm90Template(), wholeRowCases()), *compiler, Spills::Allowed);
  // Rows whose half, third or quarter is a multiple of eight: of that height a tile is theirs alone.
  std::vector<TemplateCase> fewTiles = fewTileCases();
  for (int rows : {272, 336, 368})
    fewTiles.push_back(productOf("gelu_residual_tb_bf16", rows, 4096, 4096));
  fewTiles.push_back(productOf("bias_residual_tb_tf32", 304, 4096, 4096));
  compileAll(everySchedule(matmulSm90SplitTemplate(), fewTiles), *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulStreamTemplate(),
                           {pairwiseProducts(4, 4096, 4096).front(), pairwiseProducts(16, 4096, 4096).front()}),
             *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulLowBitsTemplate(), {lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16"),
                                                     lowBitProduct(16, 4096, 4096, 32, "i8", "f16")}),
             *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSm80Template(), {productOf("bias_residual_tb_bf16", 4096, 4096, 4096)}, "sm_80"),
             *compiler, Spills::Allowed);
  compileAll(everySchedule(matmulSimtTemplate(), {productOf("bias_residual_tb_tf32", 256, 512, 4096)}), *compiler,
             Spills::Allowed);
  std::vector<TemplateCase> fewRows = normedRowCases("bf16");
  fewRows.push_back(productOf("bias_residual_tb_bf16", 2, 4096, 4096));
  compileAll(everySchedule(gemvTemplate(), fewRows), *compiler, Spills::Allowed);
}

TEST_CASE("Compile: every search finds configs among its first ones that do not spill") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  constexpr std::size_t first = 8; // A quick search's.
  std::vector<TemplateCase> cases = hopperCases();
  for (std::vector<TemplateCase> more : {fewTileCases(), wholeRowCases()})
    std::ranges::move(more, std::back_inserter(cases));
  cases.push_back(productOf("gelu_residual_tb_bf16", 304, 4096, 4096));
  cases.push_back(productOf("bias_residual_tb_tf32", 384, 4096, 4096));
  cases.push_back(productOf("bias_residual_tb_bf16", 2, 4096, 4096));
  cases.push_back(pairwiseProducts(16, 4096, 4096).front());
  std::size_t spilled = 0;
  for (const TemplateCase &given : cases) {
    const std::vector<codegen::KernelPlan> plans = firstChoices(codegen::cuda::matmulTemplate(), given, first);
    const std::size_t ofCase = compileAll(plans, *compiler, Spills::Allowed);
    INFO(given.name << ": " << ofCase << " of " << plans.size());
    CHECK(2 * ofCase <= plans.size());
    spilled += ofCase;
  }
  // docs/tuning.md says what they cost.
  MESSAGE("of the first choices for " << cases.size() << " products " << spilled << " spill");
  CHECK(spilled <= cases.size());
}

TEST_CASE("Compile: every pair of a type, a layout and an epilogue in every variant") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  using namespace codegen::cuda;
  std::vector<codegen::KernelPlan> all;
  // Configs all over the space of a variant that takes the product.
  auto add = [&](const std::vector<TemplateCase> &cases, const codegen::KernelTemplate &variant, const char *target,
                 std::size_t count) {
    for (const TemplateCase &source : cases) {
      RegionCase given(source);
      const ir::Target &on = *ir::findTarget(target);
      if (!variant.match(given.region, on))
        continue;
      std::vector<codegen::TileConfig> configs = variant.candidates(given.region, on);
      const std::size_t taken = std::min(count, configs.size());
      for (std::size_t i = 0; i < taken; ++i)
        all.push_back(planOf(variant, given.region,
                             configs[i * (configs.size() - 1) / std::max<std::size_t>(1, taken - 1)], on, source.name));
    }
  };
  add(pairwiseProducts(4096, 4096, 4096), matmulSm90Template(), "sm_90a", 2);
  add(pairwiseProducts(32, 4096, 4096), matmulSm90SplitTemplate(), "sm_90a", 2);
  add(pairwiseProducts(512, 1024, 1000), matmulSm80Template(), "sm_80", 1);
  add(pairwiseProducts(512, 1024, 1000), matmulSm80Template(), "sm_100a", 1);
  add(pairwiseProducts(16, 4096, 4096), matmulStreamTemplate(), "sm_90a", 2);
  add(pairwiseProducts(16, 4096, 4096), matmulStreamTemplate(), "sm_80", 1);
  add({lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16"), lowBitProduct(16, 4096, 4096, 32, "i8", "f16")},
      matmulLowBitsTemplate(), "sm_90a", 2);
  add({lowBitProduct(1, 4096, 4096, 128, "ui4", "bf16")}, matmulLowBitsTemplate(), "sm_80", 1);
  add(pairwiseProducts(2, 4096, 4096), gemvTemplate(), "sm_90a", 1);
  compileAll(all, *compiler, Spills::Allowed);
}

TEST_CASE("Compile: chains of products, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const codegen::KernelTemplate &chain = codegen::cuda::chainTemplate();
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  std::vector<TemplateCase> cases{layers(20, 0, 256, 1024, 2, true, "bf16"), layers(2, 5, 256, 1024, 64, false, "f16")};
  for (unsigned seed = 0; seed < 24; ++seed) // Those of the GPU tests.
    cases.push_back(randomChain(seed));
  std::vector<codegen::KernelPlan> all;
  for (const TemplateCase &source : cases) {
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = chain.match(given.region, hopper);
    REQUIRE_MESSAGE(decision, decision.reason());
    const std::vector<codegen::TileConfig> configs = chain.candidates(given.region, hopper);
    REQUIRE(!configs.empty());
    for (std::size_t i = all.size() % 8; i < configs.size(); i += 1 + configs.size() / 2)
      all.push_back(planOf(chain, given.region, configs[i], hopper, source.name));
  }
  const codegen::KernelTemplate &rowChain = codegen::cuda::rowChainTemplate();
  for (const TemplateCase &source :
       {normedLayers(20, 32768, 1024, true, "bf16"), normedLayers(2, 4000, 456, false, "f16"),
        scaledLayers(3, 1300, 512, "bf16"), scaledLayers(2, 67, 200, "f16")}) {
    INFO(source.name);
    RegionCase given(source);
    ir::FusionDecision decision = rowChain.match(given.region, hopper);
    REQUIRE_MESSAGE(decision, decision.reason());
    for (const codegen::TileConfig &config : rowChain.candidates(given.region, hopper))
      all.push_back(planOf(rowChain, given.region, config, hopper, source.name));
  }
  compileAll(all, *compiler);
}

TEST_CASE("Compile: reductions of windows, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  for (const TemplateCase &given : largeSlidingCases())
    compileAll(everyPair(codegen::cuda::windowsTemplate(), given), *compiler);
}

TEST_CASE(
    "Compile: every transposition of rows that begin anywhere, with indices of 32 and of 64 bits, without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  // From and to rows of every distance, modulo a chunk and modulo a line; over 2^31 elements the last ones.
  for (const auto &[rows, columns] :
       {std::pair{8191, 16383}, {1001, 1003}, {8190, 1012}, {8192, 16385}, {46341, 46351}})
    for (const char *type : {"bf16", "f32"}) {
      const std::string from = std::to_string(rows) + "x" + std::to_string(columns) + "x" + type,
                        to = std::to_string(columns) + "x" + std::to_string(rows) + "x" + type;
      const TemplateCase moved{"moved " + from,
                               "func.func @f(%a: tensor<" + from + ">) -> tensor<" + to +
                                   "> { %0 = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<" + from +
                                   ">) -> tensor<" + to + "> return %0 : tensor<" + to + "> }"};
      const TemplateCase computed{"gelu of " + from,
                                  "func.func @f(%a: tensor<" + from + ">) -> tensor<" + to +
                                      "> { %0 = kfuse.gelu %a : (tensor<" + from + ">) -> tensor<" + from +
                                      "> %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<" + from +
                                      ">) -> tensor<" + to + "> return %1 : tensor<" + to + "> }"};
      for (const TemplateCase &given : {moved, computed})
        compileAll(everyPair(codegen::cuda::transposeTemplate(), given), *compiler);
    }
}

TEST_CASE("Compile: the first choice for Hopper multiplies on its tensor cores") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const std::filesystem::path nvdisasm = disassembler();
  if (nvdisasm.empty())
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  for (const TemplateCase &source : pairwiseProducts(4096, 4096, 4096)) {
    INFO(source.name);
    RegionCase given(source);
    const codegen::KernelTemplate &family = codegen::cuda::matmulTemplate();
    const std::vector<codegen::EstimatedConfig> configs = family.estimated(given.region, hopper);
    auto first = std::ranges::min_element(configs, {}, &codegen::EstimatedConfig::us);
    REQUIRE(first != configs.end());
    auto kernel = compiler->compile(planOf(family, given.region, first->config, hopper, source.name));
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const std::string code = disassembled(*kernel, nvdisasm);
    const char *const instruction = isFloat8(given.region.mathType) ? "QGMMA" : "HGMMA";
    const std::size_t begin = code.find(instruction), end = code.rfind(instruction);
    REQUIRE(begin != std::string::npos);
    // Descriptors stay in uniform registers: moving them there took up to 32 instructions a line of K.
    CHECK(code.substr(begin, end - begin).find("R2UR") == std::string::npos);
  }
}

TEST_CASE("Compile: attention on Hopper makes weights while values are multiplied") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const std::filesystem::path nvdisasm = disassembler();
  if (nvdisasm.empty())
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  for (int size : {64, 128}) {
    RegionCase given(flashCase({.heads = 32,
                                .keyHeads = 8,
                                .rows = 4096,
                                .keys = 4096,
                                .keySize = size,
                                .valueSize = size,
                                .mask = "causal"}));
    const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
    const codegen::TileConfig config = flash.candidates(given.region, hopper).front();
    INFO(size << ": " << config.str());
    REQUIRE(config.valueOr("wgmma", 0) == 1);
    auto kernel = compiler->compile(planOf(flash, given.region, config, hopper, "attention"));
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const std::string code = disassembled(*kernel, nvdisasm), keys = "DEPBAR.LE gsb0, 0x1",
                      values = "DEPBAR.LE gsb0, 0x0", exponential = "MUFU.EX2";
    int loops = 0;
    for (std::size_t at = code.find(keys); at != std::string::npos; at = code.find(keys, at + 1), ++loops) {
      const std::string between = code.substr(at, code.find(values, at) - at);
      std::int64_t exponentials = 0;
      for (std::size_t next = between.find(exponential); next != std::string::npos;
           next = between.find(exponential, next + 1))
        ++exponentials;
      CHECK(exponentials >= config["keys"] / 2); // A thread's.
    }
    CHECK(loops >= 2); // With a mask and without.
  }
}

TEST_CASE("Compile: clusters that share operands start and end without a fence of all memory") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const std::filesystem::path nvdisasm = disassembler();
  if (nvdisasm.empty())
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  RegionCase given(pairwiseProducts(512, 1024, 1024).front());
  for (const codegen::KernelTemplate *variant :
       {&codegen::cuda::matmulSm90Template(), &codegen::cuda::matmulSm90SplitTemplate()}) {
    const std::vector<codegen::TileConfig> configs = variant->candidates(given.region, hopper);
    auto shared = std::find_if(configs.begin(), configs.end(), [](const codegen::TileConfig &config) {
      return config["cluster_m"] > 1 && config.valueOr("blocks_k", 1) == 1 && !config.has("segments");
    });
    REQUIRE(shared != configs.end());
    auto kernel = compiler->compile(planOf(*variant, given.region, *shared, hopper, shared->str()));
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    const std::string code = disassembled(*kernel, nvdisasm);
    CHECK(code.find("UCGABAR_WAIT") != std::string::npos);
    CHECK(code.find("MEMBAR.ALL.GPU") == std::string::npos);
  }
}

TEST_CASE("Compile: nothing is read before the kernel ahead has ended") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const std::filesystem::path nvdisasm = disassembler();
  if (nvdisasm.empty())
    return;
  // Rows that no access of 4 bytes is aligned to are copied element by element.
  std::vector<TemplateCase> sources = representatives();
  sources.push_back(
      {"product of rows of 17",
       "func.func @f(%a: tensor<4x2x16xf16>, %b: tensor<4x16x17xf16>) -> tensor<4x2x17xf16> { %0 = "
       "kfuse.matmul %a, %b : (tensor<4x2x16xf16>, tensor<4x16x17xf16>) -> tensor<4x2x17xf16> return %0 : "
       "tensor<4x2x17xf16> }"});
  std::size_t waiting = 0;
  for (const TemplateCase &source : sources)
    for (const codegen::KernelPlan &plan : plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 2)) {
      INFO(source.name << ": " << plan.source);
      auto kernel = compiler->compile(plan);
      REQUIRE_MESSAGE(kernel, kernel.error().message);
      const std::string code = disassembled(*kernel, nvdisasm);
      std::size_t entry = code.find(".section\t.text.");
      for (std::size_t next = 0; entry != std::string::npos; entry = next) {
        next = code.find(".section\t.text.", entry + 1);
        const std::string function = code.substr(entry, next - entry);
        const std::size_t wait = function.find("ACQBULK");
        waiting += wait != std::string::npos;
        // Decode attention reads its cache, which no kernel ahead writes, and the position. Other fixed inputs, such as
        // a position that comes in with a run, the compiler may read early.
        if (plan.source.find("readsAhead = true") != std::string::npos ||
            plan.source.find("*__restrict__ in") != std::string::npos)
          continue;
        CHECK(function.substr(0, wait == std::string::npos ? 0 : wait).find("LDG") == std::string::npos);
      }
    }
  CHECK(waiting >= sources.size());
}

TEST_CASE("Compile: configs of every template, for sm_80, sm_90a and sm_100a, but for products without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  std::vector<codegen::KernelPlan> products, all; // "every schedule of products" has more configs of those.
  for (const TemplateCase &source : representatives())
    for (const char *target : {"sm_80", "sm_90a", "sm_100a"}) {
      INFO(source.name << " on " << target);
      RegionCase given(source);
      const bool isProduct = source.name.find("matmul") != std::string::npos;
      for (codegen::KernelPlan &plan : plans(given.region, *ir::findTarget(target), isProduct ? 3 : 6))
        (isProduct ? products : all).push_back(std::move(plan));
    }
  compileAll(all, *compiler);
  compileAll(products, *compiler, Spills::Allowed);
}

TEST_CASE("Compile: norms of heads in decode attention, those of Qwen3 for every GPU and without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  std::vector<codegen::KernelPlan> all;
  auto add = [&](const TemplateCase &source, const char *target, std::size_t count) {
    INFO(source.name << " on " << target);
    RegionCase given(source);
    for (codegen::KernelPlan &plan : plans(given.region, *ir::findTarget(target), count))
      all.push_back(std::move(plan));
  };
  for (const TemplateCase &source : decodeNormCases())
    for (const codegen::KernelPlan &plan : plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 1)) {
      auto kernel = compiler->compile(plan);
      CHECK_MESSAGE(kernel, kernel.error().message);
    }
  for (const char *target : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
    add(modelDecodeCases().front(), target, 3);
  compileAll(all, *compiler);
}

TEST_CASE("Compile: attention of many rows in heads of every size, for every GPU and without spills") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
  std::vector<codegen::KernelPlan> all;
  auto add = [&](const FlashSketch &sketch, const char *target, std::size_t step) {
    const TemplateCase source = flashCase(sketch);
    INFO(source.name << " on " << target);
    RegionCase given(source);
    const ir::Target &on = *ir::findTarget(target);
    ir::FusionDecision decision = flash.match(given.region, on);
    REQUIRE_MESSAGE(decision, decision.reason());
    const std::vector<codegen::TileConfig> configs = flash.candidates(given.region, on);
    REQUIRE_FALSE(configs.empty());
    for (std::size_t i = 0; i < configs.size(); i += step)
      all.push_back(planOf(flash, given.region, configs[i], on, source.name));
  };
  for (int size : {64, 128, 256})
    add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = size, .valueSize = size, .mask = "causal"},
        "sm_90a", 5);
  add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128}, "sm_90a", 9);
  for (int size : {32, 40, 72, 80, 96, 104, 160, 192, 224})
    add({.heads = 32, .keyHeads = 8, .rows = 2048, .keys = 2048, .keySize = size, .valueSize = size, .mask = "causal"},
        "sm_90a", 17);
  add({.rows = 1024, .keys = 1500, .keySize = 192, .valueSize = 128, .mask = "added"}, "sm_90a", 13);
  add({.rows = 1024, .keys = 1500, .keySize = 64, .valueSize = 64, .mask = "added", .tokensFirst = true}, "sm_90a", 13);
  add({.rows = 1024, .keys = 1024, .keySize = 256, .valueSize = 256, .mask = "causal", .isCapped = true}, "sm_90a", 13);
  const FlashSketch computed{.heads = 32, .keyHeads = 8, .rows = 1024, .keys = 1024, .mask = "causal", .front = "norm"};
  for (int size : {64, 72, 128, 256}) {
    FlashSketch sketch = computed;
    sketch.keySize = sketch.valueSize = size;
    add(sketch, "sm_90a", 13);
  }
  add(computed, "sm_80", 13);
  for (const char *target : {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"})
    add({.heads = 32, .keyHeads = 8, .rows = 4096, .keys = 4096, .keySize = 128, .valueSize = 128, .mask = "causal"},
        target, 6);
  compileAll(all, *compiler);
}

TEST_CASE("Compile: a kernel marks its moments where it is asked to") {
  const auto compiler = compilerHere();
  if (!compiler)
    return;
  for (const TemplateCase &source : representatives()) {
    INFO(source.name);
    codegen::KernelPlan plan = plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 1).front();
    for (bool marks : {false, true}) {
      if (marks)
        plan.options.insert(plan.options.end(),
                            {"--define-macro=KFUSE_MARKS=0x7f0000000000ull", "--define-macro=KFUSE_MARK_SLOTS=4u"});
      auto kernel = compiler->compile(plan);
      REQUIRE_MESSAGE(kernel, kernel.error().message);
      CHECK((kernel->assembly.find("%globaltimer") != std::string::npos) == marks);
    }
  }
}
