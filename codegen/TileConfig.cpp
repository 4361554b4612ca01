#include "codegen/TileConfig.h"

#include <charconv>
#include <stdexcept>

namespace kfuse::codegen {
namespace {

bool isName(std::string_view text) {
  return !text.empty() && text.size() <= TileConfig::longestName &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
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

void TileConfig::throwMissing(std::string_view name) const {
  throw std::out_of_range("config '" + str() + "' has no " + std::string(name));
}

std::pair<TileConfig::Field *, bool> TileConfig::insert(const Name &name, std::int64_t value) {
  if (fields.empty() || fields.back().name < name) // Templates list most names in their order.
    return {&fields.emplace_back(Field{name, value}), true};
  auto place = std::lower_bound(fields.begin(), fields.end(), name,
                                [](const Field &field, const Name &wanted) { return field.name < wanted; });
  const bool isNew = place->name != name;
  if (isNew)
    place = fields.insert(place, Field{name, value});
  return {&*place, isNew};
}

TileConfig TileConfig::with(std::string_view name, std::int64_t value) const & {
  TileConfig copy;
  copy.fields.reserve(fields.size() + 1);
  copy.fields = fields;
  return std::move(copy).with(name, value);
}

std::string TileConfig::str() const {
  std::string text;
  for (const auto &[name, value] : fields)
    text.append(text.empty() ? "" : ",").append(name.view()).append("=").append(std::to_string(value));
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
    if (!value || !config.insert(Name(field.substr(0, equals)), *value).second)
      return std::nullopt;
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return config;
}

} // namespace kfuse::codegen
