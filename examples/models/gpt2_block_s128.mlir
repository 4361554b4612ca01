module {
  func.func @main(%arg0: tensor<1x128x768xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<768xbf16> {kfuse.name = "ln_1.weight", kfuse.role = "parameter"}, %arg2: tensor<768xbf16> {kfuse.name = "ln_1.bias", kfuse.role = "parameter"}, %arg3: tensor<768x2304xbf16> {kfuse.name = "attn.c_attn.weight", kfuse.role = "parameter"}, %arg4: tensor<2304xbf16> {kfuse.name = "attn.c_attn.bias", kfuse.role = "parameter"}, %arg5: tensor<768x768xbf16> {kfuse.name = "attn.c_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<768xbf16> {kfuse.name = "attn.c_proj.bias", kfuse.role = "parameter"}, %arg7: tensor<768xbf16> {kfuse.name = "ln_2.weight", kfuse.role = "parameter"}, %arg8: tensor<768xbf16> {kfuse.name = "ln_2.bias", kfuse.role = "parameter"}, %arg9: tensor<768x3072xbf16> {kfuse.name = "mlp.c_fc.weight", kfuse.role = "parameter"}, %arg10: tensor<3072xbf16> {kfuse.name = "mlp.c_fc.bias", kfuse.role = "parameter"}, %arg11: tensor<3072x768xbf16> {kfuse.name = "mlp.c_proj.weight", kfuse.role = "parameter"}, %arg12: tensor<768xbf16> {kfuse.name = "mlp.c_proj.bias", kfuse.role = "parameter"}) -> (tensor<1x128x768xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.layer_norm %arg0, %arg1, %arg2 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x128x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) -> tensor<1x128x768xbf16>
    %1 = kfuse.matmul %0, %arg3 : (tensor<1x128x768xbf16>, tensor<768x2304xbf16>) -> tensor<1x128x2304xbf16>
    %2 = kfuse.add %1, %arg4 : (tensor<1x128x2304xbf16>, tensor<2304xbf16>) -> tensor<1x128x2304xbf16>
    %3 = kfuse.slice %2 {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<1x128x2304xbf16>) -> tensor<1x128x768xbf16>
    %4 = kfuse.reshape %3 : (tensor<1x128x768xbf16>) -> tensor<1x128x12x64xbf16>
    %5 = kfuse.transpose %4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x128x12x64xbf16>) -> tensor<1x12x128x64xbf16>
    %6 = kfuse.slice %2 {offsets = array<i64: 0, 0, 768>, strides = array<i64: 1, 1, 1>} : (tensor<1x128x2304xbf16>) -> tensor<1x128x768xbf16>
    %7 = kfuse.reshape %6 : (tensor<1x128x768xbf16>) -> tensor<1x128x12x64xbf16>
    %8 = kfuse.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x128x12x64xbf16>) -> tensor<1x12x128x64xbf16>
    %9 = kfuse.slice %2 {offsets = array<i64: 0, 0, 1536>, strides = array<i64: 1, 1, 1>} : (tensor<1x128x2304xbf16>) -> tensor<1x128x768xbf16>
    %10 = kfuse.reshape %9 : (tensor<1x128x768xbf16>) -> tensor<1x128x12x64xbf16>
    %11 = kfuse.transpose %10 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x128x12x64xbf16>) -> tensor<1x12x128x64xbf16>
    %12 = kfuse.iota {dim = 0 : i64} : tensor<128x1xi32>
    %13 = kfuse.iota {dim = 1 : i64} : tensor<1x128xi32>
    %14 = kfuse.le %13, %12 : (tensor<1x128xi32>, tensor<128x1xi32>) -> tensor<128x128xi1>
    %15 = kfuse.constant dense<1.250000e-01> : tensor<bf16>
    %16 = kfuse.matmul %5, %8 {transpose_b} : (tensor<1x12x128x64xbf16>, tensor<1x12x128x64xbf16>) -> tensor<1x12x128x128xbf16>
    %17 = kfuse.mul %16, %15 : (tensor<1x12x128x128xbf16>, tensor<bf16>) -> tensor<1x12x128x128xbf16>
    %18 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %19 = kfuse.where %14, %17, %18 : (tensor<128x128xi1>, tensor<1x12x128x128xbf16>, tensor<bf16>) -> tensor<1x12x128x128xbf16>
    %20 = kfuse.softmax %19 : (tensor<1x12x128x128xbf16>) -> tensor<1x12x128x128xbf16>
    %21 = kfuse.matmul %20, %11 : (tensor<1x12x128x128xbf16>, tensor<1x12x128x64xbf16>) -> tensor<1x12x128x64xbf16>
    %22 = kfuse.transpose %21 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x12x128x64xbf16>) -> tensor<1x128x12x64xbf16>
    %23 = kfuse.reshape %22 : (tensor<1x128x12x64xbf16>) -> tensor<1x128x768xbf16>
    %24 = kfuse.matmul %23, %arg5 : (tensor<1x128x768xbf16>, tensor<768x768xbf16>) -> tensor<1x128x768xbf16>
    %25 = kfuse.add %24, %arg6 : (tensor<1x128x768xbf16>, tensor<768xbf16>) -> tensor<1x128x768xbf16>
    %26 = kfuse.add %arg0, %25 : (tensor<1x128x768xbf16>, tensor<1x128x768xbf16>) -> tensor<1x128x768xbf16>
    %27 = kfuse.layer_norm %26, %arg7, %arg8 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x128x768xbf16>, tensor<768xbf16>, tensor<768xbf16>) -> tensor<1x128x768xbf16>
    %28 = kfuse.matmul %27, %arg9 : (tensor<1x128x768xbf16>, tensor<768x3072xbf16>) -> tensor<1x128x3072xbf16>
    %29 = kfuse.add %28, %arg10 : (tensor<1x128x3072xbf16>, tensor<3072xbf16>) -> tensor<1x128x3072xbf16>
    %30 = kfuse.gelu_tanh %29 : (tensor<1x128x3072xbf16>) -> tensor<1x128x3072xbf16>
    %31 = kfuse.matmul %30, %arg11 : (tensor<1x128x3072xbf16>, tensor<3072x768xbf16>) -> tensor<1x128x768xbf16>
    %32 = kfuse.add %31, %arg12 : (tensor<1x128x768xbf16>, tensor<768xbf16>) -> tensor<1x128x768xbf16>
    %33 = kfuse.add %26, %32 : (tensor<1x128x768xbf16>, tensor<1x128x768xbf16>) -> tensor<1x128x768xbf16>
    return %33 : tensor<1x128x768xbf16>
  }
}
