#include "ir/import/onnx/node/Node.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::ir::onnx {

using ::onnx::AttributeProto;

const AttributeProto *Node::find(llvm::StringRef name) const {
  auto found = llvm::find_if(proto.attribute(), [&](const AttributeProto &one) { return name == one.name(); });
  return found == proto.attribute().end() ? nullptr : &*found;
}

const AttributeProto *Node::find(llvm::StringRef name, AttributeProto::AttributeType type) {
  const AttributeProto *attribute = find(name);
  if (!attribute || attribute->type() == type || attribute->type() == AttributeProto::UNDEFINED)
    return attribute;
  fail("attribute '" + name + "' is of type " + AttributeProto::AttributeType_Name(attribute->type()) + ", not " +
       AttributeProto::AttributeType_Name(type));
  return nullptr;
}

int64_t Node::integer(llvm::StringRef name, int64_t otherwise) {
  const AttributeProto *attribute = find(name, AttributeProto::INT);
  return attribute ? attribute->i() : otherwise;
}

double Node::real(llvm::StringRef name, double otherwise) {
  const AttributeProto *attribute = find(name, AttributeProto::FLOAT);
  return attribute ? attribute->f() : otherwise;
}

llvm::StringRef Node::text(llvm::StringRef name, llvm::StringRef otherwise) {
  const AttributeProto *attribute = find(name, AttributeProto::STRING);
  return attribute ? llvm::StringRef(attribute->s()) : otherwise;
}

std::optional<Ints> Node::integerList(llvm::StringRef name) {
  const AttributeProto *attribute = find(name, AttributeProto::INTS);
  return attribute ? std::optional(Ints(attribute->ints().begin(), attribute->ints().end())) : std::nullopt;
}

std::optional<HostTensor> Node::tensor(llvm::StringRef name) {
  const AttributeProto *attribute = find(name, AttributeProto::TENSOR);
  if (!attribute)
    return std::nullopt;
  Result<ParameterData> data = tensors.read(attribute->t());
  if (data)
    return toHost(*data);
  fail(data.error().message);
  return std::nullopt;
}

std::optional<llvm::SmallVector<mlir::Value>> Node::importBody(llvm::StringRef name,
                                                               llvm::ArrayRef<mlir::Value> bodyInputs) {
  const AttributeProto *attribute = find(name, AttributeProto::GRAPH);
  if (!attribute) {
    fail("has no attribute '" + name + "'");
    return std::nullopt;
  }
  return around.importBody(attribute->g(), bodyInputs);
}

std::optional<Ints> Node::declaredShape(unsigned i) const {
  return i < outputCount() ? around.declaredShape(proto.output(static_cast<int>(i))) : std::nullopt;
}

bool Node::mayUpdate(unsigned from, unsigned i) const {
  return input(from) && i < outputCount() &&
         around.mayUpdate(proto.input(static_cast<int>(from)), proto.output(static_cast<int>(i)));
}

std::optional<Ints> Node::constantIntegers(unsigned i, llvm::StringRef what) {
  if (!Emitter::varies(input(i)))
    return sizeIntegers(i, what);
  fail(what + " (input " + llvm::Twine(i) +
       ") depends on the length of a cache's past; it must be the same in each run");
  return std::nullopt;
}

std::optional<Ints> Node::sizeIntegers(unsigned i, llvm::StringRef what) {
  std::optional<Ints> values = Emitter::sizeIntegers(input(i));
  if (!values)
    fail(what + " (input " + llvm::Twine(i) +
         ") must be known when the model is read, of an integer type and of at most " + llvm::Twine(maxFoldedElements) +
         " elements");
  return values;
}

std::optional<Ints> Node::attributeOrInput(llvm::StringRef name, unsigned i) {
  return input(i) ? constantIntegers(i, name) : integerList(name);
}

int64_t Node::normalised(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  fail("axis " + llvm::Twine(axis) + " of a tensor of " + llvm::Twine(rank) + " dimensions");
  return 0;
}

std::optional<Ints> Node::normalised(llvm::ArrayRef<int64_t> axes, int64_t rank) {
  Ints result;
  for (int64_t axis : axes)
    result.push_back(normalised(axis, rank));
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail("axes " + toString(axes) + " name a dimension twice");
  return failed() ? std::nullopt : std::optional(result);
}

} // namespace kfuse::ir::onnx
