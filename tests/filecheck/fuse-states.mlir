// An update goes to the attention that reads the state, not to the product that computes what is written: so the rest
// of the state is read before the kernel ahead has ended.
// RUN: kfuse-opt %s --kfuse-pipeline --target=sm_90a | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK-NEXT: kfuse.yield
// CHECK: kfuse.fused
// CHECK: kfuse.state_update
// CHECK: kfuse.attention
func.func @main(%x: tensor<1x1x512xbf16>, %at: tensor<1xi64>, %q: tensor<1x8x4x128xbf16>,
                %cos: tensor<1x64xbf16> {kfuse.role = "parameter"}, %sin: tensor<1x64xbf16> {kfuse.role = "parameter"},
                %weights: tensor<1024x512xbf16> {kfuse.role = "parameter"},
                %keys: tensor<1x8x4096x128xbf16> {kfuse.role = "parameter"},
                %values: tensor<1x8x4096x128xbf16> {kfuse.role = "state", kfuse.name = "values"})
    -> (tensor<1x8x4x128xbf16>, tensor<1x8x4096x128xbf16> {kfuse.state = "values"}) {
  %product = kfuse.matmul %x, %weights {transpose_b} : (tensor<1x1x512xbf16>, tensor<1024x512xbf16>) -> tensor<1x1x1024xbf16>
  %row = kfuse.reshape %product : (tensor<1x1x1024xbf16>) -> tensor<1x8x1x128xbf16>
  %updated = kfuse.state_update %values, %row, %at {axis = 2 : i64} : (tensor<1x8x4096x128xbf16>, tensor<1x8x1x128xbf16>, tensor<1xi64>) -> tensor<1x8x4096x128xbf16>
  %query = kfuse.rotary %q, %cos, %sin : (tensor<1x8x4x128xbf16>, tensor<1x64xbf16>, tensor<1x64xbf16>) -> tensor<1x8x4x128xbf16>
  %number = kfuse.iota {dim = 0 : i64} : tensor<4096xi64>
  %last = kfuse.reshape %at : (tensor<1xi64>) -> tensor<1x1x1x1xi64>
  %isRead = kfuse.le %number, %last : (tensor<4096xi64>, tensor<1x1x1x1xi64>) -> tensor<1x1x1x4096xi1>
  %none = kfuse.constant dense<0xFF80> : tensor<bf16>
  %scores = kfuse.matmul %query, %keys {transpose_b} : (tensor<1x8x4x128xbf16>, tensor<1x8x4096x128xbf16>) -> tensor<1x8x4x4096xbf16>
  %masked = kfuse.where %isRead, %scores, %none : (tensor<1x1x1x4096xi1>, tensor<1x8x4x4096xbf16>, tensor<bf16>) -> tensor<1x8x4x4096xbf16>
  %shares = kfuse.softmax %masked : (tensor<1x8x4x4096xbf16>) -> tensor<1x8x4x4096xbf16>
  %y = kfuse.matmul %shares, %updated : (tensor<1x8x4x4096xbf16>, tensor<1x8x4096x128xbf16>) -> tensor<1x8x4x128xbf16>
  return %y, %updated : tensor<1x8x4x128xbf16>, tensor<1x8x4096x128xbf16>
}
