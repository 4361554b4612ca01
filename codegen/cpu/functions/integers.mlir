// Integers, and floats that become integers.

func.func private @f32_to_bool(%x: f32) -> i1 {
  %zero = arith.constant 0.0 : f32
  %result = arith.cmpf une, %x, %zero : f32
  return %result : i1
}

// Towards zero, saturating; NaN gives 0.
func.func private @f32_to_i32(%x: f32) -> i32 {
  %low = arith.constant -2147483648.0 : f32
  %high = arith.constant 2147483520.0 : f32
  %zero = arith.constant 0.0 : f32
  %largest = arith.constant 2147483647 : i32
  %isNumber = arith.cmpf ord, %x, %x : f32
  %number = arith.select %isNumber, %x, %zero : f32
  %above = arith.maximumf %number, %low : f32
  %bounded = arith.minimumf %above, %high : f32
  %whole = arith.fptosi %bounded : f32 to i32
  %isHigh = arith.cmpf ogt, %x, %high : f32
  %result = arith.select %isHigh, %largest, %whole : i32
  return %result : i32
}

func.func private @f32_to_i64(%x: f32) -> i64 {
  %low = arith.constant -9223372036854775808.0 : f32
  %high = arith.constant 9223371487098961920.0 : f32
  %zero = arith.constant 0.0 : f32
  %largest = arith.constant 9223372036854775807 : i64
  %isNumber = arith.cmpf ord, %x, %x : f32
  %number = arith.select %isNumber, %x, %zero : f32
  %above = arith.maximumf %number, %low : f32
  %bounded = arith.minimumf %above, %high : f32
  %whole = arith.fptosi %bounded : f32 to i64
  %isHigh = arith.cmpf ogt, %x, %high : f32
  %result = arith.select %isHigh, %largest, %whole : i64
  return %result : i64
}

func.func private @i32_to_bool(%x: i32) -> i1 {
  %zero = arith.constant 0 : i32
  %result = arith.cmpi ne, %x, %zero : i32
  return %result : i1
}

func.func private @relu_i32(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %result = arith.maxsi %x, %zero : i32
  return %result : i32
}

func.func private @neg_i32(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %result = arith.subi %zero, %x : i32
  return %result : i32
}

// The processor traps on division by 0 and on the lowest number by -1; here they give 0 and wrap.
func.func private @div_i32(%a: i32, %b: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %minusOne = arith.constant -1 : i32
  %isZero = arith.cmpi eq, %b, %zero : i32
  %isMinus = arith.cmpi eq, %b, %minusOne : i32
  %isSpecial = arith.ori %isZero, %isMinus : i1
  %divisor = arith.select %isSpecial, %one, %b : i32
  %quotient = arith.divsi %a, %divisor : i32
  %minus = arith.subi %zero, %a : i32
  %r0 = arith.select %isMinus, %minus, %quotient : i32
  %result = arith.select %isZero, %zero, %r0 : i32
  return %result : i32
}

func.func private @rem_i32(%a: i32, %b: i32) -> i32 {
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %minusOne = arith.constant -1 : i32
  %isZero = arith.cmpi eq, %b, %zero : i32
  %isMinus = arith.cmpi eq, %b, %minusOne : i32
  %isSpecial = arith.ori %isZero, %isMinus : i1
  %divisor = arith.select %isSpecial, %one, %b : i32
  %result = arith.remsi %a, %divisor : i32
  return %result : i32
}

func.func private @mod_i32(%a: i32, %b: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %r0 = func.call @rem_i32(%a, %b) : (i32, i32) -> i32
  %mixed = arith.xori %r0, %b : i32
  %differs = arith.cmpi slt, %mixed, %zero : i32
  %isRest = arith.cmpi ne, %r0, %zero : i32
  %isOther = arith.andi %differs, %isRest : i1
  %moved = arith.addi %r0, %b : i32
  %result = arith.select %isOther, %moved, %r0 : i32
  return %result : i32
}

func.func private @i64_to_bool(%x: i64) -> i1 {
  %zero = arith.constant 0 : i64
  %result = arith.cmpi ne, %x, %zero : i64
  return %result : i1
}

func.func private @relu_i64(%x: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %result = arith.maxsi %x, %zero : i64
  return %result : i64
}

func.func private @neg_i64(%x: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %result = arith.subi %zero, %x : i64
  return %result : i64
}

// The processor traps on division by 0 and on the lowest number by -1; here they give 0 and wrap.
func.func private @div_i64(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %minusOne = arith.constant -1 : i64
  %isZero = arith.cmpi eq, %b, %zero : i64
  %isMinus = arith.cmpi eq, %b, %minusOne : i64
  %isSpecial = arith.ori %isZero, %isMinus : i1
  %divisor = arith.select %isSpecial, %one, %b : i64
  %quotient = arith.divsi %a, %divisor : i64
  %minus = arith.subi %zero, %a : i64
  %r0 = arith.select %isMinus, %minus, %quotient : i64
  %result = arith.select %isZero, %zero, %r0 : i64
  return %result : i64
}

func.func private @rem_i64(%a: i64, %b: i64) -> i64 {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %minusOne = arith.constant -1 : i64
  %isZero = arith.cmpi eq, %b, %zero : i64
  %isMinus = arith.cmpi eq, %b, %minusOne : i64
  %isSpecial = arith.ori %isZero, %isMinus : i1
  %divisor = arith.select %isSpecial, %one, %b : i64
  %result = arith.remsi %a, %divisor : i64
  return %result : i64
}

func.func private @mod_i64(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %r0 = func.call @rem_i64(%a, %b) : (i64, i64) -> i64
  %mixed = arith.xori %r0, %b : i64
  %differs = arith.cmpi slt, %mixed, %zero : i64
  %isRest = arith.cmpi ne, %r0, %zero : i64
  %isOther = arith.andi %differs, %isRest : i1
  %moved = arith.addi %r0, %b : i64
  %result = arith.select %isOther, %moved, %r0 : i64
  return %result : i64
}
