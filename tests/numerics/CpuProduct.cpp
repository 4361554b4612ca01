// Products: shapes that divide nothing, every float type, layouts, grouped heads and epilogues.
#include "CpuRegion.h"

using namespace kfuse;
using namespace kfuse::test;
using reference::uniform;

namespace {

std::string typeOf(DType type, const Shape &shape) { return typeText(HostTensor::zeros(type, shape)); }

std::string matmul(const std::string &a, const std::string &b, const std::string &types, const std::string &result) {
  return "kfuse.matmul " + a + ", " + b + " : (" + types + ") -> " + result;
}

std::string transpose(const std::string &name, const std::string &value, const std::string &from,
                      const std::string &to) {
  return name + " = kfuse.transpose " + value + " {permutation = array<i64: 1, 0>} : (" + from + ") -> " + to + "\n";
}

/// [M, K] x [K, N] of operands stored transposed or not.
void checkProduct(DType type, std::int64_t M, std::int64_t N, std::int64_t K, bool transposeA = false,
                  bool transposeB = false, bool transposeC = false) {
  HostTensor a = uniform(type, transposeA ? Shape{K, M} : Shape{M, K}, 1);
  HostTensor b = uniform(type, transposeB ? Shape{N, K} : Shape{K, N}, 2);
  std::string ta = typeOf(type, {M, K}), tb = typeOf(type, {K, N}), tc = typeOf(type, {M, N}), lines;
  if (transposeA)
    lines += transpose("%a", "%arg0", typeText(a), ta);
  if (transposeB)
    lines += transpose("%b", "%arg1", typeText(b), tb);
  std::string product = matmul(transposeA ? "%a" : "%arg0", transposeB ? "%b" : "%arg1", ta + ", " + tb, tc);
  if (transposeC) {
    std::string stored = transpose("%t", "%c", tc, typeOf(type, {N, M}));
    lines += "%c = " + product + "\n" + stored.substr(5, stored.size() - 6);
  } else {
    lines += product;
  }
  checkRegion(lines, {a, b}, "cpu.matmul");
}

} // namespace

TEST_CASE("cpu.matmul: shapes that divide nothing") {
  for (std::int64_t M : {1, 7, 130})
    for (std::int64_t N : {1, 33, 127})
      for (std::int64_t K : {1, 33, 130}) {
        CAPTURE(M);
        CAPTURE(N);
        CAPTURE(K);
        checkProduct(DType::F32, M, N, K);
      }
  checkProduct(DType::F32, 200, 300, 600); // Several blocks of each dimension.
}

TEST_CASE("cpu.matmul: a result of one element has an epilogue as any other") {
  for (Shape shape : {Shape{1, 1}, Shape{3, 1, 1}}) {
    HostTensor a = uniform(DType::F32, {1, 64}, 1), b = uniform(DType::F32, {64, 1}, 2),
               bias = uniform(DType::F32, {1}, 3);
    if (shape.size() == 3)
      a = uniform(DType::F32, {3, 1, 64}, 1), b = uniform(DType::F32, {3, 64, 1}, 2);
    const std::string t = typeOf(DType::F32, shape),
                      product = "%p = " + matmul("%arg0", "%arg1", typeText(a) + ", " + typeText(b), t);
    checkRegion(product + "\nkfuse.relu %p : (" + t + ") -> " + t, {a, b}, "cpu.matmul");
    checkRegion(product + "\n%s = kfuse.add %p, %arg2 : (" + t + ", " + typeText(bias) + ") -> " + t +
                    "\n%e = kfuse.exp %s : (" + t + ") -> " + t + "\nkfuse.mul %e, %p : (" + t + ", " + t + ") -> " + t,
                {a, b, bias}, "cpu.matmul");
    checkRegion(product + "\nkfuse.cast %p : (" + t + ") -> " + typeOf(DType::BF16, shape), {a, b}, "cpu.matmul");
  }
}

