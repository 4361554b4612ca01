module {
  func.func @main(%arg0: tensor<8x128xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<128x128xf32> {kfuse.name = "layers.0.weight", kfuse.role = "parameter"}, %arg2: tensor<128xf32> {kfuse.name = "layers.0.bias", kfuse.role = "parameter"}, %arg3: tensor<128x128xf32> {kfuse.name = "layers.1.weight", kfuse.role = "parameter"}, %arg4: tensor<128xf32> {kfuse.name = "layers.1.bias", kfuse.role = "parameter"}, %arg5: tensor<128x128xf32> {kfuse.name = "layers.2.weight", kfuse.role = "parameter"}, %arg6: tensor<128xf32> {kfuse.name = "layers.2.bias", kfuse.role = "parameter"}, %arg7: tensor<2x128xf32> {kfuse.name = "out.weight", kfuse.role = "parameter"}, %arg8: tensor<2xf32> {kfuse.name = "out.bias", kfuse.role = "parameter"}) -> (tensor<8x2xf32> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<8x128xf32>, tensor<128x128xf32>) -> tensor<8x128xf32>
    %1 = kfuse.add %0, %arg2 : (tensor<8x128xf32>, tensor<128xf32>) -> tensor<8x128xf32>
    %2 = kfuse.relu %1 : (tensor<8x128xf32>) -> tensor<8x128xf32>
    %3 = kfuse.matmul %2, %arg3 {transpose_b} : (tensor<8x128xf32>, tensor<128x128xf32>) -> tensor<8x128xf32>
    %4 = kfuse.add %3, %arg4 : (tensor<8x128xf32>, tensor<128xf32>) -> tensor<8x128xf32>
    %5 = kfuse.relu %4 : (tensor<8x128xf32>) -> tensor<8x128xf32>
    %6 = kfuse.matmul %5, %arg5 {transpose_b} : (tensor<8x128xf32>, tensor<128x128xf32>) -> tensor<8x128xf32>
    %7 = kfuse.add %6, %arg6 : (tensor<8x128xf32>, tensor<128xf32>) -> tensor<8x128xf32>
    %8 = kfuse.relu %7 : (tensor<8x128xf32>) -> tensor<8x128xf32>
    %9 = kfuse.matmul %8, %arg7 {transpose_b} : (tensor<8x128xf32>, tensor<2x128xf32>) -> tensor<8x2xf32>
    %10 = kfuse.add %9, %arg8 : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
    return %10 : tensor<8x2xf32>
  }
}
