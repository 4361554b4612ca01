// A dequantised matrix is stored neither by @prepare nor by a kernel: it is part of the product that reads it.
// RUN: kfuse-opt %s --kfuse-pipeline --target=sm_80 | FileCheck %s
// RUN: kfuse-opt %s --kfuse-pipeline --target=sm_90a | FileCheck %s
// RUN: kfuse-opt %s --kfuse-pipeline --target=cpu | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK: kfuse.dequantize
// CHECK: kfuse.matmul
// CHECK: kfuse.add
// CHECK: kfuse.yield %{{.*}} : tensor<1x96xbf16>
// CHECK: return %[[Y]]
// CHECK-NOT: kfuse.fused
// CHECK-NOT: @prepare
func.func @main(%x: tensor<1x512xbf16>, %q: tensor<96x512xui4> {kfuse.role = "parameter"},
                %s: tensor<96x4xbf16> {kfuse.role = "parameter"}, %b: tensor<96xbf16> {kfuse.role = "parameter"})
    -> tensor<1x96xbf16> {
  %z = kfuse.constant dense<8> : tensor<96x4xui4>
  %w = kfuse.dequantize %q, %s, %z {blocks = array<i64: 1, 128>} : (tensor<96x512xui4>, tensor<96x4xbf16>, tensor<96x4xui4>) -> tensor<96x512xbf16>
  %0 = kfuse.matmul %x, %w {transpose_b} : (tensor<1x512xbf16>, tensor<96x512xbf16>) -> tensor<1x96xbf16>
  %1 = kfuse.add %0, %b : (tensor<1x96xbf16>, tensor<96xbf16>) -> tensor<1x96xbf16>
  return %1 : tensor<1x96xbf16>
}
