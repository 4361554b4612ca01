// One point of a kernel template's tuning space.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kfuse::codegen {

/// A frozen value with named integer fields, ordered by name: equality, hash and a text form
/// that round-trips ("k=64,m=128,n=256,stages=4").
///
/// Cost models read fields millions of times while a model is planned, by literal names: names are kept in 16 bytes,
/// side by side, so that a look is a few comparisons of two words.
class TileConfig {
public:
  static constexpr std::size_t longestName = 16;

  TileConfig() = default;
  TileConfig(std::initializer_list<std::pair<std::string_view, std::int64_t>> given) {
    fields.reserve(given.size() + 1); // A family of templates adds which of them it is.
    for (const auto &[name, value] : given)
      insert(Name(name), value);
  }

  /// The field's value. A template reads only what it wrote: std::out_of_range tells of a config of another version.
  std::int64_t operator[](std::string_view name) const {
    const Field *field = find(Name(name));
    if (!field)
      throwMissing(name);
    return field->value;
  }
  bool has(std::string_view name) const { return find(Name(name)); }
  /// The field's value, or `other` where a config from before the field was made has none.
  std::int64_t valueOr(std::string_view name, std::int64_t other) const {
    const Field *field = find(Name(name));
    return field ? field->value : other;
  }
  /// The same config with one field set.
  TileConfig with(std::string_view name, std::int64_t value) const &;
  TileConfig with(std::string_view name, std::int64_t value) && {
    insert(Name(name), value).first->value = value;
    return std::move(*this);
  }

  std::string str() const;
  /// Nothing where the text is no list of `name=integer`, or a name is longer than longestName.
  static std::optional<TileConfig> parse(std::string_view text);

  friend auto operator<=>(const TileConfig &, const TileConfig &) = default;

private:
  /// Padded with zeros: in the order of the texts.
  struct Name {
    explicit Name(std::string_view text) {
      assert(text.size() <= longestName);
      std::memcpy(bytes.data(), text.data(), std::min(text.size(), longestName));
    }
    std::string_view view() const { return {bytes.data(), strnlen(bytes.data(), longestName)}; }
    friend bool operator==(const Name &, const Name &) = default;
    friend std::strong_ordering operator<=>(const Name &a, const Name &b) {
      return std::memcmp(a.bytes.data(), b.bytes.data(), longestName) <=> 0;
    }
    std::array<char, longestName> bytes{};
  };
  struct Field {
    Name name;
    std::int64_t value;
    friend auto operator<=>(const Field &, const Field &) = default;
  };

  const Field *find(const Name &name) const {
    for (const Field &field : fields)
      if (field.name == name)
        return &field;
    return nullptr;
  }
  [[noreturn]] void throwMissing(std::string_view name) const;
  /// The field of that name, which stays as it is where it was there before (false).
  std::pair<Field *, bool> insert(const Name &name, std::int64_t value);

  std::vector<Field> fields; ///< By name.
};

/// A config and the microseconds that its template's cost model gives it.
struct EstimatedConfig {
  double us = 0;
  TileConfig config;

  friend auto operator<=>(const EstimatedConfig &, const EstimatedConfig &) = default;
};

} // namespace kfuse::codegen

template <> struct std::hash<kfuse::codegen::TileConfig> {
  std::size_t operator()(const kfuse::codegen::TileConfig &config) const {
    return std::hash<std::string>{}(config.str());
  }
};
