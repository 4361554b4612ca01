// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// torch.nn.GELU is exported so: x / sqrt 2, erf, + 1, * x, * 0.5.
// CHECK-LABEL: @erf_gelu
// CHECK-NEXT: kfuse.gelu %arg0
// CHECK-NEXT: return
func.func @erf_gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %root = kfuse.constant dense<1.4142135381698608> : tensor<f32>
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %half = kfuse.constant dense<0.5> : tensor<f32>
  %0 = kfuse.div %x, %root : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = kfuse.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = kfuse.mul %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = kfuse.mul %3, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// Another order: (0.5 * x) * (1 + erf(x * 0.7071)).
// CHECK-LABEL: @erf_gelu_reordered
// CHECK-NEXT: kfuse.gelu %arg0
// CHECK-NEXT: return
func.func @erf_gelu_reordered(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %root = kfuse.constant dense<0.70703125> : tensor<f16>
  %one = kfuse.constant dense<1.0> : tensor<f16>
  %half = kfuse.constant dense<0.5> : tensor<f16>
  %0 = kfuse.mul %half, %x : (tensor<f16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %1 = kfuse.mul %x, %root : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
  %2 = kfuse.erf %1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %3 = kfuse.add %one, %2 : (tensor<f16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %4 = kfuse.mul %3, %0 : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  return %4 : tensor<4x8xf16>
}

// -----

// x * 0.5 (1 + tanh(0.79788 (x + 0.044715 x^3))).
// CHECK-LABEL: @tanh_gelu
// CHECK-NEXT: kfuse.gelu_tanh %arg0
// CHECK-NEXT: return
func.func @tanh_gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = kfuse.constant dense<3.0> : tensor<f32>
  %cubic = kfuse.constant dense<0.044715> : tensor<f32>
  %scale = kfuse.constant dense<0.7978845608> : tensor<f32>
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %half = kfuse.constant dense<0.5> : tensor<f32>
  %0 = kfuse.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = kfuse.mul %cubic, %0 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.add %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = kfuse.mul %2, %scale : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = kfuse.tanh %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = kfuse.add %4, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %6 = kfuse.mul %half, %5 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = kfuse.mul %x, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// -----

// The same with another cubic coefficient is something else.
// CHECK-LABEL: @no_gelu
// CHECK: kfuse.tanh
// CHECK-NOT: kfuse.gelu
// CHECK: return
func.func @no_gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %cubic = kfuse.constant dense<0.05> : tensor<f32>
  %scale = kfuse.constant dense<0.7978845608> : tensor<f32>
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %half = kfuse.constant dense<0.5> : tensor<f32>
  %0 = kfuse.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kfuse.mul %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = kfuse.mul %1, %cubic : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = kfuse.add %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = kfuse.mul %3, %scale : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = kfuse.tanh %4 : (tensor<4xf32>) -> tensor<4xf32>
  %6 = kfuse.add %5, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = kfuse.mul %6, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %8 = kfuse.mul %x, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @silu
// CHECK-DAG: kfuse.silu %arg0
// CHECK-DAG: kfuse.silu %arg1
// CHECK-DAG: kfuse.relu %arg0
// CHECK-NOT: kfuse.sigmoid
// CHECK: return
func.func @silu(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %0 = kfuse.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = kfuse.mul %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = kfuse.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  %3 = kfuse.exp %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = kfuse.add %one, %3 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = kfuse.div %y, %4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = kfuse.max %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// 1 / (1 + exp(-x)).
// CHECK-LABEL: @sigmoid
// CHECK-NEXT: kfuse.sigmoid %arg0
// CHECK-NEXT: return
func.func @sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %0 = kfuse.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = kfuse.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = kfuse.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = kfuse.div %one, %2 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
