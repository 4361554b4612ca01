module {
  func.func @main(%arg0: tensor<1x1x256xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<1xi64> {kfuse.name = "position", kfuse.role = "input"}, %arg2: tensor<16x16xf32> {kfuse.name = "cos", kfuse.role = "parameter"}, %arg3: tensor<16x16xf32> {kfuse.name = "sin", kfuse.role = "parameter"}, %arg4: tensor<256xf32> {kfuse.name = "input_layernorm.weight", kfuse.role = "parameter"}, %arg5: tensor<256x256xf32> {kfuse.name = "self_attn.q_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<64x256xf32> {kfuse.name = "self_attn.k_proj.weight", kfuse.role = "parameter"}, %arg7: tensor<64x256xf32> {kfuse.name = "self_attn.v_proj.weight", kfuse.role = "parameter"}, %arg8: tensor<1x2x16x32xf32> {kfuse.name = "k_cache", kfuse.role = "state"}, %arg9: tensor<1x2x16x32xf32> {kfuse.name = "v_cache", kfuse.role = "state"}, %arg10: tensor<256x256xf32> {kfuse.name = "self_attn.o_proj.weight", kfuse.role = "parameter"}, %arg11: tensor<256xf32> {kfuse.name = "post_attention_layernorm.weight", kfuse.role = "parameter"}, %arg12: tensor<448x256xf32> {kfuse.name = "mlp.gate_proj.weight", kfuse.role = "parameter"}, %arg13: tensor<448x256xf32> {kfuse.name = "mlp.up_proj.weight", kfuse.role = "parameter"}, %arg14: tensor<256x448xf32> {kfuse.name = "mlp.down_proj.weight", kfuse.role = "parameter"}) -> (tensor<1x1x256xf32> {kfuse.name = "y"}, tensor<1x2x16x32xf32> {kfuse.name = "k_cache", kfuse.state = 8 : i64}, tensor<1x2x16x32xf32> {kfuse.name = "v_cache", kfuse.state = 9 : i64}) {
    %0 = kfuse.gather %arg2, %arg1 {axis = 0 : i64} : (tensor<16x16xf32>, tensor<1xi64>) -> tensor<1x16xf32>
    %1 = kfuse.reshape %0 : (tensor<1x16xf32>) -> tensor<1x1x1x16xf32>
    %2 = kfuse.gather %arg3, %arg1 {axis = 0 : i64} : (tensor<16x16xf32>, tensor<1xi64>) -> tensor<1x16xf32>
    %3 = kfuse.reshape %2 : (tensor<1x16xf32>) -> tensor<1x1x1x16xf32>
    %4 = kfuse.rms_norm %arg0, %arg4 {epsilon = 9.99999974E-6 : f32} : (tensor<1x1x256xf32>, tensor<256xf32>) -> tensor<1x1x256xf32>
    %5 = kfuse.matmul %4, %arg5 {transpose_b} : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %6 = kfuse.reshape %5 : (tensor<1x1x256xf32>) -> tensor<1x2x4x32xf32>
    %7 = kfuse.rotary %6, %1, %3 : (tensor<1x2x4x32xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>) -> tensor<1x2x4x32xf32>
    %8 = kfuse.matmul %4, %arg6 {transpose_b} : (tensor<1x1x256xf32>, tensor<64x256xf32>) -> tensor<1x1x64xf32>
    %9 = kfuse.reshape %8 : (tensor<1x1x64xf32>) -> tensor<1x2x1x32xf32>
    %10 = kfuse.rotary %9, %1, %3 : (tensor<1x2x1x32xf32>, tensor<1x1x1x16xf32>, tensor<1x1x1x16xf32>) -> tensor<1x2x1x32xf32>
    %11 = kfuse.matmul %4, %arg7 {transpose_b} : (tensor<1x1x256xf32>, tensor<64x256xf32>) -> tensor<1x1x64xf32>
    %12 = kfuse.reshape %11 : (tensor<1x1x64xf32>) -> tensor<1x2x1x32xf32>
    %13 = kfuse.state_update %arg8, %10, %arg1 {axis = 2 : i64} : (tensor<1x2x16x32xf32>, tensor<1x2x1x32xf32>, tensor<1xi64>) -> tensor<1x2x16x32xf32>
    %14 = kfuse.state_update %arg9, %12, %arg1 {axis = 2 : i64} : (tensor<1x2x16x32xf32>, tensor<1x2x1x32xf32>, tensor<1xi64>) -> tensor<1x2x16x32xf32>
    %15 = kfuse.iota {dim = 0 : i64} : tensor<16xi64>
    %16 = kfuse.reshape %arg1 : (tensor<1xi64>) -> tensor<1x1x1x1xi64>
    %17 = kfuse.le %15, %16 : (tensor<16xi64>, tensor<1x1x1x1xi64>) -> tensor<1x1x1x16xi1>
    %18 = kfuse.constant dense<0.176776692> : tensor<f32>
    %19 = kfuse.matmul %7, %13 {transpose_b} : (tensor<1x2x4x32xf32>, tensor<1x2x16x32xf32>) -> tensor<1x2x4x16xf32>
    %20 = kfuse.mul %19, %18 : (tensor<1x2x4x16xf32>, tensor<f32>) -> tensor<1x2x4x16xf32>
    %21 = kfuse.constant dense<0xFF800000> : tensor<f32>
    %22 = kfuse.where %17, %20, %21 : (tensor<1x1x1x16xi1>, tensor<1x2x4x16xf32>, tensor<f32>) -> tensor<1x2x4x16xf32>
    %23 = kfuse.softmax %22 : (tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
    %24 = kfuse.matmul %23, %14 : (tensor<1x2x4x16xf32>, tensor<1x2x16x32xf32>) -> tensor<1x2x4x32xf32>
    %25 = kfuse.reshape %24 : (tensor<1x2x4x32xf32>) -> tensor<1x1x256xf32>
    %26 = kfuse.matmul %25, %arg10 {transpose_b} : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %27 = kfuse.add %arg0, %26 : (tensor<1x1x256xf32>, tensor<1x1x256xf32>) -> tensor<1x1x256xf32>
    %28 = kfuse.rms_norm %27, %arg11 {epsilon = 9.99999974E-6 : f32} : (tensor<1x1x256xf32>, tensor<256xf32>) -> tensor<1x1x256xf32>
    %29 = kfuse.matmul %28, %arg12 {transpose_b} : (tensor<1x1x256xf32>, tensor<448x256xf32>) -> tensor<1x1x448xf32>
    %30 = kfuse.silu %29 : (tensor<1x1x448xf32>) -> tensor<1x1x448xf32>
    %31 = kfuse.matmul %28, %arg13 {transpose_b} : (tensor<1x1x256xf32>, tensor<448x256xf32>) -> tensor<1x1x448xf32>
    %32 = kfuse.mul %30, %31 : (tensor<1x1x448xf32>, tensor<1x1x448xf32>) -> tensor<1x1x448xf32>
    %33 = kfuse.matmul %32, %arg14 {transpose_b} : (tensor<1x1x448xf32>, tensor<256x448xf32>) -> tensor<1x1x256xf32>
    %34 = kfuse.add %27, %33 : (tensor<1x1x256xf32>, tensor<1x1x256xf32>) -> tensor<1x1x256xf32>
    return %34, %13, %14 : tensor<1x1x256xf32>, tensor<1x2x16x32xf32>, tensor<1x2x16x32xf32>
  }
}
