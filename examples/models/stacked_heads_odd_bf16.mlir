module {
  func.func @main(%arg0: tensor<7x191xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<5x191x191xbf16> {kfuse.name = "w.0", kfuse.role = "parameter"}, %arg2: tensor<5x1x191xbf16> {kfuse.name = "b.0", kfuse.role = "parameter"}, %arg3: tensor<5x191x191xbf16> {kfuse.name = "w.1", kfuse.role = "parameter"}, %arg4: tensor<5x1x191xbf16> {kfuse.name = "b.1", kfuse.role = "parameter"}, %arg5: tensor<5x191x2xbf16> {kfuse.name = "out", kfuse.role = "parameter"}) -> (tensor<5x7x2xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 : (tensor<7x191xbf16>, tensor<5x191x191xbf16>) -> tensor<5x7x191xbf16>
    %1 = kfuse.add %0, %arg2 : (tensor<5x7x191xbf16>, tensor<5x1x191xbf16>) -> tensor<5x7x191xbf16>
    %2 = kfuse.relu %1 : (tensor<5x7x191xbf16>) -> tensor<5x7x191xbf16>
    %3 = kfuse.matmul %2, %arg3 : (tensor<5x7x191xbf16>, tensor<5x191x191xbf16>) -> tensor<5x7x191xbf16>
    %4 = kfuse.add %3, %arg4 : (tensor<5x7x191xbf16>, tensor<5x1x191xbf16>) -> tensor<5x7x191xbf16>
    %5 = kfuse.relu %4 : (tensor<5x7x191xbf16>) -> tensor<5x7x191xbf16>
    %6 = kfuse.matmul %5, %arg5 : (tensor<5x7x191xbf16>, tensor<5x191x2xbf16>) -> tensor<5x7x2xbf16>
    return %6 : tensor<5x7x2xbf16>
  }
}
