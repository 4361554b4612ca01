// Regions that the CUDA templates must get right, as text: shared by the emulation, GPU, golden and
// compile tests.
#pragma once

#include "codegen/MakeRegion.h"
#include "ir/reference/Evaluator.h"
#include "tests/unit/IrText.h"

#include <string>
#include <vector>

namespace kfuse::test {

/// A region as a function: makeRegion takes any block of tensor ops.
struct TemplateCase {
  std::string name;
  std::string text;
};

/// A parsed case with the region that templates see and inputs of every kind.
struct RegionCase {
  ParsedModule parsed;
  codegen::Region region;

  explicit RegionCase(const TemplateCase &source) : parsed(source.text) {
    Result<codegen::Region> made = codegen::makeRegion(parsed.body());
    REQUIRE_MESSAGE(made, made.error().message);
    region = std::move(*made);
  }

  /// Floats uniform in [-1, 1), integers in [0, 4) (positions and indices), those of 8 and 4 bits all, booleans mixed.
  std::vector<reference::HostTensor> inputs(std::uint64_t seed = 1) const {
    std::vector<reference::HostTensor> tensors;
    for (const ir::ScalarInput &input : region.graph.inputs) {
      ++seed;
      if (const std::optional<SmallInteger> all = smallInteger(input.type))
        tensors.push_back(reference::integers(input.type, input.shape, seed, all->lowest, all->largest + 1));
      else if (isFloat(input.type))
        tensors.push_back(reference::uniform(input.type, input.shape, seed));
      else
        tensors.push_back(reference::integers(input.type, input.shape, seed, 0, input.type == DType::Bool ? 2 : 4));
    }
    return tensors;
  }

