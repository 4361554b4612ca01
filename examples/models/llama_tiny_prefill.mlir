module {
  func.func @main(%arg0: tensor<1x16x256xf32> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<16x16xf32> {kfuse.name = "cos", kfuse.role = "parameter"}, %arg2: tensor<16x16xf32> {kfuse.name = "sin", kfuse.role = "parameter"}, %arg3: tensor<256xf32> {kfuse.name = "input_layernorm.weight", kfuse.role = "parameter"}, %arg4: tensor<256x256xf32> {kfuse.name = "self_attn.q_proj.weight", kfuse.role = "parameter"}, %arg5: tensor<64x256xf32> {kfuse.name = "self_attn.k_proj.weight", kfuse.role = "parameter"}, %arg6: tensor<64x256xf32> {kfuse.name = "self_attn.v_proj.weight", kfuse.role = "parameter"}, %arg7: tensor<256x256xf32> {kfuse.name = "self_attn.o_proj.weight", kfuse.role = "parameter"}, %arg8: tensor<256xf32> {kfuse.name = "post_attention_layernorm.weight", kfuse.role = "parameter"}, %arg9: tensor<448x256xf32> {kfuse.name = "mlp.gate_proj.weight", kfuse.role = "parameter"}, %arg10: tensor<448x256xf32> {kfuse.name = "mlp.up_proj.weight", kfuse.role = "parameter"}, %arg11: tensor<256x448xf32> {kfuse.name = "mlp.down_proj.weight", kfuse.role = "parameter"}) -> (tensor<1x16x256xf32> {kfuse.name = "y"}) {
    %0 = kfuse.rms_norm %arg0, %arg3 {epsilon = 9.99999974E-6 : f32} : (tensor<1x16x256xf32>, tensor<256xf32>) -> tensor<1x16x256xf32>
    %1 = kfuse.matmul %0, %arg4 {transpose_b} : (tensor<1x16x256xf32>, tensor<256x256xf32>) -> tensor<1x16x256xf32>
    %2 = kfuse.reshape %1 : (tensor<1x16x256xf32>) -> tensor<1x16x2x4x32xf32>
    %3 = kfuse.transpose %2 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x16x2x4x32xf32>) -> tensor<1x2x4x16x32xf32>
    %4 = kfuse.rotary %3, %arg1, %arg2 : (tensor<1x2x4x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x4x16x32xf32>
    %5 = kfuse.matmul %0, %arg5 {transpose_b} : (tensor<1x16x256xf32>, tensor<64x256xf32>) -> tensor<1x16x64xf32>
    %6 = kfuse.reshape %5 : (tensor<1x16x64xf32>) -> tensor<1x16x2x1x32xf32>
    %7 = kfuse.transpose %6 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x16x2x1x32xf32>) -> tensor<1x2x1x16x32xf32>
    %8 = kfuse.rotary %7, %arg1, %arg2 : (tensor<1x2x1x16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x1x16x32xf32>
    %9 = kfuse.matmul %0, %arg6 {transpose_b} : (tensor<1x16x256xf32>, tensor<64x256xf32>) -> tensor<1x16x64xf32>
    %10 = kfuse.reshape %9 : (tensor<1x16x64xf32>) -> tensor<1x16x2x1x32xf32>
    %11 = kfuse.transpose %10 {permutation = array<i64: 0, 2, 3, 1, 4>} : (tensor<1x16x2x1x32xf32>) -> tensor<1x2x1x16x32xf32>
    %12 = kfuse.iota {dim = 0 : i64} : tensor<16x1xi32>
    %13 = kfuse.iota {dim = 1 : i64} : tensor<1x16xi32>
    %14 = kfuse.le %13, %12 : (tensor<1x16xi32>, tensor<16x1xi32>) -> tensor<16x16xi1>
    %15 = kfuse.constant dense<0.176776692> : tensor<f32>
    %16 = kfuse.matmul %4, %8 {transpose_b} : (tensor<1x2x4x16x32xf32>, tensor<1x2x1x16x32xf32>) -> tensor<1x2x4x16x16xf32>
    %17 = kfuse.mul %16, %15 : (tensor<1x2x4x16x16xf32>, tensor<f32>) -> tensor<1x2x4x16x16xf32>
    %18 = kfuse.constant dense<0xFF800000> : tensor<f32>
    %19 = kfuse.where %14, %17, %18 : (tensor<16x16xi1>, tensor<1x2x4x16x16xf32>, tensor<f32>) -> tensor<1x2x4x16x16xf32>
    %20 = kfuse.softmax %19 : (tensor<1x2x4x16x16xf32>) -> tensor<1x2x4x16x16xf32>
    %21 = kfuse.matmul %20, %11 : (tensor<1x2x4x16x16xf32>, tensor<1x2x1x16x32xf32>) -> tensor<1x2x4x16x32xf32>
    %22 = kfuse.transpose %21 {permutation = array<i64: 0, 3, 1, 2, 4>} : (tensor<1x2x4x16x32xf32>) -> tensor<1x16x2x4x32xf32>
    %23 = kfuse.reshape %22 : (tensor<1x16x2x4x32xf32>) -> tensor<1x16x256xf32>
    %24 = kfuse.matmul %23, %arg7 {transpose_b} : (tensor<1x16x256xf32>, tensor<256x256xf32>) -> tensor<1x16x256xf32>
    %25 = kfuse.add %arg0, %24 : (tensor<1x16x256xf32>, tensor<1x16x256xf32>) -> tensor<1x16x256xf32>
    %26 = kfuse.rms_norm %25, %arg8 {epsilon = 9.99999974E-6 : f32} : (tensor<1x16x256xf32>, tensor<256xf32>) -> tensor<1x16x256xf32>
    %27 = kfuse.matmul %26, %arg9 {transpose_b} : (tensor<1x16x256xf32>, tensor<448x256xf32>) -> tensor<1x16x448xf32>
    %28 = kfuse.silu %27 : (tensor<1x16x448xf32>) -> tensor<1x16x448xf32>
    %29 = kfuse.matmul %26, %arg10 {transpose_b} : (tensor<1x16x256xf32>, tensor<448x256xf32>) -> tensor<1x16x448xf32>
    %30 = kfuse.mul %28, %29 : (tensor<1x16x448xf32>, tensor<1x16x448xf32>) -> tensor<1x16x448xf32>
    %31 = kfuse.matmul %30, %arg11 {transpose_b} : (tensor<1x16x448xf32>, tensor<256x448xf32>) -> tensor<1x16x256xf32>
    %32 = kfuse.add %25, %31 : (tensor<1x16x256xf32>, tensor<1x16x256xf32>) -> tensor<1x16x256xf32>
    return %32 : tensor<1x16x256xf32>
  }
}
