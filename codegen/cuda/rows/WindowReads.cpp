#include "codegen/cuda/rows/WindowReads.h"

#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::ScalarNode;
using Along = WindowOperand::Along;

namespace {

std::string textOf(AffineExpr index, ArrayRef<std::string> names) {
  return indexText(index, {SmallVector<std::string, 6>(names), {}});
}

std::string conditionOf(const Guard &guard, AffineExpr index, ArrayRef<std::string> names) {
  return "isWithin(Index(" + textOf(index, names) + "), Index(" + std::to_string(guard.low) + "), Index(" +
         std::to_string(guard.high) + "))";
}

} // namespace

void openUnrolled(SourceWriter &writer, StringRef name, int64_t count) {
  writer.line("#pragma unroll");
  writer.open("for (int " + name + " = 0; " + name + " < " + Twine(count) + "; ++" + name + ")");
}

int64_t WindowReads::widthOf(const WindowOperand &operand) const {
  return problem.dense && graph.dependsOn(operand.load, *problem.dense) ? tiles.vector : 1;
}

int64_t WindowReads::countOf(const WindowOperand &operand) const {
  return operand.along == Along::Window ? problem.positions(tiles.strip)
         : operand.along == Along::Tap  ? problem.taps()
                                        : tiles.strip;
}

WindowReads::Pieces WindowReads::piecesOf(const WindowOperand &operand) const {
  int64_t lead = 0;
  const int64_t size = windowAccess(problem, operand, tiles.strip, config["access"], lead), count = countOf(operand);
  Pieces pieces{count, widthOf(operand), 0, true, alignmentOf(operand), false};
  if (size > 1)
    pieces = {ceilDiv(lead + count, size), size, lead, false, size, false};
  const DType type = inputType(operand);
  pieces.areWords = isFloat(type) && byteWidth(type) == 2 && pieces.size % 2 == 0 && pieces.alignment > 0 &&
                    pieces.alignment % 2 == 0;
  return pieces;
}

std::string WindowReads::typeOf(const WindowOperand &operand, const Pieces &pieces) const {
  return pieces.areWords ? "unsigned" : storedType(inputType(operand)).str();
}

void WindowReads::declare(const WindowOperand &operand) {
  writer.line(valueType(graph[operand.load].type) + " " + nameOf(operand) + "[" + Twine(countOf(operand)) + "][" +
              Twine(widthOf(operand)) + "];");
}

void WindowReads::declareLoaded(const WindowOperand &operand) {
  const Pieces pieces = piecesOf(operand);
  writer.line("Vector<" + typeOf(operand, pieces) + ", " + Twine(pieces.size / pieces.perWord()) + "> " +
              nameOf(operand) + "[" + Twine(pieces.count) + "];");
}

/// An access of `width` elements of a type, zeros where not all of `when` holds.
std::string WindowReads::access(const WindowOperand &operand, AffineExpr offset, ArrayRef<std::string> names,
                                StringRef type, int64_t width, int64_t alignment, ArrayRef<std::string> when) const {
  std::string from = "in" + std::to_string(graph[operand.load].input) + " + (" + textOf(offset, names) + ")";
  if (type != storedType(inputType(operand)))
    from = "reinterpret_cast<const " + type.str() + " *>(" + from + ")";
  std::string text = "loadVector<" + std::to_string(width) + ", " + std::to_string(alignment) + ">(" + from + ")";
  if (when.empty())
    return text;
  return llvm::join(when, " && ") + " ? " + text + " : Vector<" + type.str() + ", " + std::to_string(width) + ">{}";
}

std::string WindowReads::element(const WindowOperand &operand, ArrayRef<std::string> names) const {
  const ScalarNode &node = graph[operand.load];
  SmallVector<std::string> when;
  for (const Guard &guard : node.guards)
    when.push_back(conditionOf(guard, guard.index, names));
  if (isPartial)
    when.emplace_back("j < lanes");
  return "decode((" + access(operand, node.map.getResult(0), names, storedType(inputType(operand)), 1, 1, when) +
         ")[0])";
}

