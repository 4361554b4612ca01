#include "passes/simplify/Masks.h"

#include "passes/Generated.h"
#include "passes/simplify/Matchers.h"

#include "ir/reference/Attributes.h"
#include "ir/reference/Evaluator.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>
#include <optional>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// What is evaluated here, of elements; the reference takes some 10 ns for each.
constexpr int64_t mostElements = 1 << 24;
/// The same of masks that are made of indices already, as most kernels understand them anyhow.
constexpr int64_t mostGenerated = 1 << 20;
constexpr unsigned mostOps = 64;

/// Values that depend on constants alone.
class KnownValues {
public:
  explicit KnownValues(int64_t mostElements) : mostElements(mostElements) {}

  /// Null where `value` does not, or is too large.
  const reference::HostTensor *of(Value value) {
    if (auto known = tensors.find(value); known != tensors.end())
      return &known->second;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumRegions() != 0 || typeOf(value).getNumElements() > mostElements || tensors.size() >= mostOps)
      return nullptr;
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      Result<reference::HostTensor> tensor = reference::tensorOf(constant.getValue());
      return tensor ? &(tensors[value] = std::move(*tensor)) : nullptr;
    }
    if (!isa<FusableOpInterface>(op))
      return nullptr;
    std::vector<reference::HostTensor> operands;
    for (Value operand : op->getOperands()) {
      const reference::HostTensor *tensor = of(operand);
      if (!tensor)
        return nullptr;
      operands.push_back(*tensor);
    }
    Result<reference::HostTensor> result = reference::evaluateOp(op, operands);
    return result ? &(tensors[value] = std::move(*result)) : nullptr;
  }

private:
  int64_t mostElements;
  llvm::DenseMap<Value, reference::HostTensor> tensors;
};

/// Whether each way back ends at a constant or an index, after few ops.
bool dependsOnConstants(Value value, unsigned &opsLeft) {
  Operation *op = value.getDefiningOp();
  if (!op || opsLeft == 0 || (!isa<FusableOpInterface>(op) && !isa<ConstantOp>(op)))
    return false;
  --opsLeft;
  return llvm::all_of(op->getOperands(), [&](Value operand) { return dependsOnConstants(operand, opsLeft); });
}

/// The elements of a mask as rows of keys, true where one has the value that the first seen key has.
struct Rows {
  int64_t rows, keys;
  std::vector<bool> isSeen;

  bool at(int64_t row, int64_t key) const { return isSeen[static_cast<size_t>(row * keys + key)]; }
};

/// Keys from row + lowest to row + highest, of the row's chunk.
struct Pattern {
  std::optional<int64_t> lowest, highest;
  int64_t chunk = 0, rowInChunks = 0;

  bool sees(int64_t row, int64_t key) const {
    return (!lowest || key >= row + *lowest) && (!highest || key <= row + *highest) &&
           (chunk == 0 || key / chunk == (row + rowInChunks) / chunk);
  }
};

/// The keys from first to end that a row sees, where there are some and no others.
std::optional<std::pair<int64_t, int64_t>> spanOf(const Rows &mask, int64_t row) {
  int64_t first = 0, end = mask.keys;
  while (first < end && !mask.at(row, first))
    ++first;
  while (end > first && !mask.at(row, end - 1))
    --end;
  return first < end ? std::make_optional(std::make_pair(first, end)) : std::nullopt;
}

bool holds(const Pattern &pattern, const Rows &mask) {
  for (int64_t row = 0; row < mask.rows; ++row)
    for (int64_t key = 0; key < mask.keys; ++key)
      if (pattern.sees(row, key) != mask.at(row, key))
        return false;
  return true;
}

