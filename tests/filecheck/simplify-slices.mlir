// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// CHECK-LABEL: @broadcast
// CHECK-NEXT: %[[PIECE:.*]] = kfuse.slice %arg0 {offsets = array<i64: 2>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<3xf32>
// CHECK-NEXT: kfuse.broadcast %[[PIECE]] : (tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: return
func.func @broadcast(%x: tensor<8xf32>) -> tensor<2x3xf32> {
  %0 = kfuse.broadcast %x : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.slice %0 {offsets = array<i64: 1, 2>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Columns of a product are columns of its weight, and of what is added to it.
// CHECK-LABEL: @columns
// CHECK-DAG: %[[WEIGHT:.*]] = kfuse.slice %arg1 {offsets = array<i64: 0, 4>
// CHECK-DAG: %[[PRODUCT:.*]] = kfuse.matmul %arg0, %[[WEIGHT]] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
// CHECK-DAG: %[[BIAS:.*]] = kfuse.slice %arg2 {offsets = array<i64: 4>
// CHECK: kfuse.add %[[PRODUCT]], %[[BIAS]]
// CHECK-NEXT: return
func.func @columns(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x3xf32> {
  %0 = kfuse.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = kfuse.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = kfuse.slice %1 {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// -----

// Where others read all of it, it is computed once and cut.
// CHECK-LABEL: @shared
// CHECK: %[[ALL:.*]] = kfuse.exp %arg0
// CHECK-NEXT: %[[PART:.*]] = kfuse.slice %[[ALL]]
// CHECK-NEXT: return %[[ALL]], %[[PART]]
func.func @shared(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<3xf32>) {
  %0 = kfuse.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = kfuse.slice %0 {offsets = array<i64: 2>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<8xf32>, tensor<3xf32>
}
