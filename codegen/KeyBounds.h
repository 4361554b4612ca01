// Which keys a row of an attention's scores sees, where its mask says so when it is compiled.
#pragma once

#include "ir/Scalar.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdint>
#include <optional>

namespace kfuse::codegen {

/// Keys in pieces of `size`, of which a row sees its own alone: (key + keyOffset) / size is (row + rowOffset) / size.
struct KeyChunks {
  int64_t size = 1, rowOffset = 0, keyOffset = 0;

  int64_t firstKey(int64_t row) const { return (row + rowOffset) / size * size - keyOffset; }
  friend bool operator==(const KeyChunks &, const KeyChunks &) = default;
};

/// A bound that is read at run time: integers that are the same for all keys of a row, added up, and the row's number
/// where it moves with that.
struct ReadBound {
  struct Term {
    ir::Scalar value;
    bool isSubtracted;
  };
  llvm::SmallVector<Term, 2> terms;
  int64_t offset = 0;
  bool movesWithRow = false;
  bool isOfRow = false; ///< The integers are not the same for all rows of a head.
};

/// A causal mask, a sliding window, chunks, or none: row r of the scores sees keys from r + lowest to r + highest, of
/// its chunk. All others have weight 0.
struct KeyBounds {
  std::optional<int64_t> lowest, highest;
  std::optional<KeyChunks> chunks;
  /// A row sees only those keys that each of `firsts` and `lasts` includes, too: a cache's position, a sequence's
  /// length, where a row's sequence begins and ends among packed ones.
  llvm::SmallVector<ReadBound, 1> firsts = {}, lasts = {};
  ir::Scalar seen; ///< The score of a key that is seen: the scores without this part of their mask.

  /// Whether every row sees every key.
  bool areAll() const { return !lowest && !highest && !chunks && !areRead(); }
  /// Whether some are known at run time alone; firstKey() and endKey() are what the others say.
  bool areRead() const { return !firsts.empty() || !lasts.empty(); }
  /// Whether some of these are read for each row.
  bool areOfRow() const {
    auto isOfRow = [](const ReadBound &bound) { return bound.isOfRow; };
    return llvm::any_of(firsts, isOfRow) || llvm::any_of(lasts, isOfRow);
  }
  int64_t firstKey(int64_t row) const;
  /// Behind the last key that `row` sees, of so many keys.
  int64_t endKey(int64_t row, int64_t keys) const;
  /// The share of all pairs of a row and a key that is seen.
  double share(int64_t rows, int64_t keys) const;
};

/// The bounds that the mask of scores over [batch..., rows, keys, elements] has: where(key <= row, score, -inf), and
/// what else models write for it, by sums with 0 and -inf or with the lowest float in its place, and by quotients that
/// are equal. What is added to a row's number or compared with a key may be read at run time.
KeyBounds keyBounds(const ir::ScalarGraph &scores);

} // namespace kfuse::codegen
