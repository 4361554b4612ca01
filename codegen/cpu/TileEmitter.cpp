#include "codegen/cpu/TileEmitter.h"

#include "codegen/InternalError.h"
#include "codegen/cpu/ScalarFunctions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cpu {

using ir::Scalar;
using ir::ScalarNode;
using Kind = ScalarNode::Kind;

/// x / d as (x * scale) * inverse. The scale is a power of two that keeps 1 / d finite where d is
/// subnormal; x times it overflows only where the quotient does.
struct TileEmitter::Reciprocal {
  std::string scale, inverse;
};

/// A linalg.generic under construction: operands, and the SSA names its region gives nodes.
struct TileEmitter::Body {
  struct Operand {
    TileView from;
    Scalar node;
    std::string condition; ///< i1 outside the region; the value is 0 where it does not hold.
  };
  std::vector<Operand> operands;
  std::map<int, std::string> values;
  /// Nodes that the region computes from an index: its linear form and its value at the tile's base.
  std::map<int, std::pair<TileIndex, std::string>> indices;
  /// Quotients whose divisor is the same everywhere in the tile.
  std::map<int, Reciprocal> reciprocals;
};

TileEmitter TileEmitter::inner(Names innerBase, ArrayRef<TileDim> innerTile) const {
  TileEmitter result(kernel, std::move(innerBase), innerTile);
  result.scalars = scalars;
  return result;
}

TileEmitter TileEmitter::atPoint(const Names &point, const Names &steps) {
  TileEmitter one = inner(point, {});
  for (const auto &[id, view] : views) {
    Names at;
    for (unsigned dim : view.dims)
      at.push_back(steps[dim]);
    std::string value = "memref.load " + view.view.name + "[" + llvm::join(at, ", ") + "] : " + view.view.type;
    one.bind(Scalar{id}, scalarText.toCompute(text.let("v", value), view.type));
  }
  return one;
}

//===- Scalars -------------------------------------------------------------------------------===//

bool TileEmitter::dependsOnTile(AffineExpr expr) const {
  return llvm::any_of(tile, [&](const TileDim &dim) { return expr.isFunctionOfDim(dim.dim); });
}

bool TileEmitter::varies(Scalar s) const {
  if (scalars.count(s.id))
    return false;
  return readsView(s) || llvm::any_of(tile, [&](const TileDim &dim) { return kernel.graph.dependsOn(s, dim.dim); });
}

/// A tile of one point depends on no dimension, and yet its values may be in memory.
bool TileEmitter::readsView(Scalar root) const {
  std::set<int> seen;
  auto visit = [&](auto &self, Scalar s) -> bool {
    if (views.count(s.id))
      return true;
    if (scalars.count(s.id) || !seen.insert(s.id).second)
      return false;
    auto reads = [&](Scalar part) { return self(self, part); };
    return llvm::any_of(node(s).operands, reads) || llvm::any_of(node(s).symbols, reads);
  };
  return !views.empty() && visit(visit, root);
}

std::string TileEmitter::index(Scalar s) {
  std::string type = computeTypeName(node(s).type);
  return text.let("s", "arith.index_cast " + scalar(s) + " : " + type + " to index");
}

Names TileEmitter::symbolNames(ArrayRef<Scalar> symbols) {
  Names names;
  for (Scalar symbol : symbols)
    names.push_back(index(symbol));
  return names;
}

std::string TileEmitter::conditionOf(ArrayRef<ir::Guard> guards, const Names &symbols) {
  std::string all;
  auto require = [&](const std::string &comparison) {
    std::string holds = text.let("g", "arith.cmpi " + comparison + " : index");
    all = all.empty() ? holds : text.let("g", "arith.andi " + all + ", " + holds + " : i1");
  };
  for (const ir::Guard &guard : guards) {
    std::string index = text.apply(guard.index, base, symbols);
    require("sge, " + index + ", " + text.index(guard.low));
    require("slt, " + index + ", " + text.index(guard.high));
  }
  return all;
}

std::string TileEmitter::scalarLoad(const ScalarNode &load) {
  Names symbols = symbolNames(load.symbols);
  std::string condition = conditionOf(load.guards, symbols);
  DType stored = kernel.graph.graph.inputs[load.input].type;
  View memory = kernel.input(load.input);
  auto read = [&] {
    std::string at = text.apply(load.map.getResult(0), base, symbols);
    return scalarText.toCompute(text.let("v", "memref.load " + memory.name + "[" + at + "] : " + memory.type), stored);
  };
  if (condition.empty())
    return read();
  std::string type = computeTypeName(load.type);
  return text.choose(condition, type, read, text.zero(load.type));
}

