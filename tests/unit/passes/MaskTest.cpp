// Masks of attention that a model carries as constants: what becomes of them, and that it is what they were.
#include "PassHarness.h"

#include "codegen/AttentionRegion.h"
#include "codegen/CostModel.h"
#include "codegen/KeyBounds.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// A mask as a model carries it: whether it shows a key to a row, and how it says so.
struct ConstantMask {
  int rows = 6, keys = 6;
  std::function<bool(int row, int key)> shows;
  std::string type = "f32"; ///< The type of scores, and of the mask where it is added.
  std::string hidden = "0xFF800000";
  bool isAdded = true; ///< Or chosen by booleans, of keys that are seen, or with isInverse of those that are not.
  bool isInverse = false;
  int copies = 1; ///< Copies of the same rows, one for each batch.
};

std::string tensor(const std::vector<int> &shape, const std::string &type) {
  std::string text = "tensor<";
  for (int extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string elements(const ConstantMask &mask) {
  std::string text, row;
  for (int r = 0; r < mask.rows; ++r) {
    row = "";
    for (int key = 0; key < mask.keys; ++key) {
      const bool shows = mask.shows(r, key);
      row += (key ? ", " : "") + (mask.isAdded              ? std::string(shows ? "0.0" : mask.hidden)
                                  : shows != mask.isInverse ? "true"
                                                            : "false");
    }
    text += (r ? ", [" : "[") + row + "]";
  }
  std::string copies;
  for (int i = 0; i < mask.copies; ++i)
    copies += (i ? ", [[" : "[[") + text + "]]";
  return "[" + copies + "]";
}

/// @main of two batches of three heads of 16.
std::string model(const ConstantMask &m) {
  const std::vector<int> shape{2, 3, m.rows, m.keys}, ofMask{m.copies, 1, m.rows, m.keys};
  const std::string q = tensor({2, 3, m.rows, 16}, m.type), k = tensor({2, 3, m.keys, 16}, m.type),
                    s = tensor(shape, m.type), scalar = "tensor<" + m.type + ">",
                    mask = tensor(ofMask, m.isAdded ? m.type : "i1");
  const std::string chosen = m.isInverse ? "%hidden, %p" : "%p, %hidden",
                    types = m.isInverse ? scalar + ", " + s : s + ", " + scalar;
  return "func.func @main(%q: " + q + ", %k: " + k + ", %v: " + k + ") -> " + q + " {\n" +
         "%mask = kfuse.constant dense<" + elements(m) + "> : " + mask + "\n%hidden = kfuse.constant dense<" +
         m.hidden + "> : " + scalar + "\n%p = kfuse.matmul %q, %k {transpose_b} : (" + q + ", " + k + ") -> " + s +
         "\n" +
         (m.isAdded ? "%s = kfuse.add %p, %mask : (" + s + ", " + mask + ") -> " + s
                    : "%s = kfuse.where %mask, " + chosen + " : (" + mask + ", " + types + ") -> " + s) +
         "\n%w = kfuse.softmax %s : (" + s + ") -> " + s + "\n%y = kfuse.matmul %w, %v : (" + s + ", " + k + ") -> " +
         q + "\nreturn %y : " + q + "\n}\n";
}

/// Whether a constant that is not one number is left.
bool holdsTable(mlir::ModuleOp module) {
  bool found = false;
  module.walk([&](ir::ConstantOp constant) {
    auto dense = mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    found |= !dense || !dense.isSplat();
  });
  return found;
}

/// Whether the mask is made of indices, once the model is simplified; checks that it computes the same.
bool isMadeOfIndices(const ConstantMask &mask) {
  const std::string text = model(mask);
  INFO(text);
  ParsedModule before(text), after(text);
  REQUIRE_MESSAGE(before.module, before.diagnostic);
  REQUIRE(runPasses(*after.module, [](mlir::PassManager &manager) {
            manager.addNestedPass<mlir::func::FuncOp>(passes::createSimplifyPass());
          }) == "");
  const Arguments arguments = randomArguments(before.module->lookupSymbol<mlir::func::FuncOp>("main"), 3);
  checkSame(evaluateModel(*after.module, arguments), evaluateModel(*before.module, arguments), 0);
  return !holdsTable(*after.module);
}

/// The bounds of the one kernel for Hopper: "lowest..highest", and the chunks.
std::string boundsOf(const ConstantMask &mask) {
  ParsedModule parsed(model(mask));
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  const std::unique_ptr<ir::CostModel> costModel = codegen::makeCostModel(*ir::findTarget("sm_90a"));
  REQUIRE(runPasses(*parsed.module, [&](mlir::PassManager &manager) { passes::buildPipeline(manager, *costModel); }) ==
          "");
  auto kernels = parsed.module->lookupSymbol<mlir::func::FuncOp>("main").getOps<ir::FusedOp>();
  REQUIRE(llvm::hasSingleElement(kernels));
  Result<codegen::Region> region = codegen::makeAttentionRegion((*kernels.begin()).getBody().front());
  REQUIRE_MESSAGE(region, region.error().message);
  const codegen::KeyBounds bounds = codegen::keyBounds(region->attention()->scores);
  auto text = [](const std::optional<std::int64_t> &bound) { return bound ? std::to_string(*bound) : "-"; };
  return text(bounds.lowest) + ".." + text(bounds.highest) +
         (bounds.chunks ? ", chunks of " + std::to_string(bounds.chunks->size) + " from " +
                              std::to_string(bounds.chunks->rowOffset) + " on"
                        : "");
}

bool isCausal(int row, int key) { return key <= row; }

} // namespace

TEST_CASE("Constant masks: of causal attention, windows and chunks become indices") {
  CHECK(isMadeOfIndices({.shows = isCausal}));
  CHECK(isMadeOfIndices({.shows = isCausal, .isAdded = false}));
  CHECK(isMadeOfIndices({.shows = isCausal, .isAdded = false, .isInverse = true}));
  CHECK(isMadeOfIndices({.shows = isCausal, .copies = 2}));
  CHECK(isMadeOfIndices({.shows = isCausal, .hidden = "0xFF7FFFFF"}));
  CHECK(isMadeOfIndices({.shows = isCausal, .hidden = "-10000.0"}));
  CHECK(isMadeOfIndices({.keys = 11, .shows = [](int row, int key) { return key <= row + 5; }}));
  CHECK(isMadeOfIndices({.rows = 9, .shows = [](int row, int key) { return key <= row - 4; }})); // Rows without keys.
  CHECK(isMadeOfIndices({.rows = 9, .keys = 9, .shows = [](int row, int key) { return key <= row && key > row - 3; }}));
  CHECK(isMadeOfIndices({.rows = 9, .keys = 9, .shows = [](int row, int key) { return std::abs(key - row) < 3; }}));
  CHECK(isMadeOfIndices({.rows = 9, .keys = 9, .shows = [](int row, int key) { return key / 4 == row / 4; }}));
  CHECK(isMadeOfIndices(
      {.rows = 9, .keys = 9, .shows = [](int row, int key) { return key / 2 == row / 2 && key <= row; }}));
}

TEST_CASE("Constant masks: what no bounds describe stays a tensor") {
  CHECK(!isMadeOfIndices({.shows = [](int row, int key) { return key <= row && key != 1; }}));
  CHECK(!isMadeOfIndices({.shows = [](int, int key) { return key < 4; }}));
  CHECK(!isMadeOfIndices({.shows = [](int row, int key) { return (row * 7 + key * 5) % 3 == 0; }}));
  CHECK(!isMadeOfIndices({.shows = [](int row, int key) { return row == key || row > 3; }}));
}

TEST_CASE("Constant masks: any band or chunks, of any sizes, compute what the tensor says") {
  std::mt19937 random(11);
  auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  int recognised = 0;
  constexpr int cases = 60;
  for (int i = 0; i < cases; ++i) {
    ConstantMask mask{.rows = 2 + below(12), .keys = 2 + below(14), .shows = {}};
    mask.type = i % 3 ? "f32" : "bf16";
    mask.isAdded = below(2);
    mask.isInverse = below(2);
    const bool isLowest = below(2);
    mask.hidden = mask.type == "f32" ? (isLowest ? "0xFF7FFFFF" : "0xFF800000") : (isLowest ? "0xFF7F" : "0xFF80");
    const int highest = below(9) - 4, width = 1 + below(6), chunk = 1 + below(6), offset = below(7), kind = below(4);
    mask.shows = [=](int row, int key) {
      const bool isBelow = key <= row + highest, isNear = key > row + highest - width,
                 isInChunk = key / chunk == (row + offset) / chunk;
      return kind == 0 ? isBelow : kind == 1 ? isBelow && isNear : kind == 2 ? isInChunk : isInChunk && isBelow;
    };
    recognised += isMadeOfIndices(mask); // Some show all keys, or are too small to say what they are.
  }
  CHECK(recognised >= cases / 2);
}

TEST_CASE("Constant masks: are bounds of the keys that a kernel looks at") {
  auto sized = [](std::function<bool(int, int)> shows) {
    return ConstantMask{.rows = 40, .keys = 40, .shows = std::move(shows), .type = "bf16", .hidden = "0xFF80"};
  };
  CHECK(boundsOf(sized(isCausal)) == "-..0");
  CHECK(boundsOf(sized([](int row, int key) { return key <= row && key > row - 7; })) == "-6..0");
  CHECK(boundsOf(sized([](int row, int key) { return key / 8 == row / 8; })) == "-..-, chunks of 8 from 0 on");
  CHECK(boundsOf(sized([](int row, int key) { return key / 8 == (row + 3) / 8 && key <= row + 3; })) ==
        "-..3, chunks of 8 from 3 on");
  ConstantMask inverse = sized(isCausal);
  inverse.isAdded = false, inverse.isInverse = true;
  CHECK(boundsOf(inverse) == "-..0");
  // With the lowest float in place of -inf a row that sees no key has the mean of all.
  ConstantMask finite = sized([](int row, int key) { return key < row; });
  finite.hidden = "0xFF7F";
  CHECK(boundsOf(finite) == "-..-");
  finite.shows = isCausal;
  CHECK(boundsOf(finite) == "-..0");
  ConstantMask half = sized(isCausal); // The lowest number of f16, which bf16 has many below.
  half.type = "f16", half.hidden = "-65504.0";
  CHECK(boundsOf(half) == "-..0");
  half.type = "bf16";
  CHECK(boundsOf(half) == "-..-");
  ConstantMask mild = sized(isCausal); // Large scores would still count.
  mild.hidden = "-1.0e4";
  CHECK(boundsOf(mild) == "-..-");
}
