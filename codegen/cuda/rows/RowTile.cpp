#include "codegen/cuda/rows/RowTile.h"

#include "codegen/cuda/text/ValuePrinter.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <set>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t pieceBytes = 16;

RowTile::RowTile(const LinearGraph &graph) : graph(graph), columns(graph.extents().back()) {
  std::vector<Scalar> loads;
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Load)
      loads.push_back({static_cast<int>(id)});
  buffers = buffersOf(graph, loads);
  for (BufferName buffer : buffers) {
    if (!buffer.isInput || !isReadByRows(buffer.number))
      continue;
    const DType type = graph.graph.inputs[buffer.number].type;
    held.push_back({buffer, type, bytesOfRow});
    bytesOfRow += columns * static_cast<int64_t>(byteWidth(type));
  }
  std::vector<Held> free = held; // Places that no result has yet.
  for (auto [i, output] : llvm::enumerate(graph.graph.outputs)) {
    if (!isDense(output.map.getResult(0)) || !output.symbols.empty() || !graph.storeGuards[i].empty())
      continue;
    Held own{{false, static_cast<unsigned>(i)}, output.type, bytesOfRow};
    auto place = llvm::find_if(free, [&](const Held &one) { return byteWidth(one.type) == byteWidth(own.type); });
    if (place != free.end()) {
      own.place = place->place;
      free.erase(place);
    } else {
      bytesOfRow += columns * static_cast<int64_t>(byteWidth(own.type));
    }
    held.push_back(own);
  }
}

bool RowTile::isDense(mlir::AffineExpr offset) const {
  const unsigned columnDim = graph.extents().size() - 1;
  return columnDim > 0 && isRowMajor(graph, offset, columnDim - 1, columnDim);
}

bool RowTile::isReadByRows(unsigned input) const {
  return llvm::all_of(graph.graph.nodes, [&](const ScalarNode &node) {
    return node.kind != ScalarNode::Kind::Load || node.input != input ||
           (node.guards.empty() && node.symbols.empty() && isDense(node.map.getResult(0)));
  });
}

bool RowTile::isWhole(int64_t rows) const {
  return llvm::all_of(held, [&](const Held &one) {
    return rows * columns * static_cast<int64_t>(byteWidth(one.type)) % pieceBytes == 0;
  });
}

double RowTile::bankTurns(int64_t threads, int64_t vector) const {
  constexpr int64_t banks = 32, warp = 32, wordBytes = 4;
  int64_t widest = 0;
  for (const Held &one : held)
    widest = std::max(widest, static_cast<int64_t>(byteWidth(one.type)));
  std::array<std::set<int64_t>, banks> words;
  for (int64_t lane = 0; lane < warp; ++lane) {
    const int64_t begin = (lane / threads * columns + lane % threads * vector) * widest;
    for (int64_t word = begin / wordBytes; word * wordBytes < begin + vector * widest; ++word)
      words[word % banks].insert(word);
  }
  size_t most = 1;
  for (const std::set<int64_t> &ofBank : words)
    most = std::max(most, ofBank.size());
  return static_cast<double>(most);
}

const RowTile::Held *RowTile::find(BufferName buffer) const {
  auto found = llvm::find_if(held, [&](const Held &one) {
    return one.buffer.isInput == buffer.isInput && one.buffer.number == buffer.number;
  });
  return found == held.end() ? nullptr : &*found;
}

void RowTile::writeMembers(SourceWriter &writer) const {
  for (BufferName buffer : buffers) {
    const DType type =
        buffer.isInput ? graph.graph.inputs[buffer.number].type : graph.graph.outputs[buffer.number].type;
    const std::string element = storedType(type).str();
    if (holds(buffer))
      writer.line("HeldRow<" + element + ", Index> " + buffer.str() + ";");
    else
      writer.line((buffer.isInput ? "const " : "") + element + " *" + buffer.str() + ";");
  }
}

void RowTile::writeEntry(SourceWriter &writer, int64_t rows, int64_t rowsEach) const {
  writer.line("const RowTile<Config, " + llvm::Twine(rowsEach) + "> tile;");
  for (const Held &one : held)
    writer.line("const auto " + nameOf(one.buffer) + " = tile.held<" + storedType(one.type) + ">(" +
                llvm::Twine(one.place * rows) + ");");
  for (const Held &one : held)
    if (one.buffer.isInput)
      writer.line("tile.bring(" + nameOf(one.buffer) + ", " + one.buffer.str() + ");");
  writer.line("tile.wait();");
  llvm::SmallVector<std::string> given;
  for (BufferName buffer : buffers)
    given.push_back(holds(buffer) ? nameOf(buffer) + ".of(row)" : buffer.str());
  writer.line("tile.forEachRow([&](Row<Config> &row) { Body{" + llvm::join(given, ", ") + "}(row); });");
  if (llvm::all_of(held, [](const Held &one) { return one.buffer.isInput; }))
    return;
  writer.line("__syncthreads();");
  for (const Held &one : held)
    if (!one.buffer.isInput)
      writer.line("tile.give(" + one.buffer.str() + ", " + nameOf(one.buffer) + ");");
}

} // namespace kfuse::codegen::cuda
