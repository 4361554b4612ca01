module {
  func.func @main(%arg0: tensor<1x33x132xf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<132xf16> {kfuse.name = "ln_1.weight", kfuse.role = "parameter"}, %arg2: tensor<132xf16> {kfuse.name = "ln_1.bias", kfuse.role = "parameter"}, %arg3: tensor<132x396xf16> {kfuse.name = "attn.c_attn.weight", kfuse.role = "parameter"}, %arg4: tensor<396xf16> {kfuse.name = "attn.c_attn.bias", kfuse.role = "parameter"}, %arg5: tensor<132x132xf16> {kfuse.name = "attn.c_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<132xf16> {kfuse.name = "attn.c_proj.bias", kfuse.role = "parameter"}, %arg7: tensor<132xf16> {kfuse.name = "ln_2.weight", kfuse.role = "parameter"}, %arg8: tensor<132xf16> {kfuse.name = "ln_2.bias", kfuse.role = "parameter"}, %arg9: tensor<132x528xf16> {kfuse.name = "mlp.c_fc.weight", kfuse.role = "parameter"}, %arg10: tensor<528xf16> {kfuse.name = "mlp.c_fc.bias", kfuse.role = "parameter"}, %arg11: tensor<528x132xf16> {kfuse.name = "mlp.c_proj.weight", kfuse.role = "parameter"}, %arg12: tensor<132xf16> {kfuse.name = "mlp.c_proj.bias", kfuse.role = "parameter"}) -> (tensor<1x33x132xf16> {kfuse.name = "y"}) {
    %0 = kfuse.layer_norm %arg0, %arg1, %arg2 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x33x132xf16>, tensor<132xf16>, tensor<132xf16>) -> tensor<1x33x132xf16>
    %1 = kfuse.matmul %0, %arg3 : (tensor<1x33x132xf16>, tensor<132x396xf16>) -> tensor<1x33x396xf16>
    %2 = kfuse.add %1, %arg4 : (tensor<1x33x396xf16>, tensor<396xf16>) -> tensor<1x33x396xf16>
    %3 = kfuse.slice %2 {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<1x33x396xf16>) -> tensor<1x33x132xf16>
    %4 = kfuse.reshape %3 : (tensor<1x33x132xf16>) -> tensor<1x33x4x33xf16>
    %5 = kfuse.transpose %4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x33x4x33xf16>) -> tensor<1x4x33x33xf16>
    %6 = kfuse.slice %2 {offsets = array<i64: 0, 0, 132>, strides = array<i64: 1, 1, 1>} : (tensor<1x33x396xf16>) -> tensor<1x33x132xf16>
    %7 = kfuse.reshape %6 : (tensor<1x33x132xf16>) -> tensor<1x33x4x33xf16>
    %8 = kfuse.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x33x4x33xf16>) -> tensor<1x4x33x33xf16>
    %9 = kfuse.slice %2 {offsets = array<i64: 0, 0, 264>, strides = array<i64: 1, 1, 1>} : (tensor<1x33x396xf16>) -> tensor<1x33x132xf16>
    %10 = kfuse.reshape %9 : (tensor<1x33x132xf16>) -> tensor<1x33x4x33xf16>
    %11 = kfuse.transpose %10 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x33x4x33xf16>) -> tensor<1x4x33x33xf16>
    %12 = kfuse.iota {dim = 0 : i64} : tensor<33x1xi32>
    %13 = kfuse.iota {dim = 1 : i64} : tensor<1x33xi32>
    %14 = kfuse.le %13, %12 : (tensor<1x33xi32>, tensor<33x1xi32>) -> tensor<33x33xi1>
    %15 = kfuse.constant dense<1.740720e-01> : tensor<f16>
    %16 = kfuse.matmul %5, %8 {transpose_b} : (tensor<1x4x33x33xf16>, tensor<1x4x33x33xf16>) -> tensor<1x4x33x33xf16>
    %17 = kfuse.mul %16, %15 : (tensor<1x4x33x33xf16>, tensor<f16>) -> tensor<1x4x33x33xf16>
    %18 = kfuse.constant dense<0xFC00> : tensor<f16>
    %19 = kfuse.where %14, %17, %18 : (tensor<33x33xi1>, tensor<1x4x33x33xf16>, tensor<f16>) -> tensor<1x4x33x33xf16>
    %20 = kfuse.softmax %19 : (tensor<1x4x33x33xf16>) -> tensor<1x4x33x33xf16>
    %21 = kfuse.matmul %20, %11 : (tensor<1x4x33x33xf16>, tensor<1x4x33x33xf16>) -> tensor<1x4x33x33xf16>
    %22 = kfuse.transpose %21 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x33x33xf16>) -> tensor<1x33x4x33xf16>
    %23 = kfuse.reshape %22 : (tensor<1x33x4x33xf16>) -> tensor<1x33x132xf16>
    %24 = kfuse.matmul %23, %arg5 : (tensor<1x33x132xf16>, tensor<132x132xf16>) -> tensor<1x33x132xf16>
    %25 = kfuse.add %24, %arg6 : (tensor<1x33x132xf16>, tensor<132xf16>) -> tensor<1x33x132xf16>
    %26 = kfuse.add %arg0, %25 : (tensor<1x33x132xf16>, tensor<1x33x132xf16>) -> tensor<1x33x132xf16>
    %27 = kfuse.layer_norm %26, %arg7, %arg8 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x33x132xf16>, tensor<132xf16>, tensor<132xf16>) -> tensor<1x33x132xf16>
    %28 = kfuse.matmul %27, %arg9 : (tensor<1x33x132xf16>, tensor<132x528xf16>) -> tensor<1x33x528xf16>
    %29 = kfuse.add %28, %arg10 : (tensor<1x33x528xf16>, tensor<528xf16>) -> tensor<1x33x528xf16>
    %30 = kfuse.gelu_tanh %29 : (tensor<1x33x528xf16>) -> tensor<1x33x528xf16>
    %31 = kfuse.matmul %30, %arg11 : (tensor<1x33x528xf16>, tensor<528x132xf16>) -> tensor<1x33x132xf16>
    %32 = kfuse.add %31, %arg12 : (tensor<1x33x132xf16>, tensor<132xf16>) -> tensor<1x33x132xf16>
    %33 = kfuse.add %26, %32 : (tensor<1x33x132xf16>, tensor<1x33x132xf16>) -> tensor<1x33x132xf16>
    return %33 : tensor<1x33x132xf16>
  }
}
