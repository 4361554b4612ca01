// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// The exporters write it so: Pow, ReduceMean (keepdims), Add, Sqrt, Reciprocal, Mul, Mul.
// CHECK-LABEL: @rms_norm
// CHECK-NEXT: kfuse.rms_norm %arg0, %arg1 {epsilon = 9.99999997E-7 : f32}
// CHECK-NEXT: return
func.func @rms_norm(%x: tensor<2x24x96xf32>, %w: tensor<96xf32>) -> tensor<2x24x96xf32> {
  %two = kfuse.constant dense<2.0> : tensor<f32>
  %epsilon = kfuse.constant dense<1.0e-6> : tensor<f32>
  %0 = kfuse.pow %x, %two : (tensor<2x24x96xf32>, tensor<f32>) -> tensor<2x24x96xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 2>} : (tensor<2x24x96xf32>) -> tensor<2x24xf32>
  %2 = kfuse.reshape %1 : (tensor<2x24xf32>) -> tensor<2x24x1xf32>
  %3 = kfuse.add %2, %epsilon : (tensor<2x24x1xf32>, tensor<f32>) -> tensor<2x24x1xf32>
  %4 = kfuse.sqrt %3 : (tensor<2x24x1xf32>) -> tensor<2x24x1xf32>
  %5 = kfuse.reciprocal %4 : (tensor<2x24x1xf32>) -> tensor<2x24x1xf32>
  %6 = kfuse.mul %x, %5 : (tensor<2x24x96xf32>, tensor<2x24x1xf32>) -> tensor<2x24x96xf32>
  %7 = kfuse.mul %w, %6 : (tensor<96xf32>, tensor<2x24x96xf32>) -> tensor<2x24x96xf32>
  return %7 : tensor<2x24x96xf32>
}

// -----

// In bf16 with f32 inside: the norm accumulates in f32 anyway.
// CHECK-LABEL: @rms_norm_with_casts
// CHECK-NEXT: kfuse.rms_norm %arg0, %arg1 {{.*}} (tensor<8x96xbf16>, tensor<96xbf16>) -> tensor<8x96xbf16>
// CHECK-NEXT: return
func.func @rms_norm_with_casts(%x: tensor<8x96xbf16>, %w: tensor<96xbf16>) -> tensor<8x96xbf16> {
  %epsilon = kfuse.constant dense<1.0e-5> : tensor<f32>
  %wide = kfuse.cast %x : (tensor<8x96xbf16>) -> tensor<8x96xf32>
  %0 = kfuse.mul %wide, %wide : (tensor<8x96xf32>, tensor<8x96xf32>) -> tensor<8x96xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 1>} : (tensor<8x96xf32>) -> tensor<8xf32>
  %2 = kfuse.reshape %1 : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = kfuse.add %2, %epsilon : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %4 = kfuse.rsqrt %3 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %5 = kfuse.mul %wide, %4 : (tensor<8x96xf32>, tensor<8x1xf32>) -> tensor<8x96xf32>
  %weight = kfuse.cast %w : (tensor<96xbf16>) -> tensor<96xf32>
  %6 = kfuse.mul %5, %weight : (tensor<8x96xf32>, tensor<96xf32>) -> tensor<8x96xf32>
  %7 = kfuse.cast %6 : (tensor<8x96xf32>) -> tensor<8x96xbf16>
  return %7 : tensor<8x96xbf16>
}

// -----

// Decomposed with a division and the mean as a sum.
// CHECK-LABEL: @layer_norm
// CHECK-NEXT: kfuse.layer_norm %arg0, %arg1, %arg2
// CHECK-NEXT: return
func.func @layer_norm(%x: tensor<8x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  %epsilon = kfuse.constant dense<1.0e-5> : tensor<f32>
  %count = kfuse.constant dense<64.0> : tensor<f32>
  %sum = kfuse.reduce %x {function = "sum", axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %column = kfuse.reshape %sum : (tensor<8xf32>) -> tensor<8x1xf32>
  %mean = kfuse.div %column, %count : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %0 = kfuse.sub %x, %mean : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %1 = kfuse.mul %0, %0 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = kfuse.reduce %1 {function = "mean", axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %3 = kfuse.reshape %2 : (tensor<8xf32>) -> tensor<8x1xf32>
  %4 = kfuse.add %epsilon, %3 : (tensor<f32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  %5 = kfuse.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = kfuse.div %0, %5 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %7 = kfuse.mul %6, %w : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %8 = kfuse.add %b, %7 : (tensor<64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %8 : tensor<8x64xf32>
}

// -----

// A mean over another dimension is no norm of rows.
// CHECK-LABEL: @other_axis
// CHECK-NOT: rms_norm
// CHECK: return
func.func @other_axis(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %epsilon = kfuse.constant dense<1.0e-5> : tensor<f32>
  %0 = kfuse.mul %x, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 0>} : (tensor<8x64xf32>) -> tensor<64xf32>
  %2 = kfuse.add %1, %epsilon : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %3 = kfuse.rsqrt %2 : (tensor<64xf32>) -> tensor<64xf32>
  %4 = kfuse.mul %x, %3 : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  return %4 : tensor<8x64xf32>
}

// -----

// CHECK-LABEL: @softmax
// CHECK-NEXT: kfuse.softmax %arg0
// CHECK-NEXT: return
func.func @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %max = kfuse.reduce %x {function = "max", axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %column = kfuse.reshape %max : (tensor<8xf32>) -> tensor<8x1xf32>
  %0 = kfuse.sub %x, %column : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %1 = kfuse.exp %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %sum = kfuse.reduce %1 {function = "sum", axes = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %2 = kfuse.reshape %sum : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = kfuse.div %1, %2 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  return %3 : tensor<8x64xf32>
}

// -----

// CHECK-LABEL: @casts_around_rows
// CHECK-NEXT: kfuse.layer_norm %arg0, %arg1 {{.*}} (tensor<8x64xf16>, tensor<64xf16>) -> tensor<8x64xf16>
// CHECK-NEXT: kfuse.softmax %arg0 : (tensor<8x64xf16>) -> tensor<8x64xf16>
// CHECK-NEXT: return
func.func @casts_around_rows(%x: tensor<8x64xf16>, %w: tensor<64xf16>) -> (tensor<8x64xf16>, tensor<8x64xf16>) {
  %0 = kfuse.cast %x : (tensor<8x64xf16>) -> tensor<8x64xf32>
  %1 = kfuse.cast %w : (tensor<64xf16>) -> tensor<64xf32>
  %2 = kfuse.layer_norm %0, %1 {epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %3 = kfuse.cast %2 : (tensor<8x64xf32>) -> tensor<8x64xf16>
  %4 = kfuse.softmax %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %5 = kfuse.cast %4 : (tensor<8x64xf32>) -> tensor<8x64xf16>
  return %3, %5 : tensor<8x64xf16>, tensor<8x64xf16>
}
