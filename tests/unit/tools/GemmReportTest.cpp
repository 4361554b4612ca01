#include "tools/kfuse/bench/GemmReport.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace kfuse;
using namespace kfuse::tools;

namespace {

std::vector<Product> productsOf(std::vector<std::string> texts) { return *sweptProducts(texts, {}); }

GemmRow rowOf(const Product &product, double ratio = 1) {
  GemmRow row{};
  row.product = product;
  row.kfuseUs = 10;
  row.rotation = {1, 1e9, true};
  row.peer =
      PeerTimes{.us = 10 * ratio, .firstUs = 11 * ratio, .ratio = ratio, .low = ratio, .high = ratio, .algorithms = 8};
  return row;
}

/// A report of products M x 8 x 8: the one with M rows failed with errors[M - 1], or was measured where that is none.
GemmReport reportOf(const std::vector<std::optional<ErrorCode>> &errors) {
  std::vector<Product> products;
  for (std::size_t i = 0; i < errors.size(); ++i)
    products.push_back({{1, static_cast<std::int64_t>(i) + 1, 8, 8}});
  auto compare = [&](const Product &product) -> Result<GemmRow> {
    if (const std::optional<ErrorCode> code = errors[static_cast<std::size_t>(product.M - 1)])
      return Error{*code, "of " + product.str()};
    return rowOf(product);
  };
  return GemmReport::of(products, compare, [](const Error &error) { return error.code == ErrorCode::NoDevice; });
}

} // namespace

TEST_CASE("bench gemm: products by name, of all layers with the rows asked for, or of all") {
  const std::vector<Product> named = productsOf({"4x8x16", "3x4x8x16"});
  REQUIRE(named.size() == 2);
  CHECK(named[0].str() == "4x8x16");
  CHECK(named[1].str() == "3x4x8x16");
  CHECK(named[1].flops() == 2.0 * 3 * 4 * 8 * 16);
  const std::vector<std::int64_t> rows{7, 9};
  const std::vector<Product> layers = *sweptProducts({}, rows);
  REQUIRE(layers.size() == 16);
  CHECK(layers[1].str() == "9x1024x1024");
  CHECK(sweptProducts({}, {})->size() == 8 * 12 + 4);
  for (const std::string text : {"4x8", "4x8x", "4x8x16x", "0x8x16", "4x-8x16", "4x8x16y", "1x4x8x16x2", "",
                                 "99999999999999999999x4x4", "9223372036854775807x4x4", "16777216x16777216x1"}) {
    CAPTURE(text);
    const Result<std::vector<Product>> refused = sweptProducts({&text, 1}, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::Usage);
    CHECK(refused.error().message.find(text) != std::string::npos);
  }
  for (const std::int64_t M : {std::int64_t(0), std::int64_t(-1), std::int64_t(1) << 40}) {
    CAPTURE(M);
    const Result<std::vector<Product>> refused = sweptProducts({}, {&M, 1});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::Usage);
    CHECK(refused.error().message.find(std::to_string(M)) != std::string::npos);
  }
}

TEST_CASE("bench gemm: its status is 0, that of a wrong result, or that of the first product that was not measured") {
  CHECK(reportOf({{}, {}}).status() == 0);
  CHECK(reportOf({}).status() == 0);
  CHECK(reportOf({{}, ErrorCode::OutOfMemory, ErrorCode::Timeout}).status() ==
        static_cast<int>(ErrorCode::OutOfMemory));
  CHECK(reportOf({ErrorCode::OutOfMemory, {}, ErrorCode::WrongResult}).status() ==
        static_cast<int>(ErrorCode::WrongResult));
}

TEST_CASE("bench gemm: a product that fails does not cost the others, a lost device does") {
  const GemmReport oneLess = reportOf({{}, ErrorCode::OutOfMemory, {}});
  CHECK(oneLess.rows.size() == 2);
  REQUIRE(oneLess.missing.size() == 1);
  CHECK(oneLess.missing[0].product.M == 2);
  const GemmReport lost = reportOf({{}, ErrorCode::NoDevice, {}});
  CHECK(lost.rows.size() == 1);
  CHECK(lost.status() == static_cast<int>(ErrorCode::NoDevice));
}

