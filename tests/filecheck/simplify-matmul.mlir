// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// CHECK-LABEL: @transposed_weight
// CHECK-NEXT: kfuse.matmul %arg0, %arg1 {transpose_b}
// CHECK-NEXT: return
func.func @transposed_weight(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %0 = kfuse.transpose %w {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = kfuse.matmul %x, %0 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// -----

// Rows of one matrix product are one dimension, through what follows.
// CHECK-LABEL: @rows
// CHECK: kfuse.matmul {{.*}} (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK: kfuse.add {{.*}} -> tensor<8x16xf32>
// CHECK: kfuse.gelu {{.*}} -> tensor<8x16xf32>
// CHECK: kfuse.matmul {{.*}} (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
// CHECK: kfuse.reshape {{.*}} -> tensor<2x4x8xf32>
func.func @rows(%x: tensor<2x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>, %v: tensor<16x8xf32>) -> tensor<2x4x8xf32> {
  %0 = kfuse.matmul %x, %w : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %1 = kfuse.add %0, %b : (tensor<2x4x16xf32>, tensor<16xf32>) -> tensor<2x4x16xf32>
  %2 = kfuse.gelu %1 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %3 = kfuse.matmul %2, %v : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
  return %3 : tensor<2x4x8xf32>
}

// -----

// Key heads that were copied for each query head: a product with a broadcast batch, and no copy.
// CHECK-LABEL: @expanded_heads
// CHECK-NOT: kfuse.broadcast
// CHECK: kfuse.matmul {{.*}} {transpose_b} : (tensor<2x3x2x4x8xf32>, tensor<2x3x1x5x8xf32>) -> tensor<2x3x2x4x5xf32>
// CHECK-NOT: kfuse.broadcast
// CHECK: return
func.func @expanded_heads(%q: tensor<2x6x4x8xf32>, %k: tensor<2x3x5x8xf32>) -> tensor<2x6x4x5xf32> {
  %0 = kfuse.reshape %k : (tensor<2x3x5x8xf32>) -> tensor<2x3x1x5x8xf32>
  %1 = kfuse.broadcast %0 : (tensor<2x3x1x5x8xf32>) -> tensor<2x3x2x5x8xf32>
  %2 = kfuse.reshape %1 : (tensor<2x3x2x5x8xf32>) -> tensor<12x5x8xf32>
  %3 = kfuse.transpose %2 {permutation = array<i64: 0, 2, 1>} : (tensor<12x5x8xf32>) -> tensor<12x8x5xf32>
  %4 = kfuse.reshape %3 : (tensor<12x8x5xf32>) -> tensor<2x6x8x5xf32>
  %5 = kfuse.matmul %q, %4 : (tensor<2x6x4x8xf32>, tensor<2x6x8x5xf32>) -> tensor<2x6x4x5xf32>
  return %5 : tensor<2x6x4x5xf32>
}

// -----

// In decoding the query heads of one key head become its rows.
// CHECK-LABEL: @decoding
// CHECK: kfuse.matmul {{.*}} {transpose_b} : (tensor<2x3x2x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x2x5xf32>
func.func @decoding(%q: tensor<2x6x1x8xf32>, %k: tensor<2x3x5x8xf32>) -> tensor<2x6x1x5xf32> {
  %0 = kfuse.reshape %k : (tensor<2x3x5x8xf32>) -> tensor<2x3x1x5x8xf32>
  %1 = kfuse.broadcast %0 : (tensor<2x3x1x5x8xf32>) -> tensor<2x3x2x5x8xf32>
  %2 = kfuse.reshape %1 : (tensor<2x3x2x5x8xf32>) -> tensor<2x6x5x8xf32>
  %3 = kfuse.matmul %q, %2 {transpose_b} : (tensor<2x6x1x8xf32>, tensor<2x6x5x8xf32>) -> tensor<2x6x1x5xf32>
  return %3 : tensor<2x6x1x5xf32>
}

// -----

// Scales of both operands meet behind the product.
// CHECK-LABEL: @scales
// CHECK: %[[PRODUCT:.*]] = kfuse.matmul %arg0, %arg1 {transpose_b}
// CHECK: kfuse.mul %[[PRODUCT]], %{{.*}} : (tensor<2x4x5xf32>, tensor<f32>)
// CHECK-NEXT: return
func.func @scales(%q: tensor<2x4x8xf32>, %k: tensor<2x5x8xf32>) -> tensor<2x4x5xf32> {
  %s = kfuse.constant dense<0.5> : tensor<1xf32>
  %0 = kfuse.mul %q, %s : (tensor<2x4x8xf32>, tensor<1xf32>) -> tensor<2x4x8xf32>
  %1 = kfuse.transpose %k {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
  %2 = kfuse.mul %1, %s : (tensor<2x8x5xf32>, tensor<1xf32>) -> tensor<2x8x5xf32>
  %3 = kfuse.matmul %0, %2 : (tensor<2x4x8xf32>, tensor<2x8x5xf32>) -> tensor<2x4x5xf32>
  return %3 : tensor<2x4x5xf32>
}

// -----

// In bf16 the product of two scales is not a bf16: both stay.
// CHECK-LABEL: @narrow_scales
// CHECK: kfuse.mul
// CHECK: kfuse.mul
// CHECK: return
func.func @narrow_scales(%q: tensor<4x8xbf16>, %k: tensor<8x5xbf16>) -> tensor<4x5xbf16> {
  %s = kfuse.constant dense<2.968750e-01> : tensor<bf16>
  %0 = kfuse.mul %q, %s : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xbf16>
  %1 = kfuse.mul %k, %s : (tensor<8x5xbf16>, tensor<bf16>) -> tensor<8x5xbf16>
  %2 = kfuse.matmul %0, %1 : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xbf16>
  return %2 : tensor<4x5xbf16>
}

// -----

// Rows reordered for a product and back: in their own order all along.
// CHECK-LABEL: @row_order
// CHECK-NOT: array<i64: 1, 0, 2>
// CHECK: kfuse.matmul {{.*}} (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
// CHECK-NOT: kfuse.transpose
// CHECK: return
func.func @row_order(%x: tensor<2x4x6x2xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>, %r: tensor<2x6x16xf32>) -> tensor<2x6x16xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 2, 0, 1, 3>} : (tensor<2x4x6x2xf32>) -> tensor<6x2x4x2xf32>
  %1 = kfuse.reshape %0 : (tensor<6x2x4x2xf32>) -> tensor<12x8xf32>
  %2 = kfuse.matmul %1, %w : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  %3 = kfuse.add %2, %b : (tensor<12x16xf32>, tensor<16xf32>) -> tensor<12x16xf32>
  %4 = kfuse.reshape %3 : (tensor<12x16xf32>) -> tensor<6x2x16xf32>
  %5 = kfuse.transpose %4 {permutation = array<i64: 1, 0, 2>} : (tensor<6x2x16xf32>) -> tensor<2x6x16xf32>
  %6 = kfuse.add %r, %5 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %6 : tensor<2x6x16xf32>
}
