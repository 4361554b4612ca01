#include "codegen/cuda/text/DeviceLibrary.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kfuse::codegen;
using namespace kfuse::codegen::cuda;

TEST_CASE("device library: a kernel's digest is of what its source includes, by way of others too") {
  const std::vector<DeviceHeader> headers{{"kfuse/copy.cuh", "#include <kfuse/types.cuh>\n"},
                                          {"kfuse/math.cuh", "#pragma once\n"},
                                          {"kfuse/types.cuh", "#include <kfuse/copy.cuh>\n// A circle ends.\n"}};
  const std::string source = "// A kernel.\n#include <kfuse/copy.cuh>\n#include <cuda_fp16.h>\n";
  const std::string digest = deviceLibraryDigest(source, headers);
  CHECK(deviceLibraryDigest(source + "void kernel();\n", headers) == digest);
  CHECK(deviceLibraryDigest(source + "#include <kfuse/math.cuh>\n", headers) != digest);
  for (std::size_t changed = 0; changed < headers.size(); ++changed) {
    std::vector<DeviceHeader> others = headers;
    others[changed].text += "// Changed.\n";
    CHECK((deviceLibraryDigest(source, others) == digest) == (headers[changed].name == "kfuse/math.cuh"));
  }
}

TEST_CASE("device library: every include of its headers is one that the digest follows") {
  for (const DeviceHeader &header : deviceHeaders()) {
    CAPTURE(header.name);
    const std::string source = "#include <" + header.name + ">\n";
    CHECK(deviceLibraryDigest(source) != deviceLibraryDigest(""));
    for (std::size_t at = header.text.find("#include"); at != std::string::npos;
         at = header.text.find("#include", at + 1)) {
      CHECK((at == 0 || header.text[at - 1] == '\n'));
      CHECK(header.text.compare(at, 10, "#include <") == 0);
    }
  }
}
