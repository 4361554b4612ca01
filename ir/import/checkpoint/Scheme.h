// What a checkpoint's config.json says of how its weights were quantised.
#pragma once

#include "ir/import/checkpoint/Layer.h"

#include <string_view>
#include <vector>

namespace kfuse::ir::checkpoint {

struct Format;

struct Scheme {
  const Format *format = nullptr; ///< Null: nothing is quantised.
  std::int64_t group = 0;         ///< Columns that share a scale; 0: the shapes say it.
  bool areZerosLessOne = false;   ///< The first version of GPTQ's files stores them so.
  std::vector<std::int64_t> bits; ///< Those that layers have.
};

/// A way to keep quantised weights.
struct Format {
  std::string_view method; ///< quant_method of config.json.
  std::string_view codes;  ///< The tensor that a layer's weight becomes.
  QuantisedMatrix (*read)(const Layer &layer, const Scheme &scheme, std::int64_t n, std::int64_t k);
};

/// Reads the text of config.json; "" for a checkpoint without one. Unreadable, with the option of the exporter that
/// would help, for what kfuse has no way to read.
Scheme readScheme(std::string_view config);

/// The codes of any format, that a layer has though config.json does not say so; "" where there are none.
std::string_view codesIn(const Layer &layer);

} // namespace kfuse::ir::checkpoint
