#include "ir/import/checkpoint/Scheme.h"

#include "ir/import/checkpoint/Formats.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace kfuse::ir::checkpoint {
namespace {

using nlohmann::json;

/// A member that is there and not null.
const json *given(const json &object, const char *key) {
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The text of the first of `keys` that is given, in small letters.
std::string textOf(const json &object, std::initializer_list<const char *> keys, std::string otherwise) {
  for (const char *key : keys)
    if (const json *value = given(object, key)) {
      if (!value->is_string())
        throw Unreadable(std::string("its ") + key + " is no text");
      std::string text = value->get<std::string>();
      std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return text;
    }
  return otherwise;
}

std::optional<std::int64_t> integerOf(const json &object, const char *key) {
  const json *value = given(object, key);
  if (value && !value->is_number_integer())
    throw Unreadable(std::string("its ") + key + " is no whole number");
  return value ? std::optional(value->get<std::int64_t>()) : std::nullopt;
}

bool isTrue(const json &object, const char *key) {
  const json *value = given(object, key);
  return value && value->is_boolean() && value->get<bool>();
}

void readGptqConfig(const json &config, Scheme &scheme) {
  const std::string format =
      isTrue(config, "is_marlin_format") ? "marlin" : textOf(config, {"checkpoint_format", "format"}, "gptq");
  if (format != "gptq" && format != "gptq_v2")
    throw Unreadable("its weights are in the order of '" + format +
                     "', which is made for one kernel; save it with format gptq or gptq_v2 (GPTQModel: "
                     "QuantizeConfig(format=\"gptq\"))");
  if (const std::string words = textOf(config, {"pack_dtype"}, "int32"); words != "int32")
    throw Unreadable("its weights are packed in " + words + "; save it with pack_dtype int32");
  scheme.areZerosLessOne = format == "gptq";
  scheme.bits = {2, 3, 4, 8};
}

void readAwqConfig(const json &config, Scheme &scheme) {
  const std::string version = textOf(config, {"version", "checkpoint_format", "format"}, "gemm");
  if (version != "gemm")
    throw Unreadable("its weights are in the order of '" + version +
                     "', which is made for one kernel; quantise with version GEMM (AutoAWQ: quant_config={\"version\": "
                     "\"GEMM\"})");
  if (const std::int64_t bits = integerOf(config, "bits").value_or(4); bits != 4)
    throw Unreadable("it has " + std::to_string(bits) + " bits, AWQ's files have 4");
  scheme.bits = {4};
}

void checkPacked(const std::string &format) {
  if (format != "pack-quantized")
    throw Unreadable("its format is '" + format +
                     "'; kfuse reads weights alone that are quantised to integers, so save it with "
                     "save_compressed=True, quantization_format=\"pack-quantized\" (a scheme such as W4A16)");
}

void readCompressedTensorsConfig(const json &config, Scheme &scheme) {
  const std::string format = textOf(config, {"format"}, "pack-quantized");
  if (format != "mixed-precision")
    checkPacked(format);
  if (const json *sparsity = given(config, "sparsity_config"); sparsity && !sparsity->empty())
    if (const std::string kind = textOf(*sparsity, {"format"}, "dense"); kind != "dense")
      throw Unreadable("its weights are sparse ('" + kind + "'); save it without sparsity");
  if (const json *transforms = given(config, "transform_config"); transforms && !transforms->empty())
    throw Unreadable("its transform_config rotates activations, which the model's graph does not; quantise it without");
  const json *groups = given(config, "config_groups");
  for (const json &group : groups ? *groups : json::object()) {
    checkPacked(textOf(group, {"format"}, "pack-quantized"));
    if (given(group, "input_activations"))
      throw Unreadable("it quantises activations, too, which kfuse would leave out; choose a scheme of weights alone, "
                       "such as W4A16");
    if (const json *weights = given(group, "weights")) {
      scheme.bits.push_back(integerOf(*weights, "num_bits").value_or(4));
      scheme.group = integerOf(*weights, "group_size").value_or(scheme.group);
    }
  }
  std::ranges::sort(scheme.bits);
  scheme.bits.erase(std::ranges::unique(scheme.bits).begin(), scheme.bits.end());
  for (std::int64_t bits : scheme.bits)
    if (bits < 1 || bits > 8)
      throw Unreadable("it has " + std::to_string(bits) + " bits; kfuse reads 1 to 8");
  if (scheme.bits.empty())
    scheme.bits = {2, 3, 4, 8};
}

/// Its layers say how they were quantised.
void readHqqConfig(const json &, Scheme &) {}

/// A format, and who reads what is its own of quantization_config.
struct ConfiguredFormat {
  Format format;
  void (*readConfig)(const json &config, Scheme &scheme);
};

constexpr ConfiguredFormat formats[] = {
    {{"gptq", "qweight", readGptq}, readGptqConfig},
    {{"awq", "qweight", readAwq}, readAwqConfig},
    {{"compressed-tensors", "weight_packed", readCompressedTensors}, readCompressedTensorsConfig},
    {{"hqq", "W_q", readHqq}, readHqqConfig}};

} // namespace

Scheme readScheme(std::string_view text) {
  Scheme scheme;
  if (text.empty())
    return scheme;
  const json config = json::parse(text);
  const json *quantisation = given(config, "quantization_config");
  if (!quantisation)
    quantisation = given(config, "compression_config"); // The key of compressed-tensors before 0.5.
  if (!quantisation)
    return scheme;
  if (!quantisation->is_object())
    throw Unreadable("its quantization_config is no object");
  const std::string method = textOf(*quantisation, {"quant_method", "method"}, "");
  const auto *found =
      std::ranges::find(formats, method, [](const ConfiguredFormat &known) { return known.format.method; });
  if (found == std::end(formats))
    throw Unreadable("its quant_method is '" + method +
                     "'; kfuse reads gptq, awq (version GEMM), compressed-tensors (pack-quantized) and hqq");
  scheme.format = &found->format;
  // -1: one group a row.
  scheme.group = std::max<std::int64_t>(integerOf(*quantisation, "group_size").value_or(0), 0);
  found->readConfig(*quantisation, scheme);
  return scheme;
}

std::string_view codesIn(const Layer &layer) {
  for (const ConfiguredFormat &known : formats)
    if (layer.holds(known.format.codes))
      return known.format.codes;
  return "";
}

} // namespace kfuse::ir::checkpoint
