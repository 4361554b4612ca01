// One node of an ONNX graph, as a handler sees it.
#pragma once

#include "ir/import/onnx/file/TensorReader.h"
#include "ir/import/onnx/node/Emitter.h"

#include "llvm/ADT/StringMap.h"

#include <functional>

namespace kfuse::ir::onnx {

/// A node's results in order. Null where kfuse does not make an optional one.
struct Values : llvm::SmallVector<mlir::Value, 1> {
  Values(mlir::Value one) : SmallVector{one} {}
  Values(std::initializer_list<mlir::Value> all) : SmallVector(all) {}
  explicit Values(llvm::ArrayRef<mlir::Value> all) : SmallVector(all) {}
};

/// Data of the file as a kernel is to read it.
using Conversion = std::function<ParameterData(const ParameterData &)>;

/// The graph that a node stands in.
class Surroundings {
public:
  virtual ~Surroundings() = default;
  /// The shape that the file gives a value, with symbolic sizes as bound; nothing where it is open.
  virtual std::optional<Ints> declaredShape(llvm::StringRef value) const = 0;
  /// The results of a graph that is an attribute of a node, for these inputs. Nothing after a failure.
  virtual std::optional<llvm::SmallVector<mlir::Value>> importBody(const ::onnx::GraphProto &body,
                                                                   llvm::ArrayRef<mlir::Value> inputs) = 0;
  /// The parameter, or constant, that `convert` makes of the data of one of the file: once, for all that ask for the
  /// same `form`. Null, and failed, for other values and where something reads it in another form.
  virtual mlir::Value converted(mlir::Value value, const std::string &form, const Conversion &convert) = 0;
  /// Whether converted() may give another form of a value: the file has its data, and one node alone reads it.
  virtual bool isConvertible(mlir::Value value) const = 0;
  /// Whether products alone read a value, as the right factor [K, N], and it is no output.
  virtual bool isRightFactor(llvm::StringRef value) const = 0;
  /// Whether a value's numbers are only moved, compared and cast by what reads it, and are no output.
  virtual bool isOnlyMoved(llvm::StringRef value) const = 0;
  /// Whether `input` is an input of the model that is read once, and `result` an output of it.
  virtual bool mayUpdate(llvm::StringRef input, llvm::StringRef result) const = 0;
};

class Node {
public:
  Node(const ::onnx::NodeProto &proto, llvm::ArrayRef<mlir::Value> inputs, Emitter &emit, TensorReader &tensors,
       Surroundings &around)
      : emit(emit), proto(proto), inputs(inputs), tensors(tensors), around(around) {}

  Emitter &emit;

  const ::onnx::NodeProto &getProto() const { return proto; }
  unsigned inputCount() const { return inputs.size(); }
  unsigned outputCount() const { return proto.output_size(); }
  /// Null when optional and absent; never null for the inputs that the op's row requires.
  mlir::Value input(unsigned i) const { return i < inputs.size() ? inputs[i] : mlir::Value(); }
  llvm::ArrayRef<mlir::Value> allInputs() const { return inputs; }
  llvm::ArrayRef<std::int64_t> dims(unsigned i) const { return dimsOf(inputs[i]); }
  std::int64_t rank(unsigned i) const { return dims(i).size(); }
  DType type(unsigned i) const { return dtypeOf(inputs[i].getType()); }

  // Attributes. One of another type than asked for fails the node.
  bool has(llvm::StringRef name) const { return find(name) != nullptr; }
  std::int64_t integer(llvm::StringRef name, std::int64_t otherwise);
  bool flag(llvm::StringRef name, bool otherwise = false) { return integer(name, otherwise) != 0; }
  double real(llvm::StringRef name, double otherwise);
  llvm::StringRef text(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<Ints> integerList(llvm::StringRef name);
  std::optional<HostTensor> tensor(llvm::StringRef name);
  const ::onnx::AttributeProto *find(llvm::StringRef name) const;
  /// The results of the graph that is attribute `name`, as part of this one. Nothing after a failure.
  std::optional<llvm::SmallVector<mlir::Value>> importBody(llvm::StringRef name, llvm::ArrayRef<mlir::Value> inputs);
  /// Input `i` in another form (Surroundings::converted).
  mlir::Value converted(unsigned i, const std::string &form, const Conversion &convert) {
    return around.converted(inputs[i], form, convert);
  }
  /// Whether input `i` may be converted.
  bool isConvertible(unsigned i) const { return around.isConvertible(inputs[i]); }
  /// Whether products alone read result `i`, as the right factor [K, N].
  bool isRightFactor(unsigned i) const { return around.isRightFactor(proto.output(static_cast<int>(i))); }
  /// The shape that the file gives result `i`, where it does.
  std::optional<Ints> declaredShape(unsigned i) const;
  /// Whether the numbers of result `i` are only moved, compared and cast, and are no output.
  bool isOnlyMoved(unsigned i) const { return around.isOnlyMoved(proto.output(static_cast<int>(i))); }
  /// Whether result `i` may take the memory of input `from`, as a state's new value.
  bool mayUpdate(unsigned from, unsigned i) const;

  /// The elements of input `i`, which must be known now; `what` names it in the failure.
  std::optional<Ints> constantIntegers(unsigned i, llvm::StringRef what);
  /// The same of sizes, of which those of a cache are its capacity's (Emitter::sizeIntegers).
  std::optional<Ints> sizeIntegers(unsigned i, llvm::StringRef what);
  /// The attribute, or input `i`: what used to be an attribute before some opset. Nothing when neither
  /// is there, or when the node has failed.
  std::optional<Ints> attributeOrInput(llvm::StringRef name, unsigned i);
  /// `axis` counted from the front, within [0, rank); 0 and failed when it is outside.
  std::int64_t normalised(std::int64_t axis, std::int64_t rank);
  /// Ascending, unique axes.
  std::optional<Ints> normalised(llvm::ArrayRef<std::int64_t> axes, std::int64_t rank);

  mlir::Value fail(const llvm::Twine &reason) { return emit.fail(reason); }
  bool failed() const { return emit.failed(); }

private:
  const ::onnx::AttributeProto *find(llvm::StringRef name, ::onnx::AttributeProto::AttributeType type);

  const ::onnx::NodeProto &proto;
  llvm::ArrayRef<mlir::Value> inputs;
  TensorReader &tensors;
  Surroundings &around;
};

} // namespace kfuse::ir::onnx
