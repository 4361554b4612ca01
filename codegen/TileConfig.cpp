#include "codegen/TileConfig.h"

#include <cassert>
#include <charconv>

namespace kfuse::codegen {
namespace {

bool isName(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                              std::string_view::npos;
}

std::optional<std::int64_t> parseInteger(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

} // namespace

std::int64_t TileConfig::operator[](std::string_view name) const {
  auto field = fields.find(name);
  assert(field != fields.end() && "a template reads only the fields it wrote");
  return field->second;
}

TileConfig TileConfig::with(std::string_view name, std::int64_t value) const {
  TileConfig copy = *this;
  copy.fields.insert_or_assign(std::string(name), value);
  return copy;
}

std::string TileConfig::str() const {
  std::string text;
  for (const auto &[name, value] : fields)
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return text;
}

std::optional<TileConfig> TileConfig::parse(std::string_view text) {
  TileConfig config;
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    std::string_view field = text.substr(0, comma);
    std::size_t equals = field.find('=');
    if (equals == std::string_view::npos || !isName(field.substr(0, equals)) || comma == text.size() - 1)
      return std::nullopt;
    std::optional<std::int64_t> value = parseInteger(field.substr(equals + 1));
    if (!value || !config.fields.emplace(field.substr(0, equals), *value).second)
      return std::nullopt;
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return config;
}

} // namespace kfuse::codegen
