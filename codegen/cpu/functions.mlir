// The scalar functions that MLIR has no op for, as MLIR. A kernel's text holds those it calls; they are
// inlined before tiles are vectorised. Callees stand before their callers.

// e^r - 1 for r = x - n ln 2, |r| <= ln 2 / 2 (Cephes' expf). Polynomials are summed in pairs: as one chain they
// are slower by what their latency shows.
func.func private @exp_rest(%x: f32, %n: f32) -> f32 {
  %ln2hi = arith.constant -0.693359375 : f32
  %ln2lo = arith.constant 2.12194440e-4 : f32
  %p5 = arith.constant 1.9875691500e-4 : f32
  %p4 = arith.constant 1.3981999507e-3 : f32
  %p3 = arith.constant 8.3334519073e-3 : f32
  %p2 = arith.constant 4.1665795894e-2 : f32
  %p1 = arith.constant 1.6666665459e-1 : f32
  %p0 = arith.constant 5.0000001201e-1 : f32
  %r0 = math.fma %n, %ln2hi, %x : f32
  %r = math.fma %n, %ln2lo, %r0 : f32
  %rr = arith.mulf %r, %r : f32
  %q45 = math.fma %p5, %r, %p4 : f32
  %q23 = math.fma %p3, %r, %p2 : f32
  %q01 = math.fma %p1, %r, %p0 : f32
  %q2345 = math.fma %q45, %rr, %q23 : f32
  %q012345 = math.fma %q2345, %rr, %q01 : f32
  %result = math.fma %q012345, %rr, %r : f32
  return %result : f32
}

// n = round(x / ln 2) above 1.5 2^23: in the low bits of the sum, to which `shifter` may have added.
func.func private @exp_shifted(%x: f32, %shifter: f32) -> f32 {
  %log2e = arith.constant 1.44269504 : f32
  %result = math.fma %x, %log2e, %shifter : f32
  return %result : f32
}

// 2^(n-1) of those bits where `shifter` added 126.
func.func private @exp_scale(%shifted: f32) -> f32 {
  %bits = arith.constant 23 : i32
  %pattern = arith.bitcast %shifted : f32 to i32
  %exponent = arith.shli %pattern, %bits : i32
  %result = arith.bitcast %exponent : i32 to f32
  return %result : f32
}

// 2^k e^x where `shifter` is 1.5 2^23 + 126 + k and the exponent n + k lies in [-126, 128], at whose lower end the
// result is 0.
func.func private @exp_times(%x: f32, %shifter: f32) -> f32 {
  %two = arith.constant 2.0 : f32
  %shifted = func.call @exp_shifted(%x, %shifter) : (f32, f32) -> f32
  %n = arith.subf %shifted, %shifter : f32
  %q = func.call @exp_rest(%x, %n) : (f32, f32) -> f32
  %double = math.fma %q, %two, %two : f32
  %scale = func.call @exp_scale(%shifted) : (f32) -> f32
  %result = arith.mulf %double, %scale : f32
  return %result : f32
}

// e^x for x up to 89; 0 where that is below 2^-125.5, which beside a 1 does not matter.
func.func private @exp_below(%x: f32) -> f32 {
  %low = arith.constant -87.3365479 : f32
  %shifter = arith.constant 12583038.0 : f32
  %isSmall = arith.cmpf olt, %x, %low : f32
  %above = arith.select %isSmall, %low, %x : f32
  %result = func.call @exp_times(%above, %shifter) : (f32, f32) -> f32
  return %result : f32
}

// The same for any x: e^89 rounds to infinity.
func.func private @exp_normal(%x: f32) -> f32 {
  %high = arith.constant 89.0 : f32
  %isLarge = arith.cmpf ogt, %x, %high : f32
  %below = arith.select %isLarge, %high, %x : f32
  %result = func.call @exp_below(%below) : (f32) -> f32
  return %result : f32
}

