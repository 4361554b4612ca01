module {
  func.func @main(%arg0: tensor<4x128xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<128x128xf32> {kfuse.name = "lin.0.weight", kfuse.role = "parameter"}, %arg2: tensor<128xf32> {kfuse.name = "lin.0.bias", kfuse.role = "parameter"}, %arg3: tensor<128xf32> {kfuse.name = "norm.0.weight", kfuse.role = "parameter"}, %arg4: tensor<128xf32> {kfuse.name = "norm.0.bias", kfuse.role = "parameter"}, %arg5: tensor<128x128xf32> {kfuse.name = "lin.1.weight", kfuse.role = "parameter"}, %arg6: tensor<128xf32> {kfuse.name = "lin.1.bias", kfuse.role = "parameter"}, %arg7: tensor<128xf32> {kfuse.name = "norm.1.weight", kfuse.role = "parameter"}, %arg8: tensor<128xf32> {kfuse.name = "norm.1.bias", kfuse.role = "parameter"}, %arg9: tensor<2x128xf32> {kfuse.name = "out.weight", kfuse.role = "parameter"}, %arg10: tensor<2xf32> {kfuse.name = "out.bias", kfuse.role = "parameter"}) -> (tensor<4x2xf32> {kfuse.name = "y"}) {
    %0 = kfuse.reshape %arg0 : (tensor<4x128xf32>) -> tensor<4x1x128xf32>
    %1 = kfuse.broadcast %0 : (tensor<4x1x128xf32>) -> tensor<4x16x128xf32>
    %2 = kfuse.matmul %1, %arg1 {transpose_b} : (tensor<4x16x128xf32>, tensor<128x128xf32>) -> tensor<4x16x128xf32>
    %3 = kfuse.add %2, %arg2 : (tensor<4x16x128xf32>, tensor<128xf32>) -> tensor<4x16x128xf32>
    %4 = kfuse.layer_norm %3, %arg3, %arg4 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4x16x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<4x16x128xf32>
    %5 = kfuse.relu %4 : (tensor<4x16x128xf32>) -> tensor<4x16x128xf32>
    %6 = kfuse.matmul %5, %arg5 {transpose_b} : (tensor<4x16x128xf32>, tensor<128x128xf32>) -> tensor<4x16x128xf32>
    %7 = kfuse.add %6, %arg6 : (tensor<4x16x128xf32>, tensor<128xf32>) -> tensor<4x16x128xf32>
    %8 = kfuse.layer_norm %7, %arg7, %arg8 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4x16x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<4x16x128xf32>
    %9 = kfuse.relu %8 : (tensor<4x16x128xf32>) -> tensor<4x16x128xf32>
    %10 = kfuse.slice %9 {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<4x16x128xf32>) -> tensor<4x1x128xf32>
    %11 = kfuse.reshape %10 : (tensor<4x1x128xf32>) -> tensor<4x128xf32>
    %12 = kfuse.matmul %11, %arg9 {transpose_b} : (tensor<4x128xf32>, tensor<2x128xf32>) -> tensor<4x2xf32>
    %13 = kfuse.add %12, %arg10 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    return %13 : tensor<4x2xf32>
  }
}
