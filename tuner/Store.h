// Where tuned results and binaries live: one SQLite file that outlives a kill -9.
#pragma once

#include "kfuse/error.h"
#include "runtime/Device.h"
#include "tuner/Measurement.h"
#include "tuner/Roofline.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kfuse::tuner {

/// How hard a search looked, in rising order. None measures nothing: the cost model chose.
enum class Effort : std::uint8_t { None, Quick, Full };

/// The winner for one region on one device.
struct Choice {
  std::string region;   ///< regionKey.
  std::string kernel;   ///< tuningKey of the winner: another one means that the template has changed.
  std::string name;     ///< For people, as are ...
  std::string ops;      ///< ... the fused ops,
  std::string target;   ///< the target,
  std::string sku;      ///< the device ("" when none was there),
  std::string compiler; ///< and the compiler's version.
  std::string driver;   ///< Driver version it was timed under.
  codegen::TileConfig config;
  Effort effort = Effort::Quick;
  std::optional<Timing> timing; ///< Empty: chosen by the cost model alone.
  int candidates = 0;           ///< Tried.
  int failed = 0;               ///< Of those.
  int cut = 0;                  ///< Within the effort, but left out for lack of time.
};

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
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path &path, Warn warn);

  ~Store();

  std::optional<Choice> findChoice(const std::string &region);
  std::optional<Measurement> findMeasurement(const std::string &kernel);
  /// Nothing too when its checksum does not match.
  std::optional<runtime::CompiledKernel> findBinary(const std::string &kernel);
  std::optional<Peaks> findPeaks(const std::string &sku);

  /// Notes that `trial` is about to run, so that a kernel which takes the process down is found out:
  /// false once two processes have started it and none came back.
  bool beginTrial(const Measurement &trial);
  void put(const Measurement &measurement);
  /// Keeps the winner and its machine code; the binary of the choice it replaces is dropped.
  void put(const Choice &choice, const runtime::CompiledKernel &binary);
  void put(const std::string &sku, const Peaks &peaks);

  /// What keeps results from being stored, if anything does.
  std::optional<Error> problem() const;

private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace kfuse::tuner
