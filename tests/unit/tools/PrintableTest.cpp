// Names of models, as people may be shown them, and as names of files.
#include "ir/Printable.h"
#include "tools/kfuse/model/OutputNames.h"
#include "tuner/report/Svg.h"

#include <doctest/doctest.h>

using namespace kfuse;

TEST_CASE("printable: what has a shape stays") {
  for (const char *text : {"", "relu 'node_1'", "a/b:0", "größe", "\xe5\xb1\x82", "\xf0\x9f\x98\x80", "back\\slash"})
    CHECK(ir::printable(text) == text);
}

TEST_CASE("printable: controls and bytes that are no UTF-8 are written out") {
  CHECK(ir::printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(ir::printable("a\nb\tc\r\x7f") == "a\\nb\\x09c\\x0d\\x7f");
  CHECK(ir::printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(ir::printable("\xc2\x9b"
                      "31m") == "\\u{9b}31m"); // One character that begins a command.
  CHECK(ir::printable("\xe2\x80\xae"
                      "abc") == "\\u{202e}abc"); // Turns what follows around.
  CHECK(ir::printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(ir::printable("caf\xe9") == "caf\\xe9");             // Latin-1.
  CHECK(ir::printable("\xe5\xb1") == "\\xe5\\xb1");          // Cut short.
  CHECK(ir::printable("\xc0\xaf") == "\\xc0\\xaf");          // Overlong.
  CHECK(ir::printable("\xed\xa0\x80") == "\\xed\\xa0\\x80"); // Half of a pair.
}

TEST_CASE("printable: pages hold no bytes that are no UTF-8") {
  CHECK(tuner::escaped("<a>\xff\x1b&\nb") == "&lt;a&gt;\\xff\\x1b&amp;\nb");
}

TEST_CASE("output names: no two outputs share a file") {
  auto filesOf = [](std::vector<std::string> names) {
    std::vector<TensorDesc> outputs;
    for (std::string &name : names)
      outputs.push_back({std::move(name), DType::F32, {1}});
    return tools::outputFileNames(outputs);
  };
  using Names = std::vector<std::string>;
  CHECK(filesOf({"y", "logits:0"}) == Names{"y.npy", "logits:0.npy"});
  CHECK(filesOf({"a/b", "c\\d"}) == Names{"a_b.npy", "c_d.npy"});
  CHECK(filesOf({"a/b", "a_b"}) == Names{"a_b-2.npy", "a_b.npy"});
  CHECK(filesOf({"a_b", "a/b", "a\\b", "a_b-2"}) == Names{"a_b.npy", "a_b-3.npy", "a_b-4.npy", "a_b-2.npy"});
  CHECK(filesOf({"../up", "..", "\x1b[1m"}) == Names{".._up.npy", "...npy", "_[1m.npy"});
}
