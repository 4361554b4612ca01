// Each way a file can be wrong, and the one line that says so.
#include "ImportedModel.h"
#include "TemporaryFolder.h"
#include "ir/import/onnx/Onnx.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace kfuse;

namespace {

std::string contents(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

Result<ir::Model> importBytes(const std::string &bytes, mlir::MLIRContext &context) {
  return ir::importOnnx(std::as_bytes(std::span(bytes)), {}, {}, context);
}

/// The message without the path that every message starts with.
std::string messageOf(const std::string &file, const ir::ImportOptions &options = {}) {
  std::string path = testData(file), message = ImportedModel(path, options).error();
  return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : message;
}

} // namespace

TEST_CASE("onnx errors: one line names the place, what was found and what was expected") {
  const std::pair<const char *, const char *> rows[] = {
      {"argmax_axis.onnx", "node 'argmax' (ArgMax): axis 2 of a tensor of 2 dimensions"},
      {"attribute_type.onnx", "node 'softmax' (Softmax): attribute 'axis' is of type FLOAT, not INT"},
      {"packed_bias.onnx",
       "node 'attend' (com.microsoft.PackedMultiHeadAttention): attention_bias is given, which is for "
       "padded sequences; use MultiHeadAttention for such a model"},
      {"packed_ranks.onnx",
       "node 'attend' (com.microsoft.PackedMultiHeadAttention): a query of shape [1, 9, 16]; kfuse "
       "knows [tokens, width] of each, and [tokens, heads, 3, size] of all without a bias"},
      {"packed_starts.onnx", "node 'attend' (com.microsoft.PackedMultiHeadAttention): cumulative_sequence_length is "
                             "missing; give where each sequence begins"},
      {"cycle.onnx", "node 'add' (Add) reads 'z', which nothing before it makes"},
      {"einsum_letters.onnx",
       "node 'einsum' (Einsum): equation 'i1,j->i': 'i1' has more than letters and one ellipsis"},
      {"einsum_rank.onnx", "node 'einsum' (Einsum): equation 'ijk,jk->i': 'ijk' for an operand of 2 dimensions"},
      {"einsum_result.onnx",
       "node 'einsum' (Einsum): equation 'ij,jk->iz': a label of the result is there twice, or in no operand"},
      {"einsum_sizes.onnx", "node 'einsum' (Einsum): equation 'ij,ij->i': one label is of size 2 and 3"},
      {"einsum_terms.onnx", "node 'einsum' (Einsum): equation 'ij->i': it has 1 terms for 2 operands"},
      {"if_data.onnx",
       "node 'choose' (If): its condition is computed from data, or from shapes that are not known when "
       "the model is read; export with dynamo=True or at fixed shapes, which leaves one of its branches"},
      {"loop_data.onnx",
       "node 'loop' (Loop): how often it runs is computed from data, or from shapes that are not known "
       "when the model is read; export with dynamo=True or at fixed shapes"},
      {"loop_endless.onnx", "node 'loop' (Loop): it takes over 4096 steps; export the model without the loop"},
      {"data_count.onnx", "tensor 'w' of shape 2x3 needs 6 elements, the file holds another number of them"},
      {"data_huge.onnx",
       "tensor 'w' has the shape 1099511627776x1099511627776: a negative size, over 1 TiB, or over 16 dimensions"},
      {"data_negative.onnx", "tensor 'w' has the shape -2x3: a negative size, over 1 TiB, or over 16 dimensions"},
      {"data_short.onnx", "tensor 'w' of shape 2x3 needs 24 bytes, the file holds 23"},
      {"data_type.onnx", "tensor 'w' is of type number 99; kfuse reads FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32, INT64, "
                         "INT8, UINT8, INT4, UINT4 "
                         "and BOOL"},
      {"duplicate_name.onnx", "the name 'y' is given to two values"},
      {"expand_huge.onnx", "node 'expand' (Expand): a tensor of shape [2147483648, 2147483648, 2, 3] is negative in "
                           "size, larger than 1 TiB or of more than 16 dimensions"},
      {"external_absolute.onnx",
       "tensor 'w' keeps its data in '/etc/hostname', which is no file of the model's own folder"},
      {"external_escapes.onnx",
       "tensor 'w' keeps its data in '../data/external.bin', which is no file of the model's own folder"},
      {"external_length.onnx", "tensor 'w' needs 48 bytes, but 47 from 64 on in 'external.bin' of 129 bytes are given"},
      {"external_offset.onnx", "tensor 'w' has external data with offset '-8', which is no number"},
      {"external_short.onnx", "tensor 'w' needs 48 bytes, but 48 from 100 on in 'external.bin' of 129 bytes are given"},
      {"functions_endless.onnx", "function 'twice' calls itself, or functions nest over 64 deep"},
      {"functions_explode.onnx", "the graph grows beyond 1 GiB or 100000 calls when its functions are expanded"},
      {"gather_nd_batch.onnx",
       "node 'gather' (GatherND): indices of shape [3, 1] and data of shape [2, 3] differ in the 1 "
       "batch dimensions"},
      {"gather_nd_depth.onnx",
       "node 'gather' (GatherND): indices of shape [4, 3] for data of shape [2, 3] behind 0 batch "
       "dimensions; the last of them may be 1 to 2"},
      {"gather_nd_floats.onnx", "node 'gather' (GatherND): indices that are no integers"},
      {"gather_nd_outside.onnx", "node 'gather' (GatherND): index -4 of a dimension of 3"},
      {"gather_outside.onnx", "node 'gather' (Gather): index 5 of a dimension of 2"},
      {"grid_mode.onnx", "node 'y' (GridSample): samples by mode 'spline' and padding_mode 'zeros'; kfuse has nearest, "
                         "linear and cubic, and zeros, border and reflection"},
      {"grid_shape.onnx",
       "node 'y' (GridSample): x of shape [1, 1, 4, 4] and a grid of shape [1, 2, 2, 3]; expected are "
       "[N, C, S1, ..., Sk] and [N, O1, ..., Ok, k]"},
      {"huge_dim.onnx", "input 'x' has the shape 4611686018427387904x4611686018427387904: a negative size, over 1 TiB, "
                        "or over 16 dimensions"},
      {"missing_input.onnx", "node 'add' (Add) has 1 inputs; kfuse knows the op with 2"},
      {"narrow_sum.onnx",
       "node 'sum' (Add): 'kfuse.add' op operand #0 must be statically shaped tensor of 32-bit float or 16-bit float "
       "or "
       "bfloat16 type or 32-bit signless integer or 64-bit signless integer or 1-bit signless integer values, but got "
       "'tensor<4xui8>'"},
      {"nbits_groups.onnx", "node 'product' (com.microsoft.MatMulNBits): g_idx does not give each block 16 columns of "
                            "K; export it without g_idx"},
      {"nbits_prepacked.onnx", "node 'product' (com.microsoft.MatMulNBits): its weights are packed for one kernel of "
                               "ONNX Runtime; build the model with weight_prepacked 0"},
      {"nbits_short.onnx", "node 'product' (com.microsoft.MatMulNBits): input 1 of [4, 2, 8] is no UINT8 of 5 rows of "
                           "16 bytes"},
      {"negative_dim.onnx", "input 'x' has the shape 2x-3: a negative size, over 1 TiB, or over 16 dimensions"},
      {"no_output.onnx", "output 'other' is made by no node"},
      {"one_hot_depth.onnx",
       "node 'onehot' (OneHot): depth (input 1) must be one number, known when the model is read"},
      {"one_hot_values.onnx", "node 'onehot' (OneHot): values of shape [3]; two, for off and on"},
      {"out_of_order.onnx", "node 'tanh' (Tanh) reads 'z', which nothing before it makes"},
      {"relu_opset12.onnx", "the model is of opset 12, kfuse reads 13 to 24; export it again for one of these"},
      {"relu_opset25.onnx", "the model is of opset 25, kfuse reads 13 to 24; export it again for one of these"},
      {"reshape_mismatch.onnx", "node 'reshape' (Reshape): cannot give [2, 3] the shape [4, -1]"},
      {"scatter_axis.onnx", "node 'scatter' (ScatterElements): axis 2 of a tensor of 2 dimensions"},
      {"scatter_factors.onnx", "node 'scatter' (ScatterND): multiplies 65 updates into each place; kfuse multiplies at "
                               "most 64: scatter them in parts"},
      {"scatter_many.onnx",
       "node 'scatter' (ScatterND): compares 1048576 places with 262144 updates each, more than 2^32 "
       "times in all; scatter fewer at a time, or at indices that are known when the model is read"},
      {"scatter_outside.onnx", "node 'scatter' (ScatterND): index 2 of a dimension of 2"},
      {"scatter_reduction.onnx", "node 'scatter' (ScatterND): reduction 'mean'; kfuse has none, add, mul, max and min"},
      {"scatter_shapes.onnx",
       "node 'scatter' (ScatterElements): indices of shape [2, 2] and updates of shape [2, 3] for "
       "data of shape [2, 3]"},
      {"scatter_updates.onnx",
       "node 'scatter' (ScatterND): updates of shape [3, 2]; indices of shape [3, 1] and data of "
       "shape [2, 3] need [3, 3]"},
      {"shape_mismatch.onnx", "node 'add' (Add): kfuse.add: operand 1 of shape [2, 4] does not broadcast with [2, 3]"},
      {"string_input.onnx",
       "input 'x' is of type STRING; kfuse has FLOAT, FLOAT16, BFLOAT16, INT32, INT64, INT8, UINT8, "
       "INT4, UINT4 and BOOL"},
      {"tensor_scatter_axis.onnx", "node 'scatter' (TensorScatter): writes along dimension 0, which is the batch"},
      {"tensor_scatter_rows.onnx",
       "node 'scatter' (TensorScatter): updates of shape [2, 4] for a cache of shape [2, 3] "
       "along dimension 1"},
      {"topk_k.onnx",
       "node 'topk' (TopK): takes the first [4] along dimension 1 of [2, 3]; k is one number from 0 to 3"},
      {"topk_long.onnx",
       "node 'topk' (TopK): compares the 262144 elements of each of 1 rows with each other, more than "
       "2^34 times in all; take fewer of them, or of shorter rows"},
      {"topk_unknown.onnx",
       "node 'topk' (TopK): k (input 1) must be known when the model is read, of an integer type and "
       "of at most 65536 elements"},
      {"type_mismatch.onnx",
       "node 'add' (Add): kfuse.add: operand 0 holds 'f32', the last operand 'i64'; cast one of them"},
      {"unknown_attribute.onnx", "node 'relu' (Relu) has the attribute 'slope', which kfuse does not know"},
      {"unknown_shape.onnx", "node 'reshape' (Reshape): shape (input 1) must be known when the model is read, of an "
                             "integer type and of at most 65536 elements"},
      {"unmade_output.onnx",
       "node 'y' (Relu) reads 'mean', a result of node 'norm' (LayerNormalization) that kfuse does not make"},
      {"unsupported.onnx",
       "the model uses ops that kfuse does not have: LSTM (5 nodes: lstm0, lstm1, lstm2, ...); acme.Fancy (1 node: c); "
       "recurrent layers have no form in kfuse; run them elsewhere; export again with the other exporter "
       "(torch.onnx.export(..., dynamo=True) or dynamo=False), with attn_implementation=\"eager\" for a model of "
       "Hugging "
       "Face, at fixed shapes, or run a simplifier (onnxsim)"},
  };
  for (auto [file, message] : rows) {
    CAPTURE(file);
    CHECK(messageOf(file) == message);
  }
  CHECK(messageOf("external_missing.onnx") == "tensor 'w' keeps its data in another file: cannot read '" +
                                                  testData("nowhere.bin") +
                                                  "': No such file or directory; put it beside the model");
  CHECK(ImportedModel(testData("unsupported.onnx")).code() == ErrorCode::BadModel);
}

TEST_CASE("onnx errors: files that cannot be read") {
  ImportedModel missing(testData("no such file.onnx"));
  REQUIRE(!missing);
  CHECK(missing.code() == ErrorCode::Io);
  CHECK(missing.error() == "cannot read '" + testData("no such file.onnx") + "': No such file or directory");
  ImportedModel folder(testData(""));
  REQUIRE(!folder);
  CHECK(folder.error() == "cannot read '" + testData("") + "': it is a folder; name the file in it");
}

TEST_CASE("onnx errors: a file cut short anywhere is refused or read, never a crash") {
  std::string whole = contents(exampleModel("llama_block_decode_b1_kv1024.onnx"));
  REQUIRE(whole.size() > 1000);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  CHECK(importBytes(whole, context));
  for (std::size_t size = 0; size < whole.size(); size += 37) {
    Result<ir::Model> model = importBytes(whole.substr(0, size), context);
    CHECK((model || !model.error().message.empty()));
  }
  Result<ir::Model> half = importBytes(whole.substr(0, whole.size() / 2), context);
  REQUIRE(!half);
  CHECK(half.error().message == "the file is no ONNX model, or is cut short; copy or export it again");
}

TEST_CASE("onnx errors: names cannot break the line") {
  tuner::test::TemporaryFolder folder;
  std::string bytes = contents(testData("duplicate_name.onnx"));
  for (std::size_t at = bytes.find("Tanh"); at != std::string::npos; at = bytes.find("Tanh", at))
    bytes.replace(at, 4, "Ta\nh");
  std::string path = (folder.path / "broken.onnx").string();
  std::ofstream(path, std::ios::binary) << bytes;
  CHECK(ImportedModel(path).error() ==
        path + ": the model uses ops that kfuse does not have: Ta\\nh (1 node: y); export again with the other "
               "exporter (torch.onnx.export(..., dynamo=True) or dynamo=False), with attn_implementation=\"eager\" for "
               "a model of Hugging Face, at fixed shapes, or run a simplifier (onnxsim)");
}
