#include "tuner/check/GuardedBuffer.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kfuse;
using namespace kfuse::tuner;

TEST_CASE("uploads: a piece is repeated up to the end and no further") {
  const std::unique_ptr<runtime::Device> device = runtime::openCpu(1);
  for (std::size_t bytes : {0, 1, 6, 7, 8, 21, 1000}) {
    CAPTURE(bytes);
    const std::vector<std::byte> piece{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                       std::byte{5}, std::byte{6}, std::byte{7}};
    Result<GuardedBuffer> buffer = GuardedBuffer::make(*device, bytes);
    REQUIRE(buffer);
    REQUIRE(uploadRepeated(*device, buffer->data(), bytes, piece));
    std::vector<std::byte> found(bytes);
    REQUIRE(device->download(found.data(), buffer->data(), bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      REQUIRE(found[i] == piece[i % piece.size()]);
    Result<std::optional<std::string>> overrun = buffer->findOverrun();
    REQUIRE(overrun);
    CHECK_FALSE(*overrun);
  }
}

TEST_CASE("uploads: of an empty piece nothing can be made but nothing") {
  const std::unique_ptr<runtime::Device> device = runtime::openCpu(1);
  Result<GuardedBuffer> buffer = GuardedBuffer::make(*device, 8);
  REQUIRE(buffer);
  CHECK(uploadRepeated(*device, buffer->data(), 0, {}));
  Result<void> uploaded = uploadRepeated(*device, buffer->data(), 8, {});
  REQUIRE_FALSE(uploaded);
  CHECK(uploaded.error().code == ErrorCode::Internal);
}
