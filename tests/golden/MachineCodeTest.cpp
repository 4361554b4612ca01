// What the compiler makes of a kernel's loops, waits and barriers, read from its machine code.
#include "codegen/cuda/Templates.h"
#include "tests/Skip.h"
#include "tests/golden/CompileHarness.h"
#include "tests/unit/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Where nvdisasm is: in the path, in a toolkit, or where tools/setup.sh puts it. Empty for nowhere, which the test
/// says.
std::filesystem::path disassembler() {
  namespace fs = std::filesystem;
  auto variable = [](const char *name, const fs::path &otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? fs::path(value) : otherwise;
  };
  std::vector<fs::path> folders{variable("CUDA_HOME", "/usr/local/cuda") / "bin"};
  std::istringstream path(variable("PATH", "").string());
  for (std::string folder; std::getline(path, folder, ':');)
    folders.emplace_back(folder);
  const fs::path wheels =
      variable("XDG_DATA_HOME", variable("HOME", "/") / ".local/share") / "kfuse" / "nvdisasm" / "nvidia";
  std::error_code none;
  for (const fs::directory_entry &toolkit : fs::directory_iterator(wheels, none))
    folders.push_back(toolkit.path() / "bin");
  for (const fs::path &folder : folders)
    if (fs::exists(folder / "nvdisasm", none))
      return folder / "nvdisasm";
  kfuse::testing::skip("there is no nvdisasm, which tools/setup.sh fetches");
  return {};
}

/// Compiles kernels and reads their instructions.
class MachineCode {
public:
  /// Nothing, and the test is skipped, where there is no compiler or no nvdisasm.
  static std::optional<MachineCode> here() {
    std::unique_ptr<runtime::KernelCompiler> compiler = compilerHere();
    std::filesystem::path nvdisasm = compiler ? disassembler() : "";
    if (nvdisasm.empty())
      return std::nullopt;
    return MachineCode(std::move(compiler), std::move(nvdisasm));
  }

  std::string of(const codegen::KernelPlan &plan) const {
    Result<runtime::CompiledKernel> kernel = compiler->compile(plan);
    REQUIRE_MESSAGE(kernel, kernel.error().message);
    tuner::test::TemporaryFolder folder;
    const std::filesystem::path cubin = folder.path / "kernel.cubin", listing = folder.path / "kernel.sass";
    std::ofstream(cubin, std::ios::binary)
        .write(reinterpret_cast<const char *>(kernel->image.data()),
               static_cast<std::streamsize>(kernel->image.size()));
    const std::string command = "'" + nvdisasm.string() + "' -c '" + cubin.string() + "' >'" + listing.string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream stream(listing);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

private:
  MachineCode(std::unique_ptr<runtime::KernelCompiler> compiler, std::filesystem::path nvdisasm)
      : compiler(std::move(compiler)), nvdisasm(std::move(nvdisasm)) {}

  std::unique_ptr<runtime::KernelCompiler> compiler;
  std::filesystem::path nvdisasm;
};

} // namespace

TEST_CASE("Compile: the first choice for Hopper multiplies on its tensor cores") {
  const std::optional<MachineCode> machineCode = MachineCode::here();
  if (!machineCode)
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  for (const TemplateCase &source : pairwiseProducts(4096, 4096, 4096)) {
    INFO(source.name);
    RegionCase given(source);
    const codegen::KernelTemplate &family = codegen::cuda::matmulTemplate();
    const std::vector<codegen::EstimatedConfig> configs = family.estimated(given.region, hopper);
    auto first = std::ranges::min_element(configs, {}, &codegen::EstimatedConfig::us);
    REQUIRE(first != configs.end());
    const std::string code = machineCode->of(planOf(family, given.region, first->config, hopper, source.name));
    const char *const instruction = isFloat8(given.region.mathType) ? "QGMMA" : "HGMMA";
    const std::size_t begin = code.find(instruction), end = code.rfind(instruction);
    REQUIRE(begin != std::string::npos);
    // Descriptors stay in uniform registers: moving them there took up to 32 instructions a K block.
    CHECK(code.substr(begin, end - begin).find("R2UR") == std::string::npos);
  }
}

