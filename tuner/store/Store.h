// Where tuned results and binaries live: one SQLite file that outlives a kill -9.
#pragma once

#include "kfuse/error.h"
#include "runtime/Device.h"
#include "tuner/record/Choice.h"
#include "tuner/record/Measurement.h"
#include "tuner/record/Roofline.h"
#include "tuner/store/StoreTrust.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::tuner {

class StoreFile;
class LeaseBook;

/// Results on disk. Thread-safe; many processes may share one file. Every write is one transaction.
///
/// No method fails: a search goes on without a store. A file that cannot be written degrades the store
/// to reading, one that cannot be read to memory; a damaged one is moved aside to NAME.corrupt-N and
/// begun anew. Each is said once through `warn`, and problem() keeps the first.
class Store {
public:
  using Warn = std::function<void(const std::string &)>;

  /// $KFUSE_STORE, else $XDG_CACHE_HOME/kfuse/store.db, else ~/.cache/kfuse/store.db.
  static std::filesystem::path defaultPath();

  /// Opens or creates; an empty path is the default one. Io for a file that holds something else than a
  /// kfuse store, or a store of a newer kfuse; such a file is left as it is. In the cache folder, though,
  /// whatever cannot be read is taken for a damaged store.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path &path, Warn warn,
                                             StoreTrust trust = StoreTrust::Checked);
  /// Only to find what is there: creates and changes nothing, on a read-only file system as on any other. Where there
  /// is no file, nothing is found, and problem() says why. Io as above, and for a file that is damaged or may not be
  /// read.
  static Result<std::unique_ptr<Store>> openToRead(const std::filesystem::path &path, Warn warn,
                                                   StoreTrust trust = StoreTrust::Checked);

  ~Store();

  std::optional<Choice> findChoice(const std::string &region);
  /// Choices of regions of these ops on one device, whatever their shapes.
  std::vector<Choice> findChoices(const std::string &ops, const std::string &sku);
  /// What a choice was made for.
  struct TunedFor {
    std::string target, sku; ///< As in Choice; "" where there is no choice.
  };
  /// The target and SKU of the newest choice of all.
  TunedFor newest();
  /// The same of a store that is not opened for more; "" too where it is no store, or locked: nothing is waited for.
  static TunedFor newestIn(const std::filesystem::path &path);
  std::optional<Measurement> findMeasurement(const std::string &kernel);
  /// The measurements of one region, in the order in which they were begun.
  std::vector<Measurement> findMeasurements(const std::string &region);
  /// Nothing too when its seal is broken, or there is distrust().
  std::optional<runtime::CompiledKernel> findBinary(const std::string &kernel);
  std::optional<Peaks> findPeaks(const std::string &sku);

  /// Notes that `trial` is about to run, so that a kernel which takes the machine down is found out: false once
  /// the machine has gone down twice while it ran. (A process that ends with it was killed: kernels run in a worker.)
  bool beginTrial(const Measurement &trial);
  /// Keeps the time at which the kernel's trial began, or was first heard of.
  void put(const Measurement &measurement);
  /// Keeps the winner and its machine code; the binary of the choice it replaces is dropped. A better one that another
  /// process stored since this one's search began (Choice::at) stays instead.
  void put(const Choice &choice, const runtime::CompiledKernel &binary);
  void put(const std::string &sku, const Peaks &peaks);

  /// What a process holds while it tunes a region.
  class Lease {
  public:
    Lease(Store &store, std::string region) : store(&store), region(std::move(region)) {}
    Lease(Lease &&other) noexcept : store(std::exchange(other.store, nullptr)), region(std::move(other.region)) {}
    Lease &operator=(Lease &&) = delete;
    ~Lease();

  private:
    Store *store;
    std::string region;
  };

  /// The lease of a region; nothing while another living process or store has it. A store that cannot be written
  /// leases everything to everybody.
  std::optional<Lease> lease(const std::string &region);

  /// The folder in which the processes that write to this store meet; "" where it cannot be written.
  std::filesystem::path sharedFolder() const;

  /// Why the machine code in the store is not used, if it is not: whyNotTrusted() and what to do instead. All else is
  /// data, which is checked before it is used.
  const std::optional<std::string> &distrust() const { return distrusted; }

  /// What keeps results from being stored, if anything does.
  std::optional<Error> problem() const;
  /// Warns, and has a problem(), where the file that was written to has been deleted or replaced since.
  void confirmPlace();

private:
  explicit Store(std::unique_ptr<StoreFile> file);
  static Result<std::unique_ptr<Store>> openToRead(const std::filesystem::path &path, Warn warn, int patienceMs);
  void judge(StoreTrust trust, const std::optional<std::string> &before);
  std::unique_ptr<StoreFile> file;
  std::unique_ptr<LeaseBook> leases;
  std::optional<std::string> distrusted;
};

} // namespace kfuse::tuner
