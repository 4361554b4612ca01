#include "ir/reference/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

constexpr double roundingAllowance = 1.25, strayLimits = 32, mostStray = 0.5, strayAllowance = 8;
constexpr double negligible = 0x1p-48; ///< The square of an f32's last place.
constexpr std::size_t suspectsAtOnce = 1024;

double largestFinite(DType type) {
  switch (type) {
  case DType::F16:
    return 65504;
  case DType::F8E4M3:
    return 448;
  case DType::F8E5M2:
    return 57344;
  default:
    return static_cast<double>(std::numeric_limits<float>::max());
  }
}

double numberAt(const Values &values, Int i) {
  return isFloat(values.type) ? values.real(i) : static_cast<double>(values.integer(i));
}

/// What a stored value may err by for being stored: the step of denormals, or all of one where kernels drop them.
double smallestError(DType type) {
  switch (type) {
  case DType::F16:
    return 0x1p-24;
  case DType::F8E4M3:
    return 0x1p-9;
  case DType::F8E5M2:
    return 0x1p-16;
  default:
    return 0x1p-126;
  }
}

std::string text(const char *format, double value) {
  std::string result;
  llvm::raw_string_ostream(result) << llvm::format(format, value);
  return result;
}

std::string describe(const Shape &shape, Int element) {
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; element /= shape[i])
    index[i] = element % shape[i];
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "element [";
  llvm::interleaveComma(index, os);
  os << "]";
  return text;
}

//===- One comparison ------------------------------------------------------------------------===//

/// Whether both are NaN, the same infinity, or finite once stored. At the very end of the type's range
/// a value may round either way.
bool sameKind(DType type, double found, double exact) {
  if (std::isnan(found) || std::isnan(exact))
    return std::isnan(found) == std::isnan(exact);
  double stored = roundTo(type, exact);
  if (std::isfinite(found) && std::isfinite(stored))
    return true;
  bool nearTheEnd = std::min(std::fabs(found), std::fabs(exact)) >= (1 - 2 * tolerance(type)) * largestFinite(type);
  return found == stored || (nearTheEnd && std::signbit(found) == std::signbit(exact));
}

/// How values differ from the exact ones: norms over the elements that are finite in both.
struct Deviation {
  double error = 0;          ///< Relative.
  double rootMeanSquare = 0; ///< The exact values'.
  double largest = 0;        ///< Difference of one element.
  Int worst = 0;             ///< The element of `largest`.
};

Deviation measure(const Values &values, const Values &exact) {
  Deviation deviation;
  double squares = 0, differences = 0;
  Int count = 0;
  for (Int i = 0; i < exact.size(); ++i) {
    double value = values.real(i), reference = exact.real(i);
    if (!std::isfinite(value) || !std::isfinite(reference))
      continue;
    double difference = std::fabs(value - reference);
    squares += reference * reference;
    differences += difference * difference;
    ++count;
    if (difference > deviation.largest) {
      deviation.largest = difference;
      deviation.worst = i;
    }
  }
  if (differences > 0)
    deviation.error = std::sqrt(differences / squares); // Infinite where all should be 0.
  deviation.rootMeanSquare = count ? std::sqrt(squares / count) : 0;
  return deviation;
}

/// One result under judgement: a ladder of questions, the op-by-op values computed when first needed.
class Trial {
public:
  Trial(const Values &found, const Values &exact, const std::function<Result<Values>()> &makeRounded,
        const Spread &spread)
      : found(found), exact(exact), makeRounded(makeRounded), spread(spread) {}

  Result<Verdict> run() {
    Verdict verdict = isFloat(exact.type) ? ofFloats() : ofIntegers();
    if (failure)
      return *failure;
    verdict.right = verdict.element < 0;
    if (!verdict.right)
      verdict.message = describe(exact.shape, verdict.element) + " is " + text("%g", numberAt(found, verdict.element)) +
                        ", expected " + text("%g", numberAt(exact, verdict.element)) + "; relative error " +
                        text("%.2e", verdict.error) + ", allowed " + text("%.2e", verdict.limit);
    return verdict;
  }

private:
  Verdict ofFloats() {
    Deviation deviation = measure(found, exact);
    Verdict verdict;
    verdict.error = deviation.error;
    verdict.limit = tolerance(exact.type);
    if (deviation.error > verdict.limit)
      verdict.limit = std::max(verdict.limit, roundingAllowance * roundedDeviation().error);
    verdict.element = findWrongElement(verdict.limit, deviation);
    if (verdict.element < 0 && deviation.error > verdict.limit)
      verdict.element = deviation.worst;
    if (verdict.element < 0 && spread)
      verdict.element = findLostElement(deviation);
    return verdict;
  }

  /// From what the type holds of the exact value: an 8-bit float saturates.
  double distanceAt(Int i) const {
    const double most = isFloat8(exact.type) ? largestFinite(exact.type) : INFINITY;
    return std::fabs(found.real(i) - std::clamp(exact.real(i), -most, most));
  }

