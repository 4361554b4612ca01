// Writes every block of the catalogue as FOLDER/NAME.mlir: write_blocks examples/models
#include "examples/blocks/Catalogue.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "write_blocks: expected the folder to write to, e.g. write_blocks examples/models\n");
    return 2;
  }
  for (const kfuse::examples::Example &example : kfuse::examples::catalogue()) {
    kfuse::Result<kfuse::Graph> graph = example.build();
    if (!graph) {
      std::fprintf(stderr, "write_blocks: %s: %s\n", example.name.c_str(), graph.error().message.c_str());
      return static_cast<int>(graph.error().code);
    }
    std::filesystem::path path = std::filesystem::path(argv[1]) / (example.name + ".mlir");
    std::ofstream file(path);
    file << graph->text();
    if (!file.flush()) {
      std::fprintf(stderr, "write_blocks: %s cannot be written; check that the folder exists\n", path.c_str());
      return static_cast<int>(kfuse::ErrorCode::Io);
    }
  }
}
