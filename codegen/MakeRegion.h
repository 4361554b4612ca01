// From a kfuse.fused op to what the kernel templates see.
#pragma once

#include "codegen/Region.h"
#include "kfuse/error.h"

#include "mlir/IR/Block.h"

namespace kfuse::codegen {

/// The region of a kfuse.fused body; the reason when it has no scalar form.
Result<Region> makeRegion(mlir::Block &body);

/// The same without its text, which takes the longest: enough to say what it costs.
Result<Region> makeRegionWithoutText(mlir::Block &body);

/// The same of a body that has one scalar form, without what its kernel's key needs: text and fixed inputs.
Result<Region> makeScalarRegion(mlir::Block &body);

/// Elements of an input that a graph can touch at most: a slice or a gather reads less than all.
double elementsRead(const ir::ScalarGraph &graph, unsigned input);

/// What so many elements of a type take in memory, of packed ones two a byte.
double bytesOf(double elements, DType type);

/// Per argument of a body: Region::isFixed.
std::vector<bool> fixedInputs(mlir::Block &body);

/// Sets a region's name and ops to those of a body, and adds up what they take.
Result<void> describe(Region &region, mlir::Block &body);

} // namespace kfuse::codegen
