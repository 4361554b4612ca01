// Powers and remainders of floats.

// log2 |a| in f64: the exponent plus 2 atanh((m - 1) / (m + 1)) log2 e, m in [sqrt 1/2, sqrt 2). 0 and
// infinity give infinities.
func.func private @log2_magnitude(%a: f32) -> f64 {
  %one = arith.constant 1.0 : f64
  %half = arith.constant 0.5 : f64
  %root = arith.constant 1.4142135623730951 : f64
  %bits = arith.constant 52 : i64
  %bias = arith.constant 1023 : i64
  %mantissa = arith.constant 4503599627370495 : i64
  %oneBits = arith.constant 4607182418800017408 : i64
  %p = math.absf %a : f32
  %x = arith.extf %p : f32 to f64
  %pattern = arith.bitcast %x : f64 to i64
  %e0 = arith.shrui %pattern, %bits : i64
  %e1 = arith.subi %e0, %bias : i64
  %e2 = arith.trunci %e1 : i64 to i32
  %e3 = arith.sitofp %e2 : i32 to f64
  %f0 = arith.andi %pattern, %mantissa : i64
  %f1 = arith.ori %f0, %oneBits : i64
  %m0 = arith.bitcast %f1 : i64 to f64
  %isHigh = arith.cmpf ogt, %m0, %root : f64
  %m1 = arith.mulf %m0, %half : f64
  %m = arith.select %isHigh, %m1, %m0 : f64
  %e4 = arith.addf %e3, %one : f64
  %e = arith.select %isHigh, %e4, %e3 : f64
  %above = arith.subf %m, %one : f64
  %below = arith.addf %m, %one : f64
  %f = arith.divf %above, %below : f64
  %s = arith.mulf %f, %f : f64
  %k15 = arith.constant 0.19235933878519512 : f64
  %k13 = arith.constant 0.22195308321368666 : f64
  %k11 = arith.constant 0.26230818925253879 : f64
  %k9 = arith.constant 0.32059889797532518 : f64
  %k7 = arith.constant 0.41219858311113240 : f64
  %k5 = arith.constant 0.57707801635558536 : f64
  %k3 = arith.constant 0.96179669392597556 : f64
  %k1 = arith.constant 2.8853900817779268 : f64
  %q13 = math.fma %k15, %s, %k13 : f64
  %q11 = math.fma %q13, %s, %k11 : f64
  %q9 = math.fma %q11, %s, %k9 : f64
  %q7 = math.fma %q9, %s, %k7 : f64
  %q5 = math.fma %q7, %s, %k5 : f64
  %q3 = math.fma %q5, %s, %k3 : f64
  %q1 = math.fma %q3, %s, %k1 : f64
  %finite = math.fma %q1, %f, %e : f64
  %zero = arith.constant 0.0 : f64
  %infinity = arith.constant 0x7FF0000000000000 : f64
  %lowest = arith.constant 0xFFF0000000000000 : f64
  %isZero = arith.cmpf oeq, %x, %zero : f64
  %isInfinite = arith.cmpf oeq, %x, %infinity : f64
  %isOne = arith.cmpf oeq, %x, %one : f64
  %r0 = arith.select %isZero, %lowest, %finite : f64
  %r1 = arith.select %isInfinite, %infinity, %r0 : f64
  %isNan = arith.cmpf uno, %x, %x : f64
  %r2 = arith.select %isNan, %x, %r1 : f64
  return %r2 : f64
}

// 2^y in f64 for |y| <= 1000: 2^n e^((y - n) ln 2) by a Taylor polynomial of degree 9.
func.func private @exp2_wide(%y: f64) -> f64 {
  %ln2 = arith.constant 0.69314718055994531 : f64
  %bits = arith.constant 52 : i64
  %bias = arith.constant 1023 : i32
  %low = arith.constant -1000.0 : f64
  %n = math.roundeven %y : f64
  %r0 = arith.subf %y, %n : f64
  %r = arith.mulf %r0, %ln2 : f64
  %t9 = arith.constant 2.7557319223985893e-6 : f64
  %t8 = arith.constant 2.4801587301587302e-5 : f64
  %t7 = arith.constant 1.9841269841269841e-4 : f64
  %t6 = arith.constant 1.3888888888888889e-3 : f64
  %t5 = arith.constant 8.3333333333333333e-3 : f64
  %t4 = arith.constant 4.1666666666666667e-2 : f64
  %t3 = arith.constant 1.6666666666666667e-1 : f64
  %t2 = arith.constant 0.5 : f64
  %t1 = arith.constant 1.0 : f64
  %q8 = math.fma %t9, %r, %t8 : f64
  %q7 = math.fma %q8, %r, %t7 : f64
  %q6 = math.fma %q7, %r, %t6 : f64
  %q5 = math.fma %q6, %r, %t5 : f64
  %q4 = math.fma %q5, %r, %t4 : f64
  %q3 = math.fma %q4, %r, %t3 : f64
  %q2 = math.fma %q3, %r, %t2 : f64
  %q1 = math.fma %q2, %r, %t1 : f64
  %q0 = math.fma %q1, %r, %t1 : f64
  %number = arith.maxnumf %n, %low : f64
  %whole = arith.fptosi %number : f64 to i32
  %biased = arith.addi %whole, %bias : i32
  %wide = arith.extsi %biased : i32 to i64
  %shifted = arith.shli %wide, %bits : i64
  %scale = arith.bitcast %shifted : i64 to f64
  %result = arith.mulf %q0, %scale : f64
  return %result : f64
}

