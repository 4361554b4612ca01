// Elementwise regions: every function, type and access pattern, over shapes that divide nothing.
#include "CpuRegion.h"

#include "kfuse/half.h"

#include <cmath>
#include <limits>

using namespace kfuse;
using namespace kfuse::test;
using reference::integers;
using reference::uniform;

namespace {

std::string binary(const std::string &op, const HostTensor &a, const HostTensor &b, const std::string &result) {
  return "kfuse." + op + " %arg0, %arg1 : (" + typeText(a) + ", " + typeText(b) + ") -> " + result;
}

HostTensor withSpecials(HostTensor tensor) {
  const float specials[] = {0.0F, -0.0F, 1.0F, -1.0F, INFINITY, -INFINITY, NAN, 1e-40F, -1e-40F, 3e38F, 88.8F, -104.5F};
  for (std::size_t i = 0; i < std::size(specials) && (i + 1) * sizeof(float) <= tensor.bytes.size(); ++i)
    std::memcpy(tensor.bytes.data() + i * sizeof(float), &specials[i], sizeof(float));
  return tensor;
}

} // namespace

TEST_CASE("cpu.pointwise: shapes that divide nothing, in every float type") {
  for (Shape shape : {Shape{64}, Shape{1000}, Shape{7, 127}, Shape{1}, Shape{3, 5, 33}})
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
      HostTensor a = uniform(type, shape, 1), b = uniform(type, shape, 2);
      checkRegion(binary("add", a, b, typeText(a)), {a, b}, "cpu.pointwise");
    }
}

TEST_CASE("cpu.pointwise: unary functions") {
  for (const char *op :
       {"relu",       "gelu", "gelu_tanh", "silu",  "sigmoid", "tanh",  "erf", "exp", "sqrt",  "rsqrt", "log",
        "reciprocal", "sin",  "cos",       "floor", "atan",    "round", "neg", "abs", "expm1", "log1p"}) {
    CAPTURE(op);
    bool positive = std::string(op) == "sqrt" || std::string(op) == "rsqrt" || std::string(op).starts_with("log");
    HostTensor x = uniform(DType::F32, {7, 131}, 3, positive ? 1e-3 : -12, 12);
    std::string t = typeText(x);
    CpuRegion region(functionText("kfuse." + std::string(op) + " %arg0 : (" + t + ") -> " + t, {x}));
    region.check({x}, region.candidates().front());
  }
}

