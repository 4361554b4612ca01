// Row reductions, along rows and across them.
#include "CpuRegion.h"

#include <algorithm>
#include <array>

using namespace kfuse;
using namespace kfuse::test;
using reference::integers;
using reference::uniform;

TEST_CASE("cpu.rows: softmax") {
  for (Shape shape : {Shape{5, 64}, Shape{7, 127}, Shape{3, 1000}, Shape{9, 5}, Shape{4, 1}, Shape{2, 3, 130}})
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
      HostTensor x = uniform(type, shape, 1, -20, 20);
      checkRegion("kfuse.softmax %arg0 : (" + typeText(x) + ") -> " + typeText(x), {x}, "cpu.rows");
    }
}

TEST_CASE("cpu.rows: norms") {
  for (std::int64_t columns : {5, 127, 768, 1000})
    for (DType type : {DType::F32, DType::BF16, DType::F16}) {
      HostTensor x = uniform(type, {7, columns}, 1), w = uniform(type, {columns}, 2), b = uniform(type, {columns}, 3);
      std::string t = typeText(x), v = typeText(w);
      checkRegion("kfuse.rms_norm %arg0, %arg1 {epsilon = 1.0e-5 : f32} : (" + t + ", " + v + ") -> " + t, {x, w});
      checkRegion("kfuse.layer_norm %arg0, %arg1, %arg2 {epsilon = 1.0e-5 : f32, operandSegmentSizes = array<i32: 1, "
                  "1, 1>} : (" +
                      t + ", " + v + ", " + v + ") -> " + t,
                  {x, w, b});
    }
}

TEST_CASE("cpu.rows: reductions over every set of axes") {
  HostTensor x = uniform(DType::F32, {6, 17, 50}, 1);
  struct Axes {
    const char *axes, *result;
  };
  for (Axes a : {Axes{"0", "17x50x"}, Axes{"1", "6x50x"}, Axes{"2", "6x17x"}, Axes{"0, 1", "50x"}, Axes{"0, 2", "17x"},
                 Axes{"1, 2", "6x"}, Axes{"0, 1, 2", ""}})
    for (std::string function : {"sum", "max", "min", "mean"}) {
      CAPTURE(std::string(a.axes));
      checkRegion("kfuse.reduce %arg0 {function = \"" + function + "\", axes = array<i64: " + a.axes +
                      ">} : (tensor<6x17x50xf32>) -> tensor<" + a.result + "f32>",
                  {x});
    }
  HostTensor i = integers(DType::I64, {7, 41}, 2, -1000, 1000);
  for (std::string function : {"sum", "max", "min"})
    checkRegion("kfuse.reduce %arg0 {function = \"" + function +
                    "\", axes = array<i64: 1>} : (tensor<7x41xi64>) -> tensor<7xi64>",
                {i});
}

TEST_CASE("cpu.rows: columns of a wide and of a tall matrix") {
  for (Shape shape : {Shape{33, 1000}, Shape{1000, 33}, Shape{127, 1}}) {
    HostTensor x = uniform(DType::BF16, shape, 1);
    std::string columns = std::to_string(shape[1]);
    checkRegion("kfuse.reduce %arg0 {function = \"sum\", axes = array<i64: 0>} : (" + typeText(x) + ") -> tensor<" +
                    columns + "xbf16>",
                {x});
  }
}

TEST_CASE("cpu.rows: a chain before and after, with broadcasts and a second result") {
  HostTensor x = uniform(DType::BF16, {2, 9, 130}, 1), r = uniform(DType::BF16, {2, 9, 130}, 2),
             w = uniform(DType::BF16, {130}, 3);
  CpuRegion region("func.func @f(%x: tensor<2x9x130xbf16>, %r: tensor<2x9x130xbf16>, %w: tensor<130xbf16>) -> "
                   "(tensor<2x9x130xbf16>, tensor<2x9x130xbf16>) {\n"
                   "%s = kfuse.add %x, %r : (tensor<2x9x130xbf16>, tensor<2x9x130xbf16>) -> tensor<2x9x130xbf16>\n"
                   "%g = kfuse.silu %s : (tensor<2x9x130xbf16>) -> tensor<2x9x130xbf16>\n"
                   "%n = kfuse.rms_norm %g, %w {epsilon = 1.0e-6 : f32} : (tensor<2x9x130xbf16>, tensor<130xbf16>) -> "
                   "tensor<2x9x130xbf16>\n"
                   "return %s, %n : tensor<2x9x130xbf16>, tensor<2x9x130xbf16> }");
  region.check({x, r, w});
}

TEST_CASE("cpu.rows: masked softmax guards rows that are masked altogether") {
  HostTensor x = uniform(DType::F32, {2, 8, 40}, 1), mask = integers(DType::Bool, {8, 40}, 2, 0, 2);
  std::fill(mask.bytes.begin() + 80, mask.bytes.begin() + 120, std::byte{0});
  checkRegion(
      "%n = kfuse.constant dense<0xFF800000> : tensor<f32>\n"
      "%z = kfuse.constant dense<0.0> : tensor<f32>\n"
      "%m = kfuse.where %arg1, %arg0, %n : (tensor<8x40xi1>, tensor<2x8x40xf32>, tensor<f32>) -> tensor<2x8x40xf32>\n"
      "%s = kfuse.softmax %m : (tensor<2x8x40xf32>) -> tensor<2x8x40xf32>\n"
      "%b = kfuse.is_nan %s : (tensor<2x8x40xf32>) -> tensor<2x8x40xi1>\n"
      "kfuse.where %b, %z, %s : (tensor<2x8x40xi1>, tensor<f32>, tensor<2x8x40xf32>) -> tensor<2x8x40xf32>",
      {x, mask});
}

