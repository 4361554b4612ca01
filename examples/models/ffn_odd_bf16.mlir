module {
  func.func @main(%arg0: tensor<127x33xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<1000x33xbf16> {kfuse.name = "up.weight", kfuse.role = "parameter"}, %arg2: tensor<1000xbf16> {kfuse.name = "up.bias", kfuse.role = "parameter"}, %arg3: tensor<33x1000xbf16> {kfuse.name = "down.weight", kfuse.role = "parameter"}, %arg4: tensor<33xbf16> {kfuse.name = "down.bias", kfuse.role = "parameter"}, %arg5: tensor<33xbf16> {kfuse.name = "norm.weight", kfuse.role = "parameter"}, %arg6: tensor<33xbf16> {kfuse.name = "norm.bias", kfuse.role = "parameter"}) -> (tensor<127x33xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<127x33xbf16>, tensor<1000x33xbf16>) -> tensor<127x1000xbf16>
    %1 = kfuse.add %0, %arg2 : (tensor<127x1000xbf16>, tensor<1000xbf16>) -> tensor<127x1000xbf16>
    %2 = kfuse.gelu_tanh %1 : (tensor<127x1000xbf16>) -> tensor<127x1000xbf16>
    %3 = kfuse.matmul %2, %arg3 {transpose_b} : (tensor<127x1000xbf16>, tensor<33x1000xbf16>) -> tensor<127x33xbf16>
    %4 = kfuse.add %3, %arg4 : (tensor<127x33xbf16>, tensor<33xbf16>) -> tensor<127x33xbf16>
    %5 = kfuse.layer_norm %4, %arg5, %arg6 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<127x33xbf16>, tensor<33xbf16>, tensor<33xbf16>) -> tensor<127x33xbf16>
    return %5 : tensor<127x33xbf16>
  }
}
