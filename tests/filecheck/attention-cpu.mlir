// RUN: sed s/ROWS/512/g %s | kfuse-opt - --kfuse-pipeline --target=cpu | FileCheck %s --check-prefixes=CHECK,SHORT
// RUN: sed s/ROWS/4096/g %s | kfuse-opt - --kfuse-pipeline --target=cpu | FileCheck %s --check-prefixes=CHECK,LONG
// RUN: sed s/ROWS/8/g %s | kfuse-opt - --kfuse-pipeline --target=cpu | FileCheck %s --check-prefix=FEW

// Attention of many queries is one kernel, whose memory grows with the rows, not with their square. The arena holds
// heads of 64 in f32, x % 8 of them: what is projected and what is attended to.
// SHORT: kfuse.arena_bytes = 2097152
// LONG: kfuse.arena_bytes = 16777216
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK: kfuse.fused
// CHECK: kfuse.attention
// CHECK: kfuse.softmax
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
// CHECK-NOT: kfuse.fused
// FEW-NOT: kfuse.attention %
func.func @main(%x: tensor<8xROWSx64xf32> {kfuse.role = "input"}, %k: tensor<8xROWSx64xf32> {kfuse.role = "input"},
                %v: tensor<8xROWSx64xf32> {kfuse.role = "input"}, %up: tensor<64x64xf32> {kfuse.role = "parameter"},
                %down: tensor<64x64xf32> {kfuse.role = "parameter"}) -> tensor<8xROWSx64xf32> {
  %q = kfuse.matmul %x, %up : (tensor<8xROWSx64xf32>, tensor<64x64xf32>) -> tensor<8xROWSx64xf32>
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<8xROWSx64xf32>, tensor<8xROWSx64xf32>) -> tensor<8xROWSxROWSxf32>
  %1 = kfuse.constant dense<0.125> : tensor<f32>
  %2 = kfuse.mul %0, %1 : (tensor<8xROWSxROWSxf32>, tensor<f32>) -> tensor<8xROWSxROWSxf32>
  %3 = kfuse.softmax %2 : (tensor<8xROWSxROWSxf32>) -> tensor<8xROWSxROWSxf32>
  %4 = kfuse.matmul %3, %v : (tensor<8xROWSxROWSxf32>, tensor<8xROWSx64xf32>) -> tensor<8xROWSx64xf32>
  %5 = kfuse.matmul %4, %down : (tensor<8xROWSx64xf32>, tensor<64x64xf32>) -> tensor<8xROWSx64xf32>
  return %5 : tensor<8xROWSx64xf32>
}
