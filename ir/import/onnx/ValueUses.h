// What the nodes of a graph do with its values.
#pragma once

#include "ir/import/onnx/file/onnx.pb.h"

#include "llvm/ADT/StringSet.h"

namespace kfuse::ir::onnx {

/// Adds what the nodes of `graph` and of the graphs inside of them read, and which floats of that an op must know.
void addNamesRead(const ::onnx::GraphProto &graph, llvm::StringSet<> &names, llvm::StringSet<> &numbers);

/// How often the nodes of `graph`, and of the graphs inside of them, read a value, or the graph returns it.
int usesOf(const ::onnx::GraphProto &graph, llvm::StringRef value);

/// Whether a value's numbers are only moved, compared and cast by what reads it, and are no output.
bool isOnlyMoved(const ::onnx::GraphProto &graph, llvm::StringRef value);

/// Whether products alone read a value, as the right factor [K, N], and it is no output.
bool isRightFactor(const ::onnx::GraphProto &graph, llvm::StringRef value);

} // namespace kfuse::ir::onnx
