// RUN: kfuse-opt %s --target=sm_90a --kfuse-fuse --split-input-file | FileCheck %s --check-prefixes=CHECK,HOPPER
// RUN: kfuse-opt %s --target=sm_80 --kfuse-fuse --split-input-file | FileCheck %s --check-prefixes=CHECK,OTHER
// RUN: kfuse-opt %s --target=cpu --kfuse-fuse --split-input-file | FileCheck %s --check-prefixes=CHECK,OTHER

// Where a cluster holds whole rows of a product, their norm is part of its kernel; elsewhere the refusal says why not.
// CHECK-LABEL: @linear_norm
// OTHER-SAME: ["matmul", "layer_norm", "the consumer needs whole rows, a product's kernel holds tiles of them"]
// HOPPER: kfuse.fused
// HOPPER: kfuse.matmul
// HOPPER: kfuse.layer_norm
// HOPPER: kfuse.relu
// HOPPER-NOT: kfuse.fused
// OTHER: kfuse.matmul
// OTHER: kfuse.fused
// OTHER: kfuse.layer_norm
func.func @linear_norm(%x: tensor<16384x512xbf16>, %w: tensor<1024x512xbf16>, %b: tensor<1024xbf16>) -> tensor<16384x1024xbf16> {
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<16384x512xbf16>, tensor<1024x512xbf16>) -> tensor<16384x1024xbf16>
  %1 = kfuse.add %0, %b : (tensor<16384x1024xbf16>, tensor<1024xbf16>) -> tensor<16384x1024xbf16>
  %2 = "kfuse.layer_norm"(%1, %b, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<16384x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<16384x1024xbf16>
  %3 = kfuse.relu %2 : (tensor<16384x1024xbf16>) -> tensor<16384x1024xbf16>
  return %3 : tensor<16384x1024xbf16>
}

// -----

// No cluster's registers hold rows as long as these.
// CHECK-LABEL: @long_rows
// CHECK-SAME: ["matmul", "softmax", "the consumer needs whole rows, a product's kernel holds tiles of them"]
func.func @long_rows(%x: tensor<4096x512xbf16>, %w: tensor<8192x512xbf16>) -> tensor<4096x8192xbf16> {
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<4096x512xbf16>, tensor<8192x512xbf16>) -> tensor<4096x8192xbf16>
  %1 = kfuse.softmax %0 : (tensor<4096x8192xbf16>) -> tensor<4096x8192xbf16>
  return %1 : tensor<4096x8192xbf16>
}

// -----

// Norms on both sides of a product: one joins it, the other stays.
// CHECK-LABEL: @norms_around
// CHECK: kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.rms_norm
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.matmul
// HOPPER: kfuse.rms_norm
// HOPPER-NOT: kfuse.fused
func.func @norms_around(%x: tensor<16384x512xbf16>, %w: tensor<512x512xbf16>) -> tensor<16384x512xbf16> {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<16384x512xbf16>) -> tensor<16384x512xbf16>
  %1 = kfuse.matmul %0, %w {transpose_b} : (tensor<16384x512xbf16>, tensor<512x512xbf16>) -> tensor<16384x512xbf16>
  %2 = kfuse.rms_norm %1 {epsilon = 1.0e-5 : f32} : (tensor<16384x512xbf16>) -> tensor<16384x512xbf16>
  return %2 : tensor<16384x512xbf16>
}

// -----

// A norm joins a product of few rows, each block of which computes it, but not one of many.
// CHECK-LABEL: @norm_of_one_row
// HOPPER: kfuse.fused
// HOPPER: kfuse.rms_norm
// HOPPER: kfuse.matmul
// HOPPER-NOT: kfuse.fused
func.func @norm_of_one_row(%x: tensor<1x4096xbf16>, %w: tensor<6144x4096xbf16>) -> tensor<1x6144xbf16> {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<1x4096xbf16>) -> tensor<1x4096xbf16>
  %1 = kfuse.matmul %0, %w {transpose_b} : (tensor<1x4096xbf16>, tensor<6144x4096xbf16>) -> tensor<1x6144xbf16>
  return %1 : tensor<1x6144xbf16>
}

// -----

// CHECK-LABEL: @norm_of_many_rows
// CHECK-SAME: ["rms_norm", "matmul", "a product reads its operands many times, so they are computed before"]
func.func @norm_of_many_rows(%x: tensor<64x4096xbf16>, %w: tensor<6144x4096xbf16>) -> tensor<64x6144xbf16> {
  %0 = kfuse.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<64x4096xbf16>) -> tensor<64x4096xbf16>
  %1 = kfuse.matmul %0, %w {transpose_b} : (tensor<64x4096xbf16>, tensor<6144x4096xbf16>) -> tensor<64x6144xbf16>
  return %1 : tensor<64x6144xbf16>
}
