// libkfuse.so has a C++ runtime inside: what callbacks throw does not pass through it, and what value() throws is of
// this program. Prints what does not hold.
#include <kfuse/kfuse.h>

#include <cstdio>
#include <stdexcept>

namespace {

int failures = 0;

void expect(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "misuse: %s\n", what);
  ++failures;
}

/// A model of `size` elements: another size in each call, so that the store does not have it.
kfuse::Model modelOf(std::int64_t size) {
  kfuse::GraphBuilder g;
  g.output("y", g.relu(g.input("x", kfuse::DType::F32, {size})));
  return kfuse::Model::fromGraph(g.build().value()).value();
}

kfuse::Result<kfuse::Executable> compileWith(std::int64_t size, bool (*progress)(const kfuse::Progress &)) {
  kfuse::CompileOptions options;
  options.target = "cpu";
  options.effort = kfuse::Effort::None;
  options.progress = progress;
  return kfuse::compile(modelOf(size), options);
}

} // namespace

int main() {
  auto failed = compileWith(64, [](const kfuse::Progress &) -> bool { throw std::runtime_error("thrown in anger"); });
  expect(!failed && failed.error().code == kfuse::ErrorCode::Cancelled &&
             failed.error().message == "the callback 'progress' threw: thrown in anger",
         "what a callback throws is an error");
  failed = compileWith(65, [](const kfuse::Progress &) -> bool { throw 5; });
  expect(!failed, "what a callback throws is an error, whatever it is");

  bool isCaught = false;
  try {
    kfuse::Model::load("/nowhere/absent.onnx").value();
  } catch (const kfuse::Exception &thrown) {
    isCaught = thrown.code() == kfuse::ErrorCode::Io && std::string(thrown.what()).find("absent") != std::string::npos;
  }
  expect(isCaught, "value() throws the error");

  failed = compileWith(66, nullptr);
  expect(static_cast<bool>(failed), "the model compiles after all that");
  return failures;
}
