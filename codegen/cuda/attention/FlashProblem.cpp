#include "codegen/cuda/attention/FlashProblem.h"

#include "codegen/OtherDims.h"
#include "codegen/cuda/attention/AttentionForms.h"
#include "codegen/cuda/attention/HeadChunk.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"
#include "codegen/cuda/text/TensorMaps.h"

#include "ir/IndexMath.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostNewRows = 64; ///< Written by one block of a pair; of more a kernel of its own takes less time.
constexpr int64_t mostSize = 256;   ///< The largest head: accumulators of 16 rows take 128 registers.

DType typeOf(const LinearGraph &graph, Scalar load) { return graph.graph.inputs[graph[load].input].type; }

// Each finds a part of the problem, and says why the template does not take that, or "".

std::string findOperands(FlashProblem &p) {
  const std::string reason = findProducts(p);
  if (!reason.empty())
    return reason;
  p.computesQuery = !isPlainLoad(p.scores, p.query);
  const ChunkPrinter chunk(p.scores, p.rank() - 1, 8);
  p.queryBytes = p.computesQuery ? chunk.bytesOf(chunk.loadsOf(p.query)) : 0;
  return whyNotRow(p.scores, p.query, p.rank() - 1, "queries");
}

std::string findSizes(FlashProblem &p) {
  const ArrayRef<int64_t> extents = p.scores.extents(), ofProduct = p.product.extents();
  const unsigned rank = p.rank();
  p.rows = extents[rank - 3], p.keys = extents[rank - 2], p.keySize = extents[rank - 1];
  if (ofProduct.size() != rank || ofProduct.drop_back(2) != extents.drop_back(2) || ofProduct[rank - 1] != p.keys ||
      !isRowMajor(p.scores, p.scores.graph.outputs[0].map.getResult(0), p.dimRow(), rank - 2) ||
      !isRowMajor(p.product, p.product.offset(p.probabilities), p.dimRow(), rank - 1))
    return "its two products run over other rows";
  p.valueSize = ofProduct[rank - 2];
  constexpr int64_t mostKeysOfOne = 1024; // A block takes some 30 us for them.
  if (p.rows == 1 && p.keys > mostKeysOfOne)
    return "one query has its keys split over blocks";
  if (p.scores.dependsOn(p.query, p.dimColumn()))
    return "queries depend on the key";
  if (p.scores.dependsOn(p.key, p.dimRow()) || p.product.dependsOn(p.value, p.dimRow()))
    return "rows of one head have other keys";
  constexpr int64_t mostBlocks = int64_t{1} << 30;
  if (p.batches() * ceilDiv(p.rows, 16) > mostBlocks)
    return "it would take more blocks than a grid has";
  return "";
}

std::string whyNotElements(const Region &region, const FlashProblem &p) {
  auto isOther = [](DType type) { return type != DType::F32 && type != DType::BF16 && type != DType::F16; };
  if (isOther(p.type()) || isOther(typeOf(p.product, p.value)) ||
      (!p.computesQuery && isOther(typeOf(p.scores, p.query))))
    return "queries, keys and values are of f32, bf16 and f16";
  if (p.keySize > mostSize || p.valueSize > mostSize)
    return "heads of " + std::to_string(p.keySize) + " and " + std::to_string(p.valueSize) + " elements; up to " +
           std::to_string(mostSize) + " are taken";
  if (!p.onlyScalar.empty() && p.computesQuery)
    return "queries are computed before it where tensor cores do not multiply them: " + p.onlyScalar;
  if (!p.onlyScalar.empty() && region.tf32)
    return "its products may be cut for tensor cores, one by one";
  return "";
}

