// kfuse_machine_code TARGET [--most N] [--only CONFIG] [--without CONFIG] FILE.mlir...: a region's candidates for a GPU
// that need not be here, in the order of the search (the first N, those whose text holds CONFIG or lacks it): modelled
// time, registers, bytes that spill, a digest of the machine code, config. Lists of two builds side by side tell which
// kernels of one have the other's times without being measured again.
#include "bench/Bench.h"
#include "bench/Candidates.h"
#include "codegen/cuda/text/DeviceLibrary.h"
#include "ir/dialect/Kfuse.h"
#include "tuner/record/Key.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace {

using namespace kfuse;
using namespace kfuse::bench;

template <class T> T readAt(std::span<const std::byte> image, std::size_t at) {
  if (at + sizeof(T) > image.size())
    succeed(Error{ErrorCode::Internal, "a cubin ends in the middle of its sections"});
  T value;
  std::memcpy(&value, image.data() + at, sizeof value);
  return value;
}

/// The instructions' alone: names, and what tools are told of them, lie in sections of their own.
std::string digestOf(std::span<const std::byte> cubin) {
  // ELF of 64 bits: where its section headers are, and in each of these.
  constexpr std::size_t headers = 40, headerBytes = 58, count = 60, flags = 8, offset = 24, size = 32;
  constexpr std::uint64_t isExecutable = 4;
  std::string code;
  const auto first = readAt<std::uint64_t>(cubin, headers);
  for (std::size_t i = 0; i < readAt<std::uint16_t>(cubin, count); ++i) {
    const std::size_t section = first + i * readAt<std::uint16_t>(cubin, headerBytes);
    if (!(readAt<std::uint64_t>(cubin, section + flags) & isExecutable))
      continue;
    const auto begin = readAt<std::uint64_t>(cubin, section + offset),
               bytes = readAt<std::uint64_t>(cubin, section + size);
    if (begin + bytes > cubin.size())
      succeed(Error{ErrorCode::Internal, "a section of a cubin ends behind it"});
    code.append(reinterpret_cast<const char *>(cubin.data()) + begin, bytes);
  }
  return tuner::stableHash({code}).substr(0, 8);
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> parts(argv + 1, argv + argc);
  auto takeOption = [&](std::string_view name) { return bench::takeOption(parts, name); };
  const CandidateFilter filter{std::strtoull(takeOption("--most").c_str(), nullptr, 10), takeOption("--only"),
                               takeOption("--without")};
  const ir::Target *target = parts.empty() ? nullptr : ir::findTarget(parts.front());
  if (!target || target->isCpu() || parts.size() < 2)
    succeed(
        Error{ErrorCode::Usage, "expected a GPU's target and files of regions: kfuse_machine_code sm_90a FILE.mlir"});
  const auto compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  mlir::MLIRContext context;
  context.loadDialect<ir::KfuseDialect, mlir::func::FuncDialect>();
  for (auto path = parts.begin() + 1; path != parts.end(); ++path) {
    const ParsedRegion parsed = parseRegion(context, readCase(*path));
    const std::vector<tuner::Candidate> candidates =
        candidatesOf(parsed.region, *target, compiler->version(), target->name, filter);
    std::vector<codegen::KernelPlan> plans;
    for (const tuner::Candidate &candidate : candidates)
      plans.push_back(candidate.plan);
    const std::vector<Result<runtime::CompiledKernel>> kernels = compileAll(*compiler, plans);
    std::printf("%s, %s, %s\n", path->c_str(), target->name.c_str(), compiler->version().c_str());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const runtime::CompiledKernel kernel = take(kernels[i]);
      std::printf("  %8.2f us  %3d registers  %4d spilled  %s  %s\n", candidates[i].estimateUs, kernel.facts.registers,
                  kernel.facts.spillBytes, digestOf(kernel.image).c_str(), candidates[i].config.str().c_str());
    }
    std::fflush(stdout);
  }
}
