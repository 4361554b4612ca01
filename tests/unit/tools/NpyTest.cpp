#include "TemporaryFolder.h"

#include "tools/kfuse/model/Npy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <random>

using namespace kfuse;
using namespace kfuse::tools;
using kfuse::tuner::test::TemporaryFolder;

namespace {

std::vector<std::byte> bytesOf(const std::string &text) {
  const auto *begin = reinterpret_cast<const std::byte *>(text.data());
  return {begin, begin + text.size()};
}

template <class T> std::vector<std::byte> bytesOf(std::initializer_list<T> values) {
  return bytesOf(std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T)));
}

/// A version 1 file with the header as given.
std::vector<std::byte> file(const std::string &header, const std::vector<std::byte> &data) {
  std::string prefix("\x93NUMPY\x01\x00", 8);
  prefix += static_cast<char>(header.size() & 0xff);
  prefix += static_cast<char>(header.size() >> 8);
  std::vector<std::byte> bytes = bytesOf(prefix + header);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

const std::string matrixHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

std::string failureOf(const std::vector<std::byte> &bytes) {
  Result<NpyArray> array = parseNpy(bytes);
  return array ? "" : array.error().message;
}

} // namespace

TEST_CASE("npy: what is written reads back") {
  TemporaryFolder folder;
  const NpyArray arrays[] = {{DType::F32, {2, 3}, std::vector<std::byte>(24, std::byte{1})},
                             {DType::F16, {5}, std::vector<std::byte>(10, std::byte{2})},
                             {DType::I32, {}, std::vector<std::byte>(4, std::byte{3})},
                             {DType::I64, {1, 0, 7}, {}},
                             {DType::Bool, {3}, std::vector<std::byte>(3, std::byte{1})}};
  for (const NpyArray &array : arrays) {
    REQUIRE(writeNpy(folder.path / "x.npy", array));
    CHECK(std::filesystem::file_size(folder.path / "x.npy") % 64 == array.data.size() % 64);
    Result<NpyArray> read = readNpy(folder.path / "x.npy");
    REQUIRE(read);
    CHECK((read->type == array.type));
    CHECK(read->shape == array.shape);
    CHECK(read->data == array.data);
  }
}

TEST_CASE("npy: bf16 is written as the f32 that holds it") {
  TemporaryFolder folder;
  REQUIRE(writeNpy(folder.path / "x.npy", {DType::BF16, {2}, bytesOf<std::uint16_t>({0x3f80, 0xc040})}));
  Result<NpyArray> read = readNpy(folder.path / "x.npy");
  REQUIRE(read);
  CHECK((read->type == DType::F32));
  CHECK(read->data == bytesOf<float>({1, -3}));
  Result<NpyArray> back = convert(std::move(*read), DType::BF16);
  CHECK(back->data == bytesOf<std::uint16_t>({0x3f80, 0xc040}));
}

TEST_CASE("npy: 8-bit floats are written as the f32 that holds them, and saturate on the way back") {
  TemporaryFolder folder;
  REQUIRE(writeNpy(folder.path / "x.npy", {DType::F8E4M3, {2}, bytesOf<std::uint8_t>({0x38, 0xfe})}));
  Result<NpyArray> read = readNpy(folder.path / "x.npy");
  REQUIRE(read);
  CHECK(read->data == bytesOf<float>({1, -448}));
  CHECK(convert(NpyArray{DType::F32, {2}, bytesOf<float>({1, -1000})}, DType::F8E4M3)->data ==
        bytesOf<std::uint8_t>({0x38, 0xfe}));
}