// e^x down to the smallest denormal: below e^-86 as 2^64 e^x, divided by as much. Below e^-104 the factor is 0, and
// not the product's rounding, which takes a processor a hundred cycles.
func.func private @exp(%x: f32) -> f32 {
  %high = arith.constant 89.0 : f32
  %tinyFrom = arith.constant -86.0 : f32
  %low = arith.constant -104.0 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %divided = arith.constant 5.42101086242752217e-20 : f32
  %shifter = arith.constant 12583038.0 : f32
  %higher = arith.constant 12583102.0 : f32
  %isLarge = arith.cmpf ogt, %x, %high : f32
  %below = arith.select %isLarge, %high, %x : f32
  %isTiny = arith.cmpf olt, %x, %tinyFrom : f32
  %isLow = arith.cmpf olt, %x, %low : f32
  %bounded = arith.select %isLow, %low, %below : f32
  %shift = arith.select %isTiny, %higher, %shifter : f32
  %f0 = arith.select %isTiny, %divided, %one : f32
  %factor = arith.select %isLow, %zero, %f0 : f32
  %power = func.call @exp_times(%bounded, %shift) : (f32, f32) -> f32
  %result = arith.mulf %power, %factor : f32
  return %result : f32
}

// 2^n (e^r - 1) + (2^n - 1), all halved until the end: 2^128 is no f32.
func.func private @expm1(%x: f32) -> f32 {
  %high = arith.constant 89.0 : f32
  %low = arith.constant -60.0 : f32
  %half = arith.constant 0.5 : f32
  %shifter = arith.constant 12583038.0 : f32
  %isLarge = arith.cmpf ogt, %x, %high : f32
  %below = arith.select %isLarge, %high, %x : f32
  %isLow = arith.cmpf olt, %x, %low : f32
  %bounded = arith.select %isLow, %low, %below : f32
  %shifted = func.call @exp_shifted(%bounded, %shifter) : (f32, f32) -> f32
  %n = arith.subf %shifted, %shifter : f32
  %q = func.call @exp_rest(%bounded, %n) : (f32, f32) -> f32
  %scale = func.call @exp_scale(%shifted) : (f32) -> f32
  %less = arith.subf %scale, %half : f32
  %halved = math.fma %q, %scale, %less : f32
  %result = arith.addf %halved, %halved : f32
  return %result : f32
}

// x / (1 + e^u). Where e^u is large, both sides are divided by 2^32: the quotient may still be a normal number where
// e^u is none.
func.func private @logistic(%x: f32, %u: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %largeFrom = arith.constant 64.0 : f32
  %high = arith.constant 111.2 : f32
  %low = arith.constant -87.3365479 : f32
  %divided = arith.constant 2.3283064365386963e-10 : f32
  %shifter = arith.constant 12583038.0 : f32
  %lower = arith.constant 12583006.0 : f32
  %isLarge = arith.cmpf ogt, %u, %largeFrom : f32
  %isHigh = arith.cmpf ogt, %u, %high : f32
  %isLow = arith.cmpf olt, %u, %low : f32
  %below = arith.select %isHigh, %high, %u : f32
  %bounded = arith.select %isLow, %low, %below : f32
  %shift = arith.select %isLarge, %lower, %shifter : f32
  %c = arith.select %isLarge, %divided, %one : f32
  %e = func.call @exp_times(%bounded, %shift) : (f32, f32) -> f32
  %d = arith.addf %e, %c : f32
  %scaled = arith.mulf %x, %c : f32
  %result = arith.divf %scaled, %d : f32
  return %result : f32
}

