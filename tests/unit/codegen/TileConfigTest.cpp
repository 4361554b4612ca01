#include "codegen/TileConfig.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <unordered_set>

using kfuse::codegen::TileConfig;

TEST_CASE("TileConfig: text lists fields by name and round-trips") {
  TileConfig config{{"stages", 4}, {"m", 128}, {"k", -64}, {"cluster_m", 0}};
  CHECK(config.str() == "cluster_m=0,k=-64,m=128,stages=4");
  CHECK(TileConfig::parse(config.str()) == config);
  CHECK(TileConfig::parse("stages=4,m=128,cluster_m=0,k=-64") == config);
  CHECK(TileConfig().str().empty());
  CHECK(TileConfig::parse("") == TileConfig());
  TileConfig extremes{{"least", INT64_MIN}, {"most", INT64_MAX}};
  CHECK(TileConfig::parse(extremes.str()) == extremes);
}

TEST_CASE("TileConfig: malformed text is refused") {
  for (const char *text : {"m", "m=", "=1", "m=1,", ",m=1", "m=1,,n=2", "m=1 ", " m=1", "m=1.5", "m=0x10", "m=1,m=2",
                           "m n=1", "m=+1", "m==1", "m=99999999999999999999", "m=1;n=2", ","}) {
    INFO(text);
    CHECK_FALSE(TileConfig::parse(text).has_value());
  }
}

TEST_CASE("TileConfig: fields, copies with another value, equality and hash") {
  const TileConfig config{{"m", 128}, {"n", 64}};
  CHECK(config["m"] == 128);
  CHECK(config.has("n"));
  CHECK_FALSE(config.has("k"));
  CHECK_THROWS_WITH_AS((void)config["k"], "config 'm=128,n=64' has no k", std::out_of_range);
  CHECK(config.with("m", 32) == TileConfig{{"m", 32}, {"n", 64}});
  CHECK(config.with("k", 8).has("k"));
  CHECK(config == TileConfig{{"m", 128}, {"n", 64}});
  std::unordered_set<TileConfig> seen{config, config.with("m", 32), config};
  CHECK(seen.size() == 2);
}
