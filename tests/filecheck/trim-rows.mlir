// RUN: kfuse-opt %s --kfuse-trim-rows --split-input-file | FileCheck %s

// Rows that end in what is written end in what it is computed of, kernel by kernel. All of K and of the normalised rows
// is read.
// CHECK-LABEL: func.func @main
// CHECK: kfuse.fused %arg0, %arg1, %arg2 : (tensor<8x4xf32>, tensor<4x6xf32>, tensor<1xi64>)
// CHECK-NEXT: ^bb0(%{{.*}}, %{{.*}}, %[[N:[a-z0-9]+]]: tensor<1xi64>)
// CHECK: %[[PRODUCT:.*]] = kfuse.matmul
// CHECK: %[[ROWS:.*]] = kfuse.prefix %[[PRODUCT]], %[[N]] {axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 2 : i64}
// CHECK: kfuse.yield %[[ROWS]]
// CHECK: kfuse.rms_norm
// CHECK-NEXT: kfuse.prefix {{.*}}axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 2 : i64}
// CHECK: kfuse.state_update
func.func @main(%x: tensor<8x4xf32> {kfuse.role = "input", kfuse.name = "x"},
                %w: tensor<4x6xf32> {kfuse.role = "parameter", kfuse.name = "w"},
                %n: tensor<1xi64> {kfuse.role = "input", kfuse.name = "kfuse.lengths"},
                %p: tensor<8xi64> {kfuse.role = "input", kfuse.name = "p"},
                %y: tensor<8x6xf32> {kfuse.role = "state", kfuse.name = "y"}) -> tensor<8x6xf32> {
  %0 = kfuse.fused %x, %w : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x4xf32>, %b: tensor<4x6xf32>):
    %r = kfuse.matmul %a, %b : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  %1 = kfuse.fused %0 : (tensor<8x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>):
    %r = kfuse.rms_norm %a {epsilon = 1.0e-5 : f32} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  %2 = kfuse.fused %1, %p, %y, %n : (tensor<8x6xf32>, tensor<8xi64>, tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>, %b: tensor<8xi64>, %c: tensor<8x6xf32>, %d: tensor<1xi64>):
    %q = kfuse.prefix %a, %d {axis = 0 : i64, length = 0 : i64, times = 2 : i64, plus = 0 : i64} : (tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32>
    %r = kfuse.state_update %c, %q, %b {axis = 0 : i64} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8xi64>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  return %2 : tensor<8x6xf32>
}

// -----

// A sum along the dimension reads all of it; so does a reader that needs more than another.
// CHECK-LABEL: func.func @main
// CHECK-NOT: kfuse.prefix
// CHECK: kfuse.exp
// CHECK-NOT: kfuse.prefix
// CHECK: kfuse.reduce
func.func @main(%x: tensor<8x6xf32> {kfuse.role = "input", kfuse.name = "x"},
                %n: tensor<1xi64> {kfuse.role = "input", kfuse.name = "kfuse.lengths"},
                %p: tensor<8xi64> {kfuse.role = "input", kfuse.name = "p"},
                %y: tensor<8x6xf32> {kfuse.role = "state", kfuse.name = "y"}) -> (tensor<6xf32>, tensor<8x6xf32>) {
  %0 = kfuse.fused %x : (tensor<8x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>):
    %r = kfuse.exp %a : (tensor<8x6xf32>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  %1 = kfuse.fused %0 : (tensor<8x6xf32>) -> tensor<6xf32> {
  ^bb0(%a: tensor<8x6xf32>):
    %r = kfuse.reduce %a {function = "sum", axes = array<i64: 0>} : (tensor<8x6xf32>) -> tensor<6xf32>
    kfuse.yield %r : tensor<6xf32>
  }
  %2 = kfuse.fused %0, %p, %y, %n : (tensor<8x6xf32>, tensor<8xi64>, tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>, %b: tensor<8xi64>, %c: tensor<8x6xf32>, %d: tensor<1xi64>):
    %q = kfuse.prefix %a, %d {axis = 0 : i64, length = 0 : i64, times = 1 : i64, plus = 0 : i64} : (tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32>
    %r = kfuse.state_update %c, %q, %b {axis = 0 : i64} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8xi64>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  return %1, %2 : tensor<6xf32>, tensor<8x6xf32>
}

// -----

// Every layer of a chain ends with the rows that are read of its last one.
// CHECK-LABEL: func.func @main
// CHECK: kfuse.fused %arg0, %arg1, %arg2 : (tensor<8x6xf32>, tensor<6x6xf32>, tensor<1xi64>)
// CHECK-NEXT: ^bb0(%[[X:[a-z0-9]+]]: tensor<8x6xf32>, %[[W:[a-z0-9]+]]: tensor<6x6xf32>, %[[N:[a-z0-9]+]]: tensor<1xi64>)
// CHECK: %[[FIRST:.*]] = kfuse.fused %[[X]], %[[W]], %[[N]]
// CHECK: kfuse.prefix {{.*}}axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 2 : i64}
// CHECK: kfuse.fused %[[FIRST]], %[[W]], %[[N]]
// CHECK: kfuse.prefix {{.*}}axis = 0 : i64, length = 0 : i64, plus = 0 : i64, times = 2 : i64}
func.func @main(%x: tensor<8x6xf32> {kfuse.role = "input", kfuse.name = "x"},
                %w: tensor<6x6xf32> {kfuse.role = "parameter", kfuse.name = "w"},
                %n: tensor<1xi64> {kfuse.role = "input", kfuse.name = "kfuse.lengths"},
                %p: tensor<8xi64> {kfuse.role = "input", kfuse.name = "p"},
                %y: tensor<8x6xf32> {kfuse.role = "state", kfuse.name = "y"}) -> tensor<8x6xf32> {
  %0 = kfuse.fused %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>, %b: tensor<6x6xf32>):
    %1 = kfuse.fused %a, %b : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32> {
    ^bb0(%c: tensor<8x6xf32>, %d: tensor<6x6xf32>):
      %r = kfuse.matmul %c, %d : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
      kfuse.yield %r : tensor<8x6xf32>
    }
    %2 = kfuse.fused %1, %b : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32> {
    ^bb0(%c: tensor<8x6xf32>, %d: tensor<6x6xf32>):
      %r = kfuse.matmul %c, %d : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
      kfuse.yield %r : tensor<8x6xf32>
    }
    kfuse.yield %2 : tensor<8x6xf32>
  }
  %3 = kfuse.fused %0, %p, %y, %n : (tensor<8x6xf32>, tensor<8xi64>, tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>, %b: tensor<8xi64>, %c: tensor<8x6xf32>, %d: tensor<1xi64>):
    %q = kfuse.prefix %a, %d {axis = 0 : i64, length = 0 : i64, times = 2 : i64, plus = 0 : i64} : (tensor<8x6xf32>, tensor<1xi64>) -> tensor<8x6xf32>
    %r = kfuse.state_update %c, %q, %b {axis = 0 : i64} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8xi64>) -> tensor<8x6xf32>
    kfuse.yield %r : tensor<8x6xf32>
  }
  return %3 : tensor<8x6xf32>
}