// x = 2^n m with m in [sqrt 1/2, sqrt 2); log m by a polynomial (Cephes' logf).
func.func private @log(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %minusHalf = arith.constant -0.5 : f32
  %tiny = arith.constant 1.17549435e-38 : f32
  %grow = arith.constant 8388608.0 : f32
  %grown = arith.constant 23 : i32
  %bits = arith.constant 23 : i32
  %bias = arith.constant 126 : i32
  %none = arith.constant 0 : i32
  %mantissa = arith.constant 8388607 : i32
  %halfBits = arith.constant 1056964608 : i32
  %sqrtHalf = arith.constant 0.707106781 : f32
  %infinity = arith.constant 0x7F800000 : f32
  %negative = arith.constant 0xFF800000 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %small = arith.cmpf olt, %x, %tiny : f32
  %larger = arith.mulf %x, %grow : f32
  %normal = arith.select %small, %larger, %x : f32
  %shift = arith.select %small, %grown, %none : i32
  %pattern = arith.bitcast %normal : f32 to i32
  %biased = arith.shrui %pattern, %bits : i32
  %n0 = arith.subi %biased, %bias : i32
  %n1 = arith.subi %n0, %shift : i32
  %fraction = arith.andi %pattern, %mantissa : i32
  %m0 = arith.ori %fraction, %halfBits : i32
  %m1 = arith.bitcast %m0 : i32 to f32
  %low = arith.cmpf olt, %m1, %sqrtHalf : f32
  %double = arith.addf %m1, %m1 : f32
  %m2 = arith.select %low, %double, %m1 : f32
  %m = arith.subf %m2, %one : f32
  %n2 = arith.sitofp %n1 : i32 to f32
  %n3 = arith.subf %n2, %one : f32
  %n = arith.select %low, %n3, %n2 : f32
  %p0 = arith.constant 7.0376836292e-2 : f32
  %p1 = arith.constant -1.1514610310e-1 : f32
  %p2 = arith.constant 1.1676998740e-1 : f32
  %p3 = arith.constant -1.2420140846e-1 : f32
  %p4 = arith.constant 1.4249322787e-1 : f32
  %p5 = arith.constant -1.6668057665e-1 : f32
  %p6 = arith.constant 2.0000714765e-1 : f32
  %p7 = arith.constant -2.4999993993e-1 : f32
  %p8 = arith.constant 3.3333331174e-1 : f32
  %q1 = math.fma %p0, %m, %p1 : f32
  %q2 = math.fma %q1, %m, %p2 : f32
  %q3 = math.fma %q2, %m, %p3 : f32
  %q4 = math.fma %q3, %m, %p4 : f32
  %q5 = math.fma %q4, %m, %p5 : f32
  %q6 = math.fma %q5, %m, %p6 : f32
  %q7 = math.fma %q6, %m, %p7 : f32
  %q8 = math.fma %q7, %m, %p8 : f32
  %mm = arith.mulf %m, %m : f32
  %cubic = arith.mulf %mm, %m : f32
  %y0 = arith.mulf %q8, %cubic : f32
  %ln2lo = arith.constant -2.12194440e-4 : f32
  %ln2hi = arith.constant 0.693359375 : f32
  %y1 = math.fma %n, %ln2lo, %y0 : f32
  %y2 = math.fma %mm, %minusHalf, %y1 : f32
  %y3 = arith.addf %m, %y2 : f32
  %y = math.fma %n, %ln2hi, %y3 : f32
  %isLarge = arith.cmpf oeq, %x, %infinity : f32
  %r0 = arith.select %isLarge, %x, %y : f32
  %isZero = arith.cmpf oeq, %x, %zero : f32
  %r1 = arith.select %isZero, %negative, %r0 : f32
  %isValid = arith.cmpf oge, %x, %zero : f32
  %result = arith.select %isValid, %r1, %nan : f32
  return %result : f32
}

// log u x / (u - 1) for u = 1 + x: what the sum lost is lost in the quotient, too (W. Kahan).
func.func private @log1p(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %infinity = arith.constant 0x7F800000 : f32
  %u = arith.addf %x, %one : f32
  %log = func.call @log(%u) : (f32) -> f32
  %d = arith.subf %u, %one : f32
  %ratio = arith.divf %x, %d : f32
  %product = arith.mulf %log, %ratio : f32
  %isSmall = arith.cmpf oeq, %u, %one : f32
  %isInfinite = arith.cmpf oeq, %u, %infinity : f32
  %r0 = arith.select %isSmall, %x, %product : f32
  %result = arith.select %isInfinite, %u, %r0 : f32
  return %result : f32
}