/// Limits of mma fragments, and of copies of 16 bytes.
std::string whyOnlyScalar(const Region &region, const FlashProblem &p) {
  const unsigned rank = p.rank();
  const DType type = p.type();
  if ((type != DType::BF16 && type != DType::F16) || (!p.computesQuery && typeOf(p.scores, p.query) != type) ||
      typeOf(p.product, p.value) != type)
    return "queries, keys and values are not bf16 or f16 alike";
  if (region.mathType == DType::F32 && p.product.graph.outputs[0].type == DType::F32)
    return "weights and results are f32, and tensor cores would round the weights to 16 bits";
  if (p.keySize % 8 || p.valueSize % 8)
    return "heads of " + std::to_string(p.keySize) + " and " + std::to_string(p.valueSize) +
           " elements are no multiples of 8";
  if ((!p.computesQuery && !isAligned(p.scores, p.query, rank - 1)) || !isAligned(p.scores, p.key, rank - 1) ||
      !isAligned(p.product, p.value, rank - 2) || !ChunkPrinter(p.product, rank - 2, 8).storesWholeVectors())
    return "a head's elements are not neighbours in memory, or unaligned";
  return "";
}

/// The factor that makes `s` of the product, where it is nothing else.
std::optional<double> scaleOf(const FlashProblem &p, Scalar s) {
  if (s == p.scoreProduct)
    return 1;
  const ScalarNode &node = p.scores[s];
  const bool multiplies = node.function == "mul";
  if (node.kind != ScalarNode::Kind::Apply || (!multiplies && node.function != "div"))
    return std::nullopt;
  auto isNumber = [&](Scalar operand) {
    return p.scores[operand].kind == ScalarNode::Kind::Constant && p.scores[operand].constant > 0;
  };
  if (isNumber(node.operands[1])) {
    const double number = p.scores[node.operands[1]].constant;
    const std::optional<double> inner = scaleOf(p, node.operands[0]);
    return inner ? std::make_optional(multiplies ? *inner * number : *inner / number) : std::nullopt;
  }
  if (!multiplies || !isNumber(node.operands[0]))
    return std::nullopt;
  const std::optional<double> inner = scaleOf(p, node.operands[1]);
  return inner ? std::make_optional(*inner * p.scores[node.operands[0]].constant) : std::nullopt;
}

/// The graph of scores over the heads of the product's, where one has them in two dimensions and the other one in one.
ir::ScalarGraph withHeadsOf(const ir::ScalarGraph &product, const ir::ScalarGraph &scores) {
  const ArrayRef<int64_t> from = scores.domain.extents, to = product.domain.extents;
  if (from.size() < 3 || to.size() < 3 || from.drop_back(3) == to.drop_back(3) ||
      ir::Domain{{from.begin(), from.end() - 3}}.points() != ir::Domain{{to.begin(), to.end() - 3}}.points())
    return scores;
  MLIRContext *context = scores.outputs[0].map.getContext();
  const unsigned heads = to.size() - 3;
  SmallVector<AffineExpr> index;
  for (unsigned dim = 0; dim < heads; ++dim)
    index.push_back(getAffineDimExpr(dim, context));
  SmallVector<AffineExpr> dims = ir::delinearise(ir::linearise(index, to.drop_back(3), context), from.drop_back(3));
  SmallVector<int64_t> extents(to.drop_back(3));
  for (unsigned i = 0; i < 3; ++i) {
    dims.push_back(getAffineDimExpr(heads + i, context));
    extents.push_back(from[from.size() - 3 + i]);
  }
  return overOtherDims(scores, extents, dims);
}

/// Finds neighbouring heads that share keys and values.
void findGroup(FlashProblem &p) {
  MLIRContext *context = p.scores.graph.outputs[0].map.getContext();
  const unsigned rank = p.rank();
  const AffineExpr member = getAffineDimExpr(rank, context);
  for (unsigned dim = p.dimRow(); dim-- > 0;)
    for (int64_t group = p.scores.extents()[dim]; group > 1; --group) {
      if (p.scores.extents()[dim] % group != 0)
        continue;
      auto isShared = [&](const LinearGraph &graph, Scalar load) {
        SmallVector<int64_t> extents(graph.extents());
        extents[dim] /= group, extents.push_back(group);
        const AffineExpr inner = getAffineDimExpr(dim, context);
        return !ir::simplifyIndex(graph.offset(load).replace(inner, inner * group + member), extents)
                    .isFunctionOfDim(rank);
      };
      if (isShared(p.scores, p.key) && isShared(p.product, p.value)) {
        p.group = group, p.groupDim = dim;
        return;
      }
    }
}

