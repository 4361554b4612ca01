// RUN: kfuse-opt %s --kfuse-read-lengths --split-input-file --verify-diagnostics | FileCheck %s

// Rows of the caller's tensor are looked up, the last one again behind them; what a mean takes is 0 there, and divided
// by the length; rows of the result behind it are written nowhere, and nobody needs them.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<1xi64> {kfuse.name = "kfuse.lengths", kfuse.role = "input"}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<8x1x6xf32> {kfuse.name = "y", kfuse.role = "state"}
// CHECK: %[[LAST:.*]] = kfuse.sub {{.*}} -> tensor<1xi64>
// CHECK: %[[ROWS:.*]] = kfuse.min %{{.*}}, %[[LAST]]
// CHECK: %[[X:.*]] = kfuse.gather %{{.*}}, %[[ROWS]]
// CHECK: %[[P:.*]] = kfuse.matmul %[[X]]
// CHECK: %[[READ:.*]] = kfuse.prefix %{{.*}}, %[[N]] {axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 1 : i64}
// CHECK: %[[MASKED:.*]] = kfuse.where %{{.*}}, %[[READ]], %{{.*}}
// CHECK: %[[SUM:.*]] = kfuse.reduce %[[MASKED]] {{.*}}"sum"
// CHECK: kfuse.div %[[SUM]], %{{.*}}
// CHECK: %[[NEEDED:.*]] = kfuse.prefix %{{.*}}, %[[N]] {axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 1 : i64}
// CHECK: %[[APART:.*]] = kfuse.reshape %[[NEEDED]]
// CHECK: %[[ENDED:.*]] = kfuse.prefix %[[APART]], %[[N]]
// CHECK: kfuse.state_update %[[Y]], %[[ENDED]], %{{.*}} {axis = 1 : i64}
// CHECK-NOT: func.func
func.func @main(%x: tensor<8x4xf32> {kfuse.role = "input", kfuse.name = "x"},
                %w: tensor<4x6xf32> {kfuse.role = "parameter", kfuse.name = "w"}) -> (tensor<8x6xf32> {kfuse.name = "y"}, tensor<6xf32> {kfuse.name = "mean"})
    attributes {kfuse.lengths = array<i64: 1, 8>} {
  %0 = kfuse.matmul %x, %w : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 0>} : (tensor<8x6xf32>) -> tensor<6xf32>
  return %0, %1 : tensor<8x6xf32>, tensor<6xf32>
}
func.func @shorter(%x: tensor<7x4xf32> {kfuse.role = "input", kfuse.name = "x"},
                %w: tensor<4x6xf32> {kfuse.role = "parameter", kfuse.name = "w"}) -> (tensor<7x6xf32> {kfuse.name = "y"}, tensor<6xf32> {kfuse.name = "mean"})
    attributes {kfuse.probe = array<i64: 0, 7>} {
  %0 = kfuse.matmul %x, %w : (tensor<7x4xf32>, tensor<4x6xf32>) -> tensor<7x6xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 0>} : (tensor<7x6xf32>) -> tensor<6xf32>
  return %0, %1 : tensor<7x6xf32>, tensor<6xf32>
}
func.func @shortest(%x: tensor<6x4xf32> {kfuse.role = "input", kfuse.name = "x"},
                %w: tensor<4x6xf32> {kfuse.role = "parameter", kfuse.name = "w"}) -> (tensor<6x6xf32> {kfuse.name = "y"}, tensor<6xf32> {kfuse.name = "mean"})
    attributes {kfuse.probe = array<i64: 0, 6>} {
  %0 = kfuse.matmul %x, %w : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  %1 = kfuse.reduce %0 {function = "mean", axes = array<i64: 0>} : (tensor<6x6xf32>) -> tensor<6xf32>
  return %0, %1 : tensor<6x6xf32>, tensor<6xf32>
}

// -----

// What an op cannot do for some lengths is named.
// expected-error @+1 {{rms_norm: it normalises along a dimension that follows a length}}
func.func @main(%x: tensor<4x8xf32> {kfuse.role = "input", kfuse.name = "x"}) -> tensor<4x8xf32> attributes {kfuse.lengths = array<i64: 1, 8>} {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @shorter(%x: tensor<4x7xf32> {kfuse.role = "input", kfuse.name = "x"}) -> tensor<4x7xf32> attributes {kfuse.probe = array<i64: 0, 7>} {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x7xf32>) -> tensor<4x7xf32>
  return %0 : tensor<4x7xf32>
}
func.func @shortest(%x: tensor<4x6xf32> {kfuse.role = "input", kfuse.name = "x"}) -> tensor<4x6xf32> attributes {kfuse.probe = array<i64: 0, 6>} {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
