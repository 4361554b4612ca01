// Whether the machine code in a store may run: who else could have written it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kfuse::tuner {

/// A store is code: whoever may write it decides what runs in every process that loads kernels from it. Its seals are
/// no signature, as anybody can make one; they show damage.
enum class StoreTrust : std::uint8_t {
  Checked, ///< Machine code is used unless there is whyNotTrusted().
  Given    ///< The user vouches for all who may write the store.
};

/// What lets anybody but the user and root write the store, and what to do about it: "others may write PATH (mode
/// 0666): chmod go-w PATH". Looked at are the file, SQLite's files beside it, its folder, and the folders above, of
/// which one that nobody else may enter keeps others from all below. In a folder with the sticky bit (/tmp) others
/// cannot replace what is not theirs. Nothing where nobody else may write.
std::optional<std::string> whyNotTrusted(const std::filesystem::path &store);

/// SQLite takes what lies beside a database by the name of its log for a part of it: what somebody else has put there,
/// beside a file that only its owner may write, is not to be read. Says what lies there and what to do.
std::optional<std::string> plantedCompanion(const std::filesystem::path &store);

} // namespace kfuse::tuner
