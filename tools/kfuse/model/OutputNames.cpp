#include "tools/kfuse/model/OutputNames.h"

#include <algorithm>
#include <set>

namespace kfuse::tools {
namespace {

std::string fileName(std::string name) {
  auto isNone = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  std::replace_if(name.begin(), name.end(), isNone, '_');
  return name;
}

} // namespace

std::vector<std::string> outputFileNames(std::span<const TensorDesc> outputs) {
  std::set<std::string> taken; // First the names that need no change: outputs' names are unique.
  for (const TensorDesc &output : outputs)
    if (fileName(output.name) == output.name)
      taken.insert(output.name);
  std::vector<std::string> files;
  for (const TensorDesc &output : outputs) {
    const std::string plain = fileName(output.name);
    std::string chosen = plain;
    for (int n = 2; plain != output.name && !taken.insert(chosen).second; ++n)
      chosen = plain + "-" + std::to_string(n);
    files.push_back(chosen + ".npy");
  }
  return files;
}

} // namespace kfuse::tools
