// The cost model that fusion asks, by the kernel templates of a target.
#pragma once

#include "ir/CostModel.h"

#include <memory>

namespace kfuse::codegen {

std::unique_ptr<ir::CostModel> makeCostModel(const ir::Target &target);

} // namespace kfuse::codegen
