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