TEST_CASE("cpu.rows: transposed on the way in and out") {
  HostTensor x = uniform(DType::F32, {50, 37}, 1);
  checkRegion("%t = kfuse.transpose %arg0 {permutation = array<i64: 1, 0>} : (tensor<50x37xf32>) -> tensor<37x50xf32>\n"
              "kfuse.softmax %t : (tensor<37x50xf32>) -> tensor<37x50xf32>",
              {x});
  checkRegion("%s = kfuse.softmax %arg0 : (tensor<50x37xf32>) -> tensor<50x37xf32>\n"
              "kfuse.transpose %s {permutation = array<i64: 1, 0>} : (tensor<50x37xf32>) -> tensor<37x50xf32>",
              {x});
}

TEST_CASE("cpu.rows: rows, and halves of them in another order") {
  struct Cut {
    Shape shape;
    std::int64_t at;
  };
  for (const Cut &cut : {Cut{{5, 8}, 4}, Cut{{7, 127}, 63}, Cut{{3, 130}, 1}, Cut{{2, 1000}, 777}, Cut{{33, 5}, 4}})
    for (DType type : {DType::F32, DType::BF16}) {
      const std::int64_t rows = cut.shape[0], columns = cut.shape[1];
      HostTensor x = uniform(type, cut.shape, 1), w = uniform(type, {columns}, 2), cos = uniform(type, {columns}, 3),
                 sin = uniform(type, {columns}, 4), low = uniform(type, {rows, cut.at}, 5),
                 high = uniform(type, {rows, columns - cut.at}, 6);
      const std::string t = typeText(x), v = typeText(w);
      auto part = [&](const std::string &name, std::int64_t first, const HostTensor &like) {
        return name + " = kfuse.slice %n {offsets = array<i64: 0, " + std::to_string(first) +
               ">, strides = array<i64: 1, 1>} : (" + t + ") -> " + typeText(like) + "\n";
      };
      for (const std::string &norm : {"kfuse.rms_norm %arg0, %arg1 {epsilon = 1.0e-5 : f32} : (" + t + ", " + v + ")",
                                      "kfuse.softmax %arg0 : (" + t + ")"})
        checkRegion("%n = " + norm + " -> " + t + "\n" + part("%h", cut.at, high) + part("%l", 0, low) +
                        "%g = kfuse.neg %h : (" + typeText(high) + ") -> " + typeText(high) + "\n" +
                        "%c = kfuse.concat %g, %l {axis = 1 : i64} : (" + typeText(high) + ", " + typeText(low) +
                        ") -> " + t + "\n%p = kfuse.mul %n, %arg2 : (" + t + ", " + v + ") -> " + t +
                        "\n%q = kfuse.mul %c, %arg3 : (" + t + ", " + v + ") -> " + t + "\nkfuse.add %p, %q : (" + t +
                        ", " + t + ") -> " + t,
                    {x, w, cos, sin}, "cpu.rows");
    }
}

TEST_CASE("cpu.rows: a row too long for its buffer") {
  HostTensor x = uniform(DType::F32, {2, 40000}, 1);
  CpuRegion region(functionText("kfuse.softmax %arg0 : (tensor<2x40000xf32>) -> tensor<2x40000xf32>", {x}));
  region.check({x}, region.candidates().front());
}

TEST_CASE("cpu.rows: an element that is compared with itself is not greater") {
  HostTensor x = uniform(DType::F32, {64, 37}, 1);
  CpuRegion region("func.func @f(%x: tensor<64x37xf32>) -> tensor<64x37xi32> {\n"
                   "%k = kfuse.constant dense<1.4> : tensor<f32>\n"
                   "%q = kfuse.div %x, %k : (tensor<64x37xf32>, tensor<f32>) -> tensor<64x37xf32>\n"
                   "%e = kfuse.erf %q : (tensor<64x37xf32>) -> tensor<64x37xf32>\n"
                   "%y = kfuse.add %e, %q : (tensor<64x37xf32>, tensor<64x37xf32>) -> tensor<64x37xf32>\n"
                   "%a = kfuse.reshape %y : (tensor<64x37xf32>) -> tensor<64x37x1xf32>\n"
                   "%b = kfuse.reshape %y : (tensor<64x37xf32>) -> tensor<64x1x37xf32>\n"
                   "%g = kfuse.gt %b, %a : (tensor<64x1x37xf32>, tensor<64x37x1xf32>) -> tensor<64x37x37xi1>\n"
                   "%c = kfuse.cast %g : (tensor<64x37x37xi1>) -> tensor<64x37x37xi32>\n"
                   "%n = kfuse.reduce %c {function = \"sum\", axes = array<i64: 2>} : (tensor<64x37x37xi32>) -> "
                   "tensor<64x37xi32>\n"
                   "return %n : tensor<64x37xi32> }");
  for (const codegen::TileConfig &config : region.candidates()) {
    CAPTURE(config.str());
    const HostTensor result = runPlan(region.plan(config), {x}).front();
    std::array<std::int32_t, 64 * 37> greater;
    std::memcpy(greater.data(), result.bytes.data(), sizeof greater);
    for (int row = 0; row < 64; ++row) {
      CAPTURE(row);
      CHECK(std::ranges::count(std::span(greater).subspan(row * 37, 37), 0) >= 1); // Nothing is above the largest.
    }
  }
}
