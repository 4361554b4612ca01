module {
  func.func @main(%arg0: tensor<8x128xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<3x128x128xf32> {kfuse.name = "w.0", kfuse.role = "parameter"}, %arg2: tensor<3x1x128xf32> {kfuse.name = "b.0", kfuse.role = "parameter"}, %arg3: tensor<3x128x128xf32> {kfuse.name = "w.1", kfuse.role = "parameter"}, %arg4: tensor<3x1x128xf32> {kfuse.name = "b.1", kfuse.role = "parameter"}, %arg5: tensor<3x128x128xf32> {kfuse.name = "w.2", kfuse.role = "parameter"}, %arg6: tensor<3x1x128xf32> {kfuse.name = "b.2", kfuse.role = "parameter"}, %arg7: tensor<3x128x2xf32> {kfuse.name = "out", kfuse.role = "parameter"}) -> (tensor<3x8x2xf32> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 : (tensor<8x128xf32>, tensor<3x128x128xf32>) -> tensor<3x8x128xf32>
    %1 = kfuse.add %0, %arg2 : (tensor<3x8x128xf32>, tensor<3x1x128xf32>) -> tensor<3x8x128xf32>
    %2 = kfuse.relu %1 : (tensor<3x8x128xf32>) -> tensor<3x8x128xf32>
    %3 = kfuse.matmul %2, %arg3 : (tensor<3x8x128xf32>, tensor<3x128x128xf32>) -> tensor<3x8x128xf32>
    %4 = kfuse.add %3, %arg4 : (tensor<3x8x128xf32>, tensor<3x1x128xf32>) -> tensor<3x8x128xf32>
    %5 = kfuse.relu %4 : (tensor<3x8x128xf32>) -> tensor<3x8x128xf32>
    %6 = kfuse.matmul %5, %arg5 : (tensor<3x8x128xf32>, tensor<3x128x128xf32>) -> tensor<3x8x128xf32>
    %7 = kfuse.add %6, %arg6 : (tensor<3x8x128xf32>, tensor<3x1x128xf32>) -> tensor<3x8x128xf32>
    %8 = kfuse.relu %7 : (tensor<3x8x128xf32>) -> tensor<3x8x128xf32>
    %9 = kfuse.matmul %8, %arg7 : (tensor<3x8x128xf32>, tensor<3x128x2xf32>) -> tensor<3x8x2xf32>
    return %9 : tensor<3x8x2xf32>
  }
}