TEST_CASE("cpu.pointwise: binary functions") {
  for (const char *op : {"add", "sub", "mul", "div", "max", "min", "pow", "mod", "rem"}) {
    CAPTURE(op);
    HostTensor a = uniform(DType::F32, {7, 131}, 3, 0.1, 4), b = uniform(DType::F32, {7, 131}, 4, -3, 3);
    CpuRegion region(functionText(binary(op, a, b, typeText(a)), {a, b}));
    region.check({a, b}, region.candidates().front());
  }
  for (const char *op : {"add", "sub", "mul", "div", "max", "min", "mod"})
    for (DType type : {DType::I32, DType::I64}) {
      CAPTURE(op);
      HostTensor a = integers(type, {7, 37}, 3, -50, 50), b = integers(type, {7, 37}, 4, -9, 9);
      CpuRegion region(functionText(binary(op, a, b, typeText(a)), {a, b}));
      region.check({a, b}, region.candidates().front());
    }
  for (const char *op : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (DType type : {DType::I32, DType::I64, DType::F32}) {
      CAPTURE(op);
      HostTensor a = integers(type == DType::F32 ? DType::I32 : type, {7, 37}, 3, -5, 5);
      HostTensor b = integers(type == DType::F32 ? DType::I32 : type, {7, 37}, 4, -5, 5);
      if (type == DType::F32)
        a = uniform(type, {7, 37}, 5), b = uniform(type, {7, 37}, 6);
      CpuRegion region(functionText(binary(op, a, b, "tensor<7x37xi1>"), {a, b}));
      region.check({a, b}, region.candidates().front());
    }
  for (const char *op : {"and", "or"}) {
    HostTensor a = integers(DType::Bool, {7, 37}, 3, 0, 2), b = integers(DType::Bool, {7, 37}, 4, 0, 2);
    CpuRegion region(functionText(binary(op, a, b, "tensor<7x37xi1>"), {a, b}));
    region.check({a, b}, region.candidates().front());
  }
}

TEST_CASE("cpu.pointwise: NaN, infinities, zeros and subnormal numbers") {
  for (const char *op : {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "abs"}) {
    CAPTURE(op);
    HostTensor x = withSpecials(uniform(DType::F32, {64}, 3, 0.5, 2));
    std::string t = typeText(x);
    CpuRegion region(functionText("kfuse." + std::string(op) + " %arg0 : (" + t + ") -> " + t, {x}));
    region.check({x}, region.candidates().front());
  }
  HostTensor x = withSpecials(uniform(DType::F32, {64}, 3, 0.5, 2));
  CpuRegion region(functionText("kfuse.is_nan %arg0 : (tensor<64xf32>) -> tensor<64xi1>", {x}));
  region.check({x}, region.candidates().front());
}

TEST_CASE("cpu.pointwise: integers wrap at the ends of their types, divide by zero, and keep every bit") {
  for (DType type : {DType::I32, DType::I64}) {
    const std::int64_t highest =
        type == DType::I32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
    const std::int64_t odd = type == DType::I32 ? 16777217 : (std::int64_t{1} << 53) + 1;
    const std::vector<std::int64_t> ends{-highest - 1, -highest, -odd,        -7,     -2, -1, 0, 1, 2, 3,
                                         10,           odd,      highest - 1, highest};
    HostTensor a = HostTensor::zeros(type, {14, 14}), b = a;
    for (std::size_t i = 0; i < ends.size(); ++i)
      for (std::size_t j = 0; j < ends.size(); ++j) { // Little-endian: the low bytes of 64 are the number of 32.
        const std::size_t width = byteWidth(type), at = (i * ends.size() + j) * width;
        std::memcpy(&a.bytes[at], &ends[i], width);
        std::memcpy(&b.bytes[at], &ends[j], width);
      }
    const std::string t = typeText(a), truth = "tensor<14x14xi1>";
    for (const char *op : {"add", "sub", "mul", "div", "mod", "rem", "max", "min"}) {
      CAPTURE(op);
      checkRegion(binary(op, a, b, t), {a, b});
    }
    for (const char *op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      CAPTURE(op);
      checkRegion(binary(op, a, b, truth), {a, b});
    }
    for (const char *op : {"neg", "abs", "relu"}) {
      CAPTURE(op);
      checkRegion("kfuse." + std::string(op) + " %arg0 : (" + t + ") -> " + t, {a});
    }
    for (const char *to : {"i32", "i64", "i1", "f32"})
      checkRegion("kfuse.cast %arg0 : (" + t + ") -> tensor<14x14x" + to + ">", {a});
    for (std::int64_t constant : {odd, -highest - 1, highest}) {
      const std::string scalar = "tensor<" + std::string(toString(type)) + ">";
      const std::string lines = "%c = kfuse.constant dense<" + std::to_string(constant) + "> : " + scalar + "\n";
      checkRegion(lines + "kfuse.mul %arg0, %c : (" + t + ", " + scalar + ") -> " + t, {a});
      checkRegion(lines + "kfuse.lt %arg0, %c : (" + t + ", " + scalar + ") -> " + truth, {a});
    }
    checkRegion("kfuse.reduce %arg0 {axes = array<i64: 1>, function = \"sum\"} : (" + t + ") -> tensor<14x" +
                    std::string(toString(type)) + ">",
                {b});
  }
}

TEST_CASE("cpu.pointwise: what is no integer of a type becomes the type's end, and NaN 0") {
  HostTensor x = reference::tensorOf(DType::F32, {14},
                                     {INFINITY, -INFINITY, NAN, 2147483648.0, -2147483648.0, -2147483904.0,
                                      2147483520.0, 9.3e18, -9.3e18, -9223372036854775808.0, 1e30, -0.9, 2.9, -2.9});
  for (const char *to : {"i32", "i64", "i1"}) {
    CAPTURE(to);
    checkRegion("kfuse.cast %arg0 : (tensor<14xf32>) -> tensor<14x" + std::string(to) + ">", {x});
  }
}

TEST_CASE("cpu.pointwise: casts") {
  HostTensor f = uniform(DType::F32, {5, 67}, 3, -100, 100), i = integers(DType::I64, {5, 67}, 4, -100, 100);
  HostTensor b = integers(DType::Bool, {5, 67}, 5, 0, 2), j = integers(DType::I32, {5, 67}, 6, -3, 3);
  for (const HostTensor &from : {f, i, b, j})
    for (const char *to : {"f32", "f16", "bf16", "i32", "i64", "i1"}) {
      CAPTURE(to);
      std::string line = "kfuse.cast %arg0 : (" + typeText(from) + ") -> tensor<5x67x" + to + ">";
      CpuRegion region(functionText(line, {from}));
      region.check({from}, region.candidates().front());
    }
}

TEST_CASE("cpu.pointwise: a quotient is rounded to its type before it is rounded to an integer") {
  struct Case {
    DType type;
    double x, by, expected;
  };
  for (const Case &one : {Case{DType::F16, 28.359375, 0.7, 40}, // 40.502, in f16 40.5.
                          Case{DType::BF16, 304, 3, 102},       // 101.33, in bf16 101.5.
                          Case{DType::F32, 304, 3, 101}}) {
    CAPTURE(toString(one.type));
    const HostTensor x = reference::tensorOf(one.type, {67}, std::vector<double>(67, one.x)),
                     by = reference::tensorOf(one.type, {1}, {one.by});
    std::string text = functionText("kfuse.round %0 : (" + typeText(x) + ") -> " + typeText(x), {x, by});
    text.insert(text.find("{ %r") + 1, "\n%0 = " + binary("div", x, by, typeText(x)) + "\n");
    const CpuRegion region(text);
    for (const codegen::TileConfig &config : region.candidates())
      CHECK(reference::toDoubles(runPlan(region.plan(config), {x, by})[0]) == std::vector<double>(67, one.expected));
  }
}

TEST_CASE("cpu.pointwise: broadcasts") {
  HostTensor x = uniform(DType::F32, {3, 7, 50}, 1);
  for (Shape shape : {Shape{50}, Shape{7, 1}, Shape{3, 1, 50}, Shape{3, 1, 1}, Shape{1}, Shape{}}) {
    HostTensor b = uniform(DType::F32, shape, 2);
    checkRegion(binary("mul", x, b, typeText(x)), {x, b});
  }
}

TEST_CASE("cpu.pointwise: transposes, slices and reshapes") {
  HostTensor x = uniform(DType::F32, {6, 37, 50}, 1);
  std::string t = typeText(x);
  checkRegion("kfuse.transpose %arg0 {permutation = array<i64: 0, 2, 1>} : (" + t + ") -> tensor<6x50x37xf32>", {x});
  checkRegion("kfuse.transpose %arg0 {permutation = array<i64: 2, 0, 1>} : (" + t + ") -> tensor<50x6x37xf32>", {x});
  checkRegion("kfuse.transpose %arg0 {permutation = array<i64: 1, 0, 2>} : (" + t + ") -> tensor<37x6x50xf32>", {x});
  checkRegion("kfuse.slice %arg0 {offsets = array<i64: 1, 2, 3>, strides = array<i64: 2, 1, 1>} : (" + t +
                  ") -> tensor<2x30x40xf32>",
              {x});
  checkRegion("kfuse.slice %arg0 {offsets = array<i64: 0, 0, 49>, strides = array<i64: 1, 1, -2>} : (" + t +
                  ") -> tensor<6x37x20xf32>",
              {x});
  checkRegion("%x = kfuse.transpose %arg0 {permutation = array<i64: 0, 2, 1>} : (" + t +
                  ") -> tensor<6x50x37xf32>\nkfuse.reshape %x : (tensor<6x50x37xf32>) -> tensor<300x37xf32>",
              {x});
  HostTensor h = uniform(DType::BF16, {40, 48}, 1);
  checkRegion("%x = kfuse.reshape %arg0 : (tensor<40x48xbf16>) -> tensor<40x3x16xbf16>\n"
              "kfuse.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<40x3x16xbf16>) -> tensor<3x40x16xbf16>",
              {h});
}

TEST_CASE("cpu.pointwise: rotary embedding") {
  HostTensor x = uniform(DType::F32, {2, 3, 5, 64}, 1), c = uniform(DType::F32, {5, 32}, 2),
             s = uniform(DType::F32, {5, 32}, 3), full = uniform(DType::F32, {5, 64}, 4);
  std::string t = typeText(x);
  checkRegion("kfuse.rotary %arg0, %arg1, %arg2 : (" + t + ", " + typeText(c) + ", " + typeText(s) + ") -> " + t,
              {x, c, s});
  checkRegion("kfuse.rotary %arg0, %arg1, %arg2 : (" + t + ", " + typeText(full) + ", " + typeText(full) + ") -> " + t,
              {x, full, full});
  checkRegion("kfuse.rotary %arg0, %arg1, %arg2 {interleaved} : (" + t + ", " + typeText(c) + ", " + typeText(s) +
                  ") -> " + t,
              {x, c, s});
}

TEST_CASE("cpu.pointwise: gather and concat") {
  HostTensor data = uniform(DType::F32, {100, 48}, 1), indices = integers(DType::I64, {3, 7}, 2, -100, 100);
  checkRegion("kfuse.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<100x48xf32>, tensor<3x7xi64>) -> "
              "tensor<3x7x48xf32>",
              {data, indices});
  HostTensor columns = integers(DType::I32, {9}, 2, -60, 60); // Some lie outside and are clamped.
  checkRegion("kfuse.gather %arg0, %arg1 {axis = 1 : i64} : (tensor<100x48xf32>, tensor<9xi32>) -> tensor<100x9xf32>",
              {data, columns});
  HostTensor a = uniform(DType::F32, {5, 32}, 1), b = uniform(DType::F32, {5, 64}, 2),
             c = uniform(DType::F32, {5, 7}, 3);
  checkRegion("kfuse.concat %arg0, %arg1 {axis = 1 : i64} : (tensor<5x32xf32>, tensor<5x64xf32>) -> tensor<5x96xf32>",
              {a, b});
  checkRegion("kfuse.concat %arg0, %arg1, %arg2 {axis = 1 : i64} : (tensor<5x32xf32>, tensor<5x7xf32>, "
              "tensor<5x32xf32>) -> tensor<5x71xf32>",
              {a, c, a});
  checkRegion("kfuse.concat %arg0, %arg1 {axis = 0 : i64} : (tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<10x32xf32>",
              {a, a});
}

TEST_CASE("cpu.pointwise: a chain with a mask") {
  HostTensor x = uniform(DType::BF16, {4, 33, 33}, 1);
  checkRegion("%i = kfuse.iota {dim = 0 : i64} : tensor<33x33xi64>\n"
              "%j = kfuse.iota {dim = 1 : i64} : tensor<33x33xi64>\n"
              "%m = kfuse.le %j, %i : (tensor<33x33xi64>, tensor<33x33xi64>) -> tensor<33x33xi1>\n"
              "%n = kfuse.constant dense<0xFF80> : tensor<bf16>\n"
              "%g = kfuse.gelu %arg0 : (tensor<4x33x33xbf16>) -> tensor<4x33x33xbf16>\n"
              "kfuse.where %m, %g, %n : (tensor<33x33xi1>, tensor<4x33x33xbf16>, tensor<bf16>) -> tensor<4x33x33xbf16>",
              {x});
}

TEST_CASE("cpu.pointwise: state updates, in range and out of it") {
  for (std::int64_t at : {0, 3, 9, 10, -1}) {
    CAPTURE(at);
    HostTensor state = uniform(DType::BF16, {2, 12, 40}, 1), value = uniform(DType::BF16, {2, 3, 40}, 2);
    HostTensor position = integers(DType::I64, {}, 3, at, at + 1);
    checkRegion("kfuse.state_update %arg0, %arg1, %arg2 {axis = 1 : i64} : (tensor<2x12x40xbf16>, tensor<2x3x40xbf16>, "
                "tensor<i64>) -> tensor<2x12x40xbf16>",
                {state, value, position});
  }
  HostTensor state = uniform(DType::F32, {4, 12, 40}, 1), value = uniform(DType::F32, {4, 1, 40}, 2);
  HostTensor position = integers(DType::I32, {4}, 3, -2, 13);
  checkRegion("kfuse.state_update %arg0, %arg1, %arg2 {axis = 1 : i64} : (tensor<4x12x40xf32>, tensor<4x1x40xf32>, "
              "tensor<4xi32>) -> tensor<4x12x40xf32>",
              {state, value, position});
}

TEST_CASE("cpu.pointwise: rows divided by one number each, subnormal and huge ones too") {
  for (auto [low, high] :
       {std::pair(1e-41, 9e-39), std::pair(1e-39, 1e-37), std::pair(0.5, 3.0), std::pair(1e37, 3e38)}) {
    HostTensor x = uniform(DType::F32, {33, 130}, 1, low, high), d = uniform(DType::F32, {33, 1}, 2, low, high);
    checkRegion("kfuse.div %arg0, %arg1 : (" + typeText(x) + ", " + typeText(d) + ") -> " + typeText(x), {x, d},
                "cpu.pointwise");
  }
}

TEST_CASE("cpu.pointwise: 8-bit floats, every one and every way to round") {
  for (DType type : {DType::F8E4M3, DType::F8E5M2}) {
    CAPTURE(toString(type));
    HostTensor all = HostTensor::zeros(type, {256}), wide = HostTensor::zeros(DType::F32, {256});
    for (int i = 0; i < 256; ++i)
      all.bytes[i] = static_cast<std::byte>(i);
    CpuRegion widen(functionText("kfuse.cast %arg0 : (" + typeText(all) + ") -> " + typeText(wide), {all}));
    widen.check({all}, widen.candidates().front());

    // Halfway between neighbours, beside that, beyond the ends.
    std::vector<double> values;
    for (int i = 0; i + 1 < 256; ++i) {
      double low = reference::toValues(all).real(i), high = reference::toValues(all).real(i + 1),
             half = (low + high) / 2;
      for (double value : {half, double(std::nextafter(static_cast<float>(half), INFINITY)), low * 1.01, low * 1e3})
        values.push_back(value);
    }
    auto count = static_cast<std::int64_t>(values.size());
    HostTensor given = withSpecials(reference::tensorOf(DType::F32, {count}, values)),
               narrow = HostTensor::zeros(type, {count});
    CpuRegion region(functionText("kfuse.cast %arg0 : (" + typeText(given) + ") -> " + typeText(narrow), {given}));
    HostTensor rounded = runPlan(region.plan(region.candidates().front()), {given}).front();
    for (std::int64_t i = 0; i < count; ++i) {
      float value = readFloat(DType::F32, &given.bytes[i * 4]);
      storeFloat(type, value, &narrow.bytes[i]);
      INFO(value);
      CHECK(rounded.bytes[i] == narrow.bytes[i]);
    }
  }
}

TEST_CASE("cpu.pointwise: odd functions keep the sign of zero, which their reciprocal shows") {
  HostTensor x = HostTensor::zeros(DType::F32, {37});
  for (std::size_t i = 3; i < x.bytes.size(); i += 2 * sizeof(float))
    x.bytes[i] = std::byte{0x80};
  for (const std::string function : {"tanh", "sin", "erf"})
    checkRegion("%y = kfuse." + function + " %arg0 : (tensor<37xf32>) -> tensor<37xf32>\n" +
                    "kfuse.reciprocal %y : (tensor<37xf32>) -> tensor<37xf32>",
                {x});
}
