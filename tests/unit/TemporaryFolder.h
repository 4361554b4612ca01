// A folder that lives as long as a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kfuse::tuner::test {

struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kfuse-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::filesystem::path path;
};

} // namespace kfuse::tuner::test
