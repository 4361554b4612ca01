// RUN: kfuse-opt %s --target=sm_90a --kfuse-fuse | FileCheck %s

// Rotary in front of queries is part of the attention's kernel, which reads each of them once; that in front of keys,
// which every tile of query rows reads, is a kernel before it.

// CHECK-LABEL: @main
// CHECK:         %[[KEYS:.*]] = kfuse.fused %arg3, %arg1, %arg2
// CHECK:           kfuse.rotary
// CHECK-NOT:       kfuse.attention
// CHECK:           kfuse.yield
// CHECK:         kfuse.fused %arg0, %arg1, %arg2, %[[KEYS]], %arg4
// CHECK:           kfuse.rotary
// CHECK:           kfuse.attention
// CHECK-NOT:     kfuse.fused
func.func @main(%q: tensor<2x16x1024x128xbf16> {kfuse.role = "input"}, %cos: tensor<1024x64xbf16> {kfuse.role = "input"},
                %sin: tensor<1024x64xbf16> {kfuse.role = "input"}, %k: tensor<2x16x1024x128xbf16> {kfuse.role = "input"},
                %v: tensor<2x16x1024x128xbf16> {kfuse.role = "input"}) -> tensor<2x16x1024x128xbf16> {
  %0 = kfuse.rotary %q, %cos, %sin : (tensor<2x16x1024x128xbf16>, tensor<1024x64xbf16>, tensor<1024x64xbf16>) -> tensor<2x16x1024x128xbf16>
  %1 = kfuse.rotary %k, %cos, %sin : (tensor<2x16x1024x128xbf16>, tensor<1024x64xbf16>, tensor<1024x64xbf16>) -> tensor<2x16x1024x128xbf16>
  %2 = kfuse.attention %0, %1, %v : (tensor<2x16x1024x128xbf16>, tensor<2x16x1024x128xbf16>, tensor<2x16x1024x128xbf16>) -> tensor<2x16x1024x128xbf16> {
  ^bb0(%a: tensor<2x16x1024x128xbf16>, %b: tensor<2x16x1024x128xbf16>, %c: tensor<2x16x1024x128xbf16>):
    %scores = kfuse.matmul %a, %b {transpose_b} : (tensor<2x16x1024x128xbf16>, tensor<2x16x1024x128xbf16>) -> tensor<2x16x1024x1024xbf16>
    %weights = kfuse.softmax %scores : (tensor<2x16x1024x1024xbf16>) -> tensor<2x16x1024x1024xbf16>
    %sums = kfuse.matmul %weights, %c : (tensor<2x16x1024x1024xbf16>, tensor<2x16x1024x128xbf16>) -> tensor<2x16x1024x128xbf16>
    kfuse.yield %sums : tensor<2x16x1024x128xbf16>
  }
  return %2 : tensor<2x16x1024x128xbf16>
}
