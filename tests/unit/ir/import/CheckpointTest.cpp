// Checkpoints that the libraries themselves have written (tests/data/write_checkpoints.py), and broken ones.
#include "ImportedModel.h"
#include "TemporaryFolder.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/Model.h"
#include "ir/import/Text.h"
#include "ir/import/checkpoint/Weights.h"
#include "ir/reference/Evaluator.h"
#include "tuner/api/CheckpointFiles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>

using namespace kfuse;

namespace {

using reference::HostTensor;

std::string checkpointData(const std::string &name) { return KFUSE_TEST_DIR "/data/checkpoints/" + name; }

std::string tensorText(const Shape &shape, const std::string &type) {
  std::string text = "tensor<";
  for (std::int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

std::string argumentText(const std::string &value, const std::string &name, const std::string &type,
                         const std::string &role) {
  return "%" + value + ": " + type + " {kfuse.name = \"" + name + "\", kfuse.role = \"" + role + "\"}";
}

/// A model of text with a checkpoint's weights.
class Weighted : public ImportedModel {
public:
  Weighted(const std::string &text, const std::string &folder, const std::string &prefix = "")
      : ImportedModel([&](mlir::MLIRContext &context) { return make(text, folder, prefix, context); }) {}

  /// The only result, for inputs in the order of the arguments that have no data.
  HostTensor evaluate(const std::vector<HostTensor> &inputs = {}) {
    std::vector<HostTensor> arguments;
    std::size_t input = 0;
    for (unsigned i = 0; i < main().getNumArguments(); ++i) {
      auto data = get().parameters.find(name(i));
      arguments.push_back(data == get().parameters.end()
                              ? inputs.at(input++)
                              : HostTensor{data->second.type,
                                           data->second.shape,
                                           {data->second.bytes.begin(), data->second.bytes.end()}});
    }
    Result<std::vector<reference::Values>> values =
        reference::evaluate(main().getBody().front(), arguments, reference::Mode::Exact);
    REQUIRE_MESSAGE(values, values.error().message);
    return reference::toTensor(values->front());
  }

private:
  static Result<ir::Model> make(const std::string &text, const std::string &folder, const std::string &prefix,
                                mlir::MLIRContext &context) {
    Result<ir::Model> made = ir::importText(text, "text", context);
    REQUIRE_MESSAGE(made, made.error().message);
    Result<std::shared_ptr<const ir::Checkpoint>> checkpoint = tuner::openCheckpoint(folder);
    if (!checkpoint)
      return checkpoint.error();
    if (Result<void> taken = ir::takeWeights(*made, **checkpoint, prefix); !taken)
      return taken.error();
    CHECK(mlir::succeeded(mlir::verify(*made->module)));
    return made;
  }
};

/// Returns one parameter.
std::string identity(const std::string &name, const Shape &shape, const std::string &type) {
  const std::string tensor = tensorText(shape, type);
  return "func.func @main(" + argumentText("w", name, tensor, "parameter") + ") -> " + tensor +
         " { return %w : " + tensor + " }";
}

/// x w^T for x of [rows, K].
std::string product(const std::string &name, const Shape &shape, std::int64_t rows, const std::string &type) {
  const std::string w = tensorText(shape, type), x = tensorText({rows, shape[1]}, type),
                    y = tensorText({rows, shape[0]}, type);
  return "func.func @main(" + argumentText("x", "x", x, "input") + ", " + argumentText("w", name, w, "input") +
         ") -> " + y + " { %y = kfuse.matmul %x, %w {transpose_b} : (" + x + ", " + w + ") -> " + y +
         "\nreturn %y : " + y + " }";
}

std::string elementText(const std::string &stored) { return stored == "BF16" ? "bf16" : "f16"; }

HostTensor stored(const runtime::StoredTensor &tensor) {
  return {*runtime::typeStoredAs(tensor.type), tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
}

runtime::Safetensors expectedOf(const std::string &checkpoint) {
  return runtime::Safetensors::open(checkpointData(checkpoint) + "/expected.safetensors").value();
}

/// Elements of 16 bits whose bits differ.
int differentElements(const HostTensor &a, const HostTensor &b) {
  REQUIRE((a.type == b.type));
  REQUIRE(a.bytes.size() == b.bytes.size());
  int count = 0;
  for (std::size_t i = 0; i + 1 < a.bytes.size(); i += 2) {
    std::uint16_t x = 0, y = 0;
    std::memcpy(&x, &a.bytes[i], sizeof x);
    std::memcpy(&y, &b.bytes[i], sizeof y);
    count += x != y && ((x | y) & 0x7fff) != 0; // 0 is -0.
  }
  return count;
}

class Folder {
public:
  void write(const std::string &name, const std::string &text) {
    std::ofstream(folder.path / name, std::ios::binary) << text;
  }
  void copy(const std::string &from) {
    for (const char *file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(checkpointData(from) + "/" + file, folder.path / file);
  }
  void config(const std::string &quantisation) {
    write("config.json", "{\"quantization_config\": " + quantisation + "}");
  }
  std::string path() const { return folder.path.string(); }

private:
  tuner::test::TemporaryFolder folder;
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("checkpoint: weights are bit for bit those that the library multiplies by") {
  int layers = 0;
  for (std::string format : {"gptq", "gptq_v2", "awq", "compressed_tensors", "hqq"}) {
    const runtime::Safetensors expected = expectedOf(format);
    for (const auto &[name, tensor] : expected.all()) {
      CAPTURE(format);
      CAPTURE(name);
      CHECK(tensor.shape[0] != tensor.shape[1]);
      Weighted model(identity(name, tensor.shape, elementText(tensor.type)), checkpointData(format));
      REQUIRE_MESSAGE(model.error().empty(), model.error());
      CHECK(differentElements(model.evaluate(), stored(tensor)) == 0);
      ++layers;
    }
  }
  CHECK(layers == 25);
}

namespace {

struct Stored {
  std::string name, type;
  Shape shape;
  std::vector<std::uint32_t> words;
};

/// A file of these tensors, whose bytes are those of `words`.
std::string fileOf(const std::vector<Stored> &tensors) {
  std::string header, data;
  for (const Stored &tensor : tensors) {
    std::string shape;
    for (std::int64_t size : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char *>(tensor.words.data()), tensor.words.size() * sizeof(std::uint32_t));
    header += (header.empty() ? "{\"" : ",\"") + tensor.name + "\":{\"dtype\":\"" + tensor.type + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header + data;
}

/// What a layer "w" of these tensors is as a matrix of f16.
std::vector<double> weightsOf(const std::string &quantisation, const std::vector<Stored> &tensors, const Shape &shape) {
  Folder folder;
  folder.config(quantisation);
  folder.write("model.safetensors", fileOf(tensors));
  Weighted model(identity("w.weight", shape, "f16"), folder.path());
  REQUIRE_MESSAGE(model.error().empty(), model.error());
  return reference::toDoubles(model.evaluate());
}

constexpr std::uint32_t ones = 0x3c003c00; // Two of f16.

} // namespace

TEST_CASE("checkpoint: words by hand, with the sign bit set and a zero of 15 that wraps under GPTQ's first version") {
  // Two rows of N = 2, K = 8: 0 to 7, and 8 to 15. Zeros 15 and 7, one less than those meant.
  const std::vector<Stored> gptq = {{"w.qweight", "I32", {1, 2}, {0x76543210, 0xfedcba98}},
                                    {"w.qzeros", "I32", {1, 1}, {0x0000007f}},
                                    {"w.scales", "F16", {1, 2}, {ones}}};
  CHECK(weightsOf(R"({"quant_method": "gptq"})", gptq, {2, 8}) ==
        std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(weightsOf(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})", gptq, {2, 8}) ==
        std::vector<double>{-15, -14, -13, -12, -11, -10, -9, -8, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("checkpoint: groups in an order of their own are those of g_idx") {
  // Groups of 4 among 8 columns; group 0 has the scale 1, group 1 the scale 2 (0x4000).
  const std::vector<std::uint32_t> order{1, 0, 0, 1, 1, 0, 1, 0};
  const std::vector<double> expected{-16, -7, -6, -10, -8, -3, -4, -1, 0, 1, 2, 6, 8, 5, 12, 7};
  CHECK(weightsOf(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2", "desc_act": true})",
                  {{"w.qweight", "I32", {1, 2}, {0x76543210, 0xfedcba98}},
                   {"w.qzeros", "I32", {2, 1}, {0x00000088, 0x00000088}},
                   {"w.scales", "F16", {2, 2}, {ones, 0x40004000}},
                   {"w.g_idx", "I32", {8}, order}},
                  {2, 8}) == expected);
  CHECK(weightsOf(R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}})",
                  {{"w.weight_packed", "I32", {2, 1}, {0x76543210, 0xfedcba98}},
                   {"w.weight_scale", "F16", {2, 2}, {0x40003c00, 0x40003c00}},
                   {"w.weight_shape", "I64", {2}, {2, 0, 8, 0}},
                   {"w.weight_g_idx", "I32", {8}, order}},
                  {2, 8}) == expected);
}

TEST_CASE("checkpoint: AWQ's columns 0 2 4 6 1 3 5 7 follow each other in a word") {
  CHECK(weightsOf(R"({"quant_method": "awq"})",
                  {{"w.qweight", "I32", {2, 1}, {0x75316420, 0xfdb9eca8}},
                   {"w.qzeros", "I32", {1, 1}, {0}},
                   {"w.scales", "F16", {1, 8}, {ones, ones, ones, ones}}},
                  {8, 2}) == std::vector<double>{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15});
}

TEST_CASE("checkpoint: products, also of columns in an order of their own, read the codes") {
  for (auto [format, name] : {std::pair<std::string, std::string>{"gptq", "zeros.weight"},
                              {"gptq", "ordered.weight"},
                              {"gptq", "ordered8bit.weight"},
                              {"awq", "up.weight"},
                              {"compressed_tensors", "sym.weight"},
                              {"hqq", "columns4.weight"}}) {
    CAPTURE(name);
    const runtime::Safetensors expected = expectedOf(format);
    const runtime::StoredTensor &weight = expected.all().at(name);
    const std::int64_t n = weight.shape[0], k = weight.shape[1];
    Weighted model(product(name, weight.shape, 3, "f32"), checkpointData(format));
    REQUIRE_MESSAGE(model.error().empty(), model.error());
    int dequantised = 0;
    model.main().walk([&](ir::DequantizeOp) { ++dequantised; });
    CHECK(dequantised == 1);
    const HostTensor x = reference::uniform(DType::F32, {3, k}, 5);
    const std::vector<double> y = reference::toDoubles(model.evaluate({x})), left = reference::toDoubles(x),
                              right = reference::toDoubles(stored(weight));
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          sum += left[row * k + i] * right[column * k + i];
          size += std::abs(left[row * k + i] * right[column * k + i]);
        }
        CHECK(std::abs(y[row * n + column] - sum) <= 1e-3 * size); // What a cast of f16 weights to f32 is exact to.
      }
  }
}

TEST_CASE("checkpoint: plain tensors are taken as they are, and cast where the model's floats are others") {
  Weighted same(identity("plain.bias", {64}, "f16"), checkpointData("gptq")),
      wider(identity("plain.bias", {64}, "f32"), checkpointData("gptq"));
  REQUIRE_MESSAGE(wider.error().empty(), wider.error());
  CHECK(reference::toDoubles(same.evaluate()) == reference::toDoubles(wider.evaluate()));
  Weighted prefixed(identity("bias", {64}, "f16"), checkpointData("gptq"), "plain.");
  CHECK((prefixed.evaluate() == same.evaluate()));
  CHECK(contains(Weighted(identity("plain.bias", {65}, "f16"), checkpointData("gptq")).error(),
                 "'plain.bias' is f16 64, the model's is f16 65"));
}

TEST_CASE("checkpoint: parameters are named as the checkpoint's tensors, and zeros that are all one take no memory") {
  Weighted symmetric(identity("plain.weight", {64, 96}, "f16"), checkpointData("gptq"));
  CHECK(symmetric.main().getNumArguments() == 2);
  CHECK(symmetric.name(0) == "plain.qweight");
  CHECK(symmetric.name(1) == "plain.scales");
  CHECK(symmetric.get().parameters.at("plain.qweight").bytes.size() == 64 * 96 / 2);
  Weighted zeros(identity("zeros.weight", {64, 96}, "f16"), checkpointData("gptq"));
  CHECK(zeros.main().getNumArguments() == 3);
  CHECK(zeros.name(2) == "zeros.qzeros");
}

TEST_CASE("checkpoint: what does not fit is refused with both sides") {
  auto failure = [](const std::string &text, const std::string &folder) {
    Weighted model(text, checkpointData(folder));
    REQUIRE_FALSE(model.error().empty());
    CHECK_FALSE(contains(model.error(), "\n"));
    return model.error();
  };
  CHECK(contains(failure(identity("plain.weight", {96, 64}, "f16"), "gptq"), "which is taken for [N, K]"));
  CHECK(contains(failure(identity("other.weight", {96, 64}, "f16"), "gptq"), "--checkpoint-prefix"));
  CHECK(contains(failure(identity("plain.weight", {64, 96}, "i32"), "gptq"), "no matrix of floats"));
  CHECK(contains(failure(identity("sym.weight", {24, 80}, "bf16"), "compressed_tensors"), "another weight_shape"));
  CHECK(contains(failure(identity("whole4.weight", {64, 24}, "f16"), "hqq"), "another shape"));
}

TEST_CASE("checkpoint: forms that are made for one kernel are refused with the exporter's option") {
  const std::pair<const char *, const char *> refused[] = {
      {R"({"quant_method": "gptq", "bits": 4, "is_marlin_format": true})", "format=\"gptq\""},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})", "'marlin'"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_p"})", "'gptq_p'"},
      {R"({"quant_method": "gptq", "bits": 4, "pack_dtype": "int64"})", "pack_dtype int32"},
      {R"({"quant_method": "awq", "bits": 4, "version": "gemv"})", "version GEMM"},
      {R"({"quant_method": "awq", "bits": 4, "version": "exllama"})", "'exllama'"},
      {R"({"quant_method": "awq", "bits": 8})", "AWQ's files have 4"},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24"})", "pack-quantized"},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized"})", "pack-quantized"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"input_activations": {"num_bits": 8}}}})",
       "W4A16"},
      {R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}})",
       "without sparsity"},
      {R"({"quant_method": "compressed-tensors", "transform_config": {"u": {}}})", "rotates activations"},
      {R"({"quant_method": "bitsandbytes"})", "kfuse reads gptq, awq"},
      {R"({"bits": 4})", "quant_method is ''"},
      {R"([4])", "no object"},
      {R"({"quant_method": 4})", "no text"},
      {R"({"quant_method": "gptq", "group_size": "x"})", "no whole number"},
      {"{", "parse error"},
  };
  for (auto [config, reason] : refused) {
    CAPTURE(config);
    Folder folder;
    folder.copy("gptq");
    folder.config(config);
    Weighted model(identity("plain.weight", {64, 96}, "f16"), folder.path());
    REQUIRE_FALSE(model.error().empty());
    CHECK((model.code() == ErrorCode::BadModel));
    CHECK_MESSAGE(contains(model.error(), reason), model.error());
  }
  Folder plain;
  plain.copy("gptq");
  plain.write("config.json", "{}");
  CHECK(contains(Weighted(identity("plain.weight", {64, 96}, "f16"), plain.path()).error(), "no quantization_config"));
}

