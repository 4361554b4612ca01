#include "runtime/pack/Sha256.h"

#include <bit>
#include <cstring>

namespace kfuse::runtime {
namespace {

constexpr std::size_t blockBytes = 64;

/// The first 32 bits behind the point of the cube roots of the first 64 primes.
constexpr std::uint32_t roundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

/// The fractions of the square roots of the first 8 primes.
constexpr State initialState{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t bigEndian(const std::uint8_t *bytes) {
  return std::uint32_t(bytes[0]) << 24 | std::uint32_t(bytes[1]) << 16 | std::uint32_t(bytes[2]) << 8 | bytes[3];
}

void addBlock(State &state, const std::uint8_t *block) {
  std::uint32_t words[64];
  for (int i = 0; i < 16; ++i)
    words[i] = bigEndian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + roundConstants[i] + words[i];
    const std::uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i)
    state[i] += added[i];
}

} // namespace

Sha256 sha256(std::span<const std::byte> bytes) {
  State state = initialState;
  const auto *data = reinterpret_cast<const std::uint8_t *>(bytes.data());
  const std::size_t whole = bytes.size() / blockBytes * blockBytes, rest = bytes.size() - whole;
  for (std::size_t at = 0; at < whole; at += blockBytes)
    addBlock(state, data + at);
  // What is left, a one bit, zeros, and the number of bits: in one block or two.
  std::uint8_t last[2 * blockBytes] = {};
  if (rest > 0)
    std::memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  const std::size_t end = rest + 9 <= blockBytes ? blockBytes : 2 * blockBytes;
  for (std::size_t i = 0; i < 8; ++i)
    last[end - 1 - i] = static_cast<std::uint8_t>(std::uint64_t(bytes.size()) * 8 >> 8 * i);
  for (std::size_t at = 0; at < end; at += blockBytes)
    addBlock(state, last + at);
  Sha256 digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string toHex(const Sha256 &digest) {
  std::string text;
  for (std::uint8_t byte : digest)
    for (int shift : {4, 0})
      text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

} // namespace kfuse::runtime
