// RUN: kfuse-opt %s --kfuse-plan-memory | FileCheck %s

// The second result is computed once for each row of the first: it may not overwrite what it reads.
// CHECK-LABEL: @smaller_result
// CHECK: kfuse.fused %arg0 attributes {kfuse.offsets = array<i64: [[SOURCE:[0-9]+]]>}
// CHECK-NOT: kfuse.offsets = array<i64: {{[0-9]+}}, [[SOURCE]]>
// CHECK: return
func.func @smaller_result(%x: tensor<64xf32>, %y: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = kfuse.fused %x : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64xf32>):
    %r = kfuse.softmax %a : (tensor<64xf32>) -> tensor<64xf32>
    kfuse.yield %r : tensor<64xf32>
  }
  %1:2 = kfuse.fused %0, %y : (tensor<64xf32>, tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<64xf32>) {
  ^bb0(%a: tensor<64xf32>, %b: tensor<4x64xf32>):
    %r = kfuse.neg %a : (tensor<64xf32>) -> tensor<64xf32>
    %s = kfuse.mul %b, %b : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    kfuse.yield %s, %r : tensor<4x64xf32>, tensor<64xf32>
  }
  %2 = kfuse.fused %1#0, %1#1 : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32> {
  ^bb0(%a: tensor<4x64xf32>, %b: tensor<64xf32>):
    %r = kfuse.add %a, %b : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    kfuse.yield %r : tensor<4x64xf32>
  }
  return %2 : tensor<4x64xf32>
}

// An elementwise result takes the place of the input that ends there; one that reads it transposed, or
// whose input is read again, may not.
// CHECK-LABEL: @in_place
// CHECK-SAME: kfuse.arena_bytes = 12288 : i64, kfuse.arena_lower_bound_bytes = 12288 : i64
// CHECK: %[[A:.*]] = kfuse.fused %arg0 attributes {kfuse.offsets = array<i64: [[FIRST:[0-9]+]]>}
// CHECK: kfuse.fused %[[A]] attributes {kfuse.offsets = array<i64: [[FIRST]]>}
// CHECK-NOT: kfuse.offsets = array<i64: [[FIRST]]>
// CHECK: return
func.func @in_place(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %0 = kfuse.fused %x : (tensor<32x32xf32>) -> tensor<32x32xf32> {
  ^bb0(%a: tensor<32x32xf32>):
    %r = kfuse.softmax %a : (tensor<32x32xf32>) -> tensor<32x32xf32>
    kfuse.yield %r : tensor<32x32xf32>
  }
  %1 = kfuse.fused %0 : (tensor<32x32xf32>) -> tensor<32x32xf32> {
  ^bb0(%a: tensor<32x32xf32>):
    %r = kfuse.exp %a : (tensor<32x32xf32>) -> tensor<32x32xf32>
    kfuse.yield %r : tensor<32x32xf32>
  }
  %2 = kfuse.fused %1 : (tensor<32x32xf32>) -> tensor<32x32xf32> {
  ^bb0(%a: tensor<32x32xf32>):
    %r = kfuse.neg %a : (tensor<32x32xf32>) -> tensor<32x32xf32>
    kfuse.yield %r : tensor<32x32xf32>
  }
  %3 = kfuse.fused %2 : (tensor<32x32xf32>) -> tensor<32x32xf32> {
  ^bb0(%a: tensor<32x32xf32>):
    %t = kfuse.transpose %a {permutation = array<i64: 1, 0>} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %r = kfuse.neg %t : (tensor<32x32xf32>) -> tensor<32x32xf32>
    kfuse.yield %r : tensor<32x32xf32>
  }
  %4 = kfuse.fused %3, %1 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> {
  ^bb0(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>):
    %r = kfuse.matmul %a, %b : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    kfuse.yield %r : tensor<32x32xf32>
  }
  return %4, %x : tensor<32x32xf32>, tensor<32x32xf32>
}
