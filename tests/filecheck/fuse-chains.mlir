// RUN: kfuse-opt %s --target=sm_90a --kfuse-fuse | FileCheck %s

// Products in a row could be one launch whose blocks wait for each other; large ones fill the device by themselves.
// (That chains are formed where a cost model wants them, tests/unit/FuseTest.cpp shows.)
// CHECK-LABEL: @large
// CHECK-SAME: a chain of them is estimated slower
// CHECK: kfuse.fused %arg0
// CHECK: kfuse.matmul
// CHECK: kfuse.fused
// CHECK: kfuse.matmul
func.func @large(%x: tensor<8192x4096xbf16>, %u: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16> {
  %0 = kfuse.matmul %x, %u {transpose_b} : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
  %1 = kfuse.matmul %0, %v {transpose_b} : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
  return %1 : tensor<8192x4096xbf16>
}
