// exp, log, tanh, erf, and activations made of them.

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
