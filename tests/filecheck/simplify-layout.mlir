// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s

// CHECK-LABEL: @cancel
// CHECK-NEXT: return %arg0, %arg0, %arg0
func.func @cancel(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %0 = kfuse.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = kfuse.reshape %0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = kfuse.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %3 = kfuse.transpose %2 {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  %4 = kfuse.slice %x {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %5 = kfuse.slice %x {offsets = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x4xf32>) -> tensor<2x2x4xf32>
  %6 = kfuse.concat %4, %5 {axis = 1 : i64} : (tensor<2x1x4xf32>, tensor<2x2x4xf32>) -> tensor<2x3x4xf32>
  return %1, %3, %6 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// Moving a dimension of 1 is a reshape.
// CHECK-LABEL: @ones
// CHECK-NEXT: kfuse.reshape %arg0
// CHECK-NEXT: return
func.func @ones(%x: tensor<5x1x7xf32>) -> tensor<1x5x7xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<5x1x7xf32>) -> tensor<1x5x7xf32>
  return %0 : tensor<1x5x7xf32>
}

// -----

// A chain of views whose dimensions each walk the source with one stride is one reshape, one transpose.
// CHECK-LABEL: @view_chain
// CHECK-NEXT: %[[SPLIT:.*]] = kfuse.reshape %arg0 : (tensor<2x24x96xf32>) -> tensor<2x24x4x24xf32>
// CHECK-NEXT: %[[HEADS:.*]] = kfuse.transpose %[[SPLIT]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: return %[[HEADS]]
func.func @view_chain(%x: tensor<2x24x96xf32>) -> tensor<2x4x24x24xf32> {
  %0 = kfuse.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<2x24x96xf32>) -> tensor<24x2x96xf32>
  %1 = kfuse.reshape %0 : (tensor<24x2x96xf32>) -> tensor<24x8x24xf32>
  %2 = kfuse.transpose %1 {permutation = array<i64: 1, 0, 2>} : (tensor<24x8x24xf32>) -> tensor<8x24x24xf32>
  %3 = kfuse.reshape %2 : (tensor<8x24x24xf32>) -> tensor<2x4x24x24xf32>
  return %3 : tensor<2x4x24x24xf32>
}

// -----

// CHECK-LABEL: @slices
// CHECK-NEXT: kfuse.slice %arg0 {offsets = array<i64: 5>, strides = array<i64: 6>} : (tensor<32xf32>) -> tensor<4xf32>
// CHECK-NEXT: kfuse.slice %arg1 {offsets = array<i64: 2>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<3xf32>
// CHECK-NEXT: return
func.func @slices(%x: tensor<32xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %0 = kfuse.slice %x {offsets = array<i64: 2>, strides = array<i64: 3>} : (tensor<32xf32>) -> tensor<10xf32>
  %1 = kfuse.slice %0 {offsets = array<i64: 1>, strides = array<i64: 2>} : (tensor<10xf32>) -> tensor<4xf32>
  %2 = kfuse.concat %x, %y {axis = 0 : i64} : (tensor<32xf32>, tensor<8xf32>) -> tensor<40xf32>
  %3 = kfuse.slice %2 {offsets = array<i64: 34>, strides = array<i64: 1>} : (tensor<40xf32>) -> tensor<3xf32>
  return %1, %3 : tensor<4xf32>, tensor<3xf32>
}

// -----

