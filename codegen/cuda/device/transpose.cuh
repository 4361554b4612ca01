// Regions that read an operand along another dimension ("down") than they write their results ("across").
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// The tile of a block: tiles follow each other across, then down (the other way round if Config::downFirst), then
/// by batch.
template <class Config, int height, int width> struct TransposeTile {
  using Index = typename Config::Index;
  static constexpr Index tilesDown = (Config::extentDown + height - 1) / height;
  static constexpr Index tilesAcross = (Config::extentAcross + width - 1) / width;
  static constexpr bool downFirst = Config::downFirst;
  Index tile = Index(blockIdx.x) % (tilesAcross * tilesDown), batch = Index(blockIdx.x) / (tilesAcross * tilesDown);
  Index across = (downFirst ? tile / tilesDown : tile % tilesAcross) * width;
  Index down = (downFirst ? tile % tilesDown : tile / tilesAcross) * height;
};

/// Each thread reads `across` vectors of `down` elements and writes `down` vectors of `across`: the points between
/// are transposed in its registers. The lanes of a warp lie side by side in both directions, so that both
/// its loads and its stores touch whole sectors.
template <class Config, class Body> __device__ __forceinline__ void transposeInRegisters(const Body &body) {
  using Index = typename Config::Index;
  constexpr int lanesAcross = 32 / Config::lanesDown;
  const TransposeTile<Config, Config::down * Config::lanesDown * Config::warpsDown,
                      Config::across * lanesAcross * Config::warpsAcross>
      tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index down =
      tile.down + (warp % Config::warpsDown * Config::lanesDown + lane % Config::lanesDown) * Config::down;
  const Index across =
      tile.across + (warp / Config::warpsDown * lanesAcross + lane / Config::lanesDown) * Config::across;
  if (down >= Config::extentDown || across >= Config::extentAcross)
    return;

  typename Body::Staged staged[Config::across];
#pragma unroll
  for (int j = 0; j < Config::across; ++j)
    if (Config::extentAcross % Config::across == 0 || across + j < Config::extentAcross)
      body.stage(staged[j], tile.batch, down, across + j);
  typename Body::Operands x[Config::down];
#pragma unroll
  for (int r = 0; r < Config::down; ++r)
    if (Config::extentDown % Config::down == 0 || down + r < Config::extentDown)
      body.load(x[r], tile.batch, down + r, across);
#pragma unroll
  for (int r = 0; r < Config::down; ++r)
    if (Config::extentDown % Config::down == 0 || down + r < Config::extentDown)
      body.apply(staged, r, x[r], tile.batch, down + r, across);
}

/// One element at a time through a tile in shared memory, where no vector is aligned: lanes lie side by side
/// down while they read and across while they write.
template <class Config, class Body> __device__ __forceinline__ void transposeThroughShared(const Body &body) {
  static_assert(Config::down == 1 && Config::across == 1);
  using Index = typename Config::Index;
  using Staged = typename Body::Staged;
  constexpr int side = Config::side, warps = Config::warpsAcross;
  constexpr int pitch = side + (sizeof(Staged) < 4 ? 4 / sizeof(Staged) : 1); // An odd number of words: no conflicts.
  constexpr int columns = side / 32, count = side / warps * columns;
  __shared__ Staged shared[side][pitch];
  const TransposeTile<Config, side, side> tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  Staged staged[count];
#pragma unroll
  for (int u = 0; u < count; ++u) {
    Index down = tile.down + u % columns * 32 + lane, across = tile.across + u / columns * warps + warp;
    if (down < Config::extentDown && across < Config::extentAcross)
      body.stage(staged[u], tile.batch, down, across);
  }
#pragma unroll
  for (int u = 0; u < count; ++u)
    shared[u / columns * warps + warp][u % columns * 32 + lane] = staged[u];
  __syncthreads();
#pragma unroll
  for (int u = 0; u < count; ++u) {
    int y = u / columns * warps + warp, x = u % columns * 32 + lane;
    Index down = tile.down + y, across = tile.across + x;
    if (down >= Config::extentDown || across >= Config::extentAcross)
      continue;
    typename Body::Operands operands;
    body.load(operands, tile.batch, down, across);
    const Staged element[1] = {shared[x][y]};
    body.apply(element, 0, operands, tile.batch, down, across);
  }
}

} // namespace kfuse
