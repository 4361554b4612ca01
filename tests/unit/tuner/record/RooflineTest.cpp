#include "tuner/record/Roofline.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

/// Round numbers: 4, 3 and 2 TB/s; 60 and 50, 800 and 700 TFLOP/s; 2 us.
const Peaks peaks{4e6, 3e6, 2e6, 60e6, 50e6, 800e6, 700e6, 2, true};

std::string regimeOf(const Roofline &bound) { return std::string(toString(bound.regime)); }

} // namespace

TEST_CASE("roofline: bandwidth is that of the kernel's kind of traffic") {
  Roofline reading = roofline({.bytesRead = 390e6, .bytesWritten = 10e6}, peaks);
  CHECK(reading.boundUs == doctest::Approx(100));
  CHECK(regimeOf(reading) == "memory");
  CHECK(roofline({.bytesRead = 0, .bytesWritten = 300e6}, peaks).boundUs == doctest::Approx(100));
  CHECK(roofline({.bytesRead = 100e6, .bytesWritten = 100e6}, peaks).boundUs == doctest::Approx(100));
  CHECK(roofline({.bytesRead = 79e6, .bytesWritten = 21e6}, peaks).boundUs == doctest::Approx(50)); // A copy still.
}

TEST_CASE("roofline: the math ceiling is that of the type, burst for short kernels and sustained for long ones") {
  Work work{.flops = 80e9, .bytesRead = 1e6, .bytesWritten = 1e6, .mathType = DType::BF16};
  CHECK(roofline(work, peaks).boundUs == doctest::Approx(100));
  CHECK(regimeOf(roofline(work, peaks)) == "compute");
  work.mathType = DType::F32;
  CHECK(roofline(work, peaks).boundUs == doctest::Approx(80e9 / 60e6));
  work.flops = 1e12;
  CHECK(roofline(work, peaks).boundUs == doctest::Approx(20000));
  work.mathType = DType::F16;
  CHECK(roofline(work, peaks).boundUs == doctest::Approx(1e12 / 800e6));
  Roofline half = roofline(work, peaks);
  work.mathType = DType::F8E4M3;
  CHECK(roofline(work, peaks).boundUs < 0.75 * half.boundUs); // Twice the rate, which the memory may not feed.
}

TEST_CASE("roofline: a tiny kernel is bound by its launches") {
  Roofline bound = roofline({.flops = 10, .bytesRead = 100, .bytesWritten = 100, .launches = 2}, peaks);
  CHECK(bound.boundUs == 4);
  CHECK(regimeOf(bound) == "launch");
  CHECK(bound.percent(8) == 50);
}

TEST_CASE("roofline: without measured peaks the datasheet's serve") {
  Peaks nominal = nominalPeaks(*ir::findTarget("sm_90a"));
  CHECK_FALSE(nominal.measured);
  CHECK(nominal.readBytesPerUs == 4.8e6);
  CHECK(nominal.copyBytesPerUs == 4.8e6);
  CHECK(nominal.halfBurst == 989e6);
  CHECK(nominal.launchUs == 1.3);
}

TEST_CASE("roofline: what a config must do beyond the region bounds it alone") {
  Work work{.flops = 100e9, .bytesRead = 1, .bytesWritten = 1, .mathType = DType::BF16};
  double bound = roofline(work, peaks).boundUs;
  CHECK(configBoundUs(work, {100e9, 0}, peaks) == doctest::Approx(bound));
  CHECK(configBoundUs(work, {240e9, 0}, peaks) == doctest::Approx(2 * bound)); // At the clock of a few.
  CHECK(configBoundUs(work, {100e9, 4e9 * peaks.readBytesPerUs}, peaks) == doctest::Approx(1e9));
}

TEST_CASE("roofline: few blocks cannot fill the memory") {
  Work work{.bytesRead = 60e6, .bytesWritten = 40e6};
  const double most = 4 * peaks.readBytesPerUs;
  CHECK(gridBoundUs(work, 1000, 100, peaks) == doctest::Approx(100e6 / most));
  CHECK(gridBoundUs(work, 10, 100, peaks) == doctest::Approx(10 * 100e6 / most));
}

TEST_CASE("roofline: a ceiling is raised by what beats it, but not by what cannot be") {
  Work work{.bytesRead = 100e6, .bytesWritten = 100e6};
  Peaks raised = peaks;
  raised.measured = true;
  const double bound = roofline(work, raised).boundUs;
  CHECK_FALSE(raiseCeiling(raised, work, bound));
  std::optional<std::string> remark = raiseCeiling(raised, work, bound / 1.05);
  REQUIRE(remark);
  CHECK(remark->find("beats the copy bandwidth by 5.0 %: the ceiling is raised") != std::string::npos);
  CHECK(roofline(work, raised).boundUs == doctest::Approx(bound / 1.05));
  remark = raiseCeiling(raised, work, bound / 2);
  REQUIRE(remark);
  CHECK(remark->find("the ceiling stays") != std::string::npos);
  CHECK(roofline(work, raised).boundUs == doctest::Approx(bound / 1.05));
}
