// What failed in a search.
#pragma once

#include "kfuse/error.h"
#include "tuner/record/Measurement.h"

#include <array>
#include <string>
#include <utility>

namespace kfuse::tuner {

class Failures {
public:
  /// `line` tells the failure to people; the first one stands for all.
  void note(const Failure &failure, std::string line) {
    ++number;
    if (!first.empty())
      return;
    first = std::move(line);
    kind = failure.kind;
  }
  /// A failure that the store knows and that was not tried again, though it might work by now.
  void trust() { ++trusted; }
  /// A candidate that failed is tried again.
  void takeBack() { --number; }

  int count() const { return number; }
  int trustedCount() const { return trusted; }
  const std::string &firstLine() const { return first; } ///< "" when nothing failed.
  /// What a kernel ends with whose candidates all fail: by the first failure.
  ErrorCode code() const {
    constexpr std::array<ErrorCode, 7> byKind{ErrorCode::Compile, ErrorCode::Compile,     ErrorCode::Compile,
                                              ErrorCode::Timeout, ErrorCode::WrongResult, ErrorCode::WrongResult,
                                              ErrorCode::Crash};
    return byKind[static_cast<std::size_t>(kind)];
  }

private:
  int number = 0, trusted = 0;
  std::string first;
  FailureKind kind = FailureKind::Compile;
};

} // namespace kfuse::tuner
