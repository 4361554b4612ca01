#include "ir/import/onnx/Refusals.h"

#include "ir/import/onnx/Ops.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

namespace kfuse::ir::onnx {
namespace {

constexpr int mostNamed = 3;

struct Advice {
  /// Ops by name, apart by spaces; one that ends in '*' is every name that begins so.
  llvm::StringLiteral ops;
  llvm::StringLiteral text;
};

/// The first row that names an op counts.
constexpr Advice advices[] = {
    {"LSTM GRU RNN com.microsoft.AttnLSTM com.microsoft.DynamicQuantizeLSTM",
     "recurrent layers have no form in kfuse; run them elsewhere"},
    {"ConvInteger QLinear* com.microsoft.QLinear* com.microsoft.Q* com.microsoft.MatMulNBits* com.microsoft.MatMulB* "
     "com.microsoft.DynamicQ* com.microsoft.MatMulInteger*",
     "fused quantised ops: quantise to QuantizeLinear and DequantizeLinear (QDQ), or weights to MatMulNBits"},
    {"NonMaxSuppression Unique Compress com.microsoft.Unique StringNormalizer TfIdfVectorizer RoiAlign",
     "their results' sizes depend on data: keep that step outside of the model"},
    {"Sequence* SplitToSequence ConcatFromSequence Optional*",
     "lists of tensors: export with dynamo=True, or let a simplifier (onnxsim) remove them"},
    {"Scan", "loops over tensors: export with dynamo=True, or with another implementation of the layer"},
    {"Random* Multinomial Bernoulli", "random numbers: put the model into eval() before it is exported"},
    {"com.microsoft.RemovePadding com.microsoft.RestorePadding",
     "how many tokens they leave depends on data: give packed tokens to the model, or optimise it without packing"},
    {"com.microsoft.PagedAttention com.microsoft.SparseAttention com.microsoft.DecoderMasked* "
     "com.microsoft.LongformerAttention com.microsoft.BeamSearch com.microsoft.GreedySearch com.microsoft.Sampling "
     "com.microsoft.WhisperBeamSearch com.microsoft.DecoderAttention",
     "generation inside of the model: export one step of the decoder alone"},
    {"com.microsoft.*", "ops of ONNX Runtime's optimiser: take the file from before it was optimised"},
    {"aten.* pkg.* prim.* onnxscript.* org.pytorch.*",
     "ops that the exporter did not translate: export with the other one (dynamo=True or dynamo=False)"},
};

constexpr llvm::StringLiteral generalAdvice =
    "export again with the other exporter (torch.onnx.export(..., dynamo=True) or dynamo=False), with "
    "attn_implementation=\"eager\" for a model of Hugging Face, at fixed shapes, or run a simplifier (onnxsim)";

bool names(llvm::StringRef pattern, llvm::StringRef op) {
  return pattern.consume_back("*") ? op.starts_with(pattern) : op == pattern;
}

llvm::StringRef adviceFor(llvm::StringRef op) {
  for (const Advice &advice : advices)
    for (llvm::StringRef pattern : llvm::split(advice.ops, ' '))
      if (names(pattern, op))
        return advice.text;
  return generalAdvice;
}

struct Unsupported {
  int count = 0;
  std::string nodes; ///< The first few.
};

/// "Conv (2 nodes: conv1, conv2)".
std::string wordsOf(const std::string &op, const Unsupported &found) {
  return op + " (" + std::to_string(found.count) + (found.count == 1 ? " node: " : " nodes: ") + found.nodes +
         (found.count > mostNamed ? ", ...)" : ")");
}

} // namespace

Result<void> checkSupported(const ::onnx::GraphProto &graph) {
  std::map<std::string, Unsupported> unsupported;
  for (const ::onnx::NodeProto &node : graph.node())
    if (!findOp(node)) {
      Unsupported &found = unsupported[fullNameOf(node)];
      if (++found.count <= mostNamed)
        found.nodes += (found.nodes.empty() ? "" : ", ") + labelOf(node);
    }
  if (unsupported.empty())
    return {};
  std::string list;
  llvm::SmallVector<llvm::StringRef> advice;
  for (const auto &[op, found] : unsupported) {
    list += (list.empty() ? "" : "; ") + wordsOf(op, found);
    if (llvm::StringRef text = adviceFor(op); !llvm::is_contained(advice, text))
      advice.push_back(text);
  }
  for (llvm::StringRef text : advice)
    list += "; " + text.str();
  return Error{ErrorCode::BadModel, "the model uses ops that kfuse does not have: " + list};
}

} // namespace kfuse::ir::onnx
