#include "tuner/Measurement.h"

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

TEST_CASE("measurement: what counts as a tie grows with the spread, from 1 to 3 percent") {
  CHECK(isTie({100, 0, 10}, {100.9, 0, 10}));
  CHECK_FALSE(isTie({100, 0, 10}, {101.1, 0, 10}));
  CHECK(isTie({100, 0.01, 10}, {101.9, 0.01, 10}));
  CHECK_FALSE(isTie({100, 0.01, 10}, {102.1, 0.01, 10}));
  CHECK(isTie({100, 0.5, 10}, {102.9, 0.5, 10}));
  CHECK_FALSE(isTie({100, 0.5, 10}, {103.1, 0.5, 10}));
}

TEST_CASE("measurement: kinds of failure have names that read back") {
  for (int i = 0; i <= static_cast<int>(FailureKind::Crash); ++i) {
    auto kind = static_cast<FailureKind>(i);
    CHECK((parseFailureKind(toString(kind)) == kind));
  }
  CHECK_FALSE(parseFailureKind("").has_value());
  CHECK_FALSE(parseFailureKind("bad luck").has_value());
}
