// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// x * cos + concat(-second half, first half) * sin.
// CHECK-LABEL: @rotate_half
// CHECK-NEXT: kfuse.rotary %arg0, %arg1, %arg2 : (tensor<2x4x6x8xf32>, tensor<1x1x6x8xf32>, tensor<1x1x6x8xf32>)
// CHECK-NEXT: return
func.func @rotate_half(%x: tensor<2x4x6x8xf32>, %cos: tensor<1x1x6x8xf32>, %sin: tensor<1x1x6x8xf32>) -> tensor<2x4x6x8xf32> {
  %0 = kfuse.mul %x, %cos : (tensor<2x4x6x8xf32>, tensor<1x1x6x8xf32>) -> tensor<2x4x6x8xf32>
  %a = kfuse.slice %x {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x6x8xf32>) -> tensor<2x4x6x4xf32>
  %b = kfuse.slice %x {offsets = array<i64: 0, 0, 0, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x6x8xf32>) -> tensor<2x4x6x4xf32>
  %1 = kfuse.neg %b : (tensor<2x4x6x4xf32>) -> tensor<2x4x6x4xf32>
  %2 = kfuse.concat %1, %a {axis = 3 : i64} : (tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>) -> tensor<2x4x6x8xf32>
  %3 = kfuse.mul %2, %sin : (tensor<2x4x6x8xf32>, tensor<1x1x6x8xf32>) -> tensor<2x4x6x8xf32>
  %4 = kfuse.add %0, %3 : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
  return %4 : tensor<2x4x6x8xf32>
}

// -----

// concat(a cos - b sin, b cos + a sin), with tables half as wide.
// CHECK-LABEL: @complex_product
// CHECK-NEXT: kfuse.rotary %arg0, %arg1, %arg2 : (tensor<2x6x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>)
// CHECK-NEXT: return
func.func @complex_product(%x: tensor<2x6x8xf32>, %cos: tensor<6x4xf32>, %sin: tensor<6x4xf32>) -> tensor<2x6x8xf32> {
  %a = kfuse.slice %x {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x6x8xf32>) -> tensor<2x6x4xf32>
  %b = kfuse.slice %x {offsets = array<i64: 0, 0, 4>, strides = array<i64: 1, 1, 1>} : (tensor<2x6x8xf32>) -> tensor<2x6x4xf32>
  %0 = kfuse.mul %a, %cos : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %1 = kfuse.mul %b, %sin : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %2 = kfuse.sub %0, %1 : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %3 = kfuse.mul %b, %cos : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %4 = kfuse.mul %a, %sin : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %5 = kfuse.add %4, %3 : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %6 = kfuse.concat %2, %5 {axis = 2 : i64} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x8xf32>
  return %6 : tensor<2x6x8xf32>
}

// -----

// Neighbours rotated against each other.
// CHECK-LABEL: @interleaved
// CHECK-NEXT: kfuse.rotary %arg0, %arg1, %arg2 {interleaved}
// CHECK-NEXT: return
func.func @interleaved(%x: tensor<2x6x8xf32>, %cos: tensor<6x4xf32>, %sin: tensor<6x4xf32>) -> tensor<2x6x8xf32> {
  %a = kfuse.slice %x {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 2>} : (tensor<2x6x8xf32>) -> tensor<2x6x4xf32>
  %b = kfuse.slice %x {offsets = array<i64: 0, 0, 1>, strides = array<i64: 1, 1, 2>} : (tensor<2x6x8xf32>) -> tensor<2x6x4xf32>
  %0 = kfuse.mul %a, %cos : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %1 = kfuse.mul %b, %sin : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %2 = kfuse.sub %0, %1 : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %3 = kfuse.mul %a, %sin : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %4 = kfuse.mul %b, %cos : (tensor<2x6x4xf32>, tensor<6x4xf32>) -> tensor<2x6x4xf32>
  %5 = kfuse.add %3, %4 : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %6 = kfuse.reshape %2 : (tensor<2x6x4xf32>) -> tensor<2x6x4x1xf32>
  %7 = kfuse.reshape %5 : (tensor<2x6x4xf32>) -> tensor<2x6x4x1xf32>
  %8 = kfuse.concat %6, %7 {axis = 3 : i64} : (tensor<2x6x4x1xf32>, tensor<2x6x4x1xf32>) -> tensor<2x6x4x2xf32>
  %9 = kfuse.reshape %8 : (tensor<2x6x4x2xf32>) -> tensor<2x6x8xf32>
  return %9 : tensor<2x6x8xf32>
}

// -----

// The other half negated turns the other way: no rotary embedding.
// CHECK-LABEL: @turned_back
// CHECK-NOT: kfuse.rotary
// CHECK: return
func.func @turned_back(%x: tensor<6x8xf32>, %cos: tensor<6x8xf32>, %sin: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %0 = kfuse.mul %x, %cos : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %a = kfuse.slice %x {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %b = kfuse.slice %x {offsets = array<i64: 0, 4>, strides = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %1 = kfuse.neg %a : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = kfuse.concat %b, %1 {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %3 = kfuse.mul %2, %sin : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %4 = kfuse.add %0, %3 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  return %4 : tensor<6x8xf32>
}
