// RUN: kfuse-opt %s --kfuse-simplify --split-input-file | FileCheck %s
// RUN: kfuse-opt %s --kfuse-simplify --kfuse-inline-attention --split-input-file | FileCheck %s --check-prefix=PARTS

// Scores, scale, mask, softmax and its guard against rows that are masked out altogether, values.
// CHECK-LABEL: @attention
// CHECK: kfuse.attention
// CHECK: kfuse.matmul {{.*}} {transpose_b}
// CHECK: kfuse.softmax
// CHECK: kfuse.where
// CHECK: kfuse.matmul
// CHECK-NEXT: kfuse.yield
// CHECK-NEXT: }
// CHECK-NEXT: return
// PARTS-LABEL: @attention
// PARTS-NOT: kfuse.attention %
// PARTS: kfuse.matmul {{.*}} {kfuse.attention = 0 : i64, transpose_b}
// PARTS: kfuse.softmax {{.*}} {kfuse.attention = 0 : i64}
// PARTS: kfuse.matmul {{.*}} {kfuse.attention = 0 : i64}
func.func @attention(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x6x8xf32>, %v: tensor<2x4x6x8xf32>, %mask: tensor<2x1x6x6xf32>) -> tensor<2x4x6x8xf32> {
  %scale = kfuse.constant dense<0.35> : tensor<f32>
  %zero = kfuse.constant dense<0.0> : tensor<f32>
  %0 = kfuse.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x6x8xf32>) -> tensor<2x4x8x6xf32>
  %1 = kfuse.matmul %q, %0 : (tensor<2x4x6x8xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x6x6xf32>
  %2 = kfuse.mul %1, %scale : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6x6xf32>
  %3 = kfuse.add %2, %mask : (tensor<2x4x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x4x6x6xf32>
  %4 = kfuse.softmax %3 : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %5 = kfuse.is_nan %4 : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xi1>
  %6 = kfuse.where %5, %zero, %4 : (tensor<2x4x6x6xi1>, tensor<f32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %7 = kfuse.matmul %6, %v : (tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
  return %7 : tensor<2x4x6x8xf32>
}

// -----

// A cache of which the keys up to a position count: the comparison is inside, where a kernel reads the bound.
// CHECK-LABEL: @cache
// CHECK: kfuse.attention %arg0, %arg1, %arg3, %arg2
// CHECK: kfuse.iota
// CHECK: kfuse.le
// CHECK: kfuse.yield
func.func @cache(%q: tensor<2x1x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x8xf32>, %position: tensor<2xi64>) -> tensor<2x1x8xf32> {
  %none = kfuse.constant dense<0xFF800000> : tensor<f32>
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<2x1x8xf32>, tensor<2x6x8xf32>) -> tensor<2x1x6xf32>
  %1 = kfuse.iota {dim = 0 : i64} : tensor<6xi64>
  %2 = kfuse.reshape %position : (tensor<2xi64>) -> tensor<2x1x1xi64>
  %3 = kfuse.le %1, %2 : (tensor<6xi64>, tensor<2x1x1xi64>) -> tensor<2x1x6xi1>
  %4 = kfuse.where %3, %0, %none : (tensor<2x1x6xi1>, tensor<2x1x6xf32>, tensor<f32>) -> tensor<2x1x6xf32>
  %5 = kfuse.softmax %4 : (tensor<2x1x6xf32>) -> tensor<2x1x6xf32>
  %6 = kfuse.matmul %5, %v : (tensor<2x1x6xf32>, tensor<2x6x8xf32>) -> tensor<2x1x8xf32>
  return %6 : tensor<2x1x8xf32>
}

// -----

// A causal mask that is carried as a constant, of which a kernel sees which keys count.
// CHECK-LABEL: @constant
// CHECK-NOT: dense<{{\[}}
// CHECK: kfuse.attention %arg0, %arg1, %arg2 :
// CHECK: %[[ROW:.*]] = kfuse.iota {dim = 0 : i64} : tensor<3x1xi32>
// CHECK: %[[KEY:.*]] = kfuse.iota {dim = 1 : i64} : tensor<1x3xi32>
// CHECK: kfuse.le %[[KEY]], %[[ROW]]
// CHECK: kfuse.where
// CHECK: kfuse.yield
func.func @constant(%q: tensor<4x3x8xf32>, %k: tensor<4x3x8xf32>, %v: tensor<4x3x8xf32>) -> tensor<4x3x8xf32> {
  %mask = kfuse.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<4x3x8xf32>, tensor<4x3x8xf32>) -> tensor<4x3x3xf32>
  %1 = kfuse.add %0, %mask : (tensor<4x3x3xf32>, tensor<3x3xf32>) -> tensor<4x3x3xf32>
  %2 = kfuse.softmax %1 : (tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
  %3 = kfuse.matmul %2, %v : (tensor<4x3x3xf32>, tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  return %3 : tensor<4x3x8xf32>
}

// -----

// The probabilities are asked for as well: they must be written, so this is no one region.
// CHECK-LABEL: @probabilities
// CHECK-NOT: kfuse.attention
// CHECK: return
func.func @probabilities(%q: tensor<4x6x8xf32>, %k: tensor<4x6x8xf32>, %v: tensor<4x6x8xf32>) -> (tensor<4x6x8xf32>, tensor<4x6x6xf32>) {
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x6xf32>
  %1 = kfuse.softmax %0 : (tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %2 = kfuse.matmul %1, %v : (tensor<4x6x6xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %2, %1 : tensor<4x6x8xf32>, tensor<4x6x6xf32>
}

// -----

// A sink: one score more of every row, which takes weight and has no value; exporters take the largest score away first.
// CHECK-LABEL: @sink
// CHECK: kfuse.attention
// CHECK: kfuse.concat
// CHECK-NEXT: kfuse.softmax
// CHECK-NEXT: kfuse.slice
// CHECK: kfuse.yield
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @sink(%q: tensor<1x4x6x8xf32>, %k: tensor<1x4x6x8xf32>, %v: tensor<1x4x6x8xf32>, %sinks: tensor<4xf32>) -> tensor<1x4x6x8xf32> {
  %0 = kfuse.matmul %q, %k {transpose_b} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x6xf32>
  %1 = kfuse.reshape %sinks : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %2 = kfuse.broadcast %1 : (tensor<1x4x1x1xf32>) -> tensor<1x4x6x1xf32>
  %3 = kfuse.concat %0, %2 {axis = 3 : i64} : (tensor<1x4x6x6xf32>, tensor<1x4x6x1xf32>) -> tensor<1x4x6x7xf32>
  %4 = kfuse.reduce %3 {function = "max", axes = array<i64: 3>} : (tensor<1x4x6x7xf32>) -> tensor<1x4x6xf32>
  %5 = kfuse.reshape %4 : (tensor<1x4x6xf32>) -> tensor<1x4x6x1xf32>
  %6 = kfuse.sub %3, %5 : (tensor<1x4x6x7xf32>, tensor<1x4x6x1xf32>) -> tensor<1x4x6x7xf32>
  %7 = kfuse.softmax %6 : (tensor<1x4x6x7xf32>) -> tensor<1x4x6x7xf32>
  %8 = kfuse.slice %7 {offsets = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x4x6x7xf32>) -> tensor<1x4x6x6xf32>
  %9 = kfuse.matmul %8, %v : (tensor<1x4x6x6xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %9 : tensor<1x4x6x8xf32>
}
