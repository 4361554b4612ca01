module {
  func.func @main(%arg0: tensor<1x127xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<127x127xbf16> {kfuse.name = "layers.0.weight", kfuse.role = "parameter"}, %arg2: tensor<127xbf16> {kfuse.name = "layers.0.bias", kfuse.role = "parameter"}, %arg3: tensor<127x127xbf16> {kfuse.name = "layers.1.weight", kfuse.role = "parameter"}, %arg4: tensor<127xbf16> {kfuse.name = "layers.1.bias", kfuse.role = "parameter"}, %arg5: tensor<127x127xbf16> {kfuse.name = "layers.2.weight", kfuse.role = "parameter"}, %arg6: tensor<127xbf16> {kfuse.name = "layers.2.bias", kfuse.role = "parameter"}, %arg7: tensor<127x127xbf16> {kfuse.name = "layers.3.weight", kfuse.role = "parameter"}, %arg8: tensor<127xbf16> {kfuse.name = "layers.3.bias", kfuse.role = "parameter"}, %arg9: tensor<2x127xbf16> {kfuse.name = "out.weight", kfuse.role = "parameter"}, %arg10: tensor<2xbf16> {kfuse.name = "out.bias", kfuse.role = "parameter"}) -> (tensor<1x2xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<1x127xbf16>, tensor<127x127xbf16>) -> tensor<1x127xbf16>
    %1 = kfuse.add %0, %arg2 : (tensor<1x127xbf16>, tensor<127xbf16>) -> tensor<1x127xbf16>
    %2 = kfuse.relu %1 : (tensor<1x127xbf16>) -> tensor<1x127xbf16>
    %3 = kfuse.matmul %2, %arg3 {transpose_b} : (tensor<1x127xbf16>, tensor<127x127xbf16>) -> tensor<1x127xbf16>
    %4 = kfuse.add %3, %arg4 : (tensor<1x127xbf16>, tensor<127xbf16>) -> tensor<1x127xbf16>
    %5 = kfuse.relu %4 : (tensor<1x127xbf16>) -> tensor<1x127xbf16>
    %6 = kfuse.matmul %5, %arg5 {transpose_b} : (tensor<1x127xbf16>, tensor<127x127xbf16>) -> tensor<1x127xbf16>
    %7 = kfuse.add %6, %arg6 : (tensor<1x127xbf16>, tensor<127xbf16>) -> tensor<1x127xbf16>
    %8 = kfuse.relu %7 : (tensor<1x127xbf16>) -> tensor<1x127xbf16>
    %9 = kfuse.matmul %8, %arg7 {transpose_b} : (tensor<1x127xbf16>, tensor<127x127xbf16>) -> tensor<1x127xbf16>
    %10 = kfuse.add %9, %arg8 : (tensor<1x127xbf16>, tensor<127xbf16>) -> tensor<1x127xbf16>
    %11 = kfuse.relu %10 : (tensor<1x127xbf16>) -> tensor<1x127xbf16>
    %12 = kfuse.matmul %11, %arg9 {transpose_b} : (tensor<1x127xbf16>, tensor<2x127xbf16>) -> tensor<1x2xbf16>
    %13 = kfuse.add %12, %arg10 : (tensor<1x2xbf16>, tensor<2xbf16>) -> tensor<1x2xbf16>
    return %13 : tensor<1x2xbf16>
  }
}