TEST_CASE("checkpoint: shards by their index, which names files beside it alone") {
  const std::string model = identity("plain.weight", {64, 96}, "f16");
  Folder folder;
  folder.copy("gptq");
  std::filesystem::rename(folder.path() + "/model.safetensors", folder.path() + "/model-1-of-1.safetensors");
  CHECK(Weighted(model, folder.path()).error().empty());
  folder.write("model.safetensors.index.json", R"({"weight_map": {"plain.qweight": "model-1-of-1.safetensors"}})");
  CHECK(Weighted(model, folder.path()).error().empty());
  for (std::string name : {"../model-1-of-1.safetensors", "/etc/passwd", "..", ""}) {
    folder.write("model.safetensors.index.json", R"({"weight_map": {"plain.qweight": ")" + name + "\"}}");
    CHECK(contains(Weighted(model, folder.path()).error(), "no file beside it"));
  }
  folder.write("model.safetensors.index.json", R"({"weight_map": {"plain.qweight": "none.safetensors"}})");
  CHECK((Weighted(model, folder.path()).code() == ErrorCode::Io));
  CHECK((Weighted(model, folder.path() + "/config.json").code() == ErrorCode::Io));
  Folder empty;
  CHECK(contains(Weighted(model, empty.path()).error(), "save_pretrained"));
}

