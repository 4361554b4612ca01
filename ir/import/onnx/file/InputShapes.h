// Static shapes for a graph's inputs: what the file says, completed by what the caller gives.
#pragma once

#include "ir/import/onnx/file/onnx.pb.h"
#include "kfuse/error.h"
#include "kfuse/types.h"

#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kfuse::ir::onnx {

struct InputShapes {
  std::vector<TensorDesc> inputs;
  std::map<std::string, std::int64_t> symbols; ///< Sizes of symbolic dimensions.
};

/// Types and shapes of `inputs`, in order. `given` holds shapes by input name, or sizes of symbolic
/// dimensions by theirs, as `sizes` does, which come from --dims; a symbolic dimension has one size wherever it
/// appears, and one that is named like a sum, "past + 1", has that of the sum. Usage when a given shape does not fit or
/// some are missing, which the message then gives as options to copy; BadModel for inputs that are no tensors of a type
/// kfuse has.
Result<InputShapes> bindInputShapes(const std::vector<const ::onnx::ValueInfoProto *> &inputs,
                                    const std::map<std::string, Shape> &given,
                                    const std::map<std::string, std::int64_t> &sizes = {});

/// The shape that the file gives a value; nothing where a size is open.
std::optional<llvm::SmallVector<std::int64_t, 6>> boundShape(const ::onnx::ValueInfoProto &info,
                                                             const std::map<std::string, std::int64_t> &symbols);

} // namespace kfuse::ir::onnx
