// Why kernels that meet are two.
#pragma once

#include "passes/FusionReport.h"
#include "passes/fuse/Chains.h"

namespace kfuse::passes {

/// On a function: why no kernel takes the kfuse.attention of each number (attentionAttrName) whole.
inline constexpr llvm::StringLiteral attentionRefusalsAttrName = "kfuse.attention_refusals";

/// For each pair of groups that meet and are not one launch: the rule behind it where there is one, else what the
/// templates or the estimates say.
std::vector<FusionRefusal> refusalsOf(const OpGraph &graph, llvm::ArrayRef<Launched> launches,
                                      const RegionBuilder &regions, RegionCosts &costs);

} // namespace kfuse::passes
