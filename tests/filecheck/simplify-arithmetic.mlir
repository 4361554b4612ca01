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

// -----

// CHECK-LABEL: @neutral_on_the_right
// CHECK-NEXT: return %arg0, %arg0, %arg1
func.func @neutral_on_the_right(%x: tensor<4xf32>, %n: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi64>) {
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %1 = kfuse.constant dense<1> : tensor<i64>
  %2 = kfuse.sub %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = kfuse.pow %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = kfuse.div %n, %1 : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xi64>
}

// -----

// CHECK-LABEL: @sums_combine
// CHECK-DAG: %[[THREE:.*]] = kfuse.constant dense<3.000000e+00>
// CHECK-DAG: %[[TOP:.*]] = kfuse.constant dense<7.000000e+00>
// CHECK-DAG: kfuse.add %arg0, %[[THREE]]
// CHECK-DAG: kfuse.min %arg0, %[[TOP]]
// CHECK-NOT: kfuse.add
// CHECK: return
func.func @sums_combine(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %two = kfuse.constant dense<2.0> : tensor<f32>
  %seven = kfuse.constant dense<7.0> : tensor<f32>
  %0 = kfuse.add %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = kfuse.add %0, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = kfuse.min %seven, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: @negations
// CHECK-DAG: %[[MINUS_X:.*]] = kfuse.neg %arg0
// CHECK-DAG: %[[MINUS_Y:.*]] = kfuse.neg %arg1
// CHECK-DAG: %[[DIFFERENCE:.*]] = kfuse.sub %arg0, %arg1
// CHECK-DAG: %[[SUM:.*]] = kfuse.add %arg1, %arg0
// CHECK: return %[[MINUS_X]], %[[MINUS_Y]], %arg0, %arg2, %[[DIFFERENCE]], %[[SUM]]
func.func @negations(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<4xi1>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) {
  %minus = kfuse.constant dense<-1.0> : tensor<f32>
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %0 = kfuse.mul %x, %minus : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = kfuse.sub %zero, %y : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = kfuse.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = kfuse.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = kfuse.not %c : (tensor<4xi1>) -> tensor<4xi1>
  %5 = kfuse.not %4 : (tensor<4xi1>) -> tensor<4xi1>
  %6 = kfuse.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  %7 = kfuse.add %x, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = kfuse.sub %y, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %3, %5, %7, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A choice between equals, and one that is known.
// CHECK-LABEL: @choices
// CHECK-NEXT: return %arg1, %arg2
func.func @choices(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %never = kfuse.constant dense<false> : tensor<i1>
  %0 = kfuse.where %c, %x, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kfuse.where %never, %x, %y : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A number that was written out for every element is one number again.
// CHECK-LABEL: @splat_shrinks
// CHECK-NEXT: %[[THREE:.*]] = kfuse.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT: kfuse.max %arg0, %[[THREE]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT: return
func.func @splat_shrinks(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = kfuse.constant dense<3.0> : tensor<4x8xf32>
  %0 = kfuse.max %x, %three : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