void WindowReads::load(const WindowOperand &operand, const std::string &prefix, SmallVector<std::string> names) {
  const ScalarNode &node = graph[operand.load];
  const unsigned position = graph.extents().size();
  const bool isWindow = operand.along == Along::Window;
  const Pieces pieces = piecesOf(operand);
  const unsigned moving = isWindow ? position : operand.along == Along::Tap ? problem.tap : problem.strip;
  auto at = [&](const std::string &number) {
    SmallVector<std::string> there = names;
    there[moving] = moving == problem.strip ? moved(problem.strip, number) : number;
    return there;
  };
  names = at(pieces.areChannels ? "i"
             : pieces.lead == 0 ? "i * " + std::to_string(pieces.size)
                                : "(i * " + std::to_string(pieces.size) + " - " + std::to_string(pieces.lead) + ")");
  auto placed = [&](AffineExpr index) { return isWindow ? atPosition(problem, index) : index; };
  const AffineExpr offset = placed(node.map.getResult(0));

  SmallVector<std::string> ofRow, ofElement, ofAll;
  for (const Guard &guard : node.guards) {
    AffineExpr index = placed(guard.index);
    if (!guard.index.isFunctionOfDim(problem.strip) && !guard.index.isFunctionOfDim(problem.tap)) {
      ofRow.push_back(conditionOf(guard, index, names));
      continue;
    }
    ofElement.push_back(conditionOf(guard, index, names));
    for (int64_t end : {int64_t{0}, countOf(operand) - 1})
      ofAll.push_back(conditionOf(guard, index, at(std::to_string(end))));
  }
  if (isPartial && operand.along == Along::Strip)
    ofElement.emplace_back("i < lanes");
  if (isPartial && isWindow && ofElement.empty()) // Behind a tile's last result there may be nothing.
    ofElement.push_back(textOf(offset, names) + " < " +
                        std::to_string(elementCount(graph.graph.inputs[node.input].shape)));
  const std::string value = prefix + nameOf(operand);
  // Most strips touch no border. A warp's threads have the same one where channels are dense.
  if (problem.dense && isWindow && !ofAll.empty()) {
    llvm::append_range(ofAll, ofRow);
    llvm::append_range(ofElement, ofRow);
    writer.open("if (" + llvm::join(ofAll, " && ") + ")");
    loadPieces(operand, pieces, value, names, offset, {});
    writer.close();
    writer.open("else");
    loadPieces(operand, pieces, value, names, offset, ofElement);
    writer.close();
    return;
  }
  if (!ofRow.empty()) {
    const std::string holds = "holds" + std::to_string(operand.load.id);
    writer.line("const bool " + holds + " = " + llvm::join(ofRow, " && ") + ";");
    ofElement.push_back(holds);
  }
  loadPieces(operand, pieces, value, names, offset, ofElement);
}

void WindowReads::loadPieces(const WindowOperand &operand, const Pieces &pieces, const std::string &value,
                             ArrayRef<std::string> names, AffineExpr offset, ArrayRef<std::string> when) {
  openUnrolled(writer, "i", pieces.count);
  const std::string type = typeOf(operand, pieces);
  if (pieces.alignment > 0) {
    writer.line(value + "[i] = " +
                access(operand, offset, names, type, pieces.size / pieces.perWord(),
                       pieces.alignment / pieces.perWord(), when) +
                ";");
  } else { // Channels that are no neighbours.
    openUnrolled(writer, "l", pieces.size);
    SmallVector<std::string> lane(names);
    lane[*problem.dense] = moved(*problem.dense, "l");
    writer.line(value + "[i][l] = (" + access(operand, offset, lane, type, 1, 1, when) + ")[0];");
    writer.close();
  }
  writer.close();
}

void WindowReads::decode(const WindowOperand &operand, const std::string &to, const std::string &from) {
  const Pieces pieces = piecesOf(operand);
  const std::string name = nameOf(operand);
  const std::string word = from + name + "[i][l]";
  openUnrolled(writer, "i", pieces.count);
  openUnrolled(writer, "l", pieces.size / pieces.perWord());
  auto put = [&](const std::string &element, const std::string &value) {
    if (pieces.areChannels)
      return writer.line(to + name + "[i][" + element + "] = " + value + ";");
    const std::string q = "i * " + std::to_string(pieces.size) + " - " + std::to_string(pieces.lead) + " + " + element;
    writer.line("if (const int q = " + q + "; q >= 0 && q < " + Twine(countOf(operand)) + ")");
    writer.line("  " + to + name + "[q][0] = " + value + ";");
  };
  if (pieces.areWords) {
    writer.line("float pair[2];");
    writer.line("decodeWord(pair, " + storedType(inputType(operand)) + "{}, " + word + ");");
    put("2 * l", "pair[0]");
    put("2 * l + 1", "pair[1]");
  } else {
    put("l", "decode(" + word + ")");
  }
  writer.close();
  writer.close();
}

} // namespace kfuse::codegen::cuda