// A polynomial where |x| < 0.625, else 1 - 2 / (e^2|x| + 1) with x's sign (Cephes' tanhf).
func.func private @tanh(%x: f32) -> f32 {
  %bound = arith.constant 0.625 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %p0 = arith.constant -5.70498872745e-3 : f32
  %p1 = arith.constant 2.06390887954e-2 : f32
  %p2 = arith.constant -5.37397155531e-2 : f32
  %p3 = arith.constant 1.33314422036e-1 : f32
  %p4 = arith.constant -3.33332819422e-1 : f32
  %s = arith.mulf %x, %x : f32
  %q1 = math.fma %p0, %s, %p1 : f32
  %q2 = math.fma %q1, %s, %p2 : f32
  %q3 = math.fma %q2, %s, %p3 : f32
  %q4 = math.fma %q3, %s, %p4 : f32
  %q5 = arith.mulf %q4, %s : f32
  %near = math.fma %q5, %x, %x : f32
  %a = math.absf %x : f32
  %aa = arith.addf %a, %a : f32
  %e = func.call @exp_normal(%aa) : (f32) -> f32
  %e1 = arith.addf %e, %one : f32
  %d = arith.divf %two, %e1 : f32
  %f = arith.subf %one, %d : f32
  %isNear = arith.cmpf olt, %a, %bound : f32
  %value = arith.select %isNear, %near, %f : f32
  %result = math.copysign %value, %x : f32
  return %result : f32
}

// p(t) with erfc(t) = e^p(t) for t > 0.92 (N. Juffa's minimax polynomial).
func.func private @erfc_exponent(%t: f32) -> f32 {
  %p0 = arith.constant -1.72853470e-5 : f32
  %p1 = arith.constant 3.83197126e-4 : f32
  %p2 = arith.constant -3.88396438e-3 : f32
  %p3 = arith.constant 2.42546219e-2 : f32
  %p4 = arith.constant -1.06777877e-1 : f32
  %p5 = arith.constant -6.34846687e-1 : f32
  %p6 = arith.constant -1.28717512e-1 : f32
  %s = arith.mulf %t, %t : f32
  %u = math.fma %p2, %t, %p3 : f32
  %q1 = math.fma %p0, %t, %p1 : f32
  %q2 = math.fma %q1, %s, %u : f32
  %q3 = math.fma %q2, %t, %p4 : f32
  %q4 = math.fma %q3, %t, %p5 : f32
  %q5 = math.fma %q4, %t, %p6 : f32
  %minus = arith.negf %t : f32
  %result = math.fma %q5, %t, %minus : f32
  return %result : f32
}

// erf x for |x| < 0.93 (N. Juffa's minimax polynomial).
func.func private @erf_near(%x: f32) -> f32 {
  %p0 = arith.constant -5.96761703e-4 : f32
  %p1 = arith.constant 4.99119423e-3 : f32
  %p2 = arith.constant -2.67681349e-2 : f32
  %p3 = arith.constant 1.12819925e-1 : f32
  %p4 = arith.constant -3.76125336e-1 : f32
  %p5 = arith.constant 1.28379166e-1 : f32
  %s = arith.mulf %x, %x : f32
  %q1 = math.fma %p0, %s, %p1 : f32
  %q2 = math.fma %q1, %s, %p2 : f32
  %q3 = math.fma %q2, %s, %p3 : f32
  %q4 = math.fma %q3, %s, %p4 : f32
  %q5 = math.fma %q4, %s, %p5 : f32
  %result = math.fma %q5, %x, %x : f32
  return %result : f32
}

func.func private @erf(%x: f32) -> f32 {
  %bound = arith.constant 0.927734375 : f32
  %one = arith.constant 1.0 : f32
  %t = math.absf %x : f32
  %p = func.call @erfc_exponent(%t) : (f32) -> f32
  %e = func.call @exp_below(%p) : (f32) -> f32
  %f = arith.subf %one, %e : f32
  %far = math.copysign %f, %x : f32
  %near = func.call @erf_near(%x) : (f32) -> f32
  %isFar = arith.cmpf ogt, %t, %bound : f32
  %result = arith.select %isFar, %far, %near : f32
  return %result : f32
}

