// RUN: kfuse-opt %s --kfuse-pipeline | FileCheck %s
// RUN: kfuse-opt %s --kfuse-pipeline --target=cpu | FileCheck %s
// RUN: kfuse-opt %s --kfuse-pipeline --target=sm_90a | FileCheck %s

// A feed-forward block as an exporter writes it, in 3 kernels; the weight's scale is prepared.
// CHECK: func.func @prepare
// CHECK: kfuse.mul
// CHECK: func.func @main
// CHECK: kfuse.fused
// CHECK: kfuse.rms_norm
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.gelu
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.add
// CHECK-NOT: kfuse.fused
// CHECK: return
func.func @main(%x: tensor<2x16x32xf32> {kfuse.role = "input", kfuse.name = "x"},
                %norm: tensor<32xf32> {kfuse.role = "parameter", kfuse.name = "norm"},
                %gain: tensor<32xf32> {kfuse.role = "parameter", kfuse.name = "gain"},
                %up: tensor<64x32xf32> {kfuse.role = "parameter", kfuse.name = "up"},
                %down: tensor<64x32xf32> {kfuse.role = "parameter", kfuse.name = "down"}) -> (tensor<2x16x32xf32> {kfuse.name = "y"}) {
  %epsilon = kfuse.constant dense<1.0e-5> : tensor<f32>
  %root = kfuse.constant dense<1.41421354> : tensor<f32>
  %one = kfuse.constant dense<1.0> : tensor<f32>
  %half = kfuse.constant dense<0.5> : tensor<f32>
  %weight = kfuse.mul %norm, %gain : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %0 = kfuse.mul %x, %x : (tensor<2x16x32xf32>, tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 2>} : (tensor<2x16x32xf32>) -> tensor<2x16xf32>
  %2 = kfuse.reshape %1 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
  %3 = kfuse.add %2, %epsilon : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16x1xf32>
  %4 = kfuse.sqrt %3 : (tensor<2x16x1xf32>) -> tensor<2x16x1xf32>
  %5 = kfuse.reciprocal %4 : (tensor<2x16x1xf32>) -> tensor<2x16x1xf32>
  %6 = kfuse.mul %x, %5 : (tensor<2x16x32xf32>, tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
  %7 = kfuse.mul %weight, %6 : (tensor<32xf32>, tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %8 = kfuse.transpose %up {permutation = array<i64: 1, 0>} : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %9 = kfuse.matmul %7, %8 : (tensor<2x16x32xf32>, tensor<32x64xf32>) -> tensor<2x16x64xf32>
  %10 = kfuse.div %9, %root : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16x64xf32>
  %11 = kfuse.erf %10 : (tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
  %12 = kfuse.add %11, %one : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16x64xf32>
  %13 = kfuse.mul %9, %12 : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
  %14 = kfuse.mul %13, %half : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16x64xf32>
  %15 = kfuse.matmul %14, %down : (tensor<2x16x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32>
  %16 = kfuse.add %x, %15 : (tensor<2x16x32xf32>, tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  return %16 : tensor<2x16x32xf32>
}