  /// An element of an elementwise result that is wrong beside its own size.
  Int findLostElement(const Deviation &deviation) {
    const double share = std::min(strayLimits * tolerance(exact.type), mostStray);
    const double nothing = negligible * deviation.rootMeanSquare + smallestError(exact.type);
    std::vector<Int> suspects;
    for (Int i = 0; i < exact.size(); ++i) {
      const double difference = distanceAt(i);
      if (std::isfinite(difference) && difference > share * std::fabs(exact.real(i)) + nothing)
        suspects.push_back(i);
    }
    for (std::size_t begin = 0; begin < suspects.size(); begin += suspectsAtOnce) {
      std::span<const Int> some = std::span(suspects).subspan(begin);
      some = some.first(std::min(some.size(), suspectsAtOnce));
      Result<std::vector<double>> widest = spread(some);
      if (!widest) {
        failure = widest.error();
        return -1;
      }
      for (auto [i, allowed] : llvm::zip_equal(some, *widest))
        if (distanceAt(i) > allowed)
          return i;
    }
    return -1;
  }

  Int findWrongElement(double limit, const Deviation &deviation) {
    for (Int i = 0; i < exact.size(); ++i) {
      double value = found.real(i), reference = exact.real(i);
      if (!sameKind(exact.type, value, reference)) {
        if (!isExcused(i))
          return i;
        continue;
      }
      double difference = std::fabs(value - reference);
      double stray = std::min(strayLimits * limit, mostStray) * (std::fabs(reference) + deviation.rootMeanSquare);
      if (std::isfinite(difference) && difference > stray && difference > strayAllowance * roundedDeviation().largest)
        return i;
    }
    return -1;
  }

  Verdict ofIntegers() {
    Verdict verdict;
    verdict.limit = tolerance(exact.type);
    Int first = -1, unequal = 0;
    for (Int i = 0; i < exact.size(); ++i)
      if (found.integer(i) != exact.integer(i) && !isExcused(i)) {
        first = first < 0 ? i : first;
        ++unequal;
      }
    verdict.error = exact.size() ? static_cast<double>(unequal) / static_cast<double>(exact.size()) : 0;
    verdict.element = verdict.error > verdict.limit ? first : -1;
    return verdict;
  }

  /// Whether the op-by-op evaluation has the same: an overflow in f32 that f64 does not have, an
  /// integer from a rounded float.
  bool isExcused(Int i) {
    const Values *values = roundedValues();
    if (!values)
      return true;
    if (!isFloat(exact.type))
      return values->integer(i) == found.integer(i);
    double value = found.real(i), other = values->real(i);
    return value == other || (std::isnan(value) && std::isnan(other)) || (std::isfinite(value) && std::isfinite(other));
  }

  const Values *roundedValues() {
    if (!rounded && !failure) {
      Result<Values> made = makeRounded();
      if (made)
        rounded = std::move(*made);
      else
        failure = made.error();
    }
    return rounded ? &*rounded : nullptr;
  }

  const Deviation &roundedDeviation() {
    const Values *values = roundedValues();
    if (values && !deviationOfRounded)
      deviationOfRounded = measure(*values, exact);
    static const Deviation none;
    return deviationOfRounded ? *deviationOfRounded : none;
  }

  const Values &found, &exact;
  const std::function<Result<Values>()> &makeRounded;
  const Spread &spread;
  std::optional<Values> rounded;
  std::optional<Deviation> deviationOfRounded;
  std::optional<Error> failure;
};

} // namespace

double tolerance(DType type) {
  switch (type) {
  case DType::F32:
    return 1e-5;
  case DType::F16:
    return 2e-3;
  case DType::BF16:
    return 1e-2;
  case DType::F8E4M3:
    return 4e-2;
  case DType::F8E5M2:
    return 8e-2;
  case DType::Bool:
  case DType::I8:
  case DType::U8:
    return 1e-3;
  default:
    return 0;
  }
}

Result<Verdict> judge(const Values &found, const Values &exact, const std::function<Result<Values>()> &rounded,
                      const Spread &spread) {
  if (found.type != exact.type || found.size() != exact.size())
    return Error{ErrorCode::Usage, "a result of " + std::to_string(found.size()) + " " +
                                       std::string(toString(found.type)) + " elements was given, expected " +
                                       std::to_string(exact.size()) + " " + std::string(toString(exact.type))};
  return Trial(found, exact, rounded, spread).run();
}

Result<std::vector<Verdict>> checkOutputs(mlir::Block &block, std::span<const HostTensor> arguments,
                                          std::span<const HostTensor> outputs) {
  Result<std::vector<Values>> exact = evaluate(block, arguments, Mode::Exact);
  if (!exact)
    return exact.error();
  if (exact->size() != outputs.size())
    return Error{ErrorCode::Usage,
                 "got " + std::to_string(outputs.size()) + " results, expected " + std::to_string(exact->size())};

  std::optional<std::vector<Values>> allRounded;
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto rounded = [&]() -> Result<Values> {
      if (!allRounded) {
        Result<std::vector<Values>> made = evaluate(block, arguments, Mode::RoundEachOp);
        if (!made)
          return made.error();
        allRounded = std::move(*made);
      }
      return (*allRounded)[i];
    };
    Result<Verdict> verdict = judge(toValues(outputs[i]), (*exact)[i], rounded, spreadOf(block, arguments, i));
    if (!verdict)
      return verdict.error();
    verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

} // namespace kfuse::reference
