// kfuse quantize: a model's weights in few bits.
#include "ir/Printable.h"
#include "ir/import/onnx/RoundWeights.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/OutputFile.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace kfuse::tools {
namespace {

struct QuantizeOptions {
  std::string model, output;
  ir::RoundingOptions rounding;
  bool json = false;
};

void printJson(const QuantizeOptions &options, const std::vector<ir::RoundedLayer> &layers) {
  Json products = Json::array();
  for (const ir::RoundedLayer &layer : layers)
    products.push_back({{"node", layer.node}, {"n", layer.n}, {"k", layer.k}, {"relative_error", layer.error}});
  fmt::print("{}", textOf({{"output", options.output},
                           {"bits", options.rounding.bits},
                           {"group", options.rounding.group},
                           {"symmetric", options.rounding.symmetric},
                           {"products", std::move(products)}}));
}

void printTable(const QuantizeOptions &options, const std::vector<ir::RoundedLayer> &layers) {
  Table table({"product", ">N", ">K", ">relative error"});
  for (const ir::RoundedLayer &layer : layers)
    table.add({ir::printable(layer.node), std::to_string(layer.n), std::to_string(layer.k),
               fmt::format("{:.2e}", layer.error)});
  fmt::print("{}\n{} products in {} bits, groups of {}: {}\n", table.str(), layers.size(), options.rounding.bits,
             options.rounding.group, options.output);
}

int quantize(const QuantizeOptions &options) {
  if (Result<void> writable = checkOutput("quantised model", options.output, {{"the model", options.model}}); !writable)
    return fail(writable.error());
  Result<std::vector<ir::RoundedLayer>> layers = ir::roundWeights(options.model, options.output, options.rounding);
  if (!layers)
    return fail(layers.error());
  (options.json ? printJson : printTable)(options, *layers);
  return 0;
}

} // namespace

void addQuantize(CLI::App &app, int &status) {
  auto options = std::make_shared<QuantizeOptions>();
  CLI::App *command = app.add_subcommand("quantize", "Rounds a model's weights to few bits");
  command->add_option("model", options->model, "ONNX file")->required();
  command->add_option("-o,--output", options->output, "File to write")->required();
  command->add_option("--bits", options->rounding.bits, "4 or 8")->capture_default_str();
  command
      ->add_option("--group", options->rounding.group, "Weights along K that share a scale: a power of two from 16 on")
      ->capture_default_str();
  command->add_flag("--symmetric", options->rounding.symmetric, "No zero points: codes lie around the middle one");
  command->add_flag("--json", options->json, "One JSON object on stdout");
  command->footer("Example:\n  kfuse quantize block.onnx -o small.onnx --bits 4 --group 128");
  command->callback([options, &status] { status = quantize(*options); });
}

} // namespace kfuse::tools
