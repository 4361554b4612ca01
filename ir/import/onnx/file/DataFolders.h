// Where a model's external data may lie.
#pragma once

#include <filesystem>

namespace kfuse::ir::onnx {

/// A link in the model's folder could lead to any file of the machine. Caches are made of links, though, which keep the
/// model and its data side by side elsewhere: what a link leads to lies in one of these folders, or below it.
struct DataFolders {
  std::filesystem::path beside;   ///< The folder of the model's path, where locations start; "": there is no data.
  std::filesystem::path resolved; ///< The folder of the model's file, behind all links.

  /// The folders of a file behind all links. Asks where `beside` is.
  bool hold(const std::filesystem::path &place) const;
};

} // namespace kfuse::ir::onnx
