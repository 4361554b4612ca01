module {
  func.func @main(%arg0: tensor<127x333xf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<333x333xf16> {kfuse.name = "layers.0.weight", kfuse.role = "parameter"}, %arg2: tensor<333xf16> {kfuse.name = "layers.0.bias", kfuse.role = "parameter"}, %arg3: tensor<333x333xf16> {kfuse.name = "layers.1.weight", kfuse.role = "parameter"}, %arg4: tensor<333xf16> {kfuse.name = "layers.1.bias", kfuse.role = "parameter"}, %arg5: tensor<2x333xf16> {kfuse.name = "out.weight", kfuse.role = "parameter"}, %arg6: tensor<2xf16> {kfuse.name = "out.bias", kfuse.role = "parameter"}) -> (tensor<127x2xf16> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<127x333xf16>, tensor<333x333xf16>) -> tensor<127x333xf16>
    %1 = kfuse.add %0, %arg2 : (tensor<127x333xf16>, tensor<333xf16>) -> tensor<127x333xf16>
    %2 = kfuse.relu %1 : (tensor<127x333xf16>) -> tensor<127x333xf16>
    %3 = kfuse.matmul %2, %arg3 {transpose_b} : (tensor<127x333xf16>, tensor<333x333xf16>) -> tensor<127x333xf16>
    %4 = kfuse.add %3, %arg4 : (tensor<127x333xf16>, tensor<333xf16>) -> tensor<127x333xf16>
    %5 = kfuse.relu %4 : (tensor<127x333xf16>) -> tensor<127x333xf16>
    %6 = kfuse.matmul %5, %arg5 {transpose_b} : (tensor<127x333xf16>, tensor<2x333xf16>) -> tensor<127x2xf16>
    %7 = kfuse.add %6, %arg6 : (tensor<127x2xf16>, tensor<2xf16>) -> tensor<127x2xf16>
    return %7 : tensor<127x2xf16>
  }
}
