// A tuned matrix product beside every algorithm of cuBLASLt, in one process and on the same operands.
#pragma once

#include "ir/reference/Tensor.h"
#include "tools/kfuse/bench/GemmReport.h"
#include "tuner/model/ModelCompiler.h"
#include "tuner/model/Workbench.h"

#include <string>
#include <vector>

namespace kfuse::tools {

class GemmComparison {
public:
  /// `device` is the bench's, in this process, as cuBLASLt is. `type` is of the operands: a DType or "tf32".
  GemmComparison(tuner::Workbench &bench, runtime::Device &device, tuner::TuneOptions tuning, const std::string &type);

  /// Tunes the product, compares its results with cuBLASLt's (WrongResult where they differ), and times both
  /// interleaved, on operands that rotate past the L2. Alone where cuBLASLt has no algorithm for it.
  Result<GemmRow> run(const Product &product);

private:
  class Operands;
  class RotatingCalls;
  /// A kernel and the scratch memory it is called with.
  struct Contender {
    runtime::LoadedKernel &kernel;
    void *workspace;
  };

  /// How a call follows the one before.
  enum class Order : std::uint8_t {
    Serial,    ///< Stream order: it starts when the one before has ended.
    Overlapped ///< It may start earlier and waits by itself.
  };

  Result<tuner::CompiledModel> tune(const Product &product);
  Result<void> compare(const Product &product, const Contender &ours, const Contender &peer, const Operands &operands);
  Result<std::vector<reference::Number>> sampled(const Product &product, const Contender &contender,
                                                 const Operands &operands);
  Result<double> time(const Contender &contender, const Operands &operands, int calls, int repetitions,
                      Order order = Order::Serial);
  Result<GemmRow> measure(const Product &product, const Contender &ours, const std::vector<Contender> &peers,
                          const Operands &operands);

  tuner::Workbench &bench;
  runtime::Device &device; ///< In this process, as cuBLASLt is.
  tuner::TuneOptions tuning;
  DType type, result; ///< Those of the operands and of what is stored.
  bool tf32;
  bool hasRun = false, isWarm = false; ///< Something was timed; of this product, which has warmed the device up.
};

} // namespace kfuse::tools
