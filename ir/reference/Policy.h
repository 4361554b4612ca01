// When a computed result is right: kfuse's numerics policy.
#pragma once

#include "ir/reference/Spread.h"
#include "ir/reference/Tensor.h"
#include "kfuse/error.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::reference {

/// Largest relative error ||found - exact|| / ||exact||, L2 norms over a whole result: 1e-5 for f32
/// (tf32, at 5e-4, does not pass), 2e-3 for f16, 1e-2 for bf16, 4e-2 for E4M3, 8e-2 for E5M2: a result of
/// 3 or 2 bits of mantissa that is rounded right errs by 2.6e-2 or 5.2e-2 already, and one whose sum erred by
/// half a step beside it. Integers are exact. One boolean or 8-bit integer in a thousand may differ, as
/// comparisons of rounded numbers tip over, and roundings of them. Tensor cores sum products of 8-bit floats in some 14
/// bits: so does the evaluation that rounds after every op, whose error is an allowance below.
double tolerance(DType type);

/// What the policy says about one result.
struct Verdict {
  bool right = true;
  double error = 0;          ///< Relative L2 error over the finite elements; share of unequal elements if not floats.
  double limit = 0;          ///< The error allowed.
  std::int64_t element = -1; ///< In a wrong result the first element that is wrong on its own, else the worst.
  std::string message;       ///< One line about a wrong result: "element [3, 7] is 0.5, expected 0.25; ...".
};

/// Judges `found` against the exact values. It is right when
/// - NaN and the infinities are where the exact values, once stored, have them;
/// - the relative error is within the tolerance, or within 1.25 times the error of `rounded()`, the
///   evaluation that rounds after every op: deep bf16 chains lose more than 1e-2 in any correct code;
/// - no element errs by more than 32 limits (at most half) of its own size and the result's root mean square, or than
///   8 times the worst of `rounded()`: a wrong corner is not averaged away in a big tensor;
/// - no element of an elementwise result, which has a `spread`, errs by more than 32 limits (at most half) of its own
///   size alone, or than its spread: a small value is not hidden by large ones beside it. What is below 2^-48 of the
///   result's root mean square, or denormal, counts as 0.
/// `rounded` and `spread` are called only when the exact values alone do not excuse a difference.
Result<Verdict> judge(const Values &found, const Values &exact, const std::function<Result<Values>()> &rounded,
                      const Spread &spread = {});

/// Judges all results of a block (a model's @main, or a region) computed from `arguments`.
Result<std::vector<Verdict>> checkOutputs(mlir::Block &block, std::span<const HostTensor> arguments,
                                          std::span<const HostTensor> outputs);

} // namespace kfuse::reference