// max(x, 0) - a (1 - Phi(a)) for a = |x|, with 1 - Phi(a) = e^(-a^2/2) k P(k) and k = 1 / (1 + 0.31 a): a
// minimax fit of relative error 1.6e-7 on [0, 14]. The sum 1 + erf would cancel where x is negative. At
// a = 13.2 the product is below the smallest normal number, and stays there. e^(-a^2/2) = 2^n 2^r as in exp; 2^r has an error of 9e-8.
// max(x, 0) is x - min(x, 0): of minus infinity it is NaN, as 0 times infinity.
func.func private @gelu(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %far = arith.constant 13.2 : f32
  %p = arith.constant 0.31 : f32
  %p7 = arith.constant 0.035841944678376404 : f32
  %p6 = arith.constant -0.14160545811818773 : f32
  %p5 = arith.constant 0.1550692783591123 : f32
  %p4 = arith.constant -0.014904625149685366 : f32
  %p3 = arith.constant 0.1101107493029616 : f32
  %p2 = arith.constant 0.10777091656524541 : f32
  %p1 = arith.constant 0.12406036718091468 : f32
  %p0 = arith.constant 0.12365690869249744 : f32
  %magnitude = math.absf %x : f32
  %isFar = arith.cmpf ogt, %magnitude, %far : f32
  %a = arith.select %isFar, %far, %magnitude : f32
  %d = math.fma %a, %p, %one : f32
  %k = arith.divf %one, %d : f32
  %kk = arith.mulf %k, %k : f32
  %odd5 = math.fma %p7, %kk, %p5 : f32
  %even4 = math.fma %p6, %kk, %p4 : f32
  %odd3 = math.fma %odd5, %kk, %p3 : f32
  %even2 = math.fma %even4, %kk, %p2 : f32
  %odd = math.fma %odd3, %kk, %p1 : f32
  %even = math.fma %even2, %kk, %p0 : f32
  %q = math.fma %odd, %k, %even : f32
  %minusHalfLog2e = arith.constant -0.721347520 : f32
  %shifter = arith.constant 12583039.0 : f32
  %bits = arith.constant 23 : i32
  %c5 = arith.constant 1.3264727218e-3 : f32
  %c4 = arith.constant 9.6715126396e-3 : f32
  %c3 = arith.constant 5.5507337432e-2 : f32
  %c2 = arith.constant 2.4022242085e-1 : f32
  %c1 = arith.constant 6.9314697760e-1 : f32
  %aa = arith.mulf %a, %a : f32
  %shifted = math.fma %aa, %minusHalfLog2e, %shifter : f32
  %n = arith.subf %shifted, %shifter : f32
  %minusN = arith.negf %n : f32
  %r = math.fma %aa, %minusHalfLog2e, %minusN : f32
  %rr = arith.mulf %r, %r : f32
  %c34 = math.fma %c4, %r, %c3 : f32
  %c12 = math.fma %c2, %r, %c1 : f32
  %c345 = math.fma %c5, %rr, %c34 : f32
  %c12345 = math.fma %c345, %rr, %c12 : f32
  %pattern = arith.bitcast %shifted : f32 to i32
  %exponent = arith.shli %pattern, %bits : i32
  %scale = arith.bitcast %exponent : i32 to f32
  %ak = arith.mulf %a, %k : f32
  %weight = arith.mulf %ak, %scale : f32
  %step = arith.mulf %r, %weight : f32
  %power = math.fma %c12345, %step, %weight : f32
  %isNegative = arith.cmpf olt, %x, %zero : f32
  %negative = arith.select %isNegative, %x, %zero : f32
  %positive = arith.subf %x, %negative : f32
  %minusQ = arith.negf %q : f32
  %result = math.fma %minusQ, %power, %positive : f32
  return %result : f32
}

func.func private @sigmoid(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %minus = arith.negf %x : f32
  %e = func.call @exp_normal(%minus) : (f32) -> f32
  %d = arith.addf %e, %one : f32
  %result = arith.divf %one, %d : f32
  return %result : f32
}

func.func private @silu(%x: f32) -> f32 {
  %minus = arith.negf %x : f32
  %result = func.call @logistic(%x, %minus) : (f32, f32) -> f32
  return %result : f32
}

func.func private @gelu_tanh(%x: f32) -> f32 {
  // 1/2 (1 + tanh u) = 1 / (1 + e^-2u).
  %twice = arith.constant -1.59576912 : f32
  %cubic = arith.constant 0.044715 : f32
  %one = arith.constant 1.0 : f32
  %xx = arith.mulf %x, %x : f32
  %inner = math.fma %xx, %cubic, %one : f32
  %u0 = arith.mulf %x, %inner : f32
  %u = arith.mulf %u0, %twice : f32
  %result = func.call @logistic(%x, %u) : (f32, f32) -> f32
  return %result : f32
}

func.func private @relu(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %isNegative = arith.cmpf olt, %x, %zero : f32
  %result = arith.select %isNegative, %zero, %x : f32
  return %result : f32
}

