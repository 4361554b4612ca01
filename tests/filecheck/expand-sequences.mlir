// RUN: kfuse-opt %s --kfuse-expand-sequences --kfuse-simplify | FileCheck %s

// Sequences that are packed behind each other: where that of a row begins and ends is computed in front of the
// attention, which compares keys with it. No tensor of rows x keys is left outside.
// CHECK-LABEL: @packed
// CHECK-SAME: %[[STARTS:[a-z0-9]+]]: tensor<4xi32>
// CHECK-NOT: tensor<9x9xi1>
// CHECK: kfuse.reduce {{.*}} {axes = array<i64: 1>, function = "sum"} : (tensor<9x3xi32>) -> tensor<9xi32>
// CHECK: kfuse.attention {{.*}} {
// CHECK: kfuse.iota {dim = 1 : i64} : tensor<1x9xi32>
// CHECK: kfuse.ge
// CHECK: kfuse.lt
// CHECK: kfuse.and
// CHECK: kfuse.where
// CHECK: kfuse.yield
func.func @packed(%q: tensor<2x9x8xf32>, %k: tensor<2x9x8xf32>, %v: tensor<2x9x8xf32>, %starts: tensor<4xi32>) -> tensor<2x9x8xf32> {
  %none = kfuse.constant dense<0xFF800000> : tensor<f32>
  %same = kfuse.same_sequence %starts, %starts {causal} : (tensor<4xi32>, tensor<4xi32>) -> tensor<9x9xi1>
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<2x9x8xf32>, tensor<2x9x8xf32>) -> tensor<2x9x9xf32>
  %1 = kfuse.where %same, %0, %none : (tensor<9x9xi1>, tensor<2x9x9xf32>, tensor<f32>) -> tensor<2x9x9xf32>
  %2 = kfuse.softmax %1 : (tensor<2x9x9xf32>) -> tensor<2x9x9xf32>
  %3 = kfuse.matmul %2, %v : (tensor<2x9x9xf32>, tensor<2x9x8xf32>) -> tensor<2x9x8xf32>
  return %3 : tensor<2x9x8xf32>
}
