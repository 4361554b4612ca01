// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// A transpose that keeps rows whole moves behind their norm, where it meets its inverse.
// CHECK-LABEL: @rows
// CHECK-NEXT: kfuse.rms_norm %arg0
// CHECK-NEXT: return
func.func @rows(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
  %1 = kfuse.rms_norm %0 {epsilon = 1.0e-5 : f32} : (tensor<3x2x8xf32>) -> tensor<3x2x8xf32>
  %2 = kfuse.transpose %1 {permutation = array<i64: 1, 0, 2>} : (tensor<3x2x8xf32>) -> tensor<2x3x8xf32>
  return %2 : tensor<2x3x8xf32>
}

// -----

// One that cuts rows does not.
// CHECK-LABEL: @columns
// CHECK: %[[MOVED:.*]] = kfuse.transpose %arg0
// CHECK-NEXT: kfuse.rms_norm %[[MOVED]]
func.func @columns(%x: tensor<3x8xf32>) -> tensor<8x3xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0>} : (tensor<3x8xf32>) -> tensor<8x3xf32>
  %1 = kfuse.rms_norm %0 {epsilon = 1.0e-5 : f32} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// -----

// Elementwise, with operands that move along or do not mind: one transpose behind them all.
// CHECK-LABEL: @elements
// CHECK: kfuse.mul %arg0, %arg1
// CHECK: %[[SUM:.*]] = kfuse.add
// CHECK-NEXT: kfuse.transpose %[[SUM]]
// CHECK-NEXT: return
func.func @elements(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %row: tensor<4xf32>) -> tensor<6x4xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = kfuse.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %2 = kfuse.mul %0, %1 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = kfuse.add %2, %row : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}

// -----

// A broadcast goes behind a transpose: what is moved is small, here nothing.
// CHECK-LABEL: @broadcast
// CHECK-NOT: kfuse.transpose
// CHECK: kfuse.broadcast {{.*}} -> tensor<4x3x8xf32>
// CHECK-NOT: kfuse.transpose
// CHECK: return
func.func @broadcast(%x: tensor<3x1x8xf32>) -> tensor<4x3x8xf32> {
  %0 = kfuse.broadcast %x : (tensor<3x1x8xf32>) -> tensor<3x4x8xf32>
  %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x8xf32>) -> tensor<4x3x8xf32>
  return %1 : tensor<4x3x8xf32>
}
