#include "tuner/record/Measurement.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace kfuse::tuner;

TEST_CASE("measurement: median and spread ignore an outlier") {
  Timing odd = summarise({11, 10, 500, 9, 10});
  CHECK(odd.medianUs == 10);
  CHECK(odd.spread == doctest::Approx(0.1));
  CHECK(odd.samples == 5);
  Timing even = summarise({4, 1, 3, 2});
  CHECK(even.medianUs == 2.5);
  CHECK(even.spread == doctest::Approx(0.4));
  CHECK(summarise({7}) == Timing{7, 0, 1});
}

TEST_CASE("measurement: kinds of failure have names that read back") {
  for (int i = 0; i <= static_cast<int>(FailureKind::Crash); ++i) {
    auto kind = static_cast<FailureKind>(i);
    CHECK((parseFailureKind(toString(kind)) == kind));
  }
  CHECK_FALSE(parseFailureKind("").has_value());
  CHECK_FALSE(parseFailureKind("bad luck").has_value());
}
