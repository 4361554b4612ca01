// Index arithmetic against brute force: every point of random expressions' ranges.
#include "AffineValue.h"

#include "ir/IndexMath.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

using namespace kfuse::ir;
using kfuse::test::valueAt;
using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::AffineExpr;

namespace {

using Numbers = SmallVector<int64_t>;

std::string textOf(AffineExpr expr) {
  std::string text;
  llvm::raw_string_ostream(text) << expr;
  return text;
}

std::string textOf(ArrayRef<int64_t> numbers) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(numbers, os);
  return text;
}

/// Steps `point` through all points of `extents`; false after the last.
bool next(Numbers &point, ArrayRef<int64_t> extents) {
  for (size_t i = point.size(); i-- > 0;) {
    if (++point[i] < extents[i])
      return true;
    point[i] = 0;
  }
  return false;
}

class RandomIndex {
public:
  RandomIndex(mlir::MLIRContext *context, unsigned seed) : random(seed), context(context) {
    for (int i = 0; i < 3; ++i)
      dims.push_back(pick(1, 7));
    symbols.push_back(pick(1, 5));
  }
  Numbers dims, symbols;

  AffineExpr expression(int depth) {
    if (depth == 0)
      return leaf();
    AffineExpr a = expression(depth - 1);
    switch (pick(0, 6)) {
    case 0:
    case 1:
      return a + expression(depth - 1);
    case 2:
      return a * pick(1, 12);
    case 3:
      return a.floorDiv(pick(1, 12));
    case 4:
      return a % pick(1, 12);
    case 5:
      return a - expression(depth - 1) * pick(1, 3);
    default:
      return a + pick(0, 20);
    }
  }

  /// A reshape of a reshape, as it reads: an index through two other shapes of as many elements.
  AffineExpr throughReshapes() {
    static constexpr int64_t factors[4] = {2, 3, 4, 2};
    dims.assign(std::begin(factors), std::end(factors));
    SmallVector<AffineExpr> index;
    for (int i = 0; i < 4; ++i)
      index.push_back(getAffineDimExpr(i, context));
    SmallVector<int64_t> shape(dims);
    for (int step = 0; step < 2; ++step) {
      AffineExpr offset = linearise(index, shape, context);
      shape = regrouped();
      index = delinearise(offset, shape);
    }
    return linearise(index, shape, context);
  }

private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }

  AffineExpr leaf() {
    switch (pick(0, 4)) {
    case 0:
      return mlir::getAffineConstantExpr(pick(0, 9), context);
    case 1:
      return mlir::getAffineSymbolExpr(0, context);
    default:
      return mlir::getAffineDimExpr(pick(0, 2), context);
    }
  }

  /// The prime factors of the domain's size, multiplied up in random groups.
  SmallVector<int64_t> regrouped() {
    SmallVector<int64_t> primes{2, 3, 2, 2, 2}, shape{1};
    std::shuffle(primes.begin(), primes.end(), random);
    for (int64_t prime : primes)
      if (pick(0, 1))
        shape.back() *= prime;
      else
        shape.push_back(prime);
    return shape;
  }

  std::mt19937 random;
  mlir::MLIRContext *context;
};

/// Compares the simplified expression with the original at every point. False when the original
/// leaves the contract somewhere.
bool checkEverywhere(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  Numbers extents(dims);
  extents.append(symbols.begin(), symbols.end());
  Numbers point(extents.size());
  do {
    auto at = ArrayRef(point);
    std::optional<int64_t> value = valueAt(expr, at.take_front(dims.size()), at.drop_front(dims.size()));
    if (!value || *value < 0)
      return false;
  } while (next(point, extents));

  AffineExpr simplified = simplifyIndex(expr, dims, symbols);
  int64_t bound = maxOfIndex(expr, dims, symbols);
  std::string what = textOf(expr) + "  ->  " + textOf(simplified);
  do {
    auto at = ArrayRef(point);
    ArrayRef<int64_t> d = at.take_front(dims.size()), s = at.drop_front(dims.size());
    int64_t value = *valueAt(expr, d, s);
    bool equal = valueAt(simplified, d, s) == value, bounded = value <= bound;
    if (!equal || !bounded) {
      std::string where = what + " in (" + textOf(extents) + ") at (" + textOf(at) + ")";
      CHECK_MESSAGE(equal, where);
      CHECK_MESSAGE(bounded, where << " is " << value << ", above " << bound);
      return true;
    }
  } while (next(point, extents));
  return true;
}

} // namespace

TEST_CASE("index math: simplified expressions equal the originals everywhere") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  int checked = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    RandomIndex random(&context, seed);
    AffineExpr expr = random.expression(1 + seed % 4);
    checked += checkEverywhere(expr, random.dims, random.symbols);
  }
  CHECK(checked > 10000);
}

TEST_CASE("index math: reshapes of reshapes") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomIndex random(&context, seed);
    AffineExpr expr = random.throughReshapes();
    CHECK(checkEverywhere(expr, random.dims, {}));
  }
}

TEST_CASE("index math: what reshapes that undo each other leave") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  AffineExpr d0, d1;
  bindDims(&context, d0, d1);
  Numbers dims{6, 4};
  auto simplified = [&](AffineExpr expr) { return textOf(simplifyIndex(expr, dims)); };
  CHECK(simplified((d0 * 4 + d1).floorDiv(4)) == "d0");
  CHECK(simplified((d0 * 4 + d1) % 4) == "d1");
  CHECK(simplified((d0 * 4 + d1 + 70).floorDiv(4)) == "d0 + (d1 + 2) floordiv 4 + 17");
  CHECK(simplified((d0 * 4 + 3 - d1).floorDiv(4)) == "d0");
  CHECK(simplified((d0 * 8 + d1 * 2 + 1) % 4) == "(d1 mod 2) * 2 + 1");
  CHECK(simplified((d1 * -1 + 24) % 3) == "(d1 * 2) mod 3");
  CHECK(simplified(d0.floorDiv(4) * 4 + d0 % 4) == "d0");
  CHECK(simplified(d0.floorDiv(4) * 12 + d1 + d0 % 4 * 3) == "d1 + d0 * 3");
  CHECK(simplified(d1 % 8) == "d1");
  CHECK(simplified(d1.floorDiv(8)) == "0");
  CHECK(maxOfIndex(d0 * 4 + d1, dims) == 23);
}

TEST_CASE("index math: linear forms") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  AffineExpr d0, d1;
  bindDims(&context, d0, d1);
  SmallVector<int64_t> coefficients;
  int64_t offset = 0;
  REQUIRE(linearForm((d0 * 4 + d1) * 3 + d0 + 7, 2, coefficients, offset));
  CHECK(coefficients == SmallVector<int64_t>{13, 3});
  CHECK(offset == 7);
  CHECK(!linearForm(d0.floorDiv(2), 2, coefficients, offset));
  CHECK(!linearForm(d0 + getAffineSymbolExpr(0, &context), 2, coefficients, offset));
}