/// A group's heads as one: row is member * rows + row.
ir::ScalarGraph packed(const ir::ScalarGraph &graph, const FlashProblem &p) {
  MLIRContext *context = graph.outputs[0].map.getContext();
  SmallVector<int64_t> extents(graph.domain.extents.begin(), graph.domain.extents.end());
  SmallVector<AffineExpr> dims;
  for (unsigned dim = 0; dim < extents.size(); ++dim)
    dims.push_back(getAffineDimExpr(dim, context));
  const AffineExpr row = dims[p.dimRow()];
  dims[static_cast<size_t>(p.groupDim)] = dims[static_cast<size_t>(p.groupDim)] * p.group + row.floorDiv(p.rows);
  dims[p.dimRow()] = row % p.rows;
  extents[static_cast<size_t>(p.groupDim)] /= p.group, extents[p.dimRow()] *= p.group;
  return overOtherDims(graph, extents, dims);
}

/// Makes a group's heads one, of graphs where they are; why that cannot be, or "".
std::string pack(const ir::ScalarGraph &scores, const ir::ScalarGraph &product, FlashProblem &p) {
  p.scores = uncollapsed(scores), p.product = uncollapsed(product);
  p.period = p.rows, p.rows *= p.group;
  for (const auto *bounds : {&p.bounds.firsts, &p.bounds.lasts})
    for (const ReadBound &bound : *bounds)
      for (ReadBound::Term term : bound.terms)
        if (p.scores.dependsOn(term.value, p.dimRow()))
          return "heads that share keys see others of them";
  return "";
}

/// Finds the rows that are written into the cache: of those of one pair a block reads what is new from where it comes
/// from. Why it does not, or "".
std::string findUpdate(const Region &region, const ir::ScalarGraph &scores, const ir::ScalarGraph &product,
                       int64_t group, FlashProblem &p) {
  const Pairs pairs{p.scores.extents(), group, static_cast<unsigned>(p.groupDim)};
  const std::string reason = findNewRows(region, {scores, product, p.key, p.value}, pairs, mostNewRows, p.update);
  if (!reason.empty() || !p.update.writes())
    return reason;
  if (!p.onlyScalar.empty())
    return "its states are written by a kernel before it, as " + p.onlyScalar;
  for (const std::optional<NewRows> &rows : {p.update.newKeys, p.update.newValues}) {
    if (!rows)
      continue;
    const LinearGraph &graph = rows->graph;
    const Scalar root = graph.graph.outputs[0].value;
    const unsigned last = graph.extents().size() - 1;
    if (!isPlainLoad(graph, root) || typeOf(graph, root) != p.type() || !isAligned(graph, root, last) ||
        !ChunkPrinter(graph, last, 8).storesWholeVectors())
      return "new keys and values are computed, and written by a kernel before it";
  }
  return "";
}

/// Adds to `p.ofRow` what `s` is computed from.
void findOfRow(FlashProblem &p, Scalar s, std::set<int> &seen) {
  const ScalarNode &node = p.scores[s];
  if (s == p.scoreProduct || !seen.insert(s.id).second || inputsRead(p.scores, s).empty())
    return;
  const bool differs =
      undefinedIn(p.scores, s) || p.scores.dependsOn(s, p.dimColumn()) || p.scores.dependsOn(s, p.rank() - 1);
  if (!differs) {
    p.ofRow.push_back(s);
    return;
  }
  for (ArrayRef<Scalar> used : {ArrayRef<Scalar>(node.operands), ArrayRef<Scalar>(node.symbols)})
    for (Scalar next : used)
      findOfRow(p, next, seen);
}