TEST_CASE("bench gemm: means of groups, and what is missing, in table and JSON") {
  GemmReport report;
  const std::vector<Product> products = productsOf({"4096x64x64", "8192x64x64", "1x64x64", "2x64x64x64"});
  report.rows = {rowOf(products[0], 0.5), rowOf(products[1], 2), rowOf(products[2], 1.5)};
  report.missing = {{products[3], {ErrorCode::OutOfMemory, "no room"}}};
  const std::string table = report.table();
  CHECK(table.find("M >= 2048: cuBLASLt's time over kfuse's 1.000, geometric mean of 2\n") != std::string::npos);
  CHECK(table.find("M = 1: cuBLASLt's time over kfuse's 1.500, geometric mean of 1\n") != std::string::npos);
  CHECK(table.find("batches") == std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(report.json("a GPU", "1.0", "bf16"));
  CHECK(json["device"] == "a GPU");
  CHECK(json["products"].size() == 3);
  CHECK(json["not_measured"][0]["error"] == "no room");
  CHECK(json["geometric_means"].size() == 2);
}

TEST_CASE("bench gemm: a product that cuBLASLt has no algorithm for has kfuse's figures and no ratio") {
  GemmReport report;
  const std::vector<Product> products = productsOf({"1x64x64", "1x17x64"});
  report.rows = {rowOf(products[0], 1.5), rowOf(products[1])};
  report.rows[1].peer.reset();
  const std::string table = report.table();
  CHECK(table.find("1x17x64: cuBLASLt has no algorithm for it that runs; kfuse's times alone\n") != std::string::npos);
  CHECK(table.find("1x64x64: ") == std::string::npos);
  CHECK(table.find("M = 1: cuBLASLt's time over kfuse's 1.500, geometric mean of 1\n") != std::string::npos);
  const nlohmann::json alone = nlohmann::json::parse(report.json("a GPU", "1.0", "f8E5M2"))["products"][1];
  CHECK(alone["kfuse_us"] == 10);
  CHECK(alone["cublaslt_algorithms"] == 0);
  for (const char *key : {"cublaslt_us", "cublaslt_first_us", "ratio", "ratio_p10", "ratio_p90"})
    CHECK(alone[key].is_null());
  CHECK(report.status() == 0);
}

TEST_CASE("bench gemm: operands rotate past the L2, of few bytes, too, and the output says where they do not") {
  constexpr double l2Bytes = 50e6;
  auto rotationOf = [](double M, double N, double K, std::int64_t batches = 1) {
    return Rotation::of(2 * static_cast<double>(batches) * (M * K + N * K + M * N), batches, l2Bytes);
  };
  for (const Rotation &rotation : {rotationOf(1, 256, 256), rotationOf(1, 1024, 1024), rotationOf(1024, 4096, 4096),
                                   rotationOf(8192, 8192, 8192), rotationOf(256, 256, 256, 16)}) {
    CAPTURE(rotation.sets);
    CHECK(rotation.isPastL2);
    CHECK(rotation.bytes >= 4 * l2Bytes);
  }
  CHECK(rotationOf(1, 1024, 1024).sets == 96);
  CHECK(rotationOf(8192, 8192, 8192).sets == 1);
  const Rotation tiny = rotationOf(1, 64, 64);
  CHECK_FALSE(tiny.isPastL2);
  CHECK(tiny.sets == 4096);
  CHECK(rotationOf(1, 16, 16, 1000).sets == 128); // One by one these are 128000 launches.

  GemmReport report;
  const std::vector<Product> products = productsOf({"1x64x64", "1x1024x1024"});
  report.rows = {rowOf(products[0]), rowOf(products[1])};
  report.rows[0].rotation = tiny;
  const std::string table = report.table();
  CHECK(table.find("1x64x64: its operands rotate in 34.6 MB alone") != std::string::npos);
  CHECK(table.find("1x1024x1024: its operands") == std::string::npos);
  const nlohmann::json all = nlohmann::json::parse(report.json("a GPU", "1.0", "bf16"))["products"];
  CHECK(all[0]["rotates_past_l2"] == false);
  CHECK(all[0]["rotated_bytes"] == tiny.bytes);
  CHECK(all[1]["rotates_past_l2"] == true);
}
