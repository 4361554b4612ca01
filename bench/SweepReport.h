// What sweeps found, in words for people and rows for programs.
#pragma once

#include "bench/Sweep.h"

#include "llvm/Support/JSON.h"

namespace kfuse::bench {

class SweepReport {
public:
  /// The fastest configs, and how near the tuner's first picks come to the best. With $KFUSE_BENCH_CSV all configs go
  /// there, too: "case;config;us;modelled us;us in a chain".
  void add(const Case &given, const Swept &swept, const SweepOptions &options);
  /// Over all that was added.
  void summarise() const;

  /// A row of the JSON file.
  void addRow(llvm::json::Object row) { rows.push_back(std::move(row)); }
  void writeJson(const std::string &path, const runtime::Device &device);

private:
  struct Kernel {
    std::string name;
    std::size_t configs;
    double bestUs;
    Ranking ranking;
    double compileMs; ///< The median.
  };

  llvm::json::Array rows;
  std::vector<Kernel> kernels;
  std::vector<double> compileMs;
};

} // namespace kfuse::bench
