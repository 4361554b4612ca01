// RUN: kfuse-opt %s --kfuse-fuse --kfuse-plan-memory --split-input-file | FileCheck %s

// A chain of norms needs two buffers of 1024 x 4 bytes that take turns; the last result is the caller's.
// CHECK-LABEL: @chain
// CHECK-SAME: kfuse.arena_bytes = 8192 : i64, kfuse.arena_lower_bound_bytes = 8192 : i64
// CHECK: kfuse.offsets = array<i64: 0>
// CHECK: kfuse.offsets = array<i64: 4096>
// CHECK: kfuse.offsets = array<i64: 0>
// CHECK: kfuse.offsets = array<i64: -1>
func.func @chain(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = kfuse.matmul %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = kfuse.matmul %0, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = kfuse.matmul %1, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = kfuse.matmul %2, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}

// -----

// Small values still lie 256 bytes apart.
// CHECK-LABEL: @alignment
// CHECK-SAME: kfuse.arena_bytes = 512 : i64
// CHECK: kfuse.offsets = array<i64: 0>
// CHECK: kfuse.offsets = array<i64: 256>
func.func @alignment(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = kfuse.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kfuse.softmax %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kfuse.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// A view is its source's memory: the product is read through two reshapes until the last of them.
// CHECK-LABEL: @views
// CHECK-SAME: kfuse.arena_bytes = 8192 : i64
func.func @views(%x: tensor<32x32xf32>, %y: tensor<1024x1xf32>) -> (tensor<32xf32>, tensor<1x1xf32>) {
  %0 = kfuse.matmul %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = kfuse.reshape %0 : (tensor<32x32xf32>) -> tensor<1x1024xf32>
  %2 = kfuse.matmul %0, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = kfuse.reduce %2 {function = "sum", axes = array<i64: 1>} : (tensor<32x32xf32>) -> tensor<32xf32>
  %4 = kfuse.matmul %1, %y : (tensor<1x1024xf32>, tensor<1024x1xf32>) -> tensor<1x1xf32>
  return %3, %4 : tensor<32xf32>, tensor<1x1xf32>
}

// -----

// A state that is updated takes no arena memory: its result is the caller's state.
// CHECK-LABEL: @state
// CHECK-SAME: kfuse.arena_bytes = 0 : i64
// CHECK: kfuse.offsets = array<i64: -1>
func.func @state(%cache: tensor<4x8xf32>, %x: tensor<1x8xf32>, %at: tensor<i64>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %0 = kfuse.state_update %cache, %x, %at {axis = 0 : i64} : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  %1 = kfuse.reduce %0 {function = "max", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %1, %0 : tensor<4xf32>, tensor<4x8xf32>
}
