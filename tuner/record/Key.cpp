#include "tuner/record/Key.h"

#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/SHA256.h>

#include <algorithm>

namespace kfuse::tuner {
namespace {

/// A fixed random UUID, so that kfuse's names collide with nobody's.
constexpr boost::uuids::uuid keySpace{
    {0x3b, 0x1c, 0x7e, 0x52, 0x90, 0x4d, 0x4f, 0x0a, 0x8e, 0x61, 0x27, 0xd4, 0x5a, 0xc0, 0x93, 0xf8}};

std::string launchText(const codegen::Launch &launch) {
  std::string text = fmt::format("{} grid {} block {} cluster {} shared {} dependent {}{} items {} grain {}",
                                 launch.entry, fmt::join(launch.grid, "x"), fmt::join(launch.block, "x"),
                                 fmt::join(launch.cluster, "x"), launch.sharedBytes, launch.programmaticLaunch,
                                 launch.needsNoL1 ? " no L1" : "", launch.items, launch.grain);
  for (const codegen::KernelArg &arg : launch.args)
    text += fmt::format(" arg {}:{}", static_cast<int>(arg.kind), arg.index);
  return text;
}

std::string tensorMapText(const codegen::TensorMapRecipe &recipe) {
  return fmt::format("{}{} {} sizes {} strides {} box {} swizzle {} at {}", recipe.inWorkspace ? "w" : "",
                     recipe.buffer, toString(recipe.type), fmt::join(recipe.sizes, "x"),
                     fmt::join(recipe.strideBytes, "x"), fmt::join(recipe.box, "x"), recipe.swizzleBytes,
                     recipe.offsetBytes);
}

std::string launchesAndBuffers(const codegen::KernelPlan &plan) {
  std::string text = fmt::format("workspace {} zeroed {} in place {} behind {}\n", plan.workspaceBytes,
                                 plan.zeroedBytes, fmt::join(plan.inPlace, ","), plan.programmaticLaunch);
  for (const codegen::BufferDesc &input : plan.inputs)
    text += fmt::format("in {} {}\n", toString(input.type), toString(input.shape));
  for (const codegen::BufferDesc &output : plan.outputs)
    text += fmt::format("out {} {}\n", toString(output.type), toString(output.shape));
  for (const codegen::Launch &launch : plan.launches)
    text += launchText(launch) + "\n";
  for (const codegen::TensorMapRecipe &recipe : plan.tensorMaps)
    text += tensorMapText(recipe) + "\n";
  return text;
}

} // namespace

std::string stableHash(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts)
    text += fmt::format("{}:{}", part.size(), part);
  boost::uuids::name_generator_sha1 generate(keySpace);
  return boost::uuids::to_string(generate(text));
}

std::string sha256(std::span<const std::byte> bytes) {
  return llvm::toHex(
      llvm::SHA256::hash(llvm::ArrayRef(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size())),
      /*LowerCase=*/true);
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

std::string tuningKey(const codegen::KernelPlan &plan, std::string_view compilerVersion, std::string_view sku) {
  return stableHash({plan.source, fmt::format("{}", fmt::join(plan.options, "\n")), launchesAndBuffers(plan),
                     plan.target, compilerVersion, sku});
}

std::string codeKey(const codegen::KernelPlan &plan) {
  std::string_view code = plan.source; // Behind the comments at its head, which say what the region is.
  while (code.starts_with("//"))
    code.remove_prefix(std::min(code.find('\n'), code.size() - 1) + 1);
  return stableHash({code, fmt::format("{}", fmt::join(plan.options, "\n")), plan.target});
}

std::string regionKey(std::string_view signature, std::string_view templateVersion, std::string_view target,
                      std::string_view sku, std::string_view compilerVersion) {
  return stableHash({signature, templateVersion, target, sku, compilerVersion});
}

} // namespace kfuse::tuner
