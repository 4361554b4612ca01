#include "runtime/host/ObjectCode.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

using Entry = void (*)(void *const *arguments, std::int64_t begin, std::int64_t end);

/// object.c, compiled.
std::vector<std::byte> object() {
  std::ifstream file(KFUSE_TEST_OBJECT, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto *first = reinterpret_cast<const std::byte *>(bytes.data());
  return {first, first + bytes.size()};
}

} // namespace

TEST_CASE("object code: kernels run with their constants, data and libm") {
  Result<std::unique_ptr<ObjectCode>> code = ObjectCode::load(object());
  REQUIRE_MESSAGE(code, code.error().message);
  auto *squares = reinterpret_cast<Entry>((*code)->find("squares"));
  auto *copies = reinterpret_cast<Entry>((*code)->find("copies"));
  REQUIRE((squares != nullptr));
  REQUIRE((copies != nullptr));
  CHECK_FALSE((*code)->find("square")); // Its own.
  CHECK_FALSE((*code)->find("floorf"));
  float in[16], out[16], copied[16], cleared[16];
  for (int i = 0; i < 16; ++i)
    in[i] = 0.125F * static_cast<float>(i);
  void *arguments[] = {in, out, nullptr};
  squares(arguments, 0, 7);
  squares(arguments, 7, 16);
  for (int i = 0; i < 16; ++i)
    CHECK(out[i] == std::floor(in[i]) + static_cast<float>(i * i));
  void *others[] = {out, copied, cleared};
  copies(others, 0, sizeof out);
  CHECK(std::memcmp(out, copied, sizeof out) == 0);
  CHECK(std::memcmp(cleared, "\2\0\0\0\0", 5) == 0);
}

TEST_CASE("object code: two objects have data of their own") {
  auto one = ObjectCode::load(object()), other = ObjectCode::load(object());
  REQUIRE(one);
  REQUIRE(other);
  float in[16] = {}, out[16], copied[16], cleared[16];
  void *arguments[] = {in, out, nullptr}, *others[] = {out, copied, cleared};
  reinterpret_cast<Entry>((*one)->find("squares"))(arguments, 0, 1);
  reinterpret_cast<Entry>((*other)->find("copies"))(others, 0, 64);
  CHECK(std::memcmp(cleared, "\0\0\0\0", 4) == 0);
}

TEST_CASE("object code: what is no object, is cut or calls something else is refused") {
  const std::vector<std::byte> whole = object();
  CHECK_FALSE(ObjectCode::load({}));
  CHECK_FALSE(ObjectCode::load(std::vector<std::byte>(1000, std::byte{1})));
  for (std::size_t size = 0; size < whole.size(); size += 16)
    CHECK_FALSE(ObjectCode::load(std::vector(whole.begin(), whole.begin() + std::ptrdiff_t(size))));
  std::vector<std::byte> renamed = whole;
  const char *name = "floorf";
  auto found = std::search(renamed.begin(), renamed.end(), reinterpret_cast<const std::byte *>(name),
                           reinterpret_cast<const std::byte *>(name) + 7);
  REQUIRE(found != renamed.end());
  std::memcpy(&*found, "system", 6);
  Result<std::unique_ptr<ObjectCode>> refused = ObjectCode::load(renamed);
  REQUIRE_FALSE(refused);
  CHECK((refused.error().code == ErrorCode::BadModel));
  CHECK(refused.error().message == "its object cannot be run: it calls 'system', which no kernel needs");
}

TEST_CASE("object code: bytes that are changed are loaded or refused") {
  const std::vector<std::byte> whole = object();
  std::mt19937 random(1);
  int loaded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> changed = whole;
    for (unsigned count = 1 + random() % 4; count > 0; --count)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    loaded += ObjectCode::load(changed) ? 1 : 0; // What it does when it runs is another matter: code is trusted.
  }
  CHECK(loaded > 0);
}