std::optional<FlashRowsMap> mapOf(const LinearGraph &graph, Scalar load, unsigned dimRow, unsigned dimElement) {
  const AffineExpr offset = graph.offset(load);
  int64_t ofElement = 0, ofRow = 0, start = 0, none = 0;
  SmallVector<ir::IndexTerm> terms, batchTerms;
  if (!splitOff(offset, dimElement, ofElement, start, terms))
    return std::nullopt;
  AffineExpr rest = getAffineConstantExpr(0, offset.getContext());
  for (const ir::IndexTerm &term : terms)
    rest = rest + term.term * term.coefficient;
  if (!splitOff(rest, dimRow, ofRow, none, batchTerms))
    return std::nullopt;
  const BatchCoordinate batch = batchCoordinate(batchTerms, offset.getContext());
  const auto width = static_cast<uint64_t>(byteWidth(typeOf(graph, load)));
  auto isAligned = [&](int64_t elements) {
    return elements >= 0 && static_cast<uint64_t>(elements) * width % tmaGranule == 0;
  };
  const bool isRepeated = ofRow == 0 && graph.extents()[dimRow] > 1;
  if (ofElement != 1 || isRepeated || !isAligned(ofRow) || !isAligned(batch.stride) || !isAligned(start))
    return std::nullopt;
  auto strideOf = [&](int64_t elements) {
    return elements > 0 ? static_cast<uint64_t>(elements) * width : tmaLineBytes;
  };
  FlashRowsMap map;
  map.buffer = graph[load].input;
  map.batch = batch.index;
  map.batches = ir::maxOfIndex(batch.index, graph.extents()) + 1;
  map.rows = graph.extents()[dimRow], map.elements = graph.extents()[dimElement];
  map.batchBytes = strideOf(batch.stride), map.rowBytes = strideOf(ofRow),
  map.offsetBytes = static_cast<uint64_t>(start) * width;
  return map;
}

/// The first load that `s` is made of, but for the product, which differs from row to row and from key to key, and
/// which `suits`.
Scalar maskOf(const FlashProblem &p, Scalar s, llvm::function_ref<bool(Scalar)> suits, std::set<int> &seen) {
  const ScalarNode &node = p.scores[s];
  if (s == p.scoreProduct || !seen.insert(s.id).second)
    return {};
  if (isPlainLoad(p.scores, s)) {
    const bool isOfBoth = p.scores.dependsOn(s, p.dimRow()) && p.scores.dependsOn(s, p.dimColumn());
    const bool isNarrow = byteWidth(typeOf(p.scores, s)) <= 4;
    return isOfBoth && isNarrow && suits(s) ? s : Scalar{};
  }
  for (Scalar operand : node.operands)
    if (Scalar mask = maskOf(p, operand, suits, seen))
      return mask;
  return {};
}

/// Finds the masks that tiles may have of their own: the one that TMA reads, and the one that batches share.
void findMasks(FlashProblem &p) {
  std::set<int> seen;
  p.mask = maskOf(
      p, p.bounds.seen, [&](Scalar load) { return mapOf(p.scores, load, p.dimRow(), p.dimColumn()).has_value(); },
      seen);
  const ArrayRef<int64_t> heads = p.scores.extents().take_front(p.dimRow());
  if (p.mask)
    for (unsigned dim = p.dimRow(); dim > 0 && !p.scores.dependsOn(p.mask, dim - 1); --dim)
      p.maskHeads *= heads[dim - 1];
  auto isOfAll = [&](Scalar load, unsigned dim) { return heads[dim] == 1 || !p.scores.dependsOn(load, dim); };
  seen.clear();
  p.heldMask = maskOf(p, p.bounds.seen, [&](Scalar load) { return !heads.empty() && isOfAll(load, 0); }, seen);
  if (!p.heldMask)
    return;
  p.batchStride = p.batches();
  for (unsigned dim = 0; dim < heads.size() && isOfAll(p.heldMask, dim); ++dim)
    p.batchStride /= heads[dim];
}

} // namespace