TEST_CASE("cpu.matmul: 8-bit floats with a scale a row, a column and in all") {
  for (auto [left, right] : {std::pair(DType::F8E4M3, DType::F8E4M3), {DType::F8E5M2, DType::F8E4M3}}) {
    HostTensor a = uniform(left, {33, 70}, 1), b = uniform(right, {50, 70}, 2), rows = uniform(DType::F32, {33, 1}, 3),
               all = uniform(DType::F32, {1}, 4);
    std::string product = typeOf(DType::F32, {33, 50}), result = typeOf(DType::BF16, {33, 50});
    checkRegion("%0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (" + typeText(a) + ", " + typeText(b) + ") -> " +
                    product + "\n%1 = kfuse.mul %0, %arg2 : (" + product + ", " + typeText(rows) + ") -> " + product +
                    "\n%2 = kfuse.mul %1, %arg3 : (" + product + ", " + typeText(all) + ") -> " + product +
                    "\nkfuse.cast %2 : (" + product + ") -> " + result,
                {a, b, rows, all}, "cpu.matmul");
  }
}

TEST_CASE("cpu.matmul: half precision") {
  for (DType type : {DType::F16, DType::BF16})
    for (std::int64_t M : {1, 33, 127}) {
      CAPTURE(M);
      checkProduct(type, M, 130, 127);
      checkProduct(type, M, 33, 130, false, true);
    }
}

TEST_CASE("cpu.matmul: layouts") {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (bool transposeC : {false, true}) {
        CAPTURE(transposeA);
        CAPTURE(transposeB);
        CAPTURE(transposeC);
        checkProduct(DType::F32, 130, 127, 33, transposeA, transposeB, transposeC);
        checkProduct(DType::BF16, 7, 33, 300, transposeA, transposeB, transposeC);
      }
}

TEST_CASE("cpu.matmul: batches and broadcast batches") {
  HostTensor a = uniform(DType::F32, {2, 3, 33, 40}, 1), b = uniform(DType::F32, {2, 3, 40, 70}, 2);
  HostTensor shared = uniform(DType::F32, {2, 1, 40, 70}, 3), weights = uniform(DType::F32, {40, 70}, 4);
  for (const HostTensor &right : {b, shared, weights})
    checkRegion(matmul("%arg0", "%arg1", typeText(a) + ", " + typeText(right), "tensor<2x3x33x70xf32>"), {a, right},
                "cpu.matmul");
}

TEST_CASE("cpu.matmul: bias and gelu behind it, a chain in front of it") {
  HostTensor a = uniform(DType::F32, {33, 130}, 1), b = uniform(DType::F32, {130, 127}, 2),
             c = uniform(DType::F32, {127}, 3);
  std::string ta = typeText(a), tb = typeText(b), tr = "tensor<33x127xf32>";
  std::string product = "%x = " + matmul("%arg0", "%arg1", ta + ", " + tb, tr) + "\n";
  std::string bias = "%y = kfuse.add %x, %arg2 : (" + tr + ", " + typeText(c) + ") -> " + tr + "\n";
  checkRegion(product + bias + "kfuse.gelu %y : (" + tr + ") -> " + tr, {a, b, c}, "cpu.matmul");
  checkRegion("%s = kfuse.silu %arg0 : (" + ta + ") -> " + ta + "\n" + matmul("%s", "%arg1", ta + ", " + tb, tr),
              {a, b}, "cpu.matmul");
}

TEST_CASE("cpu.matmul: windows that reach outside, in runs of 16 and of 3") {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (std::int64_t channels : {16, 3}) {
      CAPTURE(channels);
      // Images [2, 7, 5 * C], windows of 3 x 3 at strides of 2 and 1 -> 4 x 5 positions.
      const std::int64_t run = 3 * channels;
      const HostTensor x = uniform(type, {2, 7, 5 * channels}, 1), weights = uniform(type, {24, 3 * run}, 2);
      const std::string windows = typeOf(type, {2, 3, run, 4, 5}), moved = typeOf(type, {2, 4, 5, 3, run}),
                        rows = typeOf(type, {40, 3 * run}), c = std::to_string(channels), r = std::to_string(run);
      checkRegion("%w = kfuse.window %arg0 {kernel = array<i64: 3, " + r + ">, strides = array<i64: 2, " + c +
                      ">, dilations = array<i64: 1, 1>, pads = array<i64: 1, " + c + ">} : (" + typeText(x) + ") -> " +
                      windows + "\n%t = kfuse.transpose %w {permutation = array<i64: 0, 3, 4, 1, 2>} : (" + windows +
                      ") -> " + moved + "\n%m = kfuse.reshape %t : (" + moved + ") -> " + rows +
                      "\nkfuse.matmul %m, %arg1 {transpose_b} : (" + rows + ", " + typeText(weights) + ") -> " +
                      typeOf(type, {40, 24}),
                  {x, weights}, "cpu.matmul");
    }
}