// a^b = 2^(b log2 |a|), computed in f64, with the sign and the special cases of IEEE 754.
func.func private @pow(%a: f32, %b: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %infinity = arith.constant 0x7F800000 : f32
  %wideZero = arith.constant 0.0 : f64
  %low = arith.constant -1000.0 : f64
  %high = arith.constant 1000.0 : f64
  %log = func.call @log2_magnitude(%a) : (f32) -> f64
  %wideB = arith.extf %b : f32 to f64
  %y0 = arith.mulf %wideB, %log : f64
  %x = math.absf %a : f32
  %isOne = arith.cmpf oeq, %x, %one : f32
  %isZeroth = arith.cmpf oeq, %b, %zero : f32
  %isTrivial = arith.ori %isOne, %isZeroth : i1
  %y1 = arith.select %isTrivial, %wideZero, %y0 : f64
  %y2 = arith.maximumf %y1, %low : f64
  %y = arith.minimumf %y2, %high : f64
  %power = func.call @exp2_wide(%y) : (f64) -> f64
  %magnitude = arith.truncf %power : f64 to f32
  %floor = math.floor %b : f32
  %halfB = arith.mulf %b, %half : f32
  %halfFloor = math.floor %halfB : f32
  %isFraction = arith.cmpf une, %floor, %b : f32
  %isOddOrFraction = arith.cmpf une, %halfFloor, %halfB : f32
  %signed = math.copysign %magnitude, %a : f32
  %withSign = arith.select %isOddOrFraction, %signed, %magnitude : f32
  %isNegative = arith.cmpf olt, %a, %zero : f32
  %isFinite = arith.cmpf olt, %x, %infinity : f32
  %r0 = arith.select %isFraction, %magnitude, %withSign : f32
  %undefined0 = arith.andi %isNegative, %isFinite : i1
  %undefined = arith.andi %undefined0, %isFraction : i1
  %result = arith.select %undefined, %nan, %r0 : f32
  return %result : f32
}

// One step of a division of large numbers: a less the whole times b goes into it, which may be one too many or too
// few. Exact for quotients below 2^28.
func.func private @remainder_step(%a: f64, %b: f64, %inverse: f64) -> f64 {
  %quotient = arith.mulf %a, %inverse : f64
  %whole = math.trunc %quotient : f64
  %minus = arith.negf %whole : f64
  %result = math.fma %minus, %b, %a : f64
  return %result : f64
}