std::string TileEmitter::scalarNode(const ScalarNode &value) {
  switch (value.kind) {
  case Kind::Load:
    return scalarLoad(value);
  case Kind::Constant:
    return isFloat(value.type) ? text.constant(value.constant, value.type) : text.integer(value.integer, value.type);
  case Kind::Index:
    return text.let("v", "arith.index_cast " + text.apply(value.index, base, symbolNames(value.symbols)) +
                             " : index to i64");
  case Kind::Apply:
  case Kind::Cast: {
    Names operands;
    for (Scalar operand : value.operands)
      operands.push_back(scalar(operand));
    return scalarText.apply(value, operands);
  }
  case Kind::Reduce:
  case Kind::Contract:
    break;
  }
  throw InternalError(value.kind == Kind::Reduce ? "nothing defines a reduction (" + value.function + ")"
                                                 : "nothing defines a product");
}

std::string TileEmitter::scalar(Scalar s) {
  if (auto found = scalars.find(s.id); found != scalars.end())
    return found->second;
  std::string value = scalarNode(node(s));
  return scalars[s.id] = value;
}

//===- Operands ------------------------------------------------------------------------------===//

std::optional<TileView> TileEmitter::stridedView(const View &flat, DType type, AffineExpr offset, const Names &symbols,
                                                 const std::string &condition, bool bypassesCache) {
  std::optional<StridedAccess> access = stridedAccess(offset, tile);
  if (!access)
    return std::nullopt;
  const TileIndex *index = &access->index;
  TileView view{{}, access->dims, type};
  SmallVector<ViewDim> dims;
  for (unsigned dim : view.dims)
    dims.push_back({tile[dim].size, index->strides[dim]});
  std::string start = text.apply(index->base, base, symbols);
  if (!condition.empty())
    start = text.let("i", "arith.select " + condition + ", " + start + ", " + text.index(0) + " : index");
  bypassesCache &= coversLines(*access, type, tile);
  view.view = text.slice(flat, storedTypeName(type), start, dims, bypassesCache ? "nontemporal" : "");
  return view;
}

void TileEmitter::forEachPoint(llvm::function_ref<void(const Names &, const Names &)> body) {
  Names point = base, steps(tile.size());
  auto nest = [&](auto &self, unsigned i) -> void {
    if (i == tile.size())
      return body(point, steps);
    text.loop(text.index(0), text.index(tile[i].size), 1, [&](const std::string &step) {
      steps[i] = step;
      point[tile[i].dim] = text.let("p", "arith.addi " + base[tile[i].dim] + ", " + step + " : index");
      self(self, i + 1);
    });
  };
  nest(nest, 0);
}

TileView TileEmitter::buffer(DType type) {
  SmallVector<int64_t> shape;
  TileView view{{}, {}, type};
  for (unsigned i = 0; i < tile.size(); ++i) {
    shape.push_back(tile[i].size);
    view.dims.push_back(i);
  }
  view.view = text.stack(shape, storedTypeName(type));
  return view;
}

TileView TileEmitter::stage(Scalar s) {
  TileView staged = buffer(node(s).type);
  forEachPoint([&](const Names &point, const Names &steps) {
    TileEmitter one = atPoint(point, steps);
    std::string value = one.scalarText.toStored(one.scalar(s), staged.type);
    text.line("memref.store " + value + ", " + staged.view.name + "[" + llvm::join(steps, ", ") +
              "] : " + staged.view.type);
  });
  return staged;
}

void TileEmitter::prepareLoad(Scalar s, Body &body) {
  const ScalarNode &load = node(s);
  bool isUniform = llvm::none_of(load.symbols, [&](Scalar symbol) { return varies(symbol); }) &&
                   llvm::all_of(load.guards, [&](const ir::Guard &guard) { return isUniformInTile(guard, tile); });
  if (isUniform && stridedAccess(load.map.getResult(0), tile)) {
    Names symbols = symbolNames(load.symbols);
    std::string condition = conditionOf(load.guards, symbols);
    std::optional<TileView> view = stridedView(kernel.input(load.input), kernel.graph.graph.inputs[load.input].type,
                                               load.map.getResult(0), symbols, condition);
    if (view) {
      body.operands.push_back({*view, s, condition});
      return;
    }
  }
  body.operands.push_back({stage(s), s, ""});
}

void TileEmitter::prepare(Scalar s, Body &body) {
  if (body.values.count(s.id))
    return;
  if (auto known = views.find(s.id); known != views.end()) {
    body.values[s.id] = "";
    body.operands.push_back({known->second, s, ""});
    return;
  }
  if (!varies(s)) {
    body.values[s.id] = scalar(s);
    return;
  }
  body.values[s.id] = "";
  const ScalarNode &value = node(s);
  if (value.kind == Kind::Load)
    return prepareLoad(s, body);
  if (value.kind == Kind::Index) {
    std::optional<TileIndex> index = linearInTile(value.index, tile);
    if (!index || !value.symbols.empty())
      body.operands.push_back({stage(s), s, ""});
    else
      body.indices[s.id] = {*index, text.apply(index->base, base)};
    return;
  }
  if (isDividedByScalar(value)) {
    body.reciprocals[s.id] = reciprocalOf(value.operands[1]);
    return prepare(value.operands[0], body);
  }
  for (Scalar operand : value.operands)
    prepare(operand, body);
}

