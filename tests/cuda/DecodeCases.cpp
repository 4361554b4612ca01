#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {

std::vector<TemplateCase> decodeCases() {
  std::vector<TemplateCase> cases;
  cases.push_back({"decode_positions_bf16", R"(
func.func @f(%q: tensor<2x2x4x32xbf16>, %k: tensor<2x2x200x32xbf16>, %v: tensor<2x2x200x32xbf16>, %p: tensor<2xi64>) -> tensor<2x2x4x32xbf16> {
  %r = kfuse.attention %q, %k, %v, %p : (tensor<2x2x4x32xbf16>, tensor<2x2x200x32xbf16>, tensor<2x2x200x32xbf16>, tensor<2xi64>) -> tensor<2x2x4x32xbf16> {
  ^bb0(%a: tensor<2x2x4x32xbf16>, %b: tensor<2x2x200x32xbf16>, %c: tensor<2x2x200x32xbf16>, %d: tensor<2xi64>):
    %0 = kfuse.iota {dim = 0 : i64} : tensor<200xi64>
    %1 = kfuse.constant dense<41> : tensor<i64>
    %2 = kfuse.mul %d, %1 : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %3 = kfuse.reshape %2 : (tensor<2xi64>) -> tensor<2x1x1x1xi64>
    %4 = kfuse.le %0, %3 : (tensor<200xi64>, tensor<2x1x1x1xi64>) -> tensor<2x1x1x200xi1>
    %5 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x2x4x32xbf16>, tensor<2x2x200x32xbf16>) -> tensor<2x2x4x200xbf16>
    %6 = kfuse.constant dense<0.176776692> : tensor<bf16>
    %7 = kfuse.mul %5, %6 : (tensor<2x2x4x200xbf16>, tensor<bf16>) -> tensor<2x2x4x200xbf16>
    %8 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %9 = kfuse.where %4, %7, %8 : (tensor<2x1x1x200xi1>, tensor<2x2x4x200xbf16>, tensor<bf16>) -> tensor<2x2x4x200xbf16>
    %10 = kfuse.softmax %9 : (tensor<2x2x4x200xbf16>) -> tensor<2x2x4x200xbf16>
    %11 = kfuse.matmul %10, %c : (tensor<2x2x4x200xbf16>, tensor<2x2x200x32xbf16>) -> tensor<2x2x4x32xbf16>
    kfuse.yield %11 : tensor<2x2x4x32xbf16>
  }
  return %r : tensor<2x2x4x32xbf16>
})"});
  cases.push_back({"decode_one_row_f16", R"(
func.func @f(%q: tensor<3x1x64xf16>, %k: tensor<3x150x64xf16>, %v: tensor<3x150x48xf16>) -> tensor<3x1x48xf16> {
  %r = kfuse.attention %q, %k, %v : (tensor<3x1x64xf16>, tensor<3x150x64xf16>, tensor<3x150x48xf16>) -> tensor<3x1x48xf16> {
  ^bb0(%a: tensor<3x1x64xf16>, %b: tensor<3x150x64xf16>, %c: tensor<3x150x48xf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<3x1x64xf16>, tensor<3x150x64xf16>) -> tensor<3x1x150xf16>
    %1 = kfuse.softmax %0 : (tensor<3x1x150xf16>) -> tensor<3x1x150xf16>
    %2 = kfuse.matmul %1, %c : (tensor<3x1x150xf16>, tensor<3x150x48xf16>) -> tensor<3x1x48xf16>
    kfuse.yield %2 : tensor<3x1x48xf16>
  }
  return %r : tensor<3x1x48xf16>
})"});
  // Heads that share keys as exporters write it, and a cache of [tokens, heads].
  cases.push_back({"decode_shared_heads_bf16", R"(
func.func @f(%q: tensor<2x8x1x16xbf16>, %k: tensor<2x133x2x16xbf16>, %v: tensor<2x133x2x16xbf16>, %m: tensor<2x1x1x133xbf16>) -> tensor<2x8x1x16xbf16> {
  %k1 = kfuse.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xbf16>) -> tensor<2x2x133x16xbf16>
  %k2 = kfuse.reshape %k1 : (tensor<2x2x133x16xbf16>) -> tensor<2x2x1x133x16xbf16>
  %k3 = kfuse.broadcast %k2 : (tensor<2x2x1x133x16xbf16>) -> tensor<2x2x4x133x16xbf16>
  %k4 = kfuse.reshape %k3 : (tensor<2x2x4x133x16xbf16>) -> tensor<2x8x133x16xbf16>
  %v1 = kfuse.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xbf16>) -> tensor<2x2x133x16xbf16>
  %v2 = kfuse.reshape %v1 : (tensor<2x2x133x16xbf16>) -> tensor<2x2x1x133x16xbf16>
  %v3 = kfuse.broadcast %v2 : (tensor<2x2x1x133x16xbf16>) -> tensor<2x2x4x133x16xbf16>
  %v4 = kfuse.reshape %v3 : (tensor<2x2x4x133x16xbf16>) -> tensor<2x8x133x16xbf16>
  %r = kfuse.attention %q, %k4, %v4, %m : (tensor<2x8x1x16xbf16>, tensor<2x8x133x16xbf16>, tensor<2x8x133x16xbf16>, tensor<2x1x1x133xbf16>) -> tensor<2x8x1x16xbf16> {
  ^bb0(%a: tensor<2x8x1x16xbf16>, %b: tensor<2x8x133x16xbf16>, %c: tensor<2x8x133x16xbf16>, %d: tensor<2x1x1x133xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x8x1x16xbf16>, tensor<2x8x133x16xbf16>) -> tensor<2x8x1x133xbf16>
    %1 = kfuse.add %0, %d : (tensor<2x8x1x133xbf16>, tensor<2x1x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %2 = kfuse.softmax %1 : (tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %3 = kfuse.is_nan %2 : (tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xi1>
    %4 = kfuse.constant dense<0.0> : tensor<bf16>
    %5 = kfuse.where %3, %4, %2 : (tensor<2x8x1x133xi1>, tensor<bf16>, tensor<2x8x1x133xbf16>) -> tensor<2x8x1x133xbf16>
    %6 = kfuse.matmul %5, %c : (tensor<2x8x1x133xbf16>, tensor<2x8x133x16xbf16>) -> tensor<2x8x1x16xbf16>
    kfuse.yield %6 : tensor<2x8x1x16xbf16>
  }
  return %r : tensor<2x8x1x16xbf16>
})"});
  cases.push_back({"decode_twelve_rows_bf16", R"(
func.func @f(%q: tensor<2x12x16xbf16>, %k: tensor<2x300x16xbf16>, %v: tensor<2x300x16xbf16>, %m: tensor<12x300xi1>) -> tensor<2x12x16xbf16> {
  %r = kfuse.attention %q, %k, %v, %m : (tensor<2x12x16xbf16>, tensor<2x300x16xbf16>, tensor<2x300x16xbf16>, tensor<12x300xi1>) -> tensor<2x12x16xbf16> {
  ^bb0(%a: tensor<2x12x16xbf16>, %b: tensor<2x300x16xbf16>, %c: tensor<2x300x16xbf16>, %d: tensor<12x300xi1>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x12x16xbf16>, tensor<2x300x16xbf16>) -> tensor<2x12x300xbf16>
    %1 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %2 = kfuse.where %d, %0, %1 : (tensor<12x300xi1>, tensor<2x12x300xbf16>, tensor<bf16>) -> tensor<2x12x300xbf16>
    %3 = kfuse.softmax %2 : (tensor<2x12x300xbf16>) -> tensor<2x12x300xbf16>
    %4 = kfuse.matmul %3, %c : (tensor<2x12x300xbf16>, tensor<2x300x16xbf16>) -> tensor<2x12x16xbf16>
    kfuse.yield %4 : tensor<2x12x16xbf16>
  }
  return %r : tensor<2x12x16xbf16>
})"});
  // One token a sequence into the cache on the way, at positions of its own, one of them behind the end: rotated
  // queries and keys, values as they are, all from one product.
  cases.push_back({"decode_into_cache_bf16", R"(
func.func @f(%x: tensor<4x384xbf16>, %k: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %v: tensor<4x2x150x32xbf16> {kfuse.role = "state"}, %p: tensor<4xi64> {kfuse.role = "input"}, %cos: tensor<9x16xbf16>, %sin: tensor<9x16xbf16>) -> (tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>) {
  %step = kfuse.constant dense<67> : tensor<i64>
  %at = kfuse.mul %p, %step : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %c0 = kfuse.gather %cos, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
  %c1 = kfuse.reshape %c0 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
  %s0 = kfuse.gather %sin, %p {axis = 0 : i64} : (tensor<9x16xbf16>, tensor<4xi64>) -> tensor<4x16xbf16>
  %s1 = kfuse.reshape %s0 : (tensor<4x16xbf16>) -> tensor<4x1x1x16xbf16>
  %q0 = kfuse.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x256xbf16>
  %q1 = kfuse.reshape %q0 : (tensor<4x256xbf16>) -> tensor<4x2x4x32xbf16>
  %q2 = kfuse.rotary %q1, %c1, %s1 : (tensor<4x2x4x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x4x32xbf16>
  %k0 = kfuse.slice %x {offsets = array<i64: 0, 256>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
  %k1 = kfuse.reshape %k0 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
  %k2 = kfuse.rotary %k1, %c1, %s1 : (tensor<4x2x1x32xbf16>, tensor<4x1x1x16xbf16>, tensor<4x1x1x16xbf16>) -> tensor<4x2x1x32xbf16>
  %k3 = kfuse.state_update %k, %k2, %at {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
  %v0 = kfuse.slice %x {offsets = array<i64: 0, 320>, strides = array<i64: 1, 1>} : (tensor<4x384xbf16>) -> tensor<4x64xbf16>
  %v1 = kfuse.reshape %v0 : (tensor<4x64xbf16>) -> tensor<4x2x1x32xbf16>
  %v2 = kfuse.state_update %v, %v1, %at {axis = 2 : i64} : (tensor<4x2x150x32xbf16>, tensor<4x2x1x32xbf16>, tensor<4xi64>) -> tensor<4x2x150x32xbf16>
  %r = kfuse.attention %q2, %k3, %v2, %at : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4xi64>) -> tensor<4x2x4x32xbf16> {
  ^bb0(%a: tensor<4x2x4x32xbf16>, %b: tensor<4x2x150x32xbf16>, %c: tensor<4x2x150x32xbf16>, %d: tensor<4xi64>):
    %0 = kfuse.iota {dim = 0 : i64} : tensor<150xi64>
    %1 = kfuse.reshape %d : (tensor<4xi64>) -> tensor<4x1x1x1xi64>
    %2 = kfuse.le %0, %1 : (tensor<150xi64>, tensor<4x1x1x1xi64>) -> tensor<4x1x1x150xi1>
    %3 = kfuse.matmul %a, %b {transpose_b} : (tensor<4x2x4x32xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x150xbf16>
    %4 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %5 = kfuse.where %2, %3, %4 : (tensor<4x1x1x150xi1>, tensor<4x2x4x150xbf16>, tensor<bf16>) -> tensor<4x2x4x150xbf16>
    %6 = kfuse.softmax %5 : (tensor<4x2x4x150xbf16>) -> tensor<4x2x4x150xbf16>
    %7 = kfuse.matmul %6, %c : (tensor<4x2x4x150xbf16>, tensor<4x2x150x32xbf16>) -> tensor<4x2x4x32xbf16>
    kfuse.yield %7 : tensor<4x2x4x32xbf16>
  }
  return %k3, %v2, %r : tensor<4x2x150x32xbf16>, tensor<4x2x150x32xbf16>, tensor<4x2x4x32xbf16>
})"});
  // Two tokens into a cache of [tokens, heads] whose keys heads share; the values are there already.
  cases.push_back({"decode_two_tokens_f16", R"(
func.func @f(%q: tensor<2x8x2x16xf16>, %k: tensor<2x133x2x16xf16> {kfuse.role = "state"}, %v: tensor<2x133x2x16xf16>, %n: tensor<2x2x2x16xf16>, %p: tensor<i64>) -> (tensor<2x8x2x16xf16>, tensor<2x133x2x16xf16>) {
  %k0 = kfuse.tanh %n : (tensor<2x2x2x16xf16>) -> tensor<2x2x2x16xf16>
  %k00 = kfuse.state_update %k, %k0, %p {axis = 1 : i64} : (tensor<2x133x2x16xf16>, tensor<2x2x2x16xf16>, tensor<i64>) -> tensor<2x133x2x16xf16>
  %k1 = kfuse.transpose %k00 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xf16>) -> tensor<2x2x133x16xf16>
  %k2 = kfuse.reshape %k1 : (tensor<2x2x133x16xf16>) -> tensor<2x2x1x133x16xf16>
  %k3 = kfuse.broadcast %k2 : (tensor<2x2x1x133x16xf16>) -> tensor<2x2x4x133x16xf16>
  %k4 = kfuse.reshape %k3 : (tensor<2x2x4x133x16xf16>) -> tensor<2x8x133x16xf16>
  %v1 = kfuse.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x133x2x16xf16>) -> tensor<2x2x133x16xf16>
  %v2 = kfuse.reshape %v1 : (tensor<2x2x133x16xf16>) -> tensor<2x2x1x133x16xf16>
  %v3 = kfuse.broadcast %v2 : (tensor<2x2x1x133x16xf16>) -> tensor<2x2x4x133x16xf16>
  %v4 = kfuse.reshape %v3 : (tensor<2x2x4x133x16xf16>) -> tensor<2x8x133x16xf16>
  %r = kfuse.attention %q, %k4, %v4 : (tensor<2x8x2x16xf16>, tensor<2x8x133x16xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x16xf16> {
  ^bb0(%a: tensor<2x8x2x16xf16>, %b: tensor<2x8x133x16xf16>, %c: tensor<2x8x133x16xf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x8x2x16xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x133xf16>
    %1 = kfuse.softmax %0 : (tensor<2x8x2x133xf16>) -> tensor<2x8x2x133xf16>
    %2 = kfuse.matmul %1, %c : (tensor<2x8x2x133xf16>, tensor<2x8x133x16xf16>) -> tensor<2x8x2x16xf16>
    kfuse.yield %2 : tensor<2x8x2x16xf16>
  }
  return %r, %k00 : tensor<2x8x2x16xf16>, tensor<2x133x2x16xf16>
})"});
  cases.push_back(flashCase({.heads = 8,
                             .keyHeads = 2,
                             .rows = 3,
                             .keys = 233,
                             .keySize = 32,
                             .valueSize = 32,
                             .mask = "chosen",
                             .isGuarded = true,
                             .hasSink = true}));
  // The most rows that there may be; a block holds at most four of their parts.
  cases.push_back({"decode_sixteen_rows_bf16", R"(
func.func @f(%q: tensor<2x16x128xbf16>, %k: tensor<2x600x128xbf16>, %v: tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16> {
  %r = kfuse.attention %q, %k, %v : (tensor<2x16x128xbf16>, tensor<2x600x128xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16> {
  ^bb0(%a: tensor<2x16x128xbf16>, %b: tensor<2x600x128xbf16>, %c: tensor<2x600x128xbf16>):
    %0 = kfuse.matmul %a, %b {transpose_b} : (tensor<2x16x128xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x600xbf16>
    %1 = kfuse.constant dense<0.088378906> : tensor<bf16>
    %2 = kfuse.mul %0, %1 : (tensor<2x16x600xbf16>, tensor<bf16>) -> tensor<2x16x600xbf16>
    %3 = kfuse.softmax %2 : (tensor<2x16x600xbf16>) -> tensor<2x16x600xbf16>
    %4 = kfuse.matmul %3, %c : (tensor<2x16x600xbf16>, tensor<2x600x128xbf16>) -> tensor<2x16x128xbf16>
    kfuse.yield %4 : tensor<2x16x128xbf16>
  }
  return %r : tensor<2x16x128xbf16>
})"});
  return cases;
}

} // namespace kfuse::test
