// 8-bit floats.

// A float of 4 exponent bits (bias 7) and 3 of mantissa; 127 is NaN. Numbers below 2^-6 count steps of 2^-9.
func.func private @e4m3_to_f32(%x: i8) -> f32 {
  %signMask = arith.constant 128 : i32
  %signShift = arith.constant 24 : i32
  %magnitudeMask = arith.constant 127 : i32
  %shift = arith.constant 20 : i32
  %rebias = arith.constant 1006632960 : i32
  %step = arith.constant 0.001953125 : f32
  %smallestNormal = arith.constant 8 : i32
  %top = arith.constant 126 : i32
  %nan = arith.constant 2143289344 : i32
  %wide = arith.extui %x : i8 to i32
  %magnitude = arith.andi %wide, %magnitudeMask : i32
  %signBit = arith.andi %wide, %signMask : i32
  %sign = arith.shli %signBit, %signShift : i32
  %shifted = arith.shli %magnitude, %shift : i32
  %normal = arith.addi %shifted, %rebias : i32
  %count = arith.sitofp %magnitude : i32 to f32
  %small = arith.mulf %count, %step : f32
  %subnormal = arith.bitcast %small : f32 to i32
  %isSubnormal = arith.cmpi ult, %magnitude, %smallestNormal : i32
  %m0 = arith.select %isSubnormal, %subnormal, %normal : i32
  %isNan = arith.cmpi ugt, %magnitude, %top : i32
  %m2 = arith.select %isNan, %nan, %m0 : i32
  %bits = arith.ori %m2, %sign : i32
  %result = arith.bitcast %bits : i32 to f32
  return %result : f32
}

// 5 exponent bits (bias 15) and 2 of mantissa; 124 is infinity, NaN above. Below 2^-14 steps of 2^-16.
func.func private @e5m2_to_f32(%x: i8) -> f32 {
  %signMask = arith.constant 128 : i32
  %signShift = arith.constant 24 : i32
  %magnitudeMask = arith.constant 127 : i32
  %shift = arith.constant 21 : i32
  %rebias = arith.constant 939524096 : i32
  %step = arith.constant 1.52587890625e-05 : f32
  %smallestNormal = arith.constant 4 : i32
  %top = arith.constant 124 : i32
  %nan = arith.constant 2143289344 : i32
  %wide = arith.extui %x : i8 to i32
  %magnitude = arith.andi %wide, %magnitudeMask : i32
  %signBit = arith.andi %wide, %signMask : i32
  %sign = arith.shli %signBit, %signShift : i32
  %shifted = arith.shli %magnitude, %shift : i32
  %normal = arith.addi %shifted, %rebias : i32
  %count = arith.sitofp %magnitude : i32 to f32
  %small = arith.mulf %count, %step : f32
  %subnormal = arith.bitcast %small : f32 to i32
  %isSubnormal = arith.cmpi ult, %magnitude, %smallestNormal : i32
  %m0 = arith.select %isSubnormal, %subnormal, %normal : i32
  %infinity = arith.constant 2139095040 : i32
  %isInfinite = arith.cmpi eq, %magnitude, %top : i32
  %m1 = arith.select %isInfinite, %infinity, %m0 : i32
  %isNan = arith.cmpi ugt, %magnitude, %top : i32
  %m2 = arith.select %isNan, %nan, %m1 : i32
  %bits = arith.ori %m2, %sign : i32
  %result = arith.bitcast %bits : i32 to f32
  return %result : f32
}

// To nearest even; what is too large becomes 448, NaN 127. Numbers below 2^-6 are rounded by adding a power of
// two whose last place is their step.
func.func private @f32_to_e4m3(%x: f32) -> i8 {
  %signMask = arith.constant 128 : i32
  %signShift = arith.constant 24 : i32
  %magnitudeMask = arith.constant 2147483647 : i32
  %infinity = arith.constant 2139095040 : i32
  %largest = arith.constant 1138753536 : i32
  %shift = arith.constant 20 : i32
  %one = arith.constant 1 : i32
  %rebias = arith.constant 1006108673 : i32
  %smallestNormal = arith.constant 1015021568 : i32
  %shifter = arith.constant 16384.0 : f32
  %shifterBits = arith.constant 1182793728 : i32
  %nan = arith.constant 127 : i32
  %pattern = arith.bitcast %x : f32 to i32
  %all = arith.andi %pattern, %magnitudeMask : i32
  %isLarge = arith.cmpi ugt, %all, %largest : i32
  %magnitude = arith.select %isLarge, %largest, %all : i32
  %kept = arith.shrui %magnitude, %shift : i32
  %odd = arith.andi %kept, %one : i32
  %rebiased = arith.subi %magnitude, %rebias : i32
  %rounded = arith.addi %rebiased, %odd : i32
  %normal = arith.shrui %rounded, %shift : i32
  %value = arith.bitcast %magnitude : i32 to f32
  %sum = arith.addf %value, %shifter : f32
  %sumBits = arith.bitcast %sum : f32 to i32
  %subnormal = arith.subi %sumBits, %shifterBits : i32
  %isSubnormal = arith.cmpi ult, %magnitude, %smallestNormal : i32
  %m0 = arith.select %isSubnormal, %subnormal, %normal : i32
  %isNan = arith.cmpi ugt, %all, %infinity : i32
  %m1 = arith.select %isNan, %nan, %m0 : i32
  %high = arith.shrui %pattern, %signShift : i32
  %sign = arith.andi %high, %signMask : i32
  %bits = arith.ori %m1, %sign : i32
  %result = arith.trunci %bits : i32 to i8
  return %result : i8
}

// The same; what is too large becomes 57344.
func.func private @f32_to_e5m2(%x: f32) -> i8 {
  %signMask = arith.constant 128 : i32
  %signShift = arith.constant 24 : i32
  %magnitudeMask = arith.constant 2147483647 : i32
  %infinity = arith.constant 2139095040 : i32
  %largest = arith.constant 1197473792 : i32
  %shift = arith.constant 21 : i32
  %one = arith.constant 1 : i32
  %rebias = arith.constant 938475521 : i32
  %smallestNormal = arith.constant 947912704 : i32
  %shifter = arith.constant 128.0 : f32
  %shifterBits = arith.constant 1124073472 : i32
  %nan = arith.constant 127 : i32
  %pattern = arith.bitcast %x : f32 to i32
  %all = arith.andi %pattern, %magnitudeMask : i32
  %isLarge = arith.cmpi ugt, %all, %largest : i32
  %magnitude = arith.select %isLarge, %largest, %all : i32
  %kept = arith.shrui %magnitude, %shift : i32
  %odd = arith.andi %kept, %one : i32
  %rebiased = arith.subi %magnitude, %rebias : i32
  %rounded = arith.addi %rebiased, %odd : i32
  %normal = arith.shrui %rounded, %shift : i32
  %value = arith.bitcast %magnitude : i32 to f32
  %sum = arith.addf %value, %shifter : f32
  %sumBits = arith.bitcast %sum : f32 to i32
  %subnormal = arith.subi %sumBits, %shifterBits : i32
  %isSubnormal = arith.cmpi ult, %magnitude, %smallestNormal : i32
  %m0 = arith.select %isSubnormal, %subnormal, %normal : i32
  %isNan = arith.cmpi ugt, %all, %infinity : i32
  %m1 = arith.select %isNan, %nan, %m0 : i32
  %high = arith.shrui %pattern, %signShift : i32
  %sign = arith.andi %high, %signMask : i32
  %bits = arith.ori %m1, %sign : i32
  %result = arith.trunci %bits : i32 to i8
  return %result : i8
}
