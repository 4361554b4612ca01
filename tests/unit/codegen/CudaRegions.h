// The regions that several tests of CUDA templates look at, and what a template says of one.
#pragma once

#include "codegen/KernelTemplate.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {

inline const ir::Target &ampere() { return *ir::findTarget("sm_80"); }

inline RegionCase region(const std::string &text) { return RegionCase({"case", text}); }

/// Why a template does not take a region on sm_80; "" where it does.
inline std::string refusal(const codegen::KernelTemplate &source, const RegionCase &given) {
  return source.match(given.region, ampere()).reason();
}

inline const char *const softmax = R"(
func.func @f(%a: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %0 = kfuse.softmax %a : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
  return %0 : tensor<4x64xbf16>
})";
inline const char *const product = R"(
func.func @f(%a: tensor<64x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<64x512xbf16> {
  %0 = kfuse.matmul %a, %b : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  return %0 : tensor<64x512xbf16>
})";

} // namespace kfuse::test
