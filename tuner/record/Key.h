// Keys of the store: what a tuned region and a measured kernel are known by.
#pragma once

#include "codegen/KernelPlan.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace kfuse::tuner {

/// A name-based UUID (RFC 4122 version 5, SHA-1) of `parts`: the same on every machine and in every
/// release. Parts are length-prefixed, so {"ab", "c"} and {"a", "bc"} differ.
std::string stableHash(std::initializer_list<std::string_view> parts);

/// SHA-256 in hexadecimal digits. The kernels of an example block are 32 to 127 KB: hashing them is no measurable part
/// of a warm start.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

/// Key of one measured kernel. It covers all that can change its machine code or its time: source,
/// options, launches, buffers, compiler and device. The plan's name is for people and is left out.
std::string tuningKey(const codegen::KernelPlan &plan, std::string_view compilerVersion, std::string_view sku);

/// Key of what a plan's source compiles to, whatever its launches and buffers are, which its comments may name.
std::string codeKey(const codegen::KernelPlan &plan);

/// Key under which the choice for one region is found without emitting any candidate.
/// `templateVersion` is the template's name and revision.
std::string regionKey(std::string_view signature, std::string_view templateVersion, std::string_view target,
                      std::string_view sku, std::string_view compilerVersion);

} // namespace kfuse::tuner
