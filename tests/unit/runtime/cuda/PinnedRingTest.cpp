#ifdef KFUSE_CUDA_DRIVER
#include "runtime/cuda/PinnedRing.h"
#include "tests/unit/runtime/cuda/FakeDriver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

/// A copy that is under way: it reads its source when somebody waits for it, and not before.
struct Copy {
  void *to;
  const void *from;
  std::size_t bytes;
};

/// What the driver below was asked for, by any thread.
struct Driver {
  std::mutex mutex;
  std::map<CUstream, std::vector<Copy>> enqueued;
  std::map<CUevent, std::vector<Copy>> recorded;
  std::size_t pinned = 0, mostPinned = 0, handles = 0, ringCopies = 0, plainCopies = 0;
  std::size_t failingCopy = 0; ///< The number of the asynchronous copy that fails; 0: none does.
  bool pinsNothing = false;
} driver;

void finish(std::vector<Copy> &copies) {
  for (const auto &[to, from, bytes] : copies)
    std::memcpy(to, from, bytes);
  copies.clear();
}

cuda::DriverApi copyingDriver() {
  driver.enqueued.clear(), driver.recorded.clear();
  driver.pinned = driver.mostPinned = driver.handles = driver.ringCopies = driver.plainCopies = driver.failingCopy = 0;
  driver.pinsNothing = false;
  cuda::DriverApi api = test::fakeDriver();
  api.cuMemHostAlloc = [](void **memory, std::size_t bytes, unsigned) {
    std::scoped_lock lock(driver.mutex);
    if (driver.pinsNothing)
      return CUDA_ERROR_OUT_OF_MEMORY;
    driver.mostPinned = std::max(driver.mostPinned, driver.pinned += bytes);
    return *memory = new std::byte[bytes], CUDA_SUCCESS;
  };
  api.cuMemFreeHost = [](void *memory) {
    std::scoped_lock lock(driver.mutex);
    driver.pinned -= cuda::slotBytes;
    return delete[] static_cast<std::byte *>(memory), CUDA_SUCCESS;
  };
  api.cuStreamCreate = [](CUstream *stream, unsigned) {
    return *stream = reinterpret_cast<CUstream>(++driver.handles), CUDA_SUCCESS;
  };
  api.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.cuEventCreate = [](CUevent *event, unsigned) {
    return *event = reinterpret_cast<CUevent>(++driver.handles), CUDA_SUCCESS;
  };
  api.cuEventDestroy = [](CUevent) { return CUDA_SUCCESS; };
  api.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void *from, std::size_t bytes, CUstream stream) {
    std::scoped_lock lock(driver.mutex);
    if (++driver.ringCopies == driver.failingCopy)
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    driver.enqueued[stream].push_back({reinterpret_cast<void *>(to), from, bytes});
    return CUDA_SUCCESS;
  };
  api.cuEventRecord = [](CUevent event, CUstream stream) {
    std::scoped_lock lock(driver.mutex);
    driver.recorded[event] = std::move(driver.enqueued[stream]);
    return driver.enqueued[stream].clear(), CUDA_SUCCESS;
  };
  api.cuEventSynchronize = [](CUevent event) {
    std::scoped_lock lock(driver.mutex);
    return finish(driver.recorded[event]), CUDA_SUCCESS;
  };
  api.cuMemcpyHtoD = [](CUdeviceptr to, const void *from, std::size_t bytes) {
    ++driver.plainCopies;
    return std::memcpy(reinterpret_cast<void *>(to), from, bytes), CUDA_SUCCESS;
  };
  api.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  return api;
}

/// Tensors of these sizes, one behind the other, from odd addresses of a file to a device.
class Upload {
public:
  explicit Upload(const std::vector<std::size_t> &sizes) {
    std::size_t all = 0;
    for (std::size_t bytes : sizes)
      all += bytes;
    file.resize(all + 1);
    for (std::size_t i = 0; i < file.size(); ++i)
      file[i] = static_cast<std::byte>(i * 2654435761U >> 24);
    device.resize(all);
    std::size_t at = 0;
    for (std::size_t bytes : sizes) {
      transfers.push_back({device.data() + at, std::span(file).subspan(at + 1, bytes)});
      at += bytes;
    }
  }

  Result<void> run() {
    Result<cuda::ContextRef> context = cuda::PrimaryContext::retain(api, 0);
    return cuda::uploadThroughRing(*context, transfers);
  }
  bool arrived() const { return std::equal(device.begin(), device.end(), file.begin() + 1); }

private:
  const cuda::DriverApi api = copyingDriver();
  std::vector<std::byte> file, device;
  std::vector<Transfer> transfers;
};

constexpr std::size_t mb = std::size_t(1) << 20;

} // namespace

TEST_CASE("pinned ring: what is larger than the ring arrives, in the ring's memory") {
  Upload upload({70 * mb + 3, 5, 0, 9 * mb - 1});
  const Result<void> uploaded = upload.run();
  REQUIRE_MESSAGE(uploaded, uploaded.error().message);
  CHECK(upload.arrived());
  CHECK(driver.mostPinned == cuda::ringSlots * cuda::slotBytes);
  CHECK(driver.pinned == 0);
  CHECK(driver.ringCopies == 18 + 1 + 3);
  CHECK(driver.plainCopies == 0);
}

TEST_CASE("pinned ring: few bytes, or where no memory can be pinned, are copied plainly") {
  Upload few({1000, 0, 24});
  CHECK(few.run());
  CHECK(few.arrived());
  CHECK(driver.mostPinned == 0);
  CHECK(driver.plainCopies == 2);
  Upload many({40 * mb});
  driver.pinsNothing = true;
  CHECK(many.run());
  CHECK(many.arrived());
  CHECK(driver.plainCopies == 1);
}

TEST_CASE("pinned ring: a copy that fails is the error, after the others have ended") {
  Upload upload({40 * mb});
  driver.failingCopy = 7;
  const Result<void> failed = upload.run();
  REQUIRE_FALSE(failed);
  CHECK((failed.error().code == ErrorCode::NoDevice));
  CHECK(failed.error().message == "cuMemcpyHtoDAsync: the words (NAME, 700)");
  CHECK(driver.pinned == 0);
  CHECK_FALSE(upload.arrived());
  for (const auto &[event, copies] : driver.recorded)
    CHECK(copies.empty());
}
#endif
