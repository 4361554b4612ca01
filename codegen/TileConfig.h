// One point of a kernel template's tuning space.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kfuse::codegen {

/// A frozen value with named integer fields, ordered by name: equality, hash and a text form
/// that round-trips ("k=64,m=128,n=256,stages=4").
class TileConfig {
public:
  TileConfig() = default;
  TileConfig(std::initializer_list<std::pair<const std::string, std::int64_t>> fields) : fields(fields) {}

  /// The field's value; asserts that it is there (a template reads only what it wrote).
  std::int64_t operator[](std::string_view name) const;
  bool has(std::string_view name) const { return fields.find(name) != fields.end(); }
  /// The field's value, or `other` where a config from before the field was made has none.
  std::int64_t valueOr(std::string_view name, std::int64_t other) const { return has(name) ? (*this)[name] : other; }
  /// The same config with one field set.
  TileConfig with(std::string_view name, std::int64_t value) const;

  std::string str() const;
  static std::optional<TileConfig> parse(std::string_view text);

  auto begin() const { return fields.begin(); }
  auto end() const { return fields.end(); }
  friend auto operator<=>(const TileConfig &, const TileConfig &) = default;

private:
  std::map<std::string, std::int64_t, std::less<>> fields;
};

} // namespace kfuse::codegen

template <> struct std::hash<kfuse::codegen::TileConfig> {
  std::size_t operator()(const kfuse::codegen::TileConfig &config) const {
    return std::hash<std::string>{}(config.str());
  }
};