// A slice that repeats one element is not its operand, though it has its shape.
// CHECK-LABEL: @repeated
// CHECK-NEXT: kfuse.slice %arg0 {offsets = array<i64: 0>, strides = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: return
func.func @repeated(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = kfuse.slice %x {offsets = array<i64: 0>, strides = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// CHECK-LABEL: @gather_one
// CHECK-NEXT: kfuse.slice %arg0 {offsets = array<i64: 0, 2, 0>, strides = array<i64: 1, 1, 1>}
// CHECK-NEXT: kfuse.reshape
// CHECK-NEXT: return
func.func @gather_one(%x: tensor<4x3x8xf32>) -> tensor<4x8xf32> {
  %last = kfuse.constant dense<-1> : tensor<i64>
  %0 = kfuse.gather %x, %last {axis = 1 : i64} : (tensor<4x3x8xf32>, tensor<i64>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Position ids that count up, or down, pick a slice; one id for all picks a row that repeats.
// CHECK-LABEL: @gather_evenly
// CHECK-DAG: %[[UP:.*]] = kfuse.slice %arg0 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 1>} : (tensor<9x8xf32>) -> tensor<4x8xf32>
// CHECK-DAG: kfuse.reshape %[[UP]] {{.*}} -> tensor<2x2x8xf32>
// CHECK-DAG: kfuse.slice %arg0 {offsets = array<i64: 8, 0>, strides = array<i64: -1, 1>} : (tensor<9x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[ROW:.*]] = kfuse.slice %arg0 {offsets = array<i64: 3, 0>, strides = array<i64: 1, 1>} : (tensor<9x8xf32>) -> tensor<1x8xf32>
// CHECK-DAG: kfuse.broadcast %{{.*}} -> tensor<2x3x8xf32>
// CHECK: return
func.func @gather_evenly(%x: tensor<9x8xf32>) -> (tensor<2x2x8xf32>, tensor<2x8xf32>, tensor<2x3x8xf32>) {
  %up = kfuse.constant dense<[[1, 3], [5, 7]]> : tensor<2x2xi64>
  %down = kfuse.constant dense<[-1, -2]> : tensor<2xi32>
  %same = kfuse.constant dense<3> : tensor<2x3xi64>
  %0 = kfuse.gather %x, %up {axis = 0 : i64} : (tensor<9x8xf32>, tensor<2x2xi64>) -> tensor<2x2x8xf32>
  %1 = kfuse.gather %x, %down {axis = 0 : i64} : (tensor<9x8xf32>, tensor<2xi32>) -> tensor<2x8xf32>
  %2 = kfuse.gather %x, %same {axis = 0 : i64} : (tensor<9x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  return %0, %1, %2 : tensor<2x2x8xf32>, tensor<2x8xf32>, tensor<2x3x8xf32>
}

// -----

// An uneven choice stays a gather.
// CHECK-LABEL: @gather_unevenly
// CHECK: kfuse.gather
func.func @gather_unevenly(%x: tensor<9x8xf32>) -> tensor<3x8xf32> {
  %ids = kfuse.constant dense<[1, 3, 4]> : tensor<3xi64>
  %0 = kfuse.gather %x, %ids {axis = 0 : i64} : (tensor<9x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// An expanded operand of what broadcasts by itself.
// CHECK-LABEL: @expand
// CHECK-NEXT: kfuse.add %arg0, %arg1
// CHECK-NEXT: return
func.func @expand(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = kfuse.broadcast %y : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.add %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// What repeats is computed once.
// CHECK-LABEL: @repeated_rows
// CHECK: kfuse.matmul %arg0, %arg1 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK: kfuse.softmax {{.*}} -> tensor<4x16xf32>
// CHECK: kfuse.broadcast {{.*}} -> tensor<4x32x16xf32>
func.func @repeated_rows(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x32x16xf32> {
  %0 = kfuse.reshape %x : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  %1 = kfuse.broadcast %0 : (tensor<4x1x8xf32>) -> tensor<4x32x8xf32>
  %2 = kfuse.matmul %1, %w : (tensor<4x32x8xf32>, tensor<8x16xf32>) -> tensor<4x32x16xf32>
  %3 = kfuse.softmax %2 : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  return %3 : tensor<4x32x16xf32>
}

// -----

// Only the row that is used is computed.
// CHECK-LABEL: @one_row
// CHECK: %[[ROW:.*]] = kfuse.slice %arg0 {offsets = array<i64: 0, 5, 0>
// CHECK: kfuse.matmul {{.*}} -> tensor<4x16xf32>
// CHECK: kfuse.layer_norm {{.*}} -> tensor<4x16xf32>
// CHECK-NOT: tensor<4x32x16xf32>
// CHECK: return
func.func @one_row(%x: tensor<4x32x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %five = kfuse.constant dense<5> : tensor<i64>
  %0 = kfuse.matmul %x, %w : (tensor<4x32x8xf32>, tensor<8x16xf32>) -> tensor<4x32x16xf32>
  %1 = kfuse.layer_norm %0 {epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %2 = kfuse.relu %1 : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %3 = kfuse.gather %2, %five {axis = 1 : i64} : (tensor<4x32x16xf32>, tensor<i64>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// -----

// Column groups of a merged projection stay slices of it.
// CHECK-LABEL: @merged_projection
// CHECK-DAG: kfuse.slice %arg0 {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<6x24xf32>) -> tensor<6x8xf32>
// CHECK-DAG: kfuse.slice %arg0 {offsets = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<6x24xf32>) -> tensor<6x8xf32>
// CHECK: return
func.func @merged_projection(%x: tensor<6x24xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %0 = kfuse.reshape %x : (tensor<6x24xf32>) -> tensor<6x3x8xf32>
  %1 = kfuse.transpose %0 {permutation = array<i64: 1, 0, 2>} : (tensor<6x3x8xf32>) -> tensor<3x6x8xf32>
  %first = kfuse.constant dense<0> : tensor<i64>
  %last = kfuse.constant dense<2> : tensor<i64>
  %2 = kfuse.gather %1, %first {axis = 0 : i64} : (tensor<3x6x8xf32>, tensor<i64>) -> tensor<6x8xf32>
  %3 = kfuse.gather %1, %last {axis = 0 : i64} : (tensor<3x6x8xf32>, tensor<i64>) -> tensor<6x8xf32>
  return %2, %3 : tensor<6x8xf32>, tensor<6x8xf32>
}

// -----

// A mask made of ones and zeros is its condition.
// CHECK-LABEL: @mask
// CHECK: %[[KEEP:.*]] = kfuse.le
// CHECK: kfuse.where %[[KEEP]], %{{.*}}, %{{.*}} : (tensor<8x8xi1>, tensor<f32>, tensor<f32>)
// CHECK-NOT: kfuse.eq
// CHECK: return
func.func @mask() -> tensor<8x8xf32> {
  %rows = kfuse.iota {dim = 0 : i64} : tensor<8x1xi64>
  %columns = kfuse.iota {dim = 1 : i64} : tensor<1x8xi64>
  %keep = kfuse.le %columns, %rows : (tensor<1x8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %one = kfuse.constant dense<1.0> : tensor<8x8xf32>
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %low = kfuse.constant dense<-1.0e9> : tensor<f32>
  %0 = kfuse.where %keep, %one, %zero : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %1 = kfuse.eq %0, %zero : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xi1>
  %2 = kfuse.where %1, %low, %zero : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// CHECK-LABEL: @reshapes
// CHECK-NEXT: %[[ONCE:.*]] = kfuse.reshape %arg0 : (tensor<6x4xf32>) -> tensor<2x12xf32>
// CHECK-NEXT: return %arg0, %[[ONCE]]
func.func @reshapes(%x: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<2x12xf32>) {
  %0 = kfuse.reshape %x : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = kfuse.reshape %x : (tensor<6x4xf32>) -> tensor<8x3xf32>
  %2 = kfuse.reshape %1 : (tensor<8x3xf32>) -> tensor<2x12xf32>
  return %0, %2 : tensor<6x4xf32>, tensor<2x12xf32>
}

// -----

// CHECK-LABEL: @broadcasts
// CHECK-NEXT: kfuse.broadcast %arg0 : (tensor<8xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT: kfuse.broadcast %arg0 : (tensor<8xf32>) -> tensor<3x8xf32>
// CHECK-NEXT: kfuse.reshape %arg0 : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: return
func.func @broadcasts(%x: tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<3x8xf32>, tensor<1x8xf32>) {
  %0 = kfuse.broadcast %x : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = kfuse.broadcast %0 : (tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = kfuse.reshape %x : (tensor<8xf32>) -> tensor<1x8xf32>
  %3 = kfuse.broadcast %2 : (tensor<1x8xf32>) -> tensor<3x8xf32>
  %4 = kfuse.broadcast %x : (tensor<8xf32>) -> tensor<1x8xf32>
  return %1, %3, %4 : tensor<2x4x8xf32>, tensor<3x8xf32>, tensor<1x8xf32>
}