func.func private @rsqrt(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %root = math.sqrt %x : f32
  %result = arith.divf %one, %root : f32
  return %result : f32
}

func.func private @reciprocal(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %result = arith.divf %one, %x : f32
  return %result : f32
}

func.func private @is_nan(%x: f32) -> i1 {
  %result = arith.cmpf uno, %x, %x : f32
  return %result : i1
}

func.func private @not(%x: i1) -> i1 {
  %true = arith.constant true
  %result = arith.xori %x, %true : i1
  return %result : i1
}

// Cephes' sinf and cosf of what is beyond n quarters of a turn; `quarter` is n modulo 4, counted from the sine's.
func.func private @sine_of_quarter(%r: f32, %quarter: f64) -> f32 {
  %one = arith.constant 1.0 : f32
  %minusHalf = arith.constant -0.5 : f32
  %zero = arith.constant 0.0 : f64
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %none = arith.constant 0 : i32
  %s0 = arith.constant -1.9515295891e-4 : f32
  %s1 = arith.constant 8.3321608736e-3 : f32
  %s2 = arith.constant -1.6666654611e-1 : f32
  %z = arith.mulf %r, %r : f32
  %sa = math.fma %s0, %z, %s1 : f32
  %sb = math.fma %sa, %z, %s2 : f32
  %sc = arith.mulf %sb, %z : f32
  %sine = math.fma %sc, %r, %r : f32
  %k0 = arith.constant 2.443315711809948e-5 : f32
  %k1 = arith.constant -1.388731625493765e-3 : f32
  %k2 = arith.constant 4.166664568298827e-2 : f32
  %ca = math.fma %k0, %z, %k1 : f32
  %cb = math.fma %ca, %z, %k2 : f32
  %cc = math.fma %cb, %z, %minusHalf : f32
  %cosine = math.fma %cc, %z, %one : f32
  %number = arith.maxnumf %quarter, %zero : f64
  %q = arith.fptosi %number : f64 to i32
  %odd = arith.andi %q, %c1 : i32
  %isOdd = arith.cmpi ne, %odd, %none : i32
  %value = arith.select %isOdd, %cosine, %sine : f32
  %upper = arith.andi %q, %c2 : i32
  %isMinus = arith.cmpi ne, %upper, %none : i32
  %minus = arith.negf %value : f32
  %result = arith.select %isMinus, %minus, %value : f32
  return %result : f32
}

// What x c has beyond whole turns; the product is exact.
func.func private @beyond_turns(%x: f64, %c: f64) -> f64 {
  %p = arith.mulf %x, %c : f64
  %whole = math.roundeven %p : f64
  %result = arith.subf %p, %whole : f64
  return %result : f64
}

// x / 2 pi without whole turns, for every f32: 1 / 2 pi in pieces of 29 bits, whose products with 24 bits are exact,
// the last one of 53. (M. Payne and R. Hanek, Radian reduction for trigonometric functions, 1983.)
func.func private @turns(%x: f64) -> f64 {
  %c1 = arith.constant 1.59154942724853754e-01 : f64
  %c2 = arith.constant 3.67041581156302144e-10 : f64
  %c3 = arith.constant 5.69002516799295402e-19 : f64
  %c4 = arith.constant 1.47030368469326084e-27 : f64
  %c5 = arith.constant 2.58671717520905366e-36 : f64
  %c6 = arith.constant 9.45814097074016904e-46 : f64
  %f1 = func.call @beyond_turns(%x, %c1) : (f64, f64) -> f64
  %f2 = func.call @beyond_turns(%x, %c2) : (f64, f64) -> f64
  %f3 = func.call @beyond_turns(%x, %c3) : (f64, f64) -> f64
  %f4 = func.call @beyond_turns(%x, %c4) : (f64, f64) -> f64
  %f5 = func.call @beyond_turns(%x, %c5) : (f64, f64) -> f64
  %t2 = arith.addf %f1, %f2 : f64
  %t3 = arith.addf %t2, %f3 : f64
  %t4 = arith.addf %t3, %f4 : f64
  %t5 = arith.addf %t4, %f5 : f64
  %result = math.fma %x, %c6, %t5 : f64
  return %result : f64
}