/// The pattern of `mask`, read off the first rows whose keys begin and end inside, then looked up everywhere.
std::optional<Pattern> patternOf(const Rows &mask) {
  Pattern band;
  std::vector<std::pair<int64_t, int64_t>> starts; // Rows with which the first key grows, and that key.
  for (int64_t row = 0; row < mask.rows; ++row) {
    const auto span = spanOf(mask, row);
    if (!span)
      continue;
    if (span->first > 0 && !band.lowest)
      band.lowest = span->first - row;
    if (span->second < mask.keys && !band.highest)
      band.highest = span->second - 1 - row;
    if (span->first > 0 && (starts.empty() || starts.back().second < span->first))
      starts.emplace_back(row, span->first);
  }
  if (!band.lowest && !band.highest)
    return std::nullopt; // All keys, or none; or those of each row are not neighbours.
  if (holds(band, mask))
    return band;
  if (starts.empty())
    return std::nullopt;
  Pattern chunks;
  chunks.chunk = starts.size() > 1 ? starts[1].second - starts[0].second : starts[0].second;
  chunks.rowInChunks = starts[0].second - starts[0].first;
  if (chunks.rowInChunks < 0)
    return std::nullopt;
  if (holds(chunks, mask))
    return chunks;
  // Inside a chunk a row may see keys up to its own, or a window's: either shows where a span ends in mid-chunk.
  for (int64_t row = 0; row < mask.rows; ++row)
    if (const auto span = spanOf(mask, row)) {
      if (!chunks.highest && span->second < mask.keys && span->second % chunks.chunk != 0)
        chunks.highest = span->second - 1 - row;
      if (!chunks.lowest && span->first % chunks.chunk != 0)
        chunks.lowest = span->first - row;
    }
  return holds(chunks, mask) ? std::make_optional(chunks) : std::nullopt;
}

/// The pattern's ops, [1, ..., rows, keys].
class MaskWriter {
public:
  MaskWriter(OpBuilder &builder, Location location, RankedTensorType type)
      : builder(builder), location(location), type(type) {}

  Value write(const Pattern &pattern) {
    const unsigned rank = type.getRank();
    const Value row = iota(rank - 2), key = iota(rank - 1);
    if (pattern.highest)
      join(builder.create<LeOp>(location, key, plus(row, *pattern.highest)));
    if (pattern.lowest)
      join(builder.create<GeOp>(location, key, plus(row, *pattern.lowest)));
    if (pattern.chunk > 0)
      join(builder.create<EqOp>(location, quotient(key, pattern.chunk),
                                quotient(plus(row, pattern.rowInChunks), pattern.chunk)));
    return condition;
  }

private:
  RankedTensorType indices(unsigned dim) const {
    SmallVector<int64_t> shape(type.getRank(), 1);
    if (dim < shape.size())
      shape[dim] = type.getDimSize(dim);
    return RankedTensorType::get(shape, builder.getI32Type());
  }
  Value iota(unsigned dim) { return builder.create<IotaOp>(location, indices(dim), builder.getI64IntegerAttr(dim)); }
  Value number(int64_t value) {
    return makeSplat(builder, location, RankedTensorType::get({}, builder.getI32Type()), static_cast<double>(value));
  }
  Value plus(Value index, int64_t offset) {
    return offset == 0 ? index : builder.create<AddOp>(location, index, number(offset)).getResult();
  }
  Value quotient(Value index, int64_t by) { return builder.create<DivOp>(location, index, number(by)); }
  void join(Value part) { condition = condition ? builder.create<AndOp>(location, condition, part).getResult() : part; }

  OpBuilder &builder;
  Location location;
  RankedTensorType type;
  Value condition;
};

/// The first [rows, keys] of a tensor, where all are the same; true where elements equal `value`.
std::optional<Rows> rowsOf(const reference::HostTensor &tensor, const std::byte *value) {
  const size_t width = tensor.bytes.size() / static_cast<size_t>(tensor.size()), rank = tensor.shape.size();
  Rows mask{tensor.shape[rank - 2], tensor.shape[rank - 1], {}};
  const size_t bytes = static_cast<size_t>(mask.rows * mask.keys) * width;
  for (size_t at = bytes; at < tensor.bytes.size(); at += bytes)
    if (std::memcmp(tensor.bytes.data(), tensor.bytes.data() + at, bytes) != 0)
      return std::nullopt;
  mask.isSeen.resize(static_cast<size_t>(mask.rows * mask.keys));
  for (size_t i = 0; i < mask.isSeen.size(); ++i)
    mask.isSeen[i] = std::memcmp(tensor.bytes.data() + i * width, value, width) == 0;
  return mask;
}

