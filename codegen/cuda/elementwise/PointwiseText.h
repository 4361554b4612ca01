// The text of one pointwise region under one config: what a kernel of it, alone or beside others, is made of.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/cuda/text/ChunkPrinter.h"

namespace kfuse::codegen::cuda {

class PointwiseText {
public:
  /// `config` has "vector", "threads" and "unroll".
  PointwiseText(const Region &region, const TileConfig &config, SourceWriter &writer);

  const LinearGraph &linear() const { return graph; }
  /// Blocks in which each thread has one tile of work.
  int64_t blocks() const;
  /// struct Config, for an ::Index that exists.
  void writeConfig();
  /// struct Body, whose outputs are called out0, out1, ...
  void writeBody();
  /// What a Body is made of, buffers first, after printing what it takes; with `outputs`, output i is called by the
  /// i-th of these numbers.
  std::string members(llvm::ArrayRef<unsigned> outputs = {}) const;

private:
  void writeApply();
  ValuePrinter atChunk();

  const TileConfig &config;
  SourceWriter &writer;
  LinearGraph graph;
  unsigned inner;
  ChunkPrinter chunk;
  std::vector<ir::Scalar> loads;
  int64_t chunks = 0;
};

/// The plan of one launch of `blocks` blocks that take every buffer, still without source.
KernelPlan pointwisePlan(const Region &region, const LinearGraph &buffers, const ir::Target &target, int64_t blocks,
                         int64_t threads);

/// The values that are stored.
std::vector<ir::Scalar> valuesOf(const LinearGraph &graph);

} // namespace kfuse::codegen::cuda