func.func private @quarter_turns(%turns: f64) -> f64 {
  %four = arith.constant 4.0 : f64
  %scaled = arith.mulf %turns, %four : f64
  %result = math.roundeven %scaled : f64
  return %result : f64
}

func.func private @less_quarter_turns(%turns: f64, %n: f64) -> f32 {
  %four = arith.constant 4.0 : f64
  %perQuarter = arith.constant 1.5707963267948966 : f64
  %minus = arith.negf %n : f64
  %rest = math.fma %turns, %four, %minus : f64
  %radians = arith.mulf %rest, %perQuarter : f64
  %result = arith.truncf %radians : f64 to f32
  return %result : f32
}

func.func private @modulo_four(%n: f64) -> f64 {
  %quarter = arith.constant 0.25 : f64
  %minusFour = arith.constant -4.0 : f64
  %scaled = arith.mulf %n, %quarter : f64
  %whole = math.floor %scaled : f64
  %result = math.fma %whole, %minusFour, %n : f64
  return %result : f64
}

func.func private @sin(%x: f32) -> f32 {
  %wide = arith.extf %x : f32 to f64
  %turns = func.call @turns(%wide) : (f64) -> f64
  %n = func.call @quarter_turns(%turns) : (f64) -> f64
  %r = func.call @less_quarter_turns(%turns, %n) : (f64, f64) -> f32
  %quarter = func.call @modulo_four(%n) : (f64) -> f64
  %sine = func.call @sine_of_quarter(%r, %quarter) : (f32, f64) -> f32
  %zero = arith.constant 0.0 : f32
  %isZero = arith.cmpf oeq, %x, %zero : f32
  %result = arith.select %isZero, %x, %sine : f32
  return %result : f32
}

func.func private @cos(%x: f32) -> f32 {
  %one = arith.constant 1.0 : f64
  %wide = arith.extf %x : f32 to f64
  %turns = func.call @turns(%wide) : (f64) -> f64
  %n = func.call @quarter_turns(%turns) : (f64) -> f64
  %r = func.call @less_quarter_turns(%turns, %n) : (f64, f64) -> f32
  %next = arith.addf %n, %one : f64
  %quarter = func.call @modulo_four(%next) : (f64) -> f64
  %result = func.call @sine_of_quarter(%r, %quarter) : (f32, f64) -> f32
  return %result : f32
}

// An argument above tan(3 pi / 8) is turned by a right angle, one above tan(pi / 8) by half of it; then a polynomial
// of degree 9 (S. L. Moshier, Cephes, 1992).
func.func private @atan(%x: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %minusOne = arith.constant -1.0 : f32
  %low = arith.constant 0.4142135623730950 : f32
  %high = arith.constant 2.414213562373095 : f32
  %quarterTurn = arith.constant 1.5707963267948966 : f32
  %eighthTurn = arith.constant 0.7853981633974483 : f32
  %p0 = arith.constant 8.05374449538e-2 : f32
  %p1 = arith.constant -1.38776856032e-1 : f32
  %p2 = arith.constant 1.99777106478e-1 : f32
  %p3 = arith.constant -3.33329491539e-1 : f32
  %a = math.absf %x : f32
  %isHigh = arith.cmpf ogt, %a, %high : f32
  %isMiddle = arith.cmpf ogt, %a, %low : f32
  %less = arith.subf %a, %one : f32
  %more = arith.addf %a, %one : f32
  %middleTop = arith.select %isMiddle, %less, %a : f32
  %middleBottom = arith.select %isMiddle, %more, %one : f32
  %top = arith.select %isHigh, %minusOne, %middleTop : f32
  %bottom = arith.select %isHigh, %a, %middleBottom : f32
  %z = arith.divf %top, %bottom : f32
  %middleTurn = arith.select %isMiddle, %eighthTurn, %zero : f32
  %turn = arith.select %isHigh, %quarterTurn, %middleTurn : f32
  %s = arith.mulf %z, %z : f32
  %q1 = math.fma %p0, %s, %p1 : f32
  %q2 = math.fma %q1, %s, %p2 : f32
  %q3 = math.fma %q2, %s, %p3 : f32
  %q4 = arith.mulf %q3, %s : f32
  %r = math.fma %q4, %z, %z : f32
  %value = arith.addf %turn, %r : f32
  %result = math.copysign %value, %x : f32
  return %result : f32
}

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
