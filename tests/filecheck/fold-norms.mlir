// RUN: kfuse-opt %s --target=sm_90a --kfuse-fold-norms --split-input-file | FileCheck %s

// Many rows: a number a row is read instead of the whole, and the weights hold the norm's.
// CHECK-LABEL: @main
// CHECK: %[[WIDE:.*]] = kfuse.cast %arg0 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
// CHECK: %[[SQUARES:.*]] = kfuse.mul %[[WIDE]], %[[WIDE]]
// CHECK: %[[MEAN:.*]] = kfuse.reduce %[[SQUARES]] {axes = array<i64: 1>, function = "mean"}
// CHECK: %[[SCALE:.*]] = kfuse.rsqrt
// CHECK: %[[WEIGHTS:.*]] = kfuse.mul %arg2, %{{.*}} : (tensor<4096x5632xbf16>, tensor<4096x1xbf16>)
// CHECK: %[[PRODUCT:.*]] = kfuse.matmul %arg0, %[[WEIGHTS]]
// CHECK: %[[SUM:.*]] = kfuse.cast %[[PRODUCT]]
// CHECK: kfuse.mul %[[SUM]], %[[SCALE]] : (tensor<4096x5632xf32>, tensor<4096x1xf32>)
// CHECK-NOT: kfuse.rms_norm
func.func @main(%x: tensor<4096x4096xbf16>, %g: tensor<4096xbf16> {kfuse.role = "parameter"},
                %w: tensor<4096x5632xbf16> {kfuse.role = "parameter"}) -> tensor<4096x5632xbf16> {
  %0 = kfuse.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<4096x4096xbf16>, tensor<4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = kfuse.matmul %0, %w : (tensor<4096x4096xbf16>, tensor<4096x5632xbf16>) -> tensor<4096x5632xbf16>
  return %1 : tensor<4096x5632xbf16>
}

// -----

// One row: its product's kernel computes the norm.
// CHECK-LABEL: @main
// CHECK: kfuse.rms_norm
// CHECK-NOT: kfuse.reduce
func.func @main(%x: tensor<1x4096xbf16>, %g: tensor<4096xbf16> {kfuse.role = "parameter"},
                %w: tensor<6144x4096xbf16> {kfuse.role = "parameter"}) -> tensor<1x6144xbf16> {
  %0 = kfuse.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<1x4096xbf16>, tensor<4096xbf16>) -> tensor<1x4096xbf16>
  %1 = kfuse.matmul %0, %w {transpose_b} : (tensor<1x4096xbf16>, tensor<6144x4096xbf16>) -> tensor<1x6144xbf16>
  return %1 : tensor<1x6144xbf16>
}
