#include "tuner/report/ReportPage.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

std::size_t countOf(const std::string &text, const std::string &part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

struct Sample {
  Sample() {
    report.device = "GPU <1>";
    report.peaks = {4.6e6, 4.7e6, 4.2e6, 62e6, 60e6, 892e6, 809e6, 0.5, true};
    report.kernels = {kernel("matmul", {8e9, 6e7, 1e7, DType::BF16, 1}, 12),
                      kernel("copy", {0, 1e6, 1e6, DType::F32, 1}, 2)};
    report.launches = {0, 1, 0};
    report.kernels[0].uses = 2;
    for (int i = 0; i < 4; ++i) {
      Measurement trial;
      trial.config = {{"m", 64 << i}};
      trial.at = 1000 + i;
      if (i == 2)
        trial.failure = Failure{FailureKind::WrongResult, "a \"wrong\" <element>"};
      else
        trial.timing = Timing{20.0 - i, 0.01, 3};
      trials[0].push_back(trial);
    }
  }
  KernelReport kernel(const std::string &name, const Work &work, double us) const {
    KernelReport kernel;
    kernel.name = kernel.ops = name;
    kernel.config = "m=128";
    kernel.work = work;
    kernel.bound = roofline(work, report.peaks);
    kernel.measuredUs = us;
    return kernel;
  }
  std::string html() const { return toHtml(report, "model & more.onnx", trials); }

  TuneReport report;
  std::vector<std::vector<Measurement>> trials{2};
};

} // namespace

TEST_CASE("report page: a dot for each kernel in both sizes, a bar for each launch, a row for each kernel") {
  std::string html = Sample().html();
  CHECK(countOf(html, "<circle class=\"dot ") == 4);
  CHECK(countOf(html, "<div class=\"launch ") == 3);
  CHECK(countOf(html, "<tr><td") == 2);
  CHECK(countOf(html, "<circle class=\"trial ") == 3);
  CHECK(countOf(html, "<path class=\"failed\"") == 1);
  CHECK(html.find("bf16, f16 892 TFLOP/s, sustained 809 TFLOP/s") != std::string::npos);
  CHECK(html.find("read 4.60 TB/s, write 4.70 TB/s, copy 4.20 TB/s") != std::string::npos);
}

TEST_CASE("report page: the whole run is told where it was timed") {
  Sample sample;
  CHECK(sample.html().find("a whole run") == std::string::npos);
  sample.report.endToEnd = {.us = 123.4, .aloneUs = 125, .tried = 4, .taken = 1};
  CHECK(sample.html().find("123 us</b>") != std::string::npos);
  CHECK(countOf(sample.html(), "a whole run, weights cold") == 1);
}

TEST_CASE("report page: it needs nothing but itself, and text is text") {
  std::string html = Sample().html();
  for (const char *outside : {"http", "src=", "url(", "@import", "<link"})
    CHECK(html.find(outside) == std::string::npos);
  CHECK(html.find("GPU &lt;1&gt;") != std::string::npos);
  CHECK(html.find("model &amp; more.onnx") != std::string::npos);
  CHECK(html.find("a &quot;wrong&quot; &lt;element&gt;") != std::string::npos);
}

TEST_CASE("report page: numbers stay finite where nothing was computed, timed or tried") {
  Sample sample;
  sample.report.kernels[0].work = {};
  sample.report.kernels[1].measuredUs.reset();
  sample.trials[0].clear();
  std::string html = sample.html();
  CHECK(html.find("nan") == std::string::npos);
  CHECK(html.find("inf") == std::string::npos);
  CHECK(countOf(html, " untimed\"") == 2);
  CHECK(html.find("id=\"timeline\"") == std::string::npos);
  CHECK(html.find("id=\"searches\"") == std::string::npos);
  sample.report.kernels.clear();
  sample.report.launches.clear();
  sample.trials.clear();
  html = sample.html();
  CHECK(html.find("nan") == std::string::npos);
}
