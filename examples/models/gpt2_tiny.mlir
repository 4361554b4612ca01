module {
  func.func @main(%arg0: tensor<2x16x96xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<96xf32> {kfuse.name = "ln_1.weight", kfuse.role = "parameter"}, %arg2: tensor<96xf32> {kfuse.name = "ln_1.bias", kfuse.role = "parameter"}, %arg3: tensor<96x288xf32> {kfuse.name = "attn.c_attn.weight", kfuse.role = "parameter"}, %arg4: tensor<288xf32> {kfuse.name = "attn.c_attn.bias", kfuse.role = "parameter"}, %arg5: tensor<96x96xf32> {kfuse.name = "attn.c_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<96xf32> {kfuse.name = "attn.c_proj.bias", kfuse.role = "parameter"}, %arg7: tensor<96xf32> {kfuse.name = "ln_2.weight", kfuse.role = "parameter"}, %arg8: tensor<96xf32> {kfuse.name = "ln_2.bias", kfuse.role = "parameter"}, %arg9: tensor<96x384xf32> {kfuse.name = "mlp.c_fc.weight", kfuse.role = "parameter"}, %arg10: tensor<384xf32> {kfuse.name = "mlp.c_fc.bias", kfuse.role = "parameter"}, %arg11: tensor<384x96xf32> {kfuse.name = "mlp.c_proj.weight", kfuse.role = "parameter"}, %arg12: tensor<96xf32> {kfuse.name = "mlp.c_proj.bias", kfuse.role = "parameter"}) -> (tensor<2x16x96xf32> {kfuse.name = "y"}) {
    %0 = kfuse.layer_norm %arg0, %arg1, %arg2 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x16x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<2x16x96xf32>
    %1 = kfuse.matmul %0, %arg3 : (tensor<2x16x96xf32>, tensor<96x288xf32>) -> tensor<2x16x288xf32>
    %2 = kfuse.add %1, %arg4 : (tensor<2x16x288xf32>, tensor<288xf32>) -> tensor<2x16x288xf32>
    %3 = kfuse.slice %2 {offsets = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x288xf32>) -> tensor<2x16x96xf32>
    %4 = kfuse.reshape %3 : (tensor<2x16x96xf32>) -> tensor<2x16x3x32xf32>
    %5 = kfuse.transpose %4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x3x32xf32>) -> tensor<2x3x16x32xf32>
    %6 = kfuse.slice %2 {offsets = array<i64: 0, 0, 96>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x288xf32>) -> tensor<2x16x96xf32>
    %7 = kfuse.reshape %6 : (tensor<2x16x96xf32>) -> tensor<2x16x3x32xf32>
    %8 = kfuse.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x3x32xf32>) -> tensor<2x3x16x32xf32>
    %9 = kfuse.slice %2 {offsets = array<i64: 0, 0, 192>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x288xf32>) -> tensor<2x16x96xf32>
    %10 = kfuse.reshape %9 : (tensor<2x16x96xf32>) -> tensor<2x16x3x32xf32>
    %11 = kfuse.transpose %10 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x3x32xf32>) -> tensor<2x3x16x32xf32>
    %12 = kfuse.iota {dim = 0 : i64} : tensor<16x1xi32>
    %13 = kfuse.iota {dim = 1 : i64} : tensor<1x16xi32>
    %14 = kfuse.le %13, %12 : (tensor<1x16xi32>, tensor<16x1xi32>) -> tensor<16x16xi1>
    %15 = kfuse.constant dense<0.176776692> : tensor<f32>
    %16 = kfuse.matmul %5, %8 {transpose_b} : (tensor<2x3x16x32xf32>, tensor<2x3x16x32xf32>) -> tensor<2x3x16x16xf32>
    %17 = kfuse.mul %16, %15 : (tensor<2x3x16x16xf32>, tensor<f32>) -> tensor<2x3x16x16xf32>
    %18 = kfuse.constant dense<0xFF800000> : tensor<f32>
    %19 = kfuse.where %14, %17, %18 : (tensor<16x16xi1>, tensor<2x3x16x16xf32>, tensor<f32>) -> tensor<2x3x16x16xf32>
    %20 = kfuse.softmax %19 : (tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32>
    %21 = kfuse.matmul %20, %11 : (tensor<2x3x16x16xf32>, tensor<2x3x16x32xf32>) -> tensor<2x3x16x32xf32>
    %22 = kfuse.transpose %21 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x16x32xf32>) -> tensor<2x16x3x32xf32>
    %23 = kfuse.reshape %22 : (tensor<2x16x3x32xf32>) -> tensor<2x16x96xf32>
    %24 = kfuse.matmul %23, %arg5 : (tensor<2x16x96xf32>, tensor<96x96xf32>) -> tensor<2x16x96xf32>
    %25 = kfuse.add %24, %arg6 : (tensor<2x16x96xf32>, tensor<96xf32>) -> tensor<2x16x96xf32>
    %26 = kfuse.add %arg0, %25 : (tensor<2x16x96xf32>, tensor<2x16x96xf32>) -> tensor<2x16x96xf32>
    %27 = kfuse.layer_norm %26, %arg7, %arg8 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x16x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<2x16x96xf32>
    %28 = kfuse.matmul %27, %arg9 : (tensor<2x16x96xf32>, tensor<96x384xf32>) -> tensor<2x16x384xf32>
    %29 = kfuse.add %28, %arg10 : (tensor<2x16x384xf32>, tensor<384xf32>) -> tensor<2x16x384xf32>
    %30 = kfuse.gelu_tanh %29 : (tensor<2x16x384xf32>) -> tensor<2x16x384xf32>
    %31 = kfuse.matmul %30, %arg11 : (tensor<2x16x384xf32>, tensor<384x96xf32>) -> tensor<2x16x96xf32>
    %32 = kfuse.add %31, %arg12 : (tensor<2x16x96xf32>, tensor<96xf32>) -> tensor<2x16x96xf32>
    %33 = kfuse.add %26, %32 : (tensor<2x16x96xf32>, tensor<2x16x96xf32>) -> tensor<2x16x96xf32>
    return %33 : tensor<2x16x96xf32>
  }
}
