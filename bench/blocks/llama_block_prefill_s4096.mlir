module {
  func.func @main(%arg0: tensor<1x4096x4096xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<4096x64xbf16> {kfuse.name = "cos", kfuse.role = "parameter"}, %arg2: tensor<4096x64xbf16> {kfuse.name = "sin", kfuse.role = "parameter"}, %arg3: tensor<4096xbf16> {kfuse.name = "input_layernorm.weight", kfuse.role = "parameter"}, %arg4: tensor<4096x4096xbf16> {kfuse.name = "self_attn.q_proj.weight", kfuse.role = "parameter"}, %arg5: tensor<1024x4096xbf16> {kfuse.name = "self_attn.k_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<1024x4096xbf16> {kfuse.name = "self_attn.v_proj.weight", kfuse.role = "parameter"}, %arg7: tensor<4096x4096xbf16> {kfuse.name = "self_attn.o_proj.weight", kfuse.role = "parameter"}, %arg8: tensor<4096xbf16> {kfuse.name = "post_attention_layernorm.weight", kfuse.role = "parameter"}, %arg9: tensor<14336x4096xbf16> {kfuse.name = "mlp.gate_proj.weight", kfuse.role = "parameter"}, %arg10: tensor<14336x4096xbf16> {kfuse.name = "mlp.up_proj.weight", kfuse.role = "parameter"}, %arg11: tensor<4096x14336xbf16> {kfuse.name = "mlp.down_proj.weight", kfuse.role = "parameter"}) -> (tensor<1x4096x4096xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.rms_norm %arg0, %arg3 {epsilon = 9.99999974E-6 : f32} : (tensor<1x4096x4096xbf16>, tensor<4096xbf16>) -> tensor<1x4096x4096xbf16>
    %1 = kfuse.matmul %0, %arg4 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x4096x4096xbf16>
    %2 = kfuse.reshape %1 : (tensor<1x4096x4096xbf16>) -> tensor<1x4096x8x4x128xbf16>
    %3 = kfuse.transpose %2 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x4096x8x4x128xbf16>) -> tensor<1x8x4x4096x128xbf16>
    %4 = kfuse.rotary %3, %arg1, %arg2 : (tensor<1x8x4x4096x128xbf16>, tensor<4096x64xbf16>, tensor<4096x64xbf16>) -> tensor<1x8x4x4096x128xbf16>
    %5 = kfuse.matmul %0, %arg5 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<1024x4096xbf16>) -> tensor<1x4096x1024xbf16>
    %6 = kfuse.reshape %5 : (tensor<1x4096x1024xbf16>) -> tensor<1x4096x8x1x128xbf16>
    %7 = kfuse.transpose %6 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x4096x8x1x128xbf16>) -> tensor<1x8x1x4096x128xbf16>
    %8 = kfuse.rotary %7, %arg1, %arg2 : (tensor<1x8x1x4096x128xbf16>, tensor<4096x64xbf16>, tensor<4096x64xbf16>) -> tensor<1x8x1x4096x128xbf16>
    %9 = kfuse.matmul %0, %arg6 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<1024x4096xbf16>) -> tensor<1x4096x1024xbf16>
    %10 = kfuse.reshape %9 : (tensor<1x4096x1024xbf16>) -> tensor<1x4096x8x1x128xbf16>
    %11 = kfuse.transpose %10 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x4096x8x1x128xbf16>) -> tensor<1x8x1x4096x128xbf16>
    %12 = kfuse.iota {dim = 0 : i64} : tensor<4096x1xi32>
    %13 = kfuse.iota {dim = 1 : i64} : tensor<1x4096xi32>
    %14 = kfuse.le %13, %12 : (tensor<1x4096xi32>, tensor<4096x1xi32>) -> tensor<4096x4096xi1>
    %15 = kfuse.constant dense<8.837890e-02> : tensor<bf16>
    %16 = kfuse.matmul %4, %8 {transpose_b} : (tensor<1x8x4x4096x128xbf16>, tensor<1x8x1x4096x128xbf16>) -> tensor<1x8x4x4096x4096xbf16>
    %17 = kfuse.mul %16, %15 : (tensor<1x8x4x4096x4096xbf16>, tensor<bf16>) -> tensor<1x8x4x4096x4096xbf16>
    %18 = kfuse.constant dense<0xFF80> : tensor<bf16>
    %19 = kfuse.where %14, %17, %18 : (tensor<4096x4096xi1>, tensor<1x8x4x4096x4096xbf16>, tensor<bf16>) -> tensor<1x8x4x4096x4096xbf16>
    %20 = kfuse.softmax %19 : (tensor<1x8x4x4096x4096xbf16>) -> tensor<1x8x4x4096x4096xbf16>
    %21 = kfuse.matmul %20, %11 : (tensor<1x8x4x4096x4096xbf16>, tensor<1x8x1x4096x128xbf16>) -> tensor<1x8x4x4096x128xbf16>
    %22 = kfuse.transpose %21 {permutation = array<i64: 0, 3, 1, 2, 4>} : (tensor<1x8x4x4096x128xbf16>) -> tensor<1x4096x8x4x128xbf16>
    %23 = kfuse.reshape %22 : (tensor<1x4096x8x4x128xbf16>) -> tensor<1x4096x4096xbf16>
    %24 = kfuse.matmul %23, %arg7 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<1x4096x4096xbf16>
    %25 = kfuse.add %arg0, %24 : (tensor<1x4096x4096xbf16>, tensor<1x4096x4096xbf16>) -> tensor<1x4096x4096xbf16>
    %26 = kfuse.rms_norm %25, %arg8 {epsilon = 9.99999974E-6 : f32} : (tensor<1x4096x4096xbf16>, tensor<4096xbf16>) -> tensor<1x4096x4096xbf16>
    %27 = kfuse.matmul %26, %arg9 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<14336x4096xbf16>) -> tensor<1x4096x14336xbf16>
    %28 = kfuse.silu %27 : (tensor<1x4096x14336xbf16>) -> tensor<1x4096x14336xbf16>
    %29 = kfuse.matmul %26, %arg10 {transpose_b} : (tensor<1x4096x4096xbf16>, tensor<14336x4096xbf16>) -> tensor<1x4096x14336xbf16>
    %30 = kfuse.mul %28, %29 : (tensor<1x4096x14336xbf16>, tensor<1x4096x14336xbf16>) -> tensor<1x4096x14336xbf16>
    %31 = kfuse.matmul %30, %arg11 {transpose_b} : (tensor<1x4096x14336xbf16>, tensor<4096x14336xbf16>) -> tensor<1x4096x4096xbf16>
    %32 = kfuse.add %25, %31 : (tensor<1x4096x4096xbf16>, tensor<1x4096x4096xbf16>) -> tensor<1x4096x4096xbf16>
    return %32 : tensor<1x4096x4096xbf16>
  }
}
