// Looking at a whole store and keeping it in order: what `kfuse db` does.
#pragma once

#include "tuner/store/StoreContents.h"
#include "tuner/store/StoreFile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kfuse::tuner {

/// Rows written or removed.
struct StoreChanges {
  int choices = 0;
  int measurements = 0;
  int peaks = 0;
  int binaries = 0;
};

struct StoreVerdict {
  std::vector<std::string> damage; ///< One line each; none: the store is whole.
  int choices = 0;
  int measurements = 0;
  int begun = 0; ///< Trials that are under way or were cut off.
  int peaks = 0;
  int binaries = 0;
  int leases = 0;
};

/// The verdict as `kfuse db verify --json` prints it.
std::string toJson(const StoreVerdict &verdict);

/// What is to go besides rows that nothing can use: those with a broken seal, binaries of no choice.
struct PruneOptions {
  double olderThanDays = 0; ///< 0: no row is too old.
  std::string sku = {};     ///< All of this device; "": of none.
  bool failures = false;    ///< Failed candidates, so that they are tried again.
};

/// Every row whose seal is whole, in the order in which it came.
StoreContents readContents(StoreFile &file);

/// The measurements of one region, in the order in which they were begun.
std::vector<Measurement> readMeasurements(StoreFile &file, const std::string &region);

/// The choices for regions of these ops on one device, whatever their shapes.
std::vector<Choice> readChoices(StoreFile &file, const std::string &ops, const std::string &sku);

/// Takes over, as one transaction, what is not there and what is better: a timed choice over an untimed one, then more
/// effort over less, then the later one; of measurements the later one. Peaks that are there stay.
Result<StoreChanges> addContents(StoreFile &file, const StoreContents &contents);

/// Whether machine code is taken over: not from a store that is not trusted (tuner/store/StoreTrust.h).
enum class Binaries : std::uint8_t { Left, Taken };

/// The same with the machine code of the choices taken over.
Result<StoreChanges> merge(StoreFile &into, StoreFile &from, Binaries binaries = Binaries::Taken);

/// Removes rows and gives their space back to the disk.
Result<StoreChanges> prune(StoreFile &file, const PruneOptions &options);

/// Reads every page and checks every seal.
StoreVerdict verify(StoreFile &file);

} // namespace kfuse::tuner
