#include "tuner/report/Report.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

TuneReport sampleReport() {
  KernelReport matmul;
  matmul.name = "matmul_add_gelu";
  matmul.ops = "matmul + add + gelu";
  matmul.templateName = "cuda.matmul_sm80";
  matmul.config = "cluster_m=2,k=64,m=128,n=256,splits=1,stages=4";
  matmul.bound = {1234.5, Regime::Compute};
  matmul.measuredUs = 2469;
  matmul.candidates = 40;
  matmul.failed = 3;
  matmul.cut = 1;
  matmul.ruledOut = 5;
  matmul.stop = StopReason::Budget;
  matmul.advice = "luck";
  matmul.uses = 12;
  KernelReport norm;
  norm.name = "rms_norm";
  norm.ops = "cast + rms_norm + mul + cast + some more ops that make it long";
  norm.templateName = "cuda.rows";
  norm.config = "threads=256";
  norm.bound = {8.25, Regime::Memory};
  norm.fromCache = true;
  TuneReport report;
  report.device = "NVIDIA H200";
  report.kernels = {matmul, norm};
  report.arenaBytes = 4096;
  report.arenaLowerBoundBytes = 4000;
  report.seconds = 12.5;
  return report;
}

std::string keysOf(const nlohmann::ordered_json &object) {
  std::string keys;
  for (const auto &entry : object.items())
    keys += entry.key() + " ";
  return keys;
}

} // namespace

TEST_CASE("report: JSON has the documented keys, and null for what is untimed") {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(toJson(sampleReport()));
  CHECK(keysOf(json) == "device kernels end_to_end arena_bytes arena_lower_bound_bytes total_us seconds ");
  CHECK(keysOf(json["kernels"][0]) == "name ops template config regime bound_us measured_us roofline_percent "
                                      "candidates failed ruled_out stop advice from_cache ");
  CHECK(json["device"] == "NVIDIA H200");
  CHECK(json["end_to_end"].is_null());
  CHECK(json["arena_bytes"] == 4096);
  CHECK(json["arena_lower_bound_bytes"] == 4000);
  CHECK(json["seconds"] == 12.5);
  CHECK(json["total_us"].is_null());
  const nlohmann::ordered_json &matmul = json["kernels"][0], &norm = json["kernels"][1];
  CHECK(matmul["name"] == "matmul_add_gelu");
  CHECK(matmul["ops"] == "matmul + add + gelu");
  CHECK(matmul["template"] == "cuda.matmul_sm80");
  CHECK(matmul["config"] == "cluster_m=2,k=64,m=128,n=256,splits=1,stages=4");
  CHECK(matmul["regime"] == "compute");
  CHECK(matmul["bound_us"] == 1234.5);
  CHECK(matmul["measured_us"] == 2469);
  CHECK(matmul["roofline_percent"] == 50);
  CHECK(matmul["candidates"] == 40);
  CHECK(matmul["failed"] == 3);
  CHECK(matmul["ruled_out"] == 5);
  CHECK(matmul["stop"] == "budget");
  CHECK(matmul["advice"] == "luck");
  CHECK(matmul["from_cache"] == false);
  CHECK(norm["measured_us"].is_null());
  CHECK(norm["roofline_percent"].is_null());
  CHECK(norm["from_cache"] == true);
}

TEST_CASE("report: the total counts every launch of a run") {
  TuneReport report = sampleReport();
  report.kernels[1].measuredUs = 10;
  CHECK(report.totalUs() == 12 * 2469 + 10);
}

TEST_CASE("report: names that are not UTF-8 still give valid JSON") {
  TuneReport report = sampleReport();
  report.kernels[0].name = "a\xff";
  CHECK(nlohmann::json::accept(toJson(report)));
}

TEST_CASE("report: the table reads well and fits 100 columns") {
  std::string table = toTable(sampleReport(), false);
  CHECK(table == "fused                      regime     bound measured  roof config              tried  bad ended by\n"
                 "matmul + add + gelu x12    compute  1.23 ms  2.47 ms   50% cluster_m=2,k=64,      40    3 budget\n"
                 "                                                           m=128,n=256,\n"
                 "                                                           splits=1,stages=4\n"
                 "cast + rms_norm + mul +    memory   8.25 us  untimed     - threads=256         store    0 none\n"
                 "cast + some more ops that\n"
                 "make it long\n"
                 "1 kernel from the store\n"
                 "1 kernel untimed: --no-benchmark, the cost model chose\n"
                 "matmul_add_gelu: 1 candidate cut for lack of time\n"
                 "1 kernel bound by compute: luck would help\n"
                 "NVIDIA H200:\nuntimed; arena 4096 bytes, lower bound 4000; took 12.5 s\n");
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 100);
}

TEST_CASE("report: why nothing was timed") {
  TuneReport report = sampleReport();
  CHECK(toTable(report, false).find("1 kernel untimed: --no-benchmark, the cost model chose\n") != std::string::npos);
  report.isDeviceHere = false;
  CHECK(toTable(report, false).find("1 kernel untimed: the device is not here,") != std::string::npos);
}

TEST_CASE("report: what was chosen by the whole run") {
  TuneReport report = sampleReport();
  report.endToEnd = {.us = 12345.6, .aloneUs = 13123.4, .tried = 11, .taken = 2};
  const std::string line =
      "a whole run, cold: 12.3 ms, 5.9 % less than with those fastest alone; 2 of 11 others chosen\n";
  CHECK(toTable(report, false).find("\n" + line) != std::string::npos);
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(toJson(report))["end_to_end"];
  CHECK(keysOf(json) == "us alone_us tried taken ");
  CHECK(json["us"] == 12345.6);
  CHECK(json["alone_us"] == 13123.4);
  CHECK(json["tried"] == 11);
  CHECK(json["taken"] == 2);
}

TEST_CASE("report: a run served by the store says so") {
  TuneReport report = sampleReport();
  for (KernelReport &kernel : report.kernels)
    kernel.fromCache = true;
  CHECK(toTable(report, false).find("all 2 kernels from the store: nothing compiled, nothing benchmarked\n") !=
        std::string::npos);
}

TEST_CASE("report: colours only where asked for") {
  CHECK(toTable(sampleReport(), false).find('\033') == std::string::npos);
  CHECK(toTable(sampleReport(), true).find("\033[33m  50%\033[0m") != std::string::npos);
}