// The remainder of two f32, neither negative, exact: a / b has up to 278 bits, of which a step takes 28.
func.func private @remainder(%a: f64, %b: f64) -> f64 {
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %infinity = arith.constant 0x7FF0000000000000 : f64
  %inverse = arith.divf %one, %b : f64
  %up9 = arith.constant 7.23700557733226221e+75 : f64
  %down9 = arith.constant 1.38178696881511114e-76 : f64
  %b9 = arith.mulf %b, %up9 : f64
  %inverse9 = arith.mulf %inverse, %down9 : f64
  %r9 = func.call @remainder_step(%a, %b9, %inverse9) : (f64, f64, f64) -> f64
  %up8 = arith.constant 2.69599466671506398e+67 : f64
  %down8 = arith.constant 3.70920615068742139e-68 : f64
  %b8 = arith.mulf %b, %up8 : f64
  %inverse8 = arith.mulf %inverse, %down8 : f64
  %r8 = func.call @remainder_step(%r9, %b8, %inverse8) : (f64, f64, f64) -> f64
  %up7 = arith.constant 1.00433627766186892e+59 : f64
  %down7 = arith.constant 9.95682444457782673e-60 : f64
  %b7 = arith.mulf %b, %up7 : f64
  %inverse7 = arith.mulf %inverse, %down7 : f64
  %r7 = func.call @remainder_step(%r8, %b7, %inverse7) : (f64, f64, f64) -> f64
  %up6 = arith.constant 3.74144419156711147e+50 : f64
  %down6 = arith.constant 2.67276471009219565e-51 : f64
  %b6 = arith.mulf %b, %up6 : f64
  %inverse6 = arith.mulf %inverse, %down6 : f64
  %r6 = func.call @remainder_step(%r7, %b6, %inverse6) : (f64, f64, f64) -> f64
  %up5 = arith.constant 1.39379657490816395e+42 : f64
  %down5 = arith.constant 7.17464813734306340e-43 : f64
  %b5 = arith.mulf %b, %up5 : f64
  %inverse5 = arith.mulf %inverse, %down5 : f64
  %r5 = func.call @remainder_step(%r6, %b5, %inverse5) : (f64, f64, f64) -> f64
  %up4 = arith.constant 5.19229685853482763e+33 : f64
  %down4 = arith.constant 1.92592994438723585e-34 : f64
  %b4 = arith.mulf %b, %up4 : f64
  %inverse4 = arith.mulf %inverse, %down4 : f64
  %r4 = func.call @remainder_step(%r5, %b4, %inverse4) : (f64, f64, f64) -> f64
  %up3 = arith.constant 1.93428131138340668e+25 : f64
  %down3 = arith.constant 5.16987882845642297e-26 : f64
  %b3 = arith.mulf %b, %up3 : f64
  %inverse3 = arith.mulf %inverse, %down3 : f64
  %r3 = func.call @remainder_step(%r4, %b3, %inverse3) : (f64, f64, f64) -> f64
  %up2 = arith.constant 7.20575940379279360e+16 : f64
  %down2 = arith.constant 1.38777878078144568e-17 : f64
  %b2 = arith.mulf %b, %up2 : f64
  %inverse2 = arith.mulf %inverse, %down2 : f64
  %r2 = func.call @remainder_step(%r3, %b2, %inverse2) : (f64, f64, f64) -> f64
  %up1 = arith.constant 2.68435456000000000e+08 : f64
  %down1 = arith.constant 3.72529029846191406e-09 : f64
  %b1 = arith.mulf %b, %up1 : f64
  %inverse1 = arith.mulf %inverse, %down1 : f64
  %r1 = func.call @remainder_step(%r2, %b1, %inverse1) : (f64, f64, f64) -> f64
  %r0 = func.call @remainder_step(%r1, %b, %inverse) : (f64, f64, f64) -> f64
  %isNegative = arith.cmpf olt, %r0, %zero : f64
  %more = arith.addf %r0, %b : f64
  %s0 = arith.select %isNegative, %more, %r0 : f64
  %isLarge = arith.cmpf oge, %s0, %b : f64
  %less = arith.subf %s0, %b : f64
  %s1 = arith.select %isLarge, %less, %s0 : f64
  %isInfinite = arith.cmpf oeq, %b, %infinity : f64
  %isFinite = arith.cmpf olt, %a, %infinity : f64
  %isWhole = arith.andi %isInfinite, %isFinite : i1
  %result = arith.select %isWhole, %a, %s1 : f64
  return %result : f64
}

func.func private @rem_wide(%a: f32, %b: f32) -> f64 {
  %wideA = arith.extf %a : f32 to f64
  %wideB = arith.extf %b : f32 to f64
  %sizeA = math.absf %wideA : f64
  %sizeB = math.absf %wideB : f64
  %size = func.call @remainder(%sizeA, %sizeB) : (f64, f64) -> f64
  %result = math.copysign %size, %wideA : f64
  return %result : f64
}

func.func private @rem(%a: f32, %b: f32) -> f32 {
  %wide = func.call @rem_wide(%a, %b) : (f32, f32) -> f64
  %result = arith.truncf %wide : f64 to f32
  return %result : f32
}

// The remainder moved to b's sign.
func.func private @mod(%a: f32, %b: f32) -> f32 {
  %wideB = arith.extf %b : f32 to f64
  %r = func.call @rem_wide(%a, %b) : (f32, f32) -> f64
  %moved = arith.addf %r, %wideB : f64
  %signed = math.copysign %r, %wideB : f64
  %isOther = arith.cmpf one, %signed, %r : f64
  %wide = arith.select %isOther, %moved, %r : f64
  %result = arith.truncf %wide : f64 to f32
  return %result : f32
}
