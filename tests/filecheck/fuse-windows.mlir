// RUN: kfuse-opt %s --target=sm_90a --kfuse-fuse --split-input-file | FileCheck %s

// A convolution of images whose channels are first: a kernel writes them with their channels last, and the product reads
// its windows from there. The windows themselves never lie in memory.
// CHECK-LABEL: @channels_first
// CHECK: %[[LAST:.*]] = kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.transpose
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.window
// CHECK: kfuse.matmul
// CHECK-NEXT: kfuse.yield
// CHECK-NOT: kfuse.fused
func.func @channels_first(%x: tensor<32x128x28x28xbf16>, %w: tensor<128x1152xbf16>) -> tensor<25088x128xbf16> {
  %0 = kfuse.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<32x128x28x28xbf16>) -> tensor<32x28x28x128xbf16>
  %1 = kfuse.reshape %0 : (tensor<32x28x28x128xbf16>) -> tensor<32x28x3584xbf16>
  %2 = kfuse.window %1 {kernel = array<i64: 3, 384>, strides = array<i64: 1, 128>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 128>} : (tensor<32x28x3584xbf16>) -> tensor<32x3x384x28x28xbf16>
  %3 = kfuse.transpose %2 {permutation = array<i64: 0, 3, 4, 1, 2>} : (tensor<32x3x384x28x28xbf16>) -> tensor<32x28x28x3x384xbf16>
  %4 = kfuse.reshape %3 : (tensor<32x28x28x3x384xbf16>) -> tensor<25088x1152xbf16>
  %5 = kfuse.matmul %4, %w {transpose_b} : (tensor<25088x1152xbf16>, tensor<128x1152xbf16>) -> tensor<25088x128xbf16>
  return %5 : tensor<25088x128xbf16>
}

// -----

// With their channels last they are read where they are.
// CHECK-LABEL: @channels_last
// CHECK: kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.window
// CHECK: kfuse.matmul
// CHECK-NOT: kfuse.fused
func.func @channels_last(%x: tensor<32x28x3584xbf16>, %w: tensor<128x1152xbf16>) -> tensor<25088x128xbf16> {
  %2 = kfuse.window %x {kernel = array<i64: 3, 384>, strides = array<i64: 1, 128>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 128>} : (tensor<32x28x3584xbf16>) -> tensor<32x3x384x28x28xbf16>
  %3 = kfuse.transpose %2 {permutation = array<i64: 0, 3, 4, 1, 2>} : (tensor<32x3x384x28x28xbf16>) -> tensor<32x28x28x3x384xbf16>
  %4 = kfuse.reshape %3 : (tensor<32x28x28x3x384xbf16>) -> tensor<25088x1152xbf16>
  %5 = kfuse.matmul %4, %w {transpose_b} : (tensor<25088x1152xbf16>, tensor<128x1152xbf16>) -> tensor<25088x128xbf16>
  return %5 : tensor<25088x128xbf16>
}
