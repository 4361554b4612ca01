module {
  func.func @main(%arg0: tensor<1x1x4096xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<1xi64> {kfuse.name = "position", kfuse.role = "input"}, %arg2: tensor<4096x64xbf16> {kfuse.name = "cos", kfuse.role = "parameter"}, %arg3: tensor<4096x64xbf16> {kfuse.name = "sin", kfuse.role = "parameter"}, %arg4: tensor<4096xbf16> {kfuse.name = "input_layernorm.weight", kfuse.role = "parameter"}, %arg5: tensor<4096x4096xbf16> {kfuse.name = "self_attn.q_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<1024x4096xbf16> {kfuse.name = "self_attn.k_proj.weight", kfuse.role = "parameter"}, %arg7: tensor<1024x4096xbf16> {kfuse.name = "self_attn.v_proj.weight", kfuse.role = "parameter"}, %arg8: tensor<1x8x4096x128xbf16> {kfuse.name = "k_cache", kfuse.role = "state"}, %arg9: tensor<1x8x4096x128xbf16> {kfuse.name = "v_cache", kfuse.role = "state"}, %arg10: tensor<4096x4096xbf16> {kfuse.name = "self_attn.o_proj.weight", kfuse.role = "parameter"}, %arg11: tensor<4096xbf16> {kfuse.name = "post_attention_layernorm.weight", kfuse.role = "parameter"}, %arg12: tensor<14336x4096xbf16> {kfuse.name = "mlp.gate_proj.weight", kfuse.role = "parameter"}, %arg13: tensor<14336x4096xbf16> {kfuse.name = "mlp.up_proj.weight", kfuse.role = "parameter"}, %arg14: tensor<4096x14336xbf16> {kfuse.name = "mlp.down_proj.weight", kfuse.role = "parameter"}) -> (tensor<1x1x4096xbf16> {kfuse.name = "y"}, tensor<1x8x4096x128xbf16> {kfuse.name = "k_cache", kfuse.state = 8 : i64}, tensor<1x8x4096x128xbf16> {kfuse.name = "v_cache", kfuse.state = 9 : i64}) {
    %0 = kfuse.gather %arg2, %arg1 {axis = 0 : i64} : (tensor<4096x64xbf16>, tensor<1xi64>) -> tensor<1x64xbf16>
    %1 = kfuse.reshape %0 : (tensor<1x64xbf16>) -> tensor<1x1x1x64xbf16>
    %2 = kfuse.gather %arg3, %arg1 {axis = 0 : i64} : (tensor<4096x64xbf16>, tensor<1xi64>) -> tensor<1x64xbf16>
    %3 = kfuse.reshape %2 : (tensor<1x64xbf16>) -> tensor<1x1x1x64xbf16>
    %4 = kfuse.rms_norm %arg0, %arg4 {epsilon = 9.99999974E-6 : f32} : (tensor<1x1x4096xbf16>, tensor<4096xbf16>) -> tensor<1x1x4096xbf16>
    %5 = kfuse.matmul %4, %arg5 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x1x4096xbf16>
    %6 = kfuse.reshape %5 : (tensor<1x1x4096xbf16>) -> tensor<1x8x4x128xbf16>
    %7 = kfuse.rotary %6, %1, %3 : (tensor<1x8x4x128xbf16>, tensor<1x1x1x64xbf16>, tensor<1x1x1x64xbf16>) -> tensor<1x8x4x128xbf16>
    %8 = kfuse.matmul %4, %arg6 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<1024x4096xbf16>) -> tensor<1x1x1024xbf16>
    %9 = kfuse.reshape %8 : (tensor<1x1x1024xbf16>) -> tensor<1x8x1x128xbf16>
    %10 = kfuse.rotary %9, %1, %3 : (tensor<1x8x1x128xbf16>, tensor<1x1x1x64xbf16>, tensor<1x1x1x64xbf16>) -> tensor<1x8x1x128xbf16>
    %11 = kfuse.matmul %4, %arg7 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<1024x4096xbf16>) -> tensor<1x1x1024xbf16>
    %12 = kfuse.reshape %11 : (tensor<1x1x1024xbf16>) -> tensor<1x8x1x128xbf16>
    %13 = kfuse.state_update %arg8, %10, %arg1 {axis = 2 : i64} : (tensor<1x8x4096x128xbf16>, tensor<1x8x1x128xbf16>, tensor<1xi64>) -> tensor<1x8x4096x128xbf16>
    %14 = kfuse.state_update %arg9, %12, %arg1 {axis = 2 : i64} : (tensor<1x8x4096x128xbf16>, tensor<1x8x1x128xbf16>, tensor<1xi64>) -> tensor<1x8x4096x128xbf16>
    %15 = kfuse.iota {dim = 0 : i64} : tensor<4096xi64>
    %16 = kfuse.reshape %arg1 : (tensor<1xi64>) -> tensor<1x1x1x1xi64>
    %17 = kfuse.le %15, %16 : (tensor<4096xi64>, tensor<1x1x1x1xi64>) -> tensor<1x1x1x4096xi1>
    %18 = kfuse.constant dense<8.837890e-02> : tensor<bf16>
    %19 = kfuse.matmul %7, %13 {transpose_b} : (tensor<1x8x4x128xbf16>, tensor<1x8x4096x128xbf16>) -> tensor<1x8x4x4096xbf16>
    %20 = kfuse.mul %19, %18 : (tensor<1x8x4x4096xbf16>, tensor<bf16>) -> tensor<1x8x4x4096xbf16>
    %21 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %22 = kfuse.where %17, %20, %21 : (tensor<1x1x1x4096xi1>, tensor<1x8x4x4096xbf16>, tensor<bf16>) -> tensor<1x8x4x4096xbf16>
    %23 = kfuse.softmax %22 : (tensor<1x8x4x4096xbf16>) -> tensor<1x8x4x4096xbf16>
    %24 = kfuse.matmul %23, %14 : (tensor<1x8x4x4096xbf16>, tensor<1x8x4096x128xbf16>) -> tensor<1x8x4x128xbf16>
    %25 = kfuse.reshape %24 : (tensor<1x8x4x128xbf16>) -> tensor<1x1x4096xbf16>
    %26 = kfuse.matmul %25, %arg10 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x1x4096xbf16>
    %27 = kfuse.add %arg0, %26 : (tensor<1x1x4096xbf16>, tensor<1x1x4096xbf16>) -> tensor<1x1x4096xbf16>
    %28 = kfuse.rms_norm %27, %arg11 {epsilon = 9.99999974E-6 : f32} : (tensor<1x1x4096xbf16>, tensor<4096xbf16>) -> tensor<1x1x4096xbf16>
    %29 = kfuse.matmul %28, %arg12 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<14336x4096xbf16>) -> tensor<1x1x14336xbf16>
    %30 = kfuse.silu %29 : (tensor<1x1x14336xbf16>) -> tensor<1x1x14336xbf16>
    %31 = kfuse.matmul %28, %arg13 {transpose_b} : (tensor<1x1x4096xbf16>, tensor<14336x4096xbf16>) -> tensor<1x1x14336xbf16>
    %32 = kfuse.mul %30, %31 : (tensor<1x1x14336xbf16>, tensor<1x1x14336xbf16>) -> tensor<1x1x14336xbf16>
    %33 = kfuse.matmul %32, %arg14 {transpose_b} : (tensor<1x1x14336xbf16>, tensor<4096x14336xbf16>) -> tensor<1x1x4096xbf16>
    %34 = kfuse.add %27, %33 : (tensor<1x1x4096xbf16>, tensor<1x1x4096xbf16>) -> tensor<1x1x4096xbf16>
    return %34, %13, %14 : tensor<1x1x4096xbf16>, tensor<1x8x4096x128xbf16>, tensor<1x8x4096x128xbf16>
  }
}
