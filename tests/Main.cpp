// Runs a program's cases. Its status is doctest's, or 77 where nothing failed and all cases that ran skipped something.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/Skip.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

namespace {

constexpr int skippedStatus = 77;

bool isSkipping = false; ///< The running case.
int casesRun = 0, casesSkipped = 0;

/// Counts cases, and which of them skipped.
struct SkipCount : doctest::IReporter {
  explicit SkipCount(const doctest::ContextOptions &) {}
  void report_query(const doctest::QueryData &) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats &) override {}
  void test_case_start(const doctest::TestCaseData &) override { isSkipping = false; }
  void test_case_reenter(const doctest::TestCaseData &) override {}
  void test_case_end(const doctest::CurrentTestCaseStats &) override {
    ++casesRun;
    casesSkipped += isSkipping ? 1 : 0;
  }
  void test_case_exception(const doctest::TestCaseException &) override {}
  void subcase_start(const doctest::SubcaseSignature &) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData &) override {}
  void log_message(const doctest::MessageData &) override {}
  void test_case_skipped(const doctest::TestCaseData &) override {}
};
REGISTER_LISTENER("skips", 1, SkipCount);

} // namespace

void kfuse::testing::skip(const std::string &why) {
  isSkipping = true;
  MESSAGE("skipped: " << why);
}

int main(int argc, char **argv) {
#ifdef KFUSE_TEST_WORKER
  setenv("KFUSE_WORKER", KFUSE_TEST_WORKER, 0); // The worker of this build.
#endif
  const int status = doctest::Context(argc, argv).run();
  if (casesSkipped > 0)
    std::cout << casesSkipped << " of " << casesRun << " cases were skipped, or a part of each\n";
  return status == 0 && casesRun > 0 && casesSkipped == casesRun ? skippedStatus : status;
}