/// Two elements that stand for both values of the tensor, the one that is likely to be of keys that are seen first:
/// true, or the larger number. Null where it holds one value, or more than two.
std::optional<std::pair<int64_t, int64_t>> twoValues(const reference::HostTensor &tensor) {
  const size_t width = tensor.bytes.size() / static_cast<size_t>(tensor.size());
  auto at = [&](int64_t i) { return tensor.bytes.data() + static_cast<size_t>(i) * width; };
  auto isSame = [&](int64_t i, int64_t j) { return std::memcmp(at(i), at(j), width) == 0; };
  std::optional<int64_t> other;
  for (int64_t i = 1; i < tensor.size(); ++i) {
    if (isSame(i, 0))
      continue;
    if (!other)
      other = i;
    else if (!isSame(i, *other))
      return std::nullopt;
  }
  if (!other)
    return std::nullopt;
  auto numberAt = [&](int64_t i) {
    reference::Number number;
    reference::readNumbers(tensor.type, tensor.bytes.data(), i, 1, 1, &number);
    return isFloat(tensor.type) ? number.real : static_cast<double>(number.integer);
  };
  return numberAt(0) < numberAt(*other) ? std::make_pair(*other, int64_t{0}) : std::make_pair(int64_t{0}, *other);
}

Value splatOf(OpBuilder &builder, Location location, const reference::HostTensor &tensor, int64_t element) {
  const size_t width = tensor.bytes.size() / static_cast<size_t>(tensor.size());
  reference::HostTensor scalar = reference::HostTensor::zeros(tensor.type, {});
  std::memcpy(scalar.bytes.data(), tensor.bytes.data() + static_cast<size_t>(element) * width, width);
  return builder.create<ConstantOp>(location, reference::attributeOf(scalar, builder.getContext()));
}

/// The mask, which depends on constants alone.
Value maskOfIndices(Value mask) {
  const RankedTensorType type = typeOf(mask);
  KnownValues known(isGenerated(mask) ? mostGenerated : mostElements);
  const reference::HostTensor *tensor = known.of(mask);
  const auto values = tensor ? twoValues(*tensor) : std::nullopt;
  if (!values)
    return {};
  const size_t width = tensor->bytes.size() / static_cast<size_t>(tensor->size());
  for (auto [seen, hidden] : {*values, std::make_pair(values->second, values->first)}) {
    const std::byte *seenValue = tensor->bytes.data() + static_cast<size_t>(seen) * width;
    const std::optional<Rows> rows = rowsOf(*tensor, seenValue);
    const std::optional<Pattern> pattern = rows ? patternOf(*rows) : std::nullopt;
    if (!pattern)
      continue;
    const Location location = mask.getLoc();
    OpBuilder builder(mask.getContext());
    builder.setInsertionPointAfterValue(mask);
    Value made = MaskWriter(builder, location, type).write(*pattern);
    if (tensor->type != DType::Bool)
      made = builder.create<WhereOp>(location, made, splatOf(builder, location, *tensor, seen),
                                     splatOf(builder, location, *tensor, hidden));
    else if (*seenValue == std::byte{})
      made = builder.create<NotOp>(location, made);
    return broadcastTo(builder, made, type);
  }
  return {};
}

} // namespace

Value MasksOfIndices::of(Value mask) {
  const RankedTensorType type = typeOf(mask);
  const int64_t rank = type.getRank();
  unsigned opsLeft = mostOps;
  if (rank < 2 || type.getDimSize(rank - 1) < 2 || type.getDimSize(rank - 2) < 2 || splatValue(mask) ||
      !dependsOnConstants(mask, opsLeft))
    return {};
  auto [place, isNew] = made.try_emplace(mask);
  if (isNew)
    place->second = maskOfIndices(mask);
  return place->second;
}

} // namespace kfuse::passes