TensorMapRecipe FlashRowsMap::recipe(DType type, int64_t boxRows) const {
  TensorMapRecipe recipe;
  recipe.buffer = buffer;
  recipe.type = type;
  recipe.sizes = {elements, rows, batches};
  recipe.strideBytes = {rowBytes, batchBytes};
  recipe.box = {tmaLineBytes / static_cast<uint32_t>(byteWidth(type)), static_cast<uint32_t>(boxRows), 1};
  recipe.swizzleBytes = tmaLineBytes;
  recipe.offsetBytes = offsetBytes;
  return recipe;
}

std::optional<FlashMaps> FlashProblem::maps() const {
  const std::optional<FlashRowsMap> keyRows = mapOf(scores, key, dimColumn(), rank() - 1),
                                    valueRows = mapOf(product, value, rank() - 1, dimColumn());
  if (!keyRows || !valueRows)
    return std::nullopt;
  FlashMaps maps{*keyRows, *valueRows, {}, {}};
  if (!computesQuery && !(maps.queries = mapOf(scores, query, dimRow(), rank() - 1)))
    return std::nullopt;
  if (mask)
    maps.mask = mapOf(scores, mask, dimRow(), dimColumn());
  return maps;
}

int64_t FlashProblem::heldMaskBytes() const {
  return heldMask ? static_cast<int64_t>(byteWidth(typeOf(scores, heldMask))) : 0;
}

int64_t FlashProblem::maskBytes() const { return mask ? static_cast<int64_t>(byteWidth(typeOf(scores, mask))) : 0; }

int64_t FlashProblem::batches() const {
  int64_t count = 1;
  for (unsigned dim = 0; dim < dimRow(); ++dim)
    count *= scores.extents()[dim];
  return count;
}

int64_t FlashProblem::keyBatches() const {
  const int64_t elements = elementCount(scores.graph.inputs[scores[key].input].shape);
  return std::clamp<int64_t>(elements / (keys * keySize), 1, batches());
}

Result<FlashProblem> flashProblem(const Region &region, bool isPacked) {
  if (!region.attention())
    return Error{ErrorCode::BadModel, "holds no attention"};
  const ir::ScalarGraph &product = region.attention()->product,
                        scores = withHeadsOf(product, region.attention()->scores);
  std::optional<ir::ScalarGraph> sink = region.attention()->sink;
  if (sink)
    sink = withHeadsOf(product, *sink);
  FlashProblem p{uncollapsed(scores), uncollapsed(product), uncollapsed(sink)};
  std::string reason = findOperands(p);
  if (reason.empty())
    reason = findSizes(p);
  if (reason.empty()) {
    p.onlyScalar = whyOnlyScalar(region, p);
    reason = whyNotElements(region, p);
  }
  if (!reason.empty())
    return Error{ErrorCode::BadModel, reason};
  p.bounds = keyBounds(p.scores.graph);
  p.scale = scaleOf(p, p.bounds.seen);
  std::set<int> seen;
  findOfRow(p, p.bounds.seen, seen);
  findMasks(p);
  findGroup(p);
  if (isPacked) {
    const ir::ScalarGraph packedScores = packed(scores, p), packedProduct = packed(product, p);
    if (sink)
      p.sink = uncollapsed(packed(*sink, p));
    reason = pack(packedScores, packedProduct, p);
    if (reason.empty())
      reason = findUpdate(region, packedScores, packedProduct, 1, p);
  } else {
    reason = findUpdate(region, scores, product, p.group, p);
  }
  if (!reason.empty())
    return Error{ErrorCode::BadModel, reason};
  return p;
}

} // namespace kfuse::codegen::cuda