/// A division takes as long as 20 multiplications.
bool TileEmitter::isDividedByScalar(const ScalarNode &value) const {
  return !kernel.ranks && value.kind == Kind::Apply && value.function == "div" && value.type == DType::F32 &&
         varies(value.operands[0]) && !varies(value.operands[1]);
}

TileEmitter::Reciprocal TileEmitter::reciprocalOf(Scalar divisor) {
  constexpr double smallestNormal = 0x1p-126, large = 0x1p64;
  std::string d = scalar(divisor), one = text.constant(1, DType::F32);
  std::string magnitude = text.let("v", "math.absf " + d + " : f32");
  std::string isTiny =
      text.let("g", "arith.cmpf olt, " + magnitude + ", " + text.constant(smallestNormal, DType::F32) + " : f32");
  Reciprocal result;
  result.scale =
      text.let("v", "arith.select " + isTiny + ", " + text.constant(large, DType::F32) + ", " + one + " : f32");
  std::string scaled = text.let("v", "arith.mulf " + d + ", " + result.scale + " : f32");
  result.inverse = text.let("v", "arith.divf " + one + ", " + scaled + " : f32");
  return result;
}

//===- The linalg.generic --------------------------------------------------------------------===//

std::string TileEmitter::inBody(Scalar s, Body &body) {
  std::string &name = body.values[s.id];
  if (!name.empty())
    return name;
  if (auto found = body.indices.find(s.id); found != body.indices.end()) {
    auto [index, value] = found->second;
    for (unsigned i = 0; i < tile.size(); ++i) {
      if (index.strides[i] == 0)
        continue;
      std::string step = text.let("x", "linalg.index " + llvm::Twine(i) + " : index");
      std::string scaled = text.let("x", "arith.muli " + step + ", " + text.index(index.strides[i]) + " : index");
      value = text.let("x", "arith.addi " + value + ", " + scaled + " : index");
    }
    return name = text.let("v", "arith.index_cast " + value + " : index to i64");
  }
  if (auto found = body.reciprocals.find(s.id); found != body.reciprocals.end()) {
    std::string dividend = inBody(node(s).operands[0], body);
    std::string scaled = text.let("v", "arith.mulf " + dividend + ", " + found->second.scale + " : f32");
    return body.values[s.id] = text.let("v", "arith.mulf " + scaled + ", " + found->second.inverse + " : f32");
  }
  Names operands;
  for (Scalar operand : node(s).operands)
    operands.push_back(inBody(operand, body));
  return body.values[s.id] = scalarText.apply(node(s), operands);
}

/// linalg takes the extent of each loop from an operand. A reduction whose value comes of indices and scalars alone may
/// have none over the reduced dimensions: its value is staged, as a tile of all of them.
void TileEmitter::stageWhereNoOperandSpans(ArrayRef<TileStore> stores, Body &body) {
  llvm::SmallBitVector spanned(tile.size());
  auto span = [&](const TileView &view) {
    for (unsigned dim : view.dims)
      spanned.set(dim);
  };
  for (const Body::Operand &operand : body.operands)
    span(operand.from);
  for (const TileStore &store : stores)
    span(store.to);
  if (spanned.all())
    return;
  Scalar value = stores.front().value;
  body.values[value.id] = "";
  body.operands.push_back({stage(value), value, ""});
}

