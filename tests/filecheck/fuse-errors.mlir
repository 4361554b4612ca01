// RUN: kfuse-opt %s --kfuse-fuse --split-input-file --verify-diagnostics

func.func @old_and_new(%cache: tensor<4x8xf32>, %x: tensor<1x8xf32>, %at: tensor<i64>) -> tensor<4x8xf32> {
  // expected-error @below {{the state's old value is needed together with its new one, which overwrites it}}
  %0 = kfuse.state_update %cache, %x, %at {axis = 0 : i64} : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  %1 = kfuse.sub %0, %cache : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
