module {
  func.func @main(%arg0: tensor<3x101xf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<101x101xf16> {kfuse.name = "lin.0.weight", kfuse.role = "parameter"}, %arg2: tensor<101xf16> {kfuse.name = "lin.0.bias", kfuse.role = "parameter"}, %arg3: tensor<101xf16> {kfuse.name = "norm.0.weight", kfuse.role = "parameter"}, %arg4: tensor<101xf16> {kfuse.name = "norm.0.bias", kfuse.role = "parameter"}, %arg5: tensor<101x101xf16> {kfuse.name = "lin.1.weight", kfuse.role = "parameter"}, %arg6: tensor<101xf16> {kfuse.name = "lin.1.bias", kfuse.role = "parameter"}, %arg7: tensor<101xf16> {kfuse.name = "norm.1.weight", kfuse.role = "parameter"}, %arg8: tensor<101xf16> {kfuse.name = "norm.1.bias", kfuse.role = "parameter"}, %arg9: tensor<2x101xf16> {kfuse.name = "out.weight", kfuse.role = "parameter"}, %arg10: tensor<2xf16> {kfuse.name = "out.bias", kfuse.role = "parameter"}) -> (tensor<3x2xf16> {kfuse.name = "y"}) {
    %0 = kfuse.reshape %arg0 : (tensor<3x101xf16>) -> tensor<3x1x101xf16>
    %1 = kfuse.broadcast %0 : (tensor<3x1x101xf16>) -> tensor<3x9x101xf16>
    %2 = kfuse.matmul %1, %arg1 {transpose_b} : (tensor<3x9x101xf16>, tensor<101x101xf16>) -> tensor<3x9x101xf16>
    %3 = kfuse.add %2, %arg2 : (tensor<3x9x101xf16>, tensor<101xf16>) -> tensor<3x9x101xf16>
    %4 = kfuse.layer_norm %3, %arg3, %arg4 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<3x9x101xf16>, tensor<101xf16>, tensor<101xf16>) -> tensor<3x9x101xf16>
    %5 = kfuse.relu %4 : (tensor<3x9x101xf16>) -> tensor<3x9x101xf16>
    %6 = kfuse.matmul %5, %arg5 {transpose_b} : (tensor<3x9x101xf16>, tensor<101x101xf16>) -> tensor<3x9x101xf16>
    %7 = kfuse.add %6, %arg6 : (tensor<3x9x101xf16>, tensor<101xf16>) -> tensor<3x9x101xf16>
    %8 = kfuse.layer_norm %7, %arg7, %arg8 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<3x9x101xf16>, tensor<101xf16>, tensor<101xf16>) -> tensor<3x9x101xf16>
    %9 = kfuse.relu %8 : (tensor<3x9x101xf16>) -> tensor<3x9x101xf16>
    %10 = kfuse.slice %9 {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x9x101xf16>) -> tensor<3x1x101xf16>
    %11 = kfuse.reshape %10 : (tensor<3x1x101xf16>) -> tensor<3x101xf16>
    %12 = kfuse.matmul %11, %arg9 {transpose_b} : (tensor<3x101xf16>, tensor<2x101xf16>) -> tensor<3x2xf16>
    %13 = kfuse.add %12, %arg10 : (tensor<3x2xf16>, tensor<2xf16>) -> tensor<3x2xf16>
    return %13 : tensor<3x2xf16>
  }
}
