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

/// A tile in patches of `down` by `across` points, one a thread, which reads `across` vectors of `down` elements. The
/// lanes of a warp lie side by side in both directions, so that their accesses touch whole sectors.
template <class Config> struct Patches {
  using Index = typename Config::Index;
  static constexpr int lanesDown = Config::lanesDown, lanesAcross = 32 / lanesDown;
  static constexpr int countDown = lanesDown * Config::warpsDown, countAcross = lanesAcross * Config::warpsAcross;
  static constexpr int height = Config::down * countDown, width = Config::across * countAcross;
  TransposeTile<Config, height, width> tile;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int patchDown = warp % Config::warpsDown * lanesDown + lane % lanesDown;
  int patchAcross = warp / Config::warpsDown * lanesAcross + lane / lanesDown;
  Index down = tile.down + patchDown * Config::down, across = tile.across + patchAcross * Config::across;
  bool exists = down < Config::extentDown && across < Config::extentAcross;

  template <class Body> __device__ __forceinline__ void stage(typename Body::Staged *staged, const Body &body) const {
#pragma unroll
    for (int j = 0; j < Config::across; ++j)
      if (Config::extentAcross % Config::across == 0 || across + j < Config::extentAcross)
        body.stage(staged[j], tile.batch, down, across + j);
  }
};

/// Each thread writes its patch as `down` vectors of `across` elements, transposed in its registers.
template <class Config, class Body> __device__ __forceinline__ void transposeInRegisters(const Body &body) {
  const Patches<Config> patches;
  const auto &tile = patches.tile;
  const auto down = patches.down, across = patches.across;
  if (!patches.exists)
    return;

  typename Body::Staged staged[Config::across];
  patches.stage(staged, body);
  typename Body::Operands x[Config::down];
#pragma unroll
  for (int r = 0; r < Config::down; ++r)
    if (Config::extentDown % Config::down == 0 || down + r < Config::extentDown)
      body.load(x[r], tile.batch, down + r, across);
#pragma unroll
  for (int r = 0; r < Config::down; ++r)
    if (Config::extentDown % Config::down == 0 || down + r < Config::extentDown)
      body.apply(body.transposed(staged, r), x[r], tile.batch, down + r, across);
}

/// The vectors of a patch are transposed in registers and pass through a tile in shared memory: a warp writes whole
/// rows of the tile (two of 256 bytes for 128 points of 16 bits), where lanes in both directions make pieces of 64.
/// A row's vectors are permuted by an XOR with its patch, so that eight lanes below each other write to different
/// banks.
template <class Config, class Body> __device__ __forceinline__ void transposeThroughTile(const Body &body) {
  using Index = typename Config::Index;
  constexpr int threads = 32 * Config::warpsDown * Config::warpsAcross;
  const Patches<Config> patches;
  const auto &tile = patches.tile;
  constexpr int height = patches.height, columns = patches.countAcross;
  static_assert(columns % 8 == 0, "the XOR stays in the row");
  __shared__ typename Body::Transposed shared[height][columns];
  auto at = [&](int row, int column) ->
      typename Body::Transposed & { return shared[row][column ^ (row / Config::down % 8)]; };
  auto rowOf = [&](int i) { return (i * threads + static_cast<int>(threadIdx.x)) / columns; };
  const int column = threadIdx.x % columns;
  const Index across = tile.across + column * Config::across;
  auto exists = [&](int i) { return tile.down + rowOf(i) < Config::extentDown && across < Config::extentAcross; };

  typename Body::Staged staged[Config::across];
  if (patches.exists)
    patches.stage(staged, body);
  typename Body::Operands x[Config::down];
#pragma unroll
  for (int i = 0; i < Config::down; ++i)
    if (exists(i))
      body.load(x[i], tile.batch, tile.down + rowOf(i), across);
#pragma unroll
  for (int r = 0; r < Config::down; ++r)
    at(patches.patchDown * Config::down + r, patches.patchAcross) = body.transposed(staged, r);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Config::down; ++i)
    if (exists(i))
      body.apply(at(rowOf(i), column), x[i], tile.batch, tile.down + rowOf(i), across);
}

/// One element at a time through a tile in shared memory, where no vector is aligned: lanes lie side by side
/// down while they read and across while they write.
template <class Config, class Body> __device__ __forceinline__ void transposeElements(const Body &body) {
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
    body.apply(body.transposed(element, 0), operands, tile.batch, down, across);
  }
}

} // namespace kfuse