TEST_CASE("Compile: attention on Hopper makes weights while values are multiplied") {
  const std::optional<MachineCode> machineCode = MachineCode::here();
  if (!machineCode)
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  for (int size : {64, 128}) {
    RegionCase given(flashCase({.heads = 32,
                                .keyHeads = 8,
                                .rows = 4096,
                                .keys = 4096,
                                .keySize = size,
                                .valueSize = size,
                                .mask = "causal"}));
    const codegen::KernelTemplate &flash = codegen::cuda::flashAttentionTemplate();
    const codegen::TileConfig config = flash.candidates(given.region, hopper).front();
    INFO(size << ": " << config.str());
    REQUIRE(config.valueOr("wgmma", 0) == 1);
    const std::string code = machineCode->of(planOf(flash, given.region, config, hopper, "attention")),
                      keys = "DEPBAR.LE gsb0, 0x1", values = "DEPBAR.LE gsb0, 0x0", exponential = "MUFU.EX2";
    int loops = 0;
    for (std::size_t at = code.find(keys); at != std::string::npos; at = code.find(keys, at + 1), ++loops) {
      const std::string between = code.substr(at, code.find(values, at) - at);
      std::int64_t exponentials = 0;
      for (std::size_t next = between.find(exponential); next != std::string::npos;
           next = between.find(exponential, next + 1))
        ++exponentials;
      // A thread's are half as many as the keys. Heads of 128 move a row's base rarely: there NVRTC 13.0 has a fifth of
      // them behind the wait, where the other warpgroup may multiply (docs/performance-attention.md: "Lengths").
      CHECK(exponentials >= (size > 64 ? config["keys"] * 3 / 8 : config["keys"] / 2));
    }
    CHECK(loops >= 2); // With a mask and without.
  }
}

TEST_CASE("Compile: clusters that share operands start and end without a fence of all memory") {
  const std::optional<MachineCode> machineCode = MachineCode::here();
  if (!machineCode)
    return;
  const ir::Target &hopper = *ir::findTarget("sm_90a");
  RegionCase given(pairwiseProducts(512, 1024, 1024).front());
  for (const codegen::KernelTemplate *variant :
       {&codegen::cuda::matmulSm90Template(), &codegen::cuda::matmulSm90SplitTemplate()}) {
    const std::vector<codegen::TileConfig> configs = variant->candidates(given.region, hopper);
    auto shared = std::find_if(configs.begin(), configs.end(), [](const codegen::TileConfig &config) {
      return config["cluster_m"] > 1 && config.valueOr("blocks_k", 1) == 1 && !config.has("segments");
    });
    REQUIRE(shared != configs.end());
    const std::string code = machineCode->of(planOf(*variant, given.region, *shared, hopper, shared->str()));
    CHECK(code.find("UCGABAR_WAIT") != std::string::npos);
    CHECK(code.find("MEMBAR.ALL.GPU") == std::string::npos);
  }
}

TEST_CASE("Compile: nothing is read before the kernel ahead has ended") {
  const std::optional<MachineCode> machineCode = MachineCode::here();
  if (!machineCode)
    return;
  // Rows that no access of 4 bytes is aligned to are copied element by element.
  std::vector<TemplateCase> sources = representatives();
  sources.push_back(
      {"product of rows of 17",
       "func.func @f(%a: tensor<4x2x16xf16>, %b: tensor<4x16x17xf16>) -> tensor<4x2x17xf16> { %0 = "
       "kfuse.matmul %a, %b : (tensor<4x2x16xf16>, tensor<4x16x17xf16>) -> tensor<4x2x17xf16> return %0 : "
       "tensor<4x2x17xf16> }"});
  std::size_t waiting = 0;
  for (const TemplateCase &source : sources)
    for (const codegen::KernelPlan &plan : plans(RegionCase(source).region, *ir::findTarget("sm_90a"), 2)) {
      INFO(source.name << ": " << plan.source);
      const std::string code = machineCode->of(plan);
      std::size_t entry = code.find(".section\t.text.");
      for (std::size_t next = 0; entry != std::string::npos; entry = next) {
        next = code.find(".section\t.text.", entry + 1);
        const std::string function = code.substr(entry, next - entry);
        const std::size_t wait = function.find("ACQBULK");
        waiting += wait != std::string::npos;
        // Decode attention reads its cache, which no kernel ahead writes, and the position.
        if (plan.source.find("readsAhead = true") != std::string::npos)
          continue;
        // Fixed inputs, which are constant and __restrict__, the compiler may read early: those loads are .CONSTANT.
        const bool hasFixed = plan.source.find("*__restrict__ in") != std::string::npos;
        std::istringstream lines(function.substr(0, wait == std::string::npos ? 0 : wait));
        for (std::string line; std::getline(lines, line);)
          if (line.find("LDG") != std::string::npos)
            CHECK_MESSAGE((hasFixed && line.find(".CONSTANT") != std::string::npos), line);
      }
    }
  CHECK(waiting >= sources.size());
}
