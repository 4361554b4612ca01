#include "codegen/cpu/Panels.h"

#include "codegen/cpu/TileEmitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace kfuse::codegen::cpu {

using Kind = ir::ScalarNode::Kind;

//===- Text ----------------------------------------------------------------------------------===//

static std::string binary(KernelText &text, const char *op, const std::string &a, const std::string &b) {
  return text.let("i", std::string(op) + " " + a + ", " + b + " overflow<nsw> : index");
}
std::string plus(KernelText &text, const std::string &a, const std::string &b) {
  return binary(text, "arith.addi", a, b);
}
std::string minus(KernelText &text, const std::string &a, const std::string &b) {
  return binary(text, "arith.subi", a, b);
}
std::string times(KernelText &text, const std::string &a, int64_t b) {
  return binary(text, "arith.muli", a, text.index(b));
}
std::string clipped(KernelText &text, const std::string &low, int64_t size, int64_t extent) {
  if (extent % size == 0)
    return text.index(size);
  return text.let("i", "arith.minui " + minus(text, text.index(extent), low) + ", " + text.index(size) + " : index");
}

std::string rowType(int64_t nr) { return "vector<" + std::to_string(nr) + "xf32>"; }
std::string loadRow(KernelText &text, int64_t nr, const View &from, const std::string &at) {
  return text.let("x", "vector.load " + from.name + "[" + at + "] : " + from.type + ", " + rowType(nr));
}
void storeRow(KernelText &text, int64_t nr, const std::string &value, const View &to, const std::string &at) {
  text.line("vector.store " + value + ", " + to.name + "[" + at + "] : " + to.type + ", " + rowType(nr));
}
std::string spread(KernelText &text, int64_t nr, const std::string &value) {
  return text.let("z", "vector.broadcast " + value + " : f32 to " + rowType(nr));
}

//===- Operands ------------------------------------------------------------------------------===//

/// Whether `holds` for a load that `value` is computed from, without those in front of a load's address.
static bool anyLoad(const LinearGraph &graph, ir::Scalar value,
                    llvm::function_ref<bool(const ir::ScalarNode &)> holds) {
  std::vector<bool> needed(static_cast<size_t>(value.id) + 1); // Each node once, users before what they use.
  needed[value.id] = true;
  for (int id = value.id; id >= 0; --id) {
    const ir::ScalarNode &node = graph[{id}];
    if (!needed[id])
      continue;
    if (node.kind == Kind::Load && holds(node))
      return true;
    for (ir::Scalar operand : node.operands)
      needed[operand.id] = true;
  }
  return false;
}

bool isDenseAlong(const LinearGraph &graph, ir::Scalar value, unsigned dim) {
  const TileDim chunk{dim, std::min(graph.extents()[dim], square), square};
  return graph.extents()[dim] > 1 && anyLoad(graph, value, [&](const ir::ScalarNode &load) {
           std::optional<TileIndex> index = linearInTile(load.map.getResult(0), chunk);
           return index && index->strides[0] == 1;
         });
}

bool ProductOperand::isDenseAlongOther(const LinearGraph &graph) const { return isDenseAlong(graph, value, dimOther); }
bool ProductOperand::isDenseAlongK(const LinearGraph &graph) const { return isDenseAlong(graph, value, dimK); }

/// Tiles of a block of a dimension, in order.
static void forTiles(Kernel &kernel, unsigned dim, const std::string &block, int64_t blockSize, int64_t width,
                     llvm::function_ref<void(const std::string &, int64_t)> body) {
  forStripsOfBlock(kernel.text, block, (blockSize + width - 1) / width, kernel.graph.extents()[dim], width, body);
}

static TileEmitter emitter(Kernel &kernel, const Names &base, TileDim first, TileDim second,
                           const std::string &baseFirst, const std::string &baseSecond) {
  Names point = base;
  point[first.dim] = baseFirst, point[second.dim] = baseSecond;
  return TileEmitter(kernel, point, {first, second});
}

LeftPanel::LeftPanel(Kernel &kernel, ProductOperand operand, int64_t m, int64_t k)
    : memory(kernel.text.stack({m * k}, "f32")), kernel(kernel), operand(operand), m(m), k(k) {}

bool LeftPanel::isStaged(const LinearGraph &graph, const ProductOperand &operand, Tile size) {
  const llvm::SmallVector<TileDim, 2> tile{{operand.dimOther, size.rows, size.rows},
                                           {operand.dimK, size.depth, size.depth}};
  return anyLoad(graph, operand.value, [&](const ir::ScalarNode &load) {
    return !load.symbols.empty() || !stridedAccess(load.map.getResult(0), tile) ||
           llvm::any_of(load.guards, [&](const ir::Guard &guard) { return !isUniformInTile(guard, tile); });
  });
}

/// For windows, at most one run of columns that lie side by side: longer tiles go through a buffer.
LeftPanel::Tile LeftPanel::tileOf(const LinearGraph &graph, const ProductOperand &operand, int64_t k) {
  if (operand.isDenseAlongOther(graph) && !operand.isDenseAlongK(graph))
    return {square, square};
  const Tile widest{1, std::min<int64_t>(64, k)};
  if (isStaged(graph, operand, widest))
    for (int64_t depth : {32, 16, 8})
      if (const Tile narrower{1, depth}; depth < k && k % depth == 0 && !isStaged(graph, operand, narrower))
        return narrower;
  return widest;
}

