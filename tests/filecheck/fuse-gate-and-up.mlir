// RUN: kfuse-opt %s --target=sm_86 --kfuse-fuse --split-input-file | FileCheck %s

// Two products of one left operand that stay apart: the estimate says why, or the template does; that a kernel takes
// no two would be wrong. Of two left operands it is right.

// CHECK-LABEL: @slower_together
// CHECK-SAME: "matmul", "matmul", "estimated slower as one kernel"
func.func @slower_together(%x: tensor<2048x1024xbf16>, %w: tensor<4096x1024xbf16>, %v: tensor<4096x1024xbf16>) -> tensor<2048x4096xbf16> {
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<2048x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<2048x4096xbf16>
  %1 = kfuse.matmul %x, %v {transpose_b} : (tensor<2048x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<2048x4096xbf16>
  %2 = kfuse.silu %0 : (tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
  %3 = kfuse.mul %2, %1 : (tensor<2048x4096xbf16>, tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
  return %3 : tensor<2048x4096xbf16>
}

// -----

// CHECK-LABEL: @refused
// CHECK-SAME: "matmul", "matmul", "{{[^"]*}}plain FMAs gain nothing from two products at once
func.func @refused(%x: tensor<2048x1024xf32>, %w: tensor<1024x1024xf32>, %v: tensor<1024x1024xf32>) -> tensor<2048x1024xf32> {
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  %1 = kfuse.matmul %x, %v {transpose_b} : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  %2 = kfuse.silu %0 : (tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  %3 = kfuse.mul %2, %1 : (tensor<2048x1024xf32>, tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  return %3 : tensor<2048x1024xf32>
}

// -----

// CHECK-LABEL: @two_left_operands
// CHECK-SAME: "matmul", "matmul", "a kernel computes one matrix product, or two of one left operand"
func.func @two_left_operands(%x: tensor<2048x1024xf32>, %z: tensor<2048x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<2048x1024xf32> {
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  %1 = kfuse.matmul %z, %w {transpose_b} : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  %2 = kfuse.mul %0, %1 : (tensor<2048x1024xf32>, tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  return %2 : tensor<2048x1024xf32>
}