  /// Per output: the input whose memory it is (a state), or -1.
  std::vector<int> states() const {
    std::vector<int> states;
    for (const ir::ScalarOutput &output : region.graph.outputs)
      states.push_back(output.inPlace);
    return states;
  }
};

std::vector<TemplateCase> pointwiseCases();
/// Elementwise regions that do not feed each other.
std::vector<TemplateCase> sideBySideCases();
/// Elementwise regions that read along another dimension than they write.
std::vector<TemplateCase> transposeCases();
std::vector<TemplateCase> rowCases();
/// Rows of 33 to 100 elements, most of which begin at no multiple of 4 bytes.
std::vector<TemplateCase> shortRowCases();
/// Rows that a cluster shares.
std::vector<TemplateCase> longRowCases();
/// Reductions over a dimension that is not the dense one.
std::vector<TemplateCase> columnCases();
/// Attention of few rows with a cache.
std::vector<TemplateCase> decodeCases();
/// The same of heads whose queries are normalised, and the new rows of their keys.
std::vector<TemplateCase> decodeNormCases();
/// At the sizes of Qwen3-8B; too large for the emulator.
std::vector<TemplateCase> modelDecodeCases();
/// An attention of many query rows, for flashCase().
struct FlashSketch {
  std::string type = "bf16";
  int batch = 2, heads = 2, keyHeads = 2, rows = 1, keys = 1, keySize = 64, valueSize = 64;
  std::string scale = "0.125"; ///< "" for none.
  /// "", "causal", "window" (of 19 keys), "chunked" (of 24 keys, up to the row's own), "causal added" (a sum with the
  /// lowest float), "added" and "chosen" (tensors of the type, and of booleans), "bias" (a tensor for each head, the
  /// same for the batch), "bounded" (from one integer of each row on to another).
  std::string mask = {};
  std::string offset = {};  ///< The last key that the first row sees, where it is not the first.
  bool tokensFirst = false; ///< Heads lie side by side in rows of tokens, of the result, too.
  bool isCapped = false;    ///< By tanh.
  bool isGuarded = false;   ///< Weights that are no numbers become 0.
  bool widens = false;      ///< The softmax is in f32.
  bool hasSink = false;     ///< Each head has a score beside those of its keys, which takes weight and has no value.
  /// What the queries are computed by: "", "rotary", "norm" (rms_norm and rotary), "cast" (from f32).
  std::string front = {};
};
TemplateCase flashCase(const FlashSketch &sketch);
/// Attention of many query rows, of sizes that nothing divides.
std::vector<TemplateCase> flashCases();
/// The same of models' sizes; too large for the emulator.
std::vector<TemplateCase> largeFlashCases();
/// Attention of several queries against a cache, from a position of each sequence on that is an input times `step`:
/// causal, or of the keys before a length.
struct CacheSketch {
  std::string type = "bf16";
  int batch = 1, heads = 4, keyHeads = 2, rows = 8, keys = 100, size = 64;
  bool isLength = false; ///< Keys before the position, for all rows.
  bool writes = false;   ///< The rows' keys and values are written into the cache before.
  int step = 1, window = 0;
};
TemplateCase cacheCase(const CacheSketch &sketch);
/// Caches whose sizes nothing divides.
std::vector<TemplateCase> cacheCases();
/// Products of "bf16", "f16" or "f32".
std::vector<TemplateCase> matmulCases(const std::string &type);
/// Products of several tiles in every direction; too many for the emulator.
std::vector<TemplateCase> largeMatmulCases(const std::string &type);
/// Products and a matrix that the epilogue reads, of more tiles than an SM has at a time, and of batches that share it.
std::vector<TemplateCase> largeResidualCases(const std::string &type);
/// Products of at most four rows with K in pieces of 16 bytes.
std::vector<TemplateCase> fewRowCases(const std::string &type);
/// Products of few rows with weights of 4 and 8 bits.
std::vector<TemplateCase> lowBitCases(const std::string &type);
/// The same of 17 rows and more.
std::vector<TemplateCase> manyRowLowBitCases(const std::string &type);
/// Products of so many rows whose weights are the same whatever the kernel: their rounding is the op's.
std::vector<TemplateCase> weightBitCases(int rows);
/// The same where scales are powers of two: a difference that the op rounds in f32 or twice is rounded again by others.
std::vector<TemplateCase> differenceBitCases(int rows);
/// A product whose zeros are f32 in memory and f16 for the op.
TemplateCase castZerosCase();
/// One such product, of a size of models.
TemplateCase lowBitProduct(int m, int n, int k, int group, const std::string &integer, const std::string &type);
/// Products of 3 and of 13 rows whose left operand has heads before tokens in memory.
std::vector<TemplateCase> pieceRowCases(const std::string &type);
/// Products of 3 to 16 rows of a type, with K in pieces of 16 bytes.
std::vector<TemplateCase> streamedCases(const std::string &type);
/// Products of 8-bit floats with scales; no stride or size divides anything in some.
std::vector<TemplateCase> scaledMatmulCases();
std::vector<TemplateCase> largeScaledMatmulCases();
/// Two products of the same left operand, one gating the other.
std::vector<TemplateCase> gatedCases(const std::string &type);
std::vector<TemplateCase> largeGatedCases(const std::string &type);
/// Products of f32 that may be cut for tensor cores.
std::vector<TemplateCase> tf32Cases();
/// Products of m x n x k that hold every pair of a type, a layout and an epilogue.
std::vector<TemplateCase> pairwiseProducts(int m, int n, int k);
/// Products whose rows are reduced before they are stored: norms and softmax, of odd sizes and of every result.
std::vector<TemplateCase> rowProductCases(const std::string &type);
/// The same with many tiles for each cluster.
std::vector<TemplateCase> largeRowProductCases(const std::string &type);
/// Products of at most four rows of a norm.
std::vector<TemplateCase> normedRowCases(const std::string &type);
/// Chains of products of f16 or bf16, each a kfuse.fused: the same layer `count` times, of m x n with bias and relu, in
/// `batches` (0: no batch dimension), and a last one of `last` columns.
TemplateCase layers(int count, int batches, int m, int n, int last, bool transposeB, const std::string &type);
/// The same layer `count` times, of m x n with bias, layer_norm and relu.
TemplateCase normedLayers(int count, int m, int n, bool transposeB, const std::string &type);
/// The same layer `count` times, of m x n with a residual of its own, rms_norm and a scale for each row.
TemplateCase scaledLayers(int count, int m, int n, const std::string &type);
/// A random chain: widths, layouts, batches, what follows each product, residuals, results in between.
TemplateCase randomChain(unsigned seed);
/// Convolutions: products whose operand is read window by window, partly outside the image.
std::vector<TemplateCase> windowCases(const std::string &type);
/// Reductions of windows that overlap: depthwise convolutions, pools.
std::vector<TemplateCase> slidingCases();
/// So many random ones: sizes, strides, borders, orders of the channels, what is fused with them.
std::vector<TemplateCase> randomSliding(size_t count);
/// At the sizes of models; too large for the emulator.
std::vector<TemplateCase> largeSlidingCases();
/// Products whose operands are computed in the region.
std::vector<TemplateCase> computedOperandCases();

} // namespace kfuse::test
