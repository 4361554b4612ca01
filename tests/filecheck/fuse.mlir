// RUN: kfuse-opt %s --kfuse-fuse --split-input-file | FileCheck %s

// What follows a product element by element is its epilogue; a norm behind it is a kernel of its own,
// and the refusal says why.
// CHECK-LABEL: @epilogue
// CHECK-SAME: kfuse.fusion_refusals = {{\[\[}}"matmul", "rms_norm", "the consumer needs whole rows, a product's kernel holds tiles of them"]]
// CHECK: %[[SUM:.*]] = kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.matmul
// CHECK-NEXT: kfuse.add
// CHECK-NEXT: kfuse.gelu
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused %[[SUM]]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.rms_norm
// CHECK-NEXT: kfuse.yield
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %0 = kfuse.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = kfuse.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = kfuse.gelu %1 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = kfuse.rms_norm %2 {epsilon = 1.0e-5 : f32} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// -----

// A residual sum and its norm: one kernel with two results, for the sum is used again.
// CHECK-LABEL: @residual
// CHECK: %[[BOTH:.*]]:2 = kfuse.fused %arg0, %arg1
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[SUM:.*]] = kfuse.add
// CHECK-NEXT: %[[NORM:.*]] = kfuse.rms_norm %[[SUM]]
// CHECK-NEXT: kfuse.yield %[[SUM]], %[[NORM]]
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.add
// CHECK-NOT: kfuse.fused
func.func @residual(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = kfuse.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.rms_norm %0 {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.matmul %1, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = kfuse.add %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// The guard of a softmax is a diamond: neither arm alone may join, all of it may.
// CHECK-LABEL: @diamond
// CHECK: kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.softmax
// CHECK-NEXT: kfuse.is_nan
// CHECK-NEXT: kfuse.constant
// CHECK-NEXT: kfuse.where
// CHECK-NEXT: kfuse.yield
// CHECK-NOT: kfuse.fused
func.func @diamond(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %0 = kfuse.softmax %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.is_nan %0 : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %2 = kfuse.where %1, %zero, %0 : (tensor<4x8xi1>, tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A diamond around a product is a cycle: the last sum joins the product, not the first sum.
// CHECK-LABEL: @no_cycle
// CHECK: %[[FIRST:.*]] = kfuse.fused %arg0, %arg1
// CHECK: kfuse.add
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused %[[FIRST]], %arg2
// CHECK: kfuse.matmul
// CHECK-NEXT: kfuse.add
// CHECK-NEXT: kfuse.yield
func.func @no_cycle(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = kfuse.add %x, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = kfuse.matmul %0, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = kfuse.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Reshapes of values in memory cost no kernel and stay outside; a transpose is absorbed. Two readers of one
// tensor are one kernel that reads it once.
// CHECK-LABEL: @views
// CHECK: %[[VIEW:.*]] = kfuse.reshape %arg0
// CHECK-NEXT: %[[BOTH:.*]]:2 = kfuse.fused %[[VIEW]]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.transpose
// CHECK-NEXT: kfuse.exp
// CHECK-NEXT: kfuse.reduce
// CHECK-NEXT: kfuse.yield
// CHECK: %[[OUT:.*]] = kfuse.reshape %[[BOTH]]#0
// CHECK: return %[[OUT]], %[[BOTH]]#1
func.func @views(%x: tensor<4x6xf32>) -> (tensor<24xf32>, tensor<3xf32>) {
  %0 = kfuse.reshape %x : (tensor<4x6xf32>) -> tensor<8x3xf32>
  %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<8x3xf32>) -> tensor<3x8xf32>
  %2 = kfuse.exp %1 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = kfuse.reduce %1 {function = "max", axes = array<i64: 1>} : (tensor<3x8xf32>) -> tensor<3xf32>
  %4 = kfuse.reshape %2 : (tensor<3x8xf32>) -> tensor<24xf32>
  return %4, %3 : tensor<24xf32>, tensor<3xf32>
}

// -----

// Heads behind attention: written transposed by the product, so that the next one reads plain rows.
// CHECK-LABEL: @heads
// CHECK: %[[HEADS:.*]] = kfuse.fused
// CHECK: kfuse.matmul
// CHECK-NEXT: kfuse.transpose
// CHECK-NEXT: kfuse.yield
// CHECK: %[[ROWS:.*]] = kfuse.reshape %[[HEADS]]
// CHECK-NEXT: kfuse.fused %[[ROWS]], %arg2
func.func @heads(%p: tensor<2x4x6x6xf32>, %v: tensor<2x4x6x8xf32>, %w: tensor<32x32xf32>) -> tensor<12x32xf32> {
  %0 = kfuse.matmul %p, %v : (tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
  %1 = kfuse.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x6x8xf32>) -> tensor<2x6x4x8xf32>
  %2 = kfuse.reshape %1 : (tensor<2x6x4x8xf32>) -> tensor<12x32xf32>
  %3 = kfuse.matmul %2, %w : (tensor<12x32xf32>, tensor<32x32xf32>) -> tensor<12x32xf32>
  return %3 : tensor<12x32xf32>
}

// -----

// A function that only moves elements needs a kernel to move them; one that only renames them does not.
// CHECK-LABEL: @copies
// CHECK: %[[MOVED:.*]] = kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.transpose
// CHECK-NEXT: kfuse.yield
// CHECK: %[[VIEW:.*]] = kfuse.reshape %arg0
// CHECK-NEXT: return %[[MOVED]], %[[VIEW]]
func.func @copies(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<24xf32>) {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = kfuse.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>
  return %0, %1 : tensor<6x4xf32>, tensor<24xf32>
}

// -----

// The new keys are rotated straight into the cache; who reads the old cache runs before.
// CHECK-LABEL: @state
// CHECK: kfuse.fused %arg0 :
// CHECK: kfuse.exp
// CHECK: %[[CACHE:.*]] = kfuse.fused
// CHECK: kfuse.rotary
// CHECK-NEXT: kfuse.state_update
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused %[[CACHE]]
// CHECK: kfuse.neg
func.func @state(%cache: tensor<2x16x8xf32> {kfuse.role = "state", kfuse.name = "cache"}, %k: tensor<2x1x8xf32>, %cos: tensor<1x4xf32>,
                 %sin: tensor<1x4xf32>, %at: tensor<i64>)
    -> (tensor<2x16x8xf32> {kfuse.state = "cache"}, tensor<2x16x8xf32>, tensor<2x16x8xf32>) {
  %0 = kfuse.rotary %k, %cos, %sin : (tensor<2x1x8xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x1x8xf32>
  %1 = kfuse.state_update %cache, %0, %at {axis = 1 : i64} : (tensor<2x16x8xf32>, tensor<2x1x8xf32>, tensor<i64>) -> tensor<2x16x8xf32>
  %2 = kfuse.neg %1 : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  %3 = kfuse.exp %cache : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return %1, %2, %3 : tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>
}

// -----

// A result is written where its caller wants it: what is returned twice is copied once.
// CHECK-LABEL: @twice
// CHECK: %[[FIRST:.*]] = kfuse.fused %arg0
// CHECK: kfuse.exp
// CHECK: %[[SECOND:.*]] = kfuse.fused %[[FIRST]]
// CHECK-NEXT: ^bb0(%[[IN:.*]]: tensor<4x6xf32>):
// CHECK-NEXT: kfuse.yield %[[IN]]
// CHECK: return %[[FIRST]], %[[SECOND]]
func.func @twice(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = kfuse.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %0 : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// A value that two kernels read is computed in both where that costs less than to store and load it.
// CHECK-LABEL: @again
// CHECK: kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.cast
// CHECK-NEXT: kfuse.softmax
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.cast
// CHECK-NEXT: kfuse.transpose
// CHECK-NEXT: kfuse.softmax
// CHECK-NEXT: kfuse.yield
func.func @again(%x: tensor<512x512xf16>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = kfuse.cast %x : (tensor<512x512xf16>) -> tensor<512x512xf32>
  %1 = kfuse.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = kfuse.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = kfuse.softmax %2 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  return %1, %3 : tensor<512x512xf32>, tensor<512x512xf32>
}
