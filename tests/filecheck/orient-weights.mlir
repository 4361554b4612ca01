// RUN: kfuse-opt %s --target=sm_90a --kfuse-orient-weights --split-input-file | FileCheck %s
// RUN: kfuse-opt %s --target=sm_90a --kfuse-orient-weights --kfuse-split-prepare --split-input-file | FileCheck %s --check-prefix=PREPARED

// 256 rows of 1024 columns in each of five heads: tiles of 80 and 96 columns leave fewer SMs idle than those of 64 and 128.
// CHECK-LABEL: @main
// CHECK: %[[W:.*]] = kfuse.transpose %arg1 {{.*}}kfuse.stored
// CHECK: kfuse.matmul %arg0, %[[W]] {transpose_b}
// PREPARED-LABEL: @prepare
// PREPARED: kfuse.transpose %arg0
// PREPARED-LABEL: @main
// PREPARED: kfuse.matmul %arg0, %arg2 {transpose_b}
func.func @main(%x: tensor<5x256x1024xbf16>, %w: tensor<5x1024x1024xbf16> {kfuse.role = "parameter"},
                %b: tensor<5x1x1024xbf16> {kfuse.role = "parameter"}) -> tensor<5x256x1024xbf16> {
  %0 = kfuse.matmul %x, %w : (tensor<5x256x1024xbf16>, tensor<5x1024x1024xbf16>) -> tensor<5x256x1024xbf16>
  %1 = kfuse.add %0, %b : (tensor<5x256x1024xbf16>, tensor<5x1x1024xbf16>) -> tensor<5x256x1024xbf16>
  %2 = kfuse.relu %1 : (tensor<5x256x1024xbf16>) -> tensor<5x256x1024xbf16>
  return %2 : tensor<5x256x1024xbf16>
}

// -----

// Many tiles: weights stay as they are.
// CHECK-LABEL: @main
// CHECK-NOT: kfuse.transpose
// CHECK: kfuse.matmul %arg0, %arg1 :
func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16> {kfuse.role = "parameter"}) -> tensor<4096x4096xbf16> {
  %0 = kfuse.matmul %x, %w : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %0 : tensor<4096x4096xbf16>
}

// -----

// What changes from run to run is not stored anew.
// CHECK-LABEL: @main
// CHECK-NOT: kfuse.transpose
func.func @main(%x: tensor<5x256x1024xbf16>, %w: tensor<5x1024x1024xbf16>) -> tensor<5x256x1024xbf16> {
  %0 = kfuse.matmul %x, %w : (tensor<5x256x1024xbf16>, tensor<5x1024x1024xbf16>) -> tensor<5x256x1024xbf16>
  return %0 : tensor<5x256x1024xbf16>
}

// -----

// A convolution's weights [C', C, 3, 3] are stored in the order of its windows, [C', 3 * 3 * C].
// CHECK-LABEL: @main
// CHECK: kfuse.transpose %arg1 {kfuse.stored, permutation = array<i64: 0, 2, 3, 1>}
// PREPARED-LABEL: @prepare
// PREPARED: kfuse.transpose %arg0
func.func @main(%x: tensor<49x576xbf16>, %w: tensor<64x64x3x3xbf16> {kfuse.role = "parameter"}) -> tensor<49x64xbf16> {
  %0 = kfuse.transpose %w {permutation = array<i64: 0, 2, 3, 1>} : (tensor<64x64x3x3xbf16>) -> tensor<64x3x3x64xbf16>
  %1 = kfuse.reshape %0 : (tensor<64x3x3x64xbf16>) -> tensor<64x576xbf16>
  %2 = kfuse.matmul %x, %1 {transpose_b} : (tensor<49x576xbf16>, tensor<64x576xbf16>) -> tensor<49x64xbf16>
  return %2 : tensor<49x64xbf16>
}

// -----