void TileEmitter::store(ArrayRef<TileStore> stores) {
  Body body;
  for (const TileStore &store : stores)
    prepare(store.value, body);
  stageWhereNoOperandSpans(stores, body);

  Names maps, inputs, inputTypes, outputs, outputTypes, blockArguments, iterators(tile.size(), "\"parallel\"");
  Names dims;
  for (unsigned i = 0; i < tile.size(); ++i)
    dims.push_back("t" + std::to_string(i));
  auto addOperand = [&](const TileView &view, Names &names, Names &types) {
    Names results;
    for (unsigned dim : view.dims)
      results.push_back(dims[dim]);
    maps.push_back("affine_map<(" + llvm::join(dims, ", ") + ") -> (" + llvm::join(results, ", ") + ")>");
    names.push_back(view.view.name);
    types.push_back(view.view.type);
    std::string argument = text.fresh("a");
    blockArguments.push_back(argument + ": " + storedTypeName(view.type));
    return argument;
  };
  Names arguments, targets;
  for (const Body::Operand &operand : body.operands)
    arguments.push_back(addOperand(operand.from, inputs, inputTypes));
  for (const TileStore &store : stores)
    targets.push_back(addOperand(store.to, outputs, outputTypes));

  std::string ins =
      inputs.empty() ? "" : " ins(" + llvm::join(inputs, ", ") + " : " + llvm::join(inputTypes, ", ") + ")";
  text.block("linalg.generic {indexing_maps = [" + llvm::join(maps, ", ") + "], iterator_types = [" +
                 llvm::join(iterators, ", ") + "]}" + ins + " outs(" + llvm::join(outputs, ", ") + " : " +
                 llvm::join(outputTypes, ", ") + ") {",
             [&] {
               text.line("^bb0(" + llvm::join(blockArguments, ", ") + "):");
               for (auto [operand, argument] : llvm::zip_equal(body.operands, arguments)) {
                 std::string value = scalarText.toCompute(argument, operand.from.type);
                 if (!operand.condition.empty()) {
                   DType type = node(operand.node).type;
                   value = text.let("v", "arith.select " + operand.condition + ", " + value + ", " + text.zero(type) +
                                             " : " + computeTypeName(type));
                 }
                 body.values[operand.node.id] = value;
               }
               Names yielded, types;
               for (auto [store, target] : llvm::zip_equal(stores, targets)) {
                 std::string value = inBody(store.value, body);
                 if (!store.reduction.empty())
                   value = scalarText.combine(store.reduction, node(store.value).type,
                                              scalarText.toCompute(target, store.to.type), value);
                 yielded.push_back(scalarText.toStored(value, store.to.type));
                 types.push_back(storedTypeName(store.to.type));
               }
               text.line("linalg.yield " + llvm::join(yielded, ", ") + " : " + llvm::join(types, ", "));
             });
}

//===- Outputs -------------------------------------------------------------------------------===//

void TileEmitter::scatter(unsigned output, const TileView &from) {
  const ir::ScalarOutput &to = kernel.graph.graph.outputs[output];
  View memory = kernel.output(output);
  forEachPoint([&](const Names &point, const Names &steps) {
    TileEmitter one = atPoint(point, steps);
    Names symbols = one.symbolNames(to.symbols);
    text.when(one.conditionOf(kernel.graph.storeGuards[output], symbols), [&] {
      std::string value =
          text.let("v", "memref.load " + from.view.name + "[" + llvm::join(steps, ", ") + "] : " + from.view.type);
      std::string at = text.apply(to.map.getResult(0), point, symbols);
      text.line("memref.store " + value + ", " + memory.name + "[" + at + "] : " + memory.type);
    });
  });
}

void TileEmitter::storeScalar(unsigned i) {
  const ir::ScalarOutput &output = kernel.graph.graph.outputs[i];
  Names symbols = symbolNames(output.symbols);
  std::string value = scalarText.toStored(scalar(output.value), output.type);
  View memory = kernel.output(i);
  text.when(conditionOf(kernel.graph.storeGuards[i], symbols), [&] {
    std::string at = text.apply(output.map.getResult(0), base, symbols);
    text.line("memref.store " + value + ", " + memory.name + "[" + at + "] : " + memory.type);
  });
}

void TileEmitter::storeOutputs(ArrayRef<unsigned> outputs) {
  if (tile.empty()) {
    for (unsigned i : outputs)
      storeScalar(i);
    return;
  }
  SmallVector<TileStore> stores;
  SmallVector<std::pair<unsigned, TileView>> scattered;
  for (unsigned i : outputs) {
    const ir::ScalarOutput &output = kernel.graph.graph.outputs[i];
    bool isUniform = llvm::none_of(output.symbols, [&](Scalar symbol) { return varies(symbol); });
    Names symbols = isUniform ? symbolNames(output.symbols) : Names();
    std::string condition = isUniform ? conditionOf(kernel.graph.storeGuards[i], symbols) : "";
    std::optional<TileView> view;
    if (isUniform)
      view = stridedView(kernel.output(i), output.type, output.map.getResult(0), symbols, condition,
                         kernel.outgrowsCache(i));
    if (!view) {
      scattered.push_back({i, buffer(output.type)});
      stores.push_back({output.value, scattered.back().second});
    } else if (condition.empty()) {
      stores.push_back({output.value, *view});
    } else {
      TileEmitter inside = *this;
      text.when(condition, [&] { inside.store(TileStore{output.value, *view}); });
    }
  }
  if (!stores.empty())
    store(stores);
  for (auto &[output, from] : scattered)
    scatter(output, from);
}

} // namespace kfuse::codegen::cpu
