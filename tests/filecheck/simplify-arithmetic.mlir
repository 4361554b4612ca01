// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// CHECK-LABEL: @neutral
// CHECK-NEXT: return %arg0
func.func @neutral(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %zero = kfuse.constant dense<0.0> : tensor<8xf32>
  %0 = kfuse.mul %one, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.add %0, %zero : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A neutral operand that broadcasts still decides the shape.
// CHECK-LABEL: @neutral_broadcasts
// CHECK: kfuse.broadcast %arg0
func.func @neutral_broadcasts(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = kfuse.constant dense<0.0> : tensor<4x8xf32>
  %0 = kfuse.add %x, %zero : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @constants_combine
// CHECK: kfuse.constant dense<6.000000e+00>
// CHECK: kfuse.mul
// CHECK-NOT: kfuse.mul
// CHECK: return
func.func @constants_combine(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = kfuse.constant dense<2.0> : tensor<f32>
  %three = kfuse.constant dense<3.0> : tensor<f32>
  %0 = kfuse.mul %two, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kfuse.mul %0, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @powers
// CHECK-DAG: %[[SQUARE:.*]] = kfuse.mul %arg0, %arg0
// CHECK-DAG: kfuse.mul %[[SQUARE]], %arg0
// CHECK-DAG: kfuse.sqrt %arg0
// CHECK-NOT: kfuse.pow
// CHECK: return
func.func @powers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %three = kfuse.constant dense<3.0> : tensor<f32>
  %half = kfuse.constant dense<0.5> : tensor<f32>
  %0 = kfuse.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = kfuse.pow %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// bf16 -> f32 -> bf16 is nothing; f32 -> bf16 -> f32 rounds and stays.
// CHECK-LABEL: @casts
// CHECK-NEXT: %[[NARROW:.*]] = kfuse.cast %arg1 : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = kfuse.cast %[[NARROW]]
// CHECK-NEXT: return %arg0, %[[WIDE]]
func.func @casts(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %0 = kfuse.cast %x : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = kfuse.cast %0 : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = kfuse.cast %y : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = kfuse.cast %2 : (tensor<4xbf16>) -> tensor<4xf32>
  return %1, %3 : tensor<4xbf16>, tensor<4xf32>
}

// -----

// Only a divisor whose reciprocal is exact becomes a factor.
// CHECK-LABEL: @divisors
// CHECK-DAG: kfuse.mul %arg0
// CHECK-DAG: kfuse.div %arg0
func.func @divisors(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %eight = kfuse.constant dense<8.0> : tensor<f32>
  %three = kfuse.constant dense<3.0> : tensor<f32>
  %0 = kfuse.div %x, %eight : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = kfuse.div %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A mask of constants is folded, whatever its size.
// CHECK-LABEL: @folds
// CHECK-NEXT: kfuse.constant dense<2.500000e-01> : tensor<512x512xf32>
// CHECK-NEXT: return
func.func @folds() -> tensor<512x512xf32> {
  %sixteen = kfuse.constant dense<16.0> : tensor<f32>
  %big = kfuse.broadcast %sixteen : (tensor<f32>) -> tensor<512x512xf32>
  %0 = kfuse.sqrt %big : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = kfuse.reciprocal %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  return %1 : tensor<512x512xf32>
}
