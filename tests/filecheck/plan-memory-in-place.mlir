// RUN: kfuse-opt %s --kfuse-plan-memory | FileCheck %s

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
