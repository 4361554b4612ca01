// RUN: kfuse-opt %s --kfuse-merge-products --split-input-file | FileCheck %s

// Q, K and V with their biases: one product of joined weights, cut by columns. The weight of the norm in
// front, which nothing else reads, goes into theirs.
// CHECK-LABEL: @main
// CHECK: %[[NORM:.*]] = kfuse.rms_norm %arg0 {epsilon
// CHECK-DAG: kfuse.mul %arg2, %{{.*}} : (tensor<8x8xf32>, tensor<8x1xf32>)
// CHECK-DAG: %[[WEIGHTS:.*]] = kfuse.concat %{{.*}}, %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK: %[[PRODUCT:.*]] = kfuse.matmul %[[NORM]], %[[WEIGHTS]]
// CHECK: %[[BIAS:.*]] = kfuse.concat %arg5, %arg6, %arg7 {axis = 0 : i64}
// CHECK: %[[ALL:.*]] = kfuse.add %[[PRODUCT]], %[[BIAS]]
// CHECK: %[[Q:.*]] = kfuse.slice %[[ALL]] {offsets = array<i64: 0, 0>
// CHECK: %[[K:.*]] = kfuse.slice %[[ALL]] {offsets = array<i64: 0, 8>
// CHECK: %[[V:.*]] = kfuse.slice %[[ALL]] {offsets = array<i64: 0, 12>
// CHECK: kfuse.softmax %[[Q]]
// CHECK: kfuse.softmax %[[K]]
// CHECK: kfuse.softmax %[[V]]
func.func @main(%x: tensor<4x8xf32>, %gamma: tensor<8xf32> {kfuse.role = "parameter"},
                %wq: tensor<8x8xf32> {kfuse.role = "parameter"}, %wk: tensor<8x4xf32> {kfuse.role = "parameter"},
                %wv: tensor<8x4xf32> {kfuse.role = "parameter"}, %bq: tensor<8xf32> {kfuse.role = "parameter"},
                %bk: tensor<4xf32> {kfuse.role = "parameter"}, %bv: tensor<4xf32> {kfuse.role = "parameter"})
    -> (tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = kfuse.rms_norm %x, %gamma {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = kfuse.matmul %h, %wq : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.matmul %h, %wk : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %2 = kfuse.matmul %h, %wv : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %3 = kfuse.add %0, %bq : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = kfuse.add %1, %bk : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %5 = kfuse.add %2, %bv : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %6 = kfuse.softmax %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = kfuse.softmax %4 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = kfuse.softmax %5 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %6, %7, %8 : tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Heads side by side, two layers deep: the first layer shares x and is cut by columns, the next is batched.
// CHECK-LABEL: @main
// CHECK-DAG: kfuse.concat %arg1, %arg2 {axis = 1 : i64}
// CHECK: %[[FIRST:.*]] = kfuse.matmul %arg0
// CHECK: %[[RELU:.*]] = kfuse.relu
// CHECK: kfuse.concat {{.*}} {axis = 0 : i64} : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<2x8x8xf32>
// CHECK: kfuse.matmul {{.*}} : (tensor<2x4x8xf32>, tensor<2x8x8xf32>) -> tensor<2x4x8xf32>
// CHECK: kfuse.concat {{.*}} : (tensor<1x1x8xf32>, tensor<1x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK: kfuse.add {{.*}} : (tensor<2x4x8xf32>, tensor<2x1x8xf32>)
// CHECK-NOT: kfuse.matmul
// CHECK: return
func.func @main(%x: tensor<4x8xf32>, %w0: tensor<8x8xf32> {kfuse.role = "parameter"},
                %w1: tensor<8x8xf32> {kfuse.role = "parameter"}, %v0: tensor<8x8xf32> {kfuse.role = "parameter"},
                %v1: tensor<8x8xf32> {kfuse.role = "parameter"}, %b0: tensor<8xf32> {kfuse.role = "parameter"},
                %b1: tensor<8xf32> {kfuse.role = "parameter"}) -> tensor<4x16xf32> {
  %0 = kfuse.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.matmul %x, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = kfuse.relu %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = kfuse.matmul %1, %v0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %5 = kfuse.add %4, %b0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %6 = kfuse.matmul %3, %v1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %7 = kfuse.add %6, %b1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %8 = kfuse.concat %5, %7 {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %8 : tensor<4x16xf32>
}

// -----

// A bias and an activation that follow each product are cheaper as its epilogue than one product and a kernel
// for each part.
// CHECK-LABEL: @main
// CHECK-NOT: kfuse.concat
// CHECK: return
func.func @main(%x: tensor<4x8xf32>, %w0: tensor<8x8xf32> {kfuse.role = "parameter"},
                %w1: tensor<8x8xf32> {kfuse.role = "parameter"}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = kfuse.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.matmul %x, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = kfuse.tanh %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Weights that come in anew each time are not joined at run time.
// CHECK-LABEL: @main
// CHECK-NOT: kfuse.concat
// CHECK: return
func.func @main(%x: tensor<4x8xf32>, %w0: tensor<8x8xf32>, %w1: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = kfuse.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.matmul %x, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.softmax %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = kfuse.softmax %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}
