#include "tests/golden/CompileHarness.h"

namespace kfuse::test {

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

} // namespace kfuse::test
