// Runs a fuzzer's function on files: what libFuzzer once found stays fixed, with any compiler.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int argc, char **argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i)
    for (const std::filesystem::directory_entry &entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file())
        continue;
      std::ifstream stream(entry.path(), std::ios::binary);
      std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
      std::printf("%s: %zu bytes\n", entry.path().c_str(), bytes.size());
      std::fflush(stdout); // Names the file that crashes.
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
      ++files;
    }
  std::printf("%d files replayed\n", files);
  return files > 0 ? 0 : 1;
}
