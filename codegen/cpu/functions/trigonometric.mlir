// Sine, cosine, arc tangent.

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
