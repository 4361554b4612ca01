// Numbers of f32 rounded to 16 bits.

func.func private @round_to_f16(%x: f32) -> f32 {
  %stored = arith.truncf %x : f32 to f16
  %result = arith.extf %stored : f16 to f32
  return %result : f32
}

func.func private @round_to_bf16(%x: f32) -> f32 {
  %stored = arith.truncf %x : f32 to bf16
  %result = arith.extf %stored : bf16 to f32
  return %result : f32
}