TEST_CASE("checkpoint: a Llama block from GPTQ, AWQ and MatMulNBits is one, and ONNX Runtime's") {
  const runtime::Safetensors expected =
      runtime::Safetensors::open(KFUSE_TEST_DIR "/data/llama_expected.safetensors").value();
  const std::map<std::string, HostTensor> inputs{{"x", stored(expected.all().at("x"))}};
  const std::vector<double> y = reference::toDoubles(stored(expected.all().at("y")));
  auto outputOf = [&](const std::string &file, const std::string &checkpoint) {
    ir::ImportOptions options;
    if (!checkpoint.empty()) {
      options.checkpoint = tuner::openCheckpoint(checkpointData(checkpoint)).value();
      options.checkpointPrefix = "model.layers.0.";
    }
    ImportedModel model(testData(file), options);
    REQUIRE_MESSAGE(model, model.error());
    CHECK(model.count("kfuse.dequantize") == 7);
    model.main().walk([](ir::DequantizeOp weights) { // Sides that are equal would hide one taken for the other.
      CHECK(weights.getType().getShape()[0] != weights.getType().getShape()[1]);
    });
    return model.evaluate(inputs).at("y");
  };
  const std::vector<double> gptq = outputOf("llama_block.onnx", "llama_gptq");
  CHECK(gptq == outputOf("llama_block.onnx", "llama_awq"));
  CHECK(gptq == outputOf("llama_nbits.onnx", ""));
  REQUIRE(gptq.size() == y.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += (gptq[i] - y[i]) * (gptq[i] - y[i]);
    size += y[i] * y[i];
  }
  CHECK(std::sqrt(error / size) < 1e-5); // The policy of f32.
}
