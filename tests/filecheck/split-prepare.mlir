// RUN: kfuse-opt %s --kfuse-split-prepare --split-input-file | FileCheck %s

// What depends on parameters alone is computed once; views of parameters are read where they are used.
// CHECK: func.func @prepare(%arg0: tensor<8xf32> {kfuse.name = "scale", kfuse.role = "parameter"},
// CHECK-SAME: %arg1: tensor<8xf32> {kfuse.name = "shift", kfuse.role = "parameter"}) -> (tensor<8xf32> {kfuse.name = "prepared.0"})
// CHECK: %[[SUM:.*]] = kfuse.add %arg0, %arg1
// CHECK: return %[[SUM]]
// CHECK: func.func @main(%arg0: tensor<4x8xf32> {kfuse.name = "x", kfuse.role = "input"},
// CHECK-SAME: %arg1: tensor<16x8xf32> {kfuse.name = "weight", kfuse.role = "parameter"},
// CHECK-SAME: %arg2: tensor<8xf32> {kfuse.name = "prepared.0", kfuse.role = "prepared"})
// CHECK: kfuse.mul %arg0, %arg2
// CHECK: %[[VIEW:.*]] = kfuse.transpose %arg1
// CHECK: kfuse.matmul %{{.*}}, %[[VIEW]]
func.func @main(%x: tensor<4x8xf32> {kfuse.role = "input", kfuse.name = "x"},
                %scale: tensor<8xf32> {kfuse.role = "parameter", kfuse.name = "scale"},
                %shift: tensor<8xf32> {kfuse.role = "parameter", kfuse.name = "shift"},
                %weight: tensor<16x8xf32> {kfuse.role = "parameter", kfuse.name = "weight"}) -> tensor<4x16xf32> {
  %0 = kfuse.add %scale, %shift : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = kfuse.mul %x, %0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.transpose %weight {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %3 = kfuse.matmul %1, %2 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// -----

// Nothing to prepare: no @prepare, parameters go straight through. A causal mask is computed where it
// is used, not stored.
// CHECK-NOT: @prepare
// CHECK: func.func @main(%arg0: tensor<8x8xf32> {{.*}}, %arg1: tensor<8xf32> {{{.*}}kfuse.role = "parameter"})
// CHECK: kfuse.iota
// CHECK: kfuse.where
func.func @main(%x: tensor<8x8xf32> {kfuse.role = "input", kfuse.name = "x"},
                %bias: tensor<8xf32> {kfuse.role = "parameter", kfuse.name = "bias"}) -> tensor<8x8xf32> {
  %rows = kfuse.iota {dim = 0 : i64} : tensor<8x1xi64>
  %columns = kfuse.iota {dim = 1 : i64} : tensor<1x8xi64>
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %low = kfuse.constant dense<-1.0e9> : tensor<f32>
  %0 = kfuse.le %columns, %rows : (tensor<1x8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %1 = kfuse.where %0, %zero, %low : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = kfuse.add %x, %bias : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %3 = kfuse.add %2, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// What is only summed as a product keeps its narrow factor: the sum's kernel casts it, or multiplies it on tensor cores.
// CHECK: func.func @main(%arg0: tensor<4x8xf32> {{.*}}, %arg1: tensor<8xbf16> {{.*}}kfuse.role = "parameter"}, %arg2: tensor<8xf32> {{.*}}kfuse.role = "prepared"})
// CHECK: %[[FACTOR:.*]] = kfuse.cast %arg1
// CHECK: kfuse.mul %arg0, %[[FACTOR]]
// CHECK: kfuse.add %{{.*}}, %arg2
func.func @main(%x: tensor<4x8xf32> {kfuse.role = "input", kfuse.name = "x"},
                %weight: tensor<8xbf16> {kfuse.role = "parameter", kfuse.name = "weight"},
                %bias: tensor<8xbf16> {kfuse.role = "parameter", kfuse.name = "bias"}) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %0 = kfuse.cast %weight : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = kfuse.mul %x, %0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.reduce %1 {function = "sum", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %3 = kfuse.cast %bias : (tensor<8xbf16>) -> tensor<8xf32>
  %4 = kfuse.add %x, %3 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %2, %4 : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// A state changes between runs: what reads it is not prepared, what gathers from a table by constants is.
// CHECK: func.func @prepare(%arg0: tensor<16x8xf32>
// CHECK: kfuse.gather
// CHECK: func.func @main
// CHECK: kfuse.mul %arg0, %arg0
func.func @main(%cache: tensor<4x8xf32> {kfuse.role = "state", kfuse.name = "cache"},
                %table: tensor<16x8xf32> {kfuse.role = "parameter", kfuse.name = "table"}) -> tensor<4x8xf32> {
  %positions = kfuse.constant dense<[0, 3, 5, 7]> : tensor<4xi64>
  %0 = kfuse.gather %table, %positions {axis = 0 : i64} : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = kfuse.mul %cache, %cache : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kfuse.add %1, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