void LeftPanel::pack(const Names &base, const std::string &blockM, const std::string &blockK) const {
  KernelText &text = kernel.text;
  const auto [rows, depth] = tileOf(kernel.graph, operand, k);
  const std::string lowM = times(text, blockM, m), lowK = times(text, blockK, k);
  forTiles(kernel, operand.dimOther, blockM, m, rows, [&](const std::string &row, int64_t height) {
    forTiles(kernel, operand.dimK, blockK, k, depth, [&](const std::string &column, int64_t width) {
      std::string at = plus(text, times(text, minus(text, row, lowM), k), minus(text, column, lowK));
      View view = text.slice(memory, "f32", at, {{height, k}, {width, 1}});
      emitter(kernel, base, {operand.dimOther, height, rows}, {operand.dimK, width, depth}, row, column)
          .store(TileStore{operand.value, {view, {0, 1}}});
    });
  });
}

RightPanel::RightPanel(Kernel &kernel, ProductOperand operand, int64_t k, int64_t nr)
    : memory(kernel.text.stack({k * nr}, "f32")), kernel(kernel), operand(operand), k(k), nr(nr),
      isTransposed(operand.isDenseAlongK(kernel.graph) && !operand.isDenseAlongOther(kernel.graph)) {}

void RightPanel::pack(const Names &base, const std::string &blockK, const std::string &n) const {
  KernelText &text = kernel.text;
  const int64_t columns = kernel.graph.extents()[operand.dimOther], rest = columns % nr;
  if (columns < nr || rest == 0)
    return packStrip(base, blockK, n, rest == 0 ? nr : rest);
  std::string last = text.index(columns - rest);
  std::string isWhole = text.let("g", "arith.cmpi slt, " + n + ", " + last + " : index");
  std::string isLast = text.let("g", "arith.cmpi eq, " + n + ", " + last + " : index");
  text.when(isWhole, [&] { packStrip(base, blockK, n, nr); });
  text.when(isLast, [&] { packStrip(base, blockK, n, rest); });
}

void RightPanel::packStrip(const Names &base, const std::string &blockK, const std::string &strip,
                           int64_t width) const {
  KernelText &text = kernel.text;
  const int64_t depth = std::min(k, isTransposed ? square : 4), columns = isTransposed ? square : nr;
  const std::string lowK = times(text, blockK, k);
  forTiles(kernel, operand.dimK, blockK, k, depth, [&](const std::string &row, int64_t height) {
    forStrips(text, width, columns, [&](const std::string &step, int64_t size) {
      std::string at = plus(text, times(text, minus(text, row, lowK), nr), step), n = plus(text, strip, step);
      View view = text.slice(memory, "f32", at, {{height, nr}, {size, 1}});
      emitter(kernel, base, {operand.dimOther, size, columns}, {operand.dimK, height, depth}, n, row)
          .store(TileStore{operand.value, {view, {1, 0}}});
    });
  });
}

//===- The inner kernel ----------------------------------------------------------------------===//

void multiply(KernelText &text, int64_t mr, int64_t nr, const Panel &left, const View &right, const Panel &sums,
              const std::string &depth, llvm::function_ref<std::string(int64_t row, const std::string &place)> start) {
  const std::string row = rowType(nr);
  Names places, arguments, results, types(mr, row);
  std::string sum = text.fresh("sum"), starts;
  for (int64_t r = 0; r < mr; ++r) {
    places.push_back(r ? plus(text, sums.at, text.index(r * sums.pitch)) : sums.at);
    std::string first = start(r, places.back());
    arguments.push_back(text.fresh("acc"));
    starts += (r ? ", " : "") + arguments.back() + " = " + first;
  }
  std::string k = text.fresh("k"), one = text.index(1);
  text.block(sum + ":" + llvm::Twine(mr) + " = scf.for " + k + " = " + text.index(0) + " to " + depth + " step " + one +
                 " iter_args(" + starts + ") -> (" + llvm::join(types, ", ") + ") {",
             [&] {
               std::string rightRow = loadRow(text, nr, right, times(text, k, nr)), at = plus(text, left.at, k);
               for (int64_t r = 0; r < mr; ++r) {
                 std::string place = r ? plus(text, at, text.index(r * left.pitch)) : at;
                 std::string value =
                     text.let("a", "memref.load " + left.memory.name + "[" + place + "] : " + left.memory.type);
                 std::string wide = spread(text, nr, value);
                 results.push_back(
                     text.let("f", "vector.fma " + wide + ", " + rightRow + ", " + arguments[r] + " : " + row));
               }
               text.line("scf.yield " + llvm::join(results, ", ") + " : " + llvm::join(types, ", "));
             });
  for (int64_t r = 0; r < mr; ++r)
    storeRow(text, nr, sum + "#" + std::to_string(r), sums.memory, places[r]);
}

} // namespace kfuse::codegen::cpu
