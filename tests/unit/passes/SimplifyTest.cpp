// Simplification keeps what a graph computes: every function of the FileCheck tests, evaluated before
// and after.
#include "PassHarness.h"

#include "passes/Passes.h"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::string readFile(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The parts of a file between "// -----" lines.
std::vector<std::string> splitModules(const std::string &text) {
  std::vector<std::string> parts;
  const std::string separator = "// -----";
  for (size_t begin = 0; begin != std::string::npos;) {
    size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    begin = end == std::string::npos ? end : end + separator.size();
  }
  return parts;
}

} // namespace

TEST_CASE("simplify keeps what every FileCheck function computes") {
  int functions = 0;
  for (const auto &entry : std::filesystem::directory_iterator(KFUSE_TEST_DIR "/filecheck")) {
    std::string file = entry.path().filename().string();
    if (file.rfind("simplify", 0) != 0)
      continue;
    for (const std::string &text : splitModules(readFile(entry.path()))) {
      ParsedModule before(text), after(text);
      REQUIRE_MESSAGE(before.module, file << ": " << before.diagnostic);
      CHECK(runPasses(*after.module, [](mlir::PassManager &manager) {
              manager.addNestedPass<mlir::func::FuncOp>(passes::createSimplifyPass());
            }) == "");
      for (auto function : before.module->getOps<mlir::func::FuncOp>()) {
        CAPTURE(file);
        CAPTURE(function.getName().str());
        Arguments arguments = randomArguments(function, 7);
        // Constants such as 1/sqrt 2 are written with 4 digits or more.
        checkSame(evaluate(after.module->lookupSymbol<mlir::func::FuncOp>(function.getName()), arguments),
                  evaluate(function, arguments), ir::dtypeOf(function.getResultTypes()[0]) == DType::F32 ? 2e-6 : 4e-3);
        ++functions;
      }
    }
  }
  CHECK(functions >= 40);
}