// A depthwise convolution of images whose channels are last reads the weights of neighbouring channels at once: they are
// stored with their channels last, too, taps that are added one after another as well.
// CHECK-LABEL: @main
// CHECK: kfuse.transpose %arg1 {kfuse.stored, permutation = array<i64: 1, 2, 0>}
// PREPARED-LABEL: @prepare
// PREPARED: kfuse.transpose %arg0
func.func @main(%x: tensor<2x9x9x16xbf16>, %w: tensor<16x3x5xbf16> {kfuse.role = "parameter"}) -> tensor<2x7x5x16xbf16> {
  %0 = kfuse.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x9x9x16xbf16>) -> tensor<2x16x9x9xbf16>
  %1 = kfuse.window %0 {kernel = array<i64: 3, 5>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0>} : (tensor<2x16x9x9xbf16>) -> tensor<2x16x3x5x7x5xbf16>
  %2 = kfuse.transpose %1 {permutation = array<i64: 0, 4, 5, 2, 3, 1>} : (tensor<2x16x3x5x7x5xbf16>) -> tensor<2x7x5x3x5x16xbf16>
  %3 = kfuse.transpose %w {permutation = array<i64: 1, 2, 0>} : (tensor<16x3x5xbf16>) -> tensor<3x5x16xbf16>
  %4 = kfuse.mul %2, %3 : (tensor<2x7x5x3x5x16xbf16>, tensor<3x5x16xbf16>) -> tensor<2x7x5x3x5x16xbf16>
  %5 = kfuse.reduce %4 {function = "sum", axes = array<i64: 3, 4>} : (tensor<2x7x5x3x5x16xbf16>) -> tensor<2x7x5x16xbf16>
  return %5 : tensor<2x7x5x16xbf16>
}

// -----

// CHECK-LABEL: @main
// CHECK: %[[TAPS:.*]] = kfuse.transpose %arg1 {kfuse.stored, permutation = array<i64: 1, 0>}
// CHECK: kfuse.slice %[[TAPS]] {offsets = array<i64: 0, 0>
// CHECK-SAME: -> tensor<1x16xbf16>
// CHECK: kfuse.slice %[[TAPS]] {offsets = array<i64: 1, 0>
// PREPARED-LABEL: @prepare
// PREPARED: kfuse.transpose %arg0
func.func @main(%x: tensor<2x9x16xbf16>, %w: tensor<16x2xbf16> {kfuse.role = "parameter"}) -> tensor<2x16x8xbf16> {
  %0 = kfuse.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x9x16xbf16>) -> tensor<2x16x9xbf16>
  %1 = kfuse.window %0 {kernel = array<i64: 2>, strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 0>} : (tensor<2x16x9xbf16>) -> tensor<2x16x2x8xbf16>
  %2 = kfuse.slice %1 {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x16x2x8xbf16>) -> tensor<2x16x1x8xbf16>
  %3 = kfuse.reshape %2 : (tensor<2x16x1x8xbf16>) -> tensor<2x16x8xbf16>
  %4 = kfuse.slice %w {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<16x2xbf16>) -> tensor<16x1xbf16>
  %5 = kfuse.mul %3, %4 : (tensor<2x16x8xbf16>, tensor<16x1xbf16>) -> tensor<2x16x8xbf16>
  %6 = kfuse.slice %1 {offsets = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x16x2x8xbf16>) -> tensor<2x16x1x8xbf16>
  %7 = kfuse.reshape %6 : (tensor<2x16x1x8xbf16>) -> tensor<2x16x8xbf16>
  %8 = kfuse.slice %w {offsets = array<i64: 0, 1>, strides = array<i64: 1, 1>} : (tensor<16x2xbf16>) -> tensor<16x1xbf16>
  %9 = kfuse.mul %7, %8 : (tensor<2x16x8xbf16>, tensor<16x1xbf16>) -> tensor<2x16x8xbf16>
  %10 = kfuse.add %5, %9 : (tensor<2x16x8xbf16>, tensor<2x16x8xbf16>) -> tensor<2x16x8xbf16>
  return %10 : tensor<2x16x8xbf16>
}
