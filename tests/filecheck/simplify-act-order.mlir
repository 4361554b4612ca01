// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// Weights in act order behind a norm: the order is how the norm reads its rows.
// CHECK-LABEL: @rms_norm
// CHECK: %[[ORDER:.*]] = kfuse.constant dense<[2, 0, 3, 1]>
// CHECK-DAG: %[[ROWS:.*]] = kfuse.gather %arg0, %[[ORDER]] {axis = 1 : i64}
// CHECK-DAG: %[[WEIGHT:.*]] = kfuse.gather %arg1, %[[ORDER]] {axis = 0 : i64}
// CHECK: %[[NORM:.*]] = kfuse.rms_norm %[[ROWS]], %[[WEIGHT]]
// CHECK-NEXT: kfuse.matmul %[[NORM]], %arg2
func.func @rms_norm(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %w: tensor<3x4xf32>) -> tensor<2x3xf32> {
  %order = kfuse.constant dense<[2, 0, 3, 1]> : tensor<4xi64>
  %n = kfuse.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %o = kfuse.gather %n, %order {axis = 1} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  %y = kfuse.matmul %o, %w {transpose_b} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Two products in the same order, as q and k of one quantised layer are: one norm for both.
// CHECK-LABEL: @layer_norm_of_two
// CHECK-COUNT-3: kfuse.gather
// CHECK: %[[NORM:.*]] = kfuse.layer_norm
// CHECK-NOT: kfuse.gather
// CHECK: return
func.func @layer_norm_of_two(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %v: tensor<3x4xf32>, %w: tensor<3x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %order = kfuse.constant dense<[2, 0, 3, 1]> : tensor<4xi64>
  %again = kfuse.constant dense<[2, 0, 3, 1]> : tensor<4xi64>
  %n = "kfuse.layer_norm"(%x, %g, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %o = kfuse.gather %n, %order {axis = 1} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  %p = kfuse.gather %n, %again {axis = 1} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  %y = kfuse.matmul %o, %v {transpose_b} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %z = kfuse.matmul %p, %w {transpose_b} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return %y, %z : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A column twice and one not at all: the norm needs all.
// CHECK-LABEL: @repeated
// CHECK: %[[NORM:.*]] = kfuse.rms_norm %arg0
// CHECK-NEXT: kfuse.gather %[[NORM]]
func.func @repeated(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %order = kfuse.constant dense<[2, 0, 2, 1]> : tensor<4xi64>
  %n = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %o = kfuse.gather %n, %order {axis = 1} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  return %o : tensor<2x4xf32>
}

// -----

// What else reads the norm wants its columns as they were: it is not computed twice.
// CHECK-LABEL: @read_otherwise
// CHECK: %[[NORM:.*]] = kfuse.rms_norm %arg0
// CHECK: kfuse.gather %[[NORM]]
func.func @read_otherwise(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %order = kfuse.constant dense<[2, 0, 3, 1]> : tensor<4xi64>
  %n = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %o = kfuse.gather %n, %order {axis = 1} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  return %n, %o : tensor<2x4xf32>, tensor<2x4xf32>
}
