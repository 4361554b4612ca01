module {
  func.func @main(%arg0: tensor<16x128xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<128x128xf32> {kfuse.name = "lin.weight", kfuse.role = "parameter"}, %arg2: tensor<128xf32> {kfuse.name = "lin.bias", kfuse.role = "parameter"}, %arg3: tensor<128xf32> {kfuse.name = "norm.weight", kfuse.role = "parameter"}, %arg4: tensor<128xf32> {kfuse.name = "norm.bias", kfuse.role = "parameter"}) -> (tensor<16x128xf32> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 : (tensor<16x128xf32>, tensor<128x128xf32>) -> tensor<16x128xf32>
    %1 = kfuse.add %0, %arg2 : (tensor<16x128xf32>, tensor<128xf32>) -> tensor<16x128xf32>
    %2 = kfuse.gelu_tanh %1 : (tensor<16x128xf32>) -> tensor<16x128xf32>
    %3 = kfuse.layer_norm %2, %arg3, %arg4 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<16x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<16x128xf32>
    return %3 : tensor<16x128xf32>
  }
}
