// Static shapes for a graph's inputs: what the file says, completed by what the caller gives.
#pragma once

#include "ir/import/onnx/onnx.pb.h"
#include "kfuse/error.h"
#include "kfuse/types.h"

#include <map>
#include <string>
#include <vector>

namespace kfuse::ir::onnx {

/// Types and shapes of `inputs`, in order. `given` holds shapes by input name, or sizes of symbolic
/// dimensions by theirs; a symbolic dimension has one size wherever it appears. Usage when a given shape
/// does not fit or one is missing, BadModel for inputs that are no tensors of a type kfuse has.
Result<std::vector<TensorDesc>> bindInputShapes(const std::vector<const ::onnx::ValueInfoProto *> &inputs,
                                                const std::map<std::string, Shape> &given);

} // namespace kfuse::ir::onnx
