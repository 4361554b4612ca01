// Builds source text line by line, indented by its open braces.
#pragma once

#include "llvm/ADT/Twine.h"

#include <string>

namespace kfuse::codegen::cuda {

class SourceWriter {
public:
  void line(const llvm::Twine &text = "") {
    std::string content = text.str();
    if (!content.empty())
      source.append(2 * depth, ' ').append(content);
    source += '\n';
  }
  /// A line that ends in an open brace; what follows is indented until close().
  void open(const llvm::Twine &text) {
    line(text + " {");
    ++depth;
  }
  void close(const llvm::Twine &tail = "") {
    --depth;
    line("}" + tail);
  }
  /// Every line of `text` as a comment.
  void comment(llvm::StringRef text) {
    while (!text.empty()) {
      auto [first, rest] = text.split('\n');
      line(("// " + first).str());
      text = rest;
    }
  }
  std::string take() { return std::move(source); }

private:
  std::string source;
  std::size_t depth = 0;
};

} // namespace kfuse::codegen::cuda
