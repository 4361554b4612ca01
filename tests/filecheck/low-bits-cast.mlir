// Weights whose scales are of another float type than the product, as of a checkpoint in a model of bf16: part of the
// product, too.
// RUN: kfuse-opt %s --kfuse-pipeline --target=sm_90a | FileCheck %s
// RUN: kfuse-opt %s --kfuse-pipeline --target=cpu | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = kfuse.fused
// CHECK-NEXT: ^bb0
// CHECK: kfuse.dequantize
// CHECK: kfuse.cast
// CHECK: kfuse.matmul
// CHECK: kfuse.yield %{{.*}} : tensor<1x96xbf16>
// CHECK: return %[[Y]]
// CHECK-NOT: kfuse.fused
// CHECK-NOT: @prepare
func.func @main(%x: tensor<1x512xbf16>, %q: tensor<96x512xui4> {kfuse.role = "parameter"},
                %s: tensor<96x4xf16> {kfuse.role = "parameter"}) -> tensor<1x96xbf16> {
  %z = kfuse.constant dense<8> : tensor<96x4xui4>
  %w = kfuse.dequantize %q, %s, %z {blocks = array<i64: 1, 128>} : (tensor<96x512xui4>, tensor<96x4xf16>, tensor<96x4xui4>) -> tensor<96x512xf16>
  %c = kfuse.cast %w : (tensor<96x512xf16>) -> tensor<96x512xbf16>
  %y = kfuse.matmul %x, %c {transpose_b} : (tensor<1x512xbf16>, tensor<96x512xbf16>) -> tensor<1x96xbf16>
  return %y : tensor<1x96xbf16>
}
