#include "runtime/Safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <random>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

std::vector<std::byte> fileOf(const std::string &header, std::size_t dataBytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + header.size() + dataBytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  for (std::size_t i = 0; i < dataBytes; ++i)
    file[sizeof length + header.size() + i] = static_cast<std::byte>(i);
  return file;
}

std::string failureOf(const std::string &header, std::size_t dataBytes) {
  const std::vector<std::byte> file = fileOf(header, dataBytes);
  Result<Safetensors> read = Safetensors::parse(file, "w.safetensors");
  REQUIRE_FALSE(read);
  CHECK((read.error().code == ErrorCode::BadModel));
  const std::string prefix = "w.safetensors is no safetensors file: ";
  REQUIRE(read.error().message.substr(0, prefix.size()) == prefix);
  return read.error().message.substr(prefix.size());
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// Two tensors, the one behind named first, a scalar, one without elements, and what is no tensor.
const std::string twoTensors =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"none":{"dtype":"F64","shape":[0,7],"data_offsets":[8,8]},)"
    R"("one":{"dtype":"I64","shape":[],"data_offsets":[20,28]}}   )";

} // namespace

TEST_CASE("safetensors: tensors by name, in any order of the header") {
  const std::vector<std::byte> file = fileOf(twoTensors, 28);
  Result<Safetensors> read = Safetensors::parse(file, "w");
  REQUIRE(read);
  CHECK(read->all().size() == 4);
  Result<std::span<const std::byte>> b = read->find({"b", DType::BF16, {2, 3}});
  REQUIRE(b);
  REQUIRE(b->size() == 12);
  CHECK(std::to_integer<int>(b->front()) == 8);
  CHECK(read->find({"a", DType::F32, {2}})->data() + 8 == b->data());
  CHECK(read->find({"one", DType::I64, {}})->size() == 8);
  CHECK(read->all().at("none").bytes.empty());
}

TEST_CASE("safetensors: a tensor that is missing or of another kind is named with both") {
  const std::vector<std::byte> file = fileOf(twoTensors, 28);
  Result<Safetensors> read = Safetensors::parse(file, "w");
  REQUIRE(read);
  CHECK(read->find({"c", DType::F32, {2}}).error().message == "w holds no tensor 'c', expected one of f32 2");
  CHECK(read->find({"b", DType::BF16, {3, 2}}).error().message == "w: 'b' is BF16 2x3, expected bf16 3x2");
  CHECK(read->find({"b", DType::F16, {2, 3}}).error().message == "w: 'b' is BF16 2x3, expected f16 2x3");
  CHECK((read->find({"b", DType::F16, {2, 3}}).error().code == ErrorCode::Usage));
  CHECK_FALSE(read->find({"none", DType::F32, {0, 7}})); // F64, which kfuse has not.
}

TEST_CASE("safetensors: what is wrong in a file is said") {
  CHECK(contains(failureOf("", 0), "does not begin with '{'"));
  CHECK(contains(failureOf(" {}", 0), "does not begin with '{'"));
  CHECK(contains(failureOf("{", 0), "parse error"));
  CHECK(contains(failureOf("{}x", 0), "parse error"));
  CHECK(contains(failureOf("{}", 1), "its tensors take 0 bytes, behind the header are 1"));
  CHECK(contains(failureOf(R"({"\xff":1})", 0), "parse error"));
  auto tensor = [](const std::string &fields) { return R"({"a":{)" + fields + "}}"; };
  CHECK(contains(failureOf(R"({"a":[1,2,3]})", 0), "its tensor 'a' is not an object of dtype"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1])"), 4), "is not an object of dtype"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1],"offsets":[0,4])"), 4), "has no data_offsets"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), 4), "unknown type 'F33'"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4), "a size of -1"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4), "a size of 1.0"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])"), 4),
                 "a size of 18446744073709551615"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1,2,3],"data_offsets":[0,4])"), 4), "take 24"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4), "bytes 4 to 0"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 8), "behind the header are 8"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3), "behind the header are 3"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2), "ends inside a byte"));
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4), "nests deeper"));
  // 2^32 x 2^32 elements, which 64 bits count as 0.
  CHECK(contains(failureOf(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
                 "more than 2^64 bits"));
  CHECK(contains(failureOf(R"({"__metadata__":{"a":1}})", 0), "__metadata__"));
}

TEST_CASE("safetensors: each byte is one tensor's") {
  auto two = [](const std::string &first, const std::string &second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  CHECK(contains(failureOf(two("[0,4]", "[2,6]"), 6), "'b' begins at byte 2, the one before it ends at 4"));
  CHECK(contains(failureOf(two("[0,4]", "[0,4]"), 4), "begins at byte 0, the one before it ends at 4"));
  CHECK(contains(failureOf(two("[0,4]", "[6,10]"), 10), "'b' begins at byte 6, the one before it ends at 4"));
  CHECK(contains(failureOf(two("[4,8]", "[8,12]"), 12), "'a' begins at byte 4, the one before it ends at 0"));
}

TEST_CASE("safetensors: a name given twice is refused at every level") {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(contains(failureOf(R"({"a":)" + entry + R"(,"a":)" + entry + "}", 0), "names 'a' twice"));
  CHECK(contains(failureOf(R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})", 0),
                 "names 'shape' twice"));
}

TEST_CASE("safetensors: a header longer than the file, and than any") {
  std::vector<std::byte> file = fileOf(twoTensors, 28);
  for (std::size_t size : std::initializer_list<std::size_t>{0, 7, 8, 9, 100}) {
    Result<Safetensors> read = Safetensors::parse({file.data(), size}, "w");
    REQUIRE_FALSE(read);
    CHECK((read.error().code == ErrorCode::BadModel));
  }
  std::memset(file.data(), 0xff, 8);
  CHECK(contains(Safetensors::parse(file, "w").error().message, "18446744073709551615 bytes, expected at most"));
}

TEST_CASE("safetensors: files cut anywhere and with any byte changed are read or refused") {
  const std::vector<std::byte> whole = fileOf(twoTensors, 28);
  for (std::size_t size = 0; size < whole.size(); ++size) // In memory of its own, for AddressSanitizer.
    CHECK_FALSE(Safetensors::parse(std::vector(whole.begin(), whole.begin() + std::ptrdiff_t(size)), "w"));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> changed = whole;
    for (unsigned count = 1 + random() % 3; count > 0; --count)
      changed[random() % (8 + twoTensors.size())] = static_cast<std::byte>(random());
    Result<Safetensors> read = Safetensors::parse(changed, "w");
    if (!read)
      continue;
    for (const auto &[name, tensor] : read->all()) {
      CHECK(tensor.bytes.data() >= changed.data());
      CHECK(tensor.bytes.data() + tensor.bytes.size() <= changed.data() + changed.size());
    }
  }
}

TEST_CASE("safetensors: files that are none are refused") {
  CHECK((Safetensors::open("/nonexistent/w.safetensors").error().code == ErrorCode::Io));
  CHECK((Safetensors::open("/dev").error().code == ErrorCode::Io));
  CHECK((Safetensors::open("/dev/null").error().code == ErrorCode::Io));
}