TEST_CASE("npy: small integers, of 4 bits as their bytes") {
  TemporaryFolder folder;
  for (DType type : {DType::I8, DType::U8}) {
    REQUIRE(writeNpy(folder.path / "x.npy", {type, {3}, bytesOf<std::uint8_t>({1, 128, 255})}));
    Result<NpyArray> read = readNpy(folder.path / "x.npy");
    REQUIRE(read);
    CHECK((read->type == type));
    CHECK(read->data == bytesOf<std::uint8_t>({1, 128, 255}));
  }
  REQUIRE(writeNpy(folder.path / "x.npy", {DType::U4, {2, 3}, bytesOf<std::uint8_t>({0x21, 0x03, 0x54, 0x06})}));
  Result<NpyArray> read = readNpy(folder.path / "x.npy");
  REQUIRE(read);
  CHECK(read->shape == Shape{2, 2});
  CHECK(read->data == bytesOf<std::uint8_t>({0x21, 0x03, 0x54, 0x06}));
}

TEST_CASE("npy: files as NumPy writes them") {
  Result<NpyArray> matrix = parseNpy(file(matrixHeader, std::vector<std::byte>(24)));
  REQUIRE(matrix);
  CHECK(matrix->shape == Shape{2, 3});
  Result<NpyArray> doubles =
      parseNpy(file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }    \n", bytesOf<double>({0.5, -2})));
  REQUIRE(doubles);
  CHECK(doubles->data == bytesOf<float>({0.5, -2}));
  std::vector<std::byte> version2 = bytesOf(std::string("\x93NUMPY\x02\x00", 8));
  auto length = static_cast<std::uint32_t>(matrixHeader.size());
  for (const std::vector<std::byte> &part : {bytesOf({length}), bytesOf(matrixHeader), std::vector<std::byte>(24)})
    version2.insert(version2.end(), part.begin(), part.end());
  CHECK(parseNpy(version2));
}

TEST_CASE("npy: other layouts are refused with what to do") {
  std::vector<std::byte> data(24);
  const std::string start = "not a readable .npy file: ";
  CHECK(failureOf({}) == start + "it does not begin with NumPy's magic");
  CHECK(failureOf(file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", data)) ==
        start + "it is not in C order: save numpy.ascontiguousarray(x)");
  CHECK(failureOf(file("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", data)).find("convert it") !=
        std::string::npos);
  CHECK(failureOf(file("{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", data)).find("convert it") !=
        std::string::npos);
  CHECK(failureOf(file(matrixHeader, std::vector<std::byte>(23))) ==
        start + "shape (2, 3) of <f4 does not take its 23 bytes of data");
  for (const char *shape : {"(-2, 3)", "2, 3)", "(2, 3", "(2 3)", "(a)", "(4294967296, 4294967296, 4294967296)",
                            "(99999999999999999999,)", "[2, 3]", ""})
    CHECK_FALSE(
        failureOf(file(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape, data)).empty());
}

TEST_CASE("npy: truncated and random bytes never crash") {
  std::vector<std::byte> whole = file(matrixHeader, std::vector<std::byte>(24));
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK_FALSE(failureOf({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}).empty());
  std::mt19937 random(1);
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> bytes = whole;
    for (int flip = 0; flip < 3; ++flip)
      bytes[random() % (bytes.size() - 24)] = static_cast<std::byte>(random());
    Result<NpyArray> array = parseNpy(bytes);
    if (array)
      CHECK(array->data.size() <= 24);
  }
}

TEST_CASE("npy: unreadable and unwritable files are errors") {
  CHECK(readNpy("/no/such/file.npy").error().message == "/no/such/file.npy: cannot be read; expected a .npy file");
  CHECK_FALSE(readNpy("/"));
  CHECK_FALSE(writeNpy("/no/such/folder/x.npy", {}));
}

TEST_CASE("npy: conversion is among floats only") {
  NpyArray floats{DType::F32, {2}, bytesOf<float>({1, 65520})};
  CHECK(convert(floats, DType::F16)->data == bytesOf<std::uint16_t>({0x3c00, 0x7c00}));
  CHECK(convert(floats, DType::I32).error().message == "an array of f32 given where i32 is expected");
}
