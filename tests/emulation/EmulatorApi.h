// What emulated kernels ask of the emulator. Shared by both sides of a dlopen.
#pragma once

namespace kfuse::test {

struct Index3 {
  unsigned x, y, z;
};

struct EmulatorApi {
  Index3 (*thread)();
  const Index3 *block, *grid;
  void (*syncBlock)();
  void (*syncWarp)();
  void (*yield)(); ///< Lets other threads of the block run.
  /// 64 bytes for each lane of the current warp.
  unsigned char *(*warpScratch)();
  unsigned char *(*shared)();
  /// cp.async of `size` bytes of which `bytes` are read; its group; waiting for all but `pending` groups.
  void (*copy)(void *to, const void *from, int size, int bytes);
  void (*commit)();
  void (*wait)(int pending);
  void (*fail)(const char *message);
};

} // namespace kfuse::test
