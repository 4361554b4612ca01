// RUN: kfuse-opt %s --target=sm_90a --kfuse-fuse | FileCheck %s

// Products in a row become one launch where that is estimated faster: many small ones.
// CHECK-LABEL: @many
// CHECK: kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.fused
// CHECK-COUNT-16: kfuse.matmul
// CHECK: return
func.func @many(%x: tensor<256x512xbf16>, %u: tensor<512x512xbf16>, %v: tensor<512x512xbf16>) -> tensor<256x512xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %1 = kfuse.matmul %0, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %2 = kfuse.matmul %1, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %3 = kfuse.matmul %2, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %4 = kfuse.matmul %3, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %5 = kfuse.matmul %4, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %6 = kfuse.matmul %5, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %7 = kfuse.matmul %6, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %8 = kfuse.matmul %7, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %9 = kfuse.matmul %8, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %10 = kfuse.matmul %9, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %11 = kfuse.matmul %10, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %12 = kfuse.matmul %11, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %13 = kfuse.matmul %12, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %14 = kfuse.matmul %13, %u {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  %15 = kfuse.matmul %14, %v {transpose_b} : (tensor<256x512xbf16>, tensor<512x512xbf16>) -> tensor<256x512xbf16>
  return %15 : tensor<256x512xbf16>
}

// Two layers save one launch: less than estimates err by.
// CHECK-LABEL: @wide
// CHECK-SAME: a chain of them is estimated slower
// CHECK: kfuse.fused %arg0
// CHECK: kfuse.matmul
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
func.func @wide(%x: tensor<1024x2048xbf16>, %u: tensor<2048x2048xbf16>, %v: tensor<2048x2048xbf16>) -> tensor<1024x2048xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<1024x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<1024x2048xbf16>
  %1 = kfuse.matmul %0, %v {transpose_b} : (tensor<1024x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<1024x2048xbf16>
  return %1 : tensor<1024x2048xbf16>
}

// Large ones fill the device by themselves.
// CHECK-LABEL: @large
// CHECK-NOT: estimated slower
// CHECK: kfuse.fused %arg0
// CHECK: kfuse.matmul
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
func.func @large(%x: tensor<8192x4096xbf16>, %u: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
  %1 = kfuse.matmul %0, %v {transpose_b} : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
  return %1 : tensor<8192x4096xbf16>
}

// Rows of 16384 columns fit no cluster: each layer keeps its launch.
// CHECK-LABEL: @weights
// CHECK-COUNT-4: kfuse.fused %
// CHECK-NOT: kfuse.fused %
// CHECK: return
func.func @weights(%x: tensor<16x16384xbf16>, %u: tensor<16384x16384xbf16>, %v: tensor<16384x16384xbf16>, %w: tensor<16384x16384xbf16>, %z: tensor<16384x16384xbf16>, %a: tensor<16384xbf16>) -> tensor<16x16384xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %1 = kfuse.add %0, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %2 = kfuse.relu %1 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %3 = kfuse.matmul %2, %v {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %4 = kfuse.add %3, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %5 = kfuse.relu %4 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %6 = kfuse.matmul %5, %w {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %7 = kfuse.add %6, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %8 = kfuse.relu %7 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %9 = kfuse.matmul %8, %z {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %10 = kfuse.add %9, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %11 = kfuse.relu %10 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  return %11 : tensor<16x16384xbf16>
}

// So do those of one weight, which outgrows the last-level cache.
// CHECK-LABEL: @tied
// CHECK-COUNT-4: kfuse.fused %
// CHECK-NOT: kfuse.fused %
// CHECK: return
func.func @tied(%x: tensor<16x16384xbf16>, %u: tensor<16384x16384xbf16>, %a: tensor<16384xbf16>) -> tensor<16x16384xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %1 = kfuse.add %0, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %2 = kfuse.relu %1 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %3 = kfuse.matmul %2, %u {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %4 = kfuse.add %3, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %5 = kfuse.relu %4 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %6 = kfuse.matmul %5, %u {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %7 = kfuse.add %6, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %8 = kfuse.relu %7 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  %9 = kfuse.matmul %8, %u {transpose_b} : (tensor<16x16384xbf16>, tensor<16384x16384xbf16>) -> tensor<16x16384xbf16>
  %10 = kfuse.add %9, %a : (tensor<16x16384xbf16>, tensor<16384xbf16>) -> tensor<16x16384xbf16>
  %11 = kfuse.relu %10 : (tensor<16x16384xbf16>) -> tensor<16x16384xbf16>
  return %11 : tensor<16x16384xbf16>
}

// But where clusters hold whole rows: between layers those need not leave the last-level cache.
// CHECK-LABEL: @normed
// CHECK: kfuse.fused %arg0
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.layer_norm
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.layer_norm
// CHECK: return
func.func @normed(%x: tensor<32768x1024xbf16>, %u: tensor<1024x1024xbf16>, %v: tensor<1024x1024xbf16>, %a: tensor<1024xbf16>, %b: tensor<1024xbf16>) -> tensor<32768x1024xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %1 = "kfuse.layer_norm"(%0, %a, %b) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<32768x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %2 = kfuse.relu %1 : (tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  %3 = kfuse.matmul %2, %v {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %4 = "kfuse.layer_norm"(%3, %b, %a) <{epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<32768x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> tensor<32768x1024xbf16>
  %5 = kfuse.relu %4 : (tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  return %5 : tensor<32768x1024xbf16>
}
