// Builds source text line by line, indented by its open braces.
#pragma once

#include "llvm/ADT/Twine.h"

#include <string>
#include <vector>

namespace kfuse::codegen::cuda {

class SourceWriter {
public:
  void line(const llvm::Twine &text = "") { lines.push_back({depth, text.str()}); }
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
  /// What the other has written, indented as this one is.
  void append(const SourceWriter &other) {
    for (const Line &each : other.lines)
      lines.push_back({depth + each.depth, each.text});
  }
  std::string str() const {
    std::string source;
    for (const Line &each : lines) {
      if (!each.text.empty())
        source.append(2 * each.depth, ' ').append(each.text);
      source += '\n';
    }
    return source;
  }

private:
  struct Line {
    std::size_t depth;
    std::string text;
  };
  std::vector<Line> lines;
  std::size_t depth = 0;
};

} // namespace kfuse::codegen::cuda
