// Graphs built in C++: their text, and the first mistake.
#include "EvaluateText.h"

#include "ir/GraphModule.h"
#include "kfuse/graph.h"

#include <climits>
#include <cmath>

using namespace kfuse;
using namespace kfuse::test;

namespace {

std::string textOf(const GraphBuilder &builder) {
  Result<Graph> graph = builder.build();
  REQUIRE_MESSAGE(graph, graph.error().message);
  return graph->text();
}

std::string mistakeOf(const GraphBuilder &builder) {
  Result<Graph> graph = builder.build();
  REQUIRE(!graph);
  CHECK(graph.error().code == ErrorCode::Usage);
  return graph.error().message;
}

} // namespace

TEST_CASE("graph builder: a head with its bias and activation") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::BF16, {8, 16});
  Tensor w = g.parameter("w", DType::BF16, {16, 32});
  Tensor b = g.parameter("b", DType::BF16, {32});
  g.output("y", g.gelu(g.add(g.matmul(x, w), b)));
  CHECK(textOf(g) == R"(module {
  func.func @main(%arg0: tensor<8x16xbf16> {kfuse.name = "x", kfuse.role = "input"}, %arg1: tensor<16x32xbf16> {kfuse.name = "w", kfuse.role = "parameter"}, %arg2: tensor<32xbf16> {kfuse.name = "b", kfuse.role = "parameter"}) -> (tensor<8x32xbf16> {kfuse.name = "y"}) {
    %0 = kfuse.matmul %arg0, %arg1 : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>
    %1 = kfuse.add %0, %arg2 : (tensor<8x32xbf16>, tensor<32xbf16>) -> tensor<8x32xbf16>
    %2 = kfuse.gelu %1 : (tensor<8x32xbf16>) -> tensor<8x32xbf16>
    return %2 : tensor<8x32xbf16>
  }
}
)");
}

TEST_CASE("graph builder: every call makes a valid op whose text parses again") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::F32, {2, 4, 6});
  Tensor table = g.input("table", DType::F32, {4, 3}), ids = g.input("ids", DType::I64, {5});
  Tensor row = g.parameter("row", DType::F32, {6});
  Tensor cache = g.state("cache", DType::F32, {2, 8, 6}), position = g.input("position", DType::I32, {});

  g.output("layerNorm", g.layerNorm(x, row, row));
  g.output("plainNorm", g.layerNorm(x, {}, {}));
  g.output("rmsNorm", g.rmsNorm(x, row));
  g.output("plainRmsNorm", g.rmsNorm(x, {}));
  g.output("softmax", g.softmax(x));
  g.output("rotary", g.rotary(x, table, table));
  g.output("interleaved", g.rotary(x, table, table, true));
  Tensor sum = g.reduce("sum", x, {-1, 0});
  CHECK(sum.shape() == Shape{4});
  g.output("sum", sum);
  Tensor scores = g.matmul(x, x, {.b = true});
  CHECK(scores.shape() == Shape{2, 4, 4});
  g.output("scores", scores);
  Tensor flat = g.reshape(x, {-1, 6});
  CHECK(flat.shape() == Shape{8, 6});
  g.output("flat", flat);
  Tensor swapped = g.transpose(x, {0, -1, 1});
  CHECK(swapped.shape() == Shape{2, 6, 4});
  g.output("swapped", swapped);
  g.output("spread", g.broadcast(row, {3, 6}));
  g.output("slice", g.slice(x, {0, 3, 1}, {2, 2, 2}, {1, -1, 2}));
  Tensor joined = g.concat({x, x}, -1);
  CHECK(joined.shape() == Shape{2, 4, 12});
  g.output("joined", joined);
  Tensor gathered = g.gather(x, ids, 1);
  CHECK(gathered.shape() == Shape{2, 5, 6});
  g.output("gathered", gathered);
  Tensor masked = g.where(g.pointwise("lt", {x, g.constant(0.5, DType::F32)}), x,
                          g.cast(g.iota(DType::I32, {4, 6}, -1), DType::F32));
  g.output("masked", masked);
  Tensor same = g.sameSequence(ids, ids, 7, 9, true);
  CHECK(same.shape() == Shape{7, 9});
  g.output("same", same);
  std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  g.output("scaled", g.mul(x, g.constant(numbers, DType::F32, {6})));
  g.updateState(cache, x, position, 1);

  ParsedModule parsed(textOf(g));
  REQUIRE_MESSAGE(parsed.module, parsed.diagnostic);
  auto main = parsed.module->lookupSymbol<mlir::func::FuncOp>("main");
  unsigned last = main.getNumResults() - 1;
  CHECK(main.getResultAttrOfType<mlir::StringAttr>(last, ir::nameAttrName).getValue() == "cache");
  CHECK(main.getResultAttrOfType<mlir::IntegerAttr>(last, ir::stateAttrName).getInt() == 4);
}

TEST_CASE("graph builder: an updated state may be an output of another name") {
  GraphBuilder g;
  Tensor cache = g.state("cache", DType::F32, {8, 6}), value = g.input("value", DType::F32, {1, 6});
  g.output("newCache", g.updateState(cache, value, g.constant(3, DType::I64), 0));
  std::string text = textOf(g);
  CHECK(text.find(R"({kfuse.name = "newCache", kfuse.state = 0 : i64})") != std::string::npos);
  CHECK(text.find(R"(kfuse.name = "cache", kfuse.state)") == std::string::npos);
}

TEST_CASE("graph builder: what is built evaluates") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::F32, {3});
  std::vector<double> numbers{1, 2, 3};
  g.output("y", g.mul(g.relu(x), g.constant(numbers, DType::F32, {3})));
  Result<Graph> graph = g.build();
  REQUIRE(graph);
  auto main = graph->internals().module.get().lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<HostTensor> arguments{reference::tensorOf(DType::F32, {3}, {-1, 5, 7})};
  auto results = reference::evaluate(main.getBody().front(), arguments, Mode::Exact);
  REQUIRE(results);
  checkClose(reals(results->front()), {0, 10, 21});
}

TEST_CASE("graph builder: the builder goes on after build, and graphs outlive it") {
  std::optional<Graph> first;
  {
    GraphBuilder g;
    Tensor x = g.input("x", DType::F32, {3});
    g.output("y", g.relu(x));
    first = *g.build();
    g.output("z", g.tanh(x));
    CHECK(textOf(g).find("kfuse.tanh") != std::string::npos);
  }
  CHECK(first->text().find("kfuse.tanh") == std::string::npos);
  CHECK(first->text().find("kfuse.relu") != std::string::npos);
}

TEST_CASE("graph builder: the first mistake is what build returns") {
  SUBCASE("shapes") {
    GraphBuilder g;
    Tensor x = g.input("x", DType::F32, {2, 3}), w = g.input("w", DType::F32, {4, 5});
    Tensor product = g.matmul(x, w);
    CHECK(!product);
    g.output("y", g.gelu(product));
    CHECK(mistakeOf(g) == "kfuse.matmul: K differs: 3 in [2, 3], 4 in [4, 5]");
  }
  SUBCASE("types") {
    GraphBuilder g;
    g.output("y", g.add(g.input("x", DType::F32, {2}), g.input("w", DType::BF16, {2})));
    CHECK(mistakeOf(g) == "kfuse.add: operand 0 holds 'f32', the last operand 'bf16'; cast one of them");
  }
  SUBCASE("verifier") {
    GraphBuilder g;
    g.output("y", g.reshape(g.input("x", DType::F32, {2, 3}), {4}));
    CHECK(mistakeOf(g) == "'kfuse.reshape' op cannot give 6 elements the shape [4] of 4");
  }
  SUBCASE("unknown op") {
    GraphBuilder g;
    g.output("y", g.pointwise("frobnicate", {g.input("x", DType::F32, {2})}));
    CHECK(mistakeOf(g) == "'frobnicate' with 1 operands is no pointwise op");
  }
  SUBCASE("operand count") {
    GraphBuilder g;
    g.output("y", g.pointwise("add", {g.input("x", DType::F32, {2})}));
    CHECK(mistakeOf(g) == "'kfuse.add' op expected 2 operands, but found 1");
  }
  SUBCASE("op with attributes") {
    GraphBuilder g;
    g.output("y", g.pointwise("matmul", {g.input("x", DType::F32, {2})}));
    CHECK(mistakeOf(g) == "'matmul' with 1 operands is no pointwise op");
  }
  SUBCASE("names") {
    GraphBuilder g;
    g.input("x", DType::F32, {2});
    g.output("y", g.input("x", DType::F32, {2}));
    CHECK(mistakeOf(g) == "two arguments are named 'x'");
  }
  SUBCASE("shape of an edge") {
    GraphBuilder g;
    g.output("y", g.input("x", DType::F32, {2, -3}));
    CHECK(mistakeOf(g) == "the shape [2x-3] must have sizes of at least 1 and fewer than 2^48 elements");
  }
  SUBCASE("tensor of another builder") {
    GraphBuilder g, other;
    g.output("y", g.relu(other.input("x", DType::F32, {2})));
    CHECK(mistakeOf(g) == "a tensor of another GraphBuilder was given");
  }
  SUBCASE("empty tensor") {
    GraphBuilder g;
    g.output("y", Tensor());
    CHECK(mistakeOf(g) == "an empty Tensor was given");
  }
  SUBCASE("no output") {
    GraphBuilder g;
    g.input("x", DType::F32, {2});
    CHECK(mistakeOf(g) == "the graph has no output; name one with GraphBuilder::output");
  }
  SUBCASE("axes out of range never crash") {
    for (int axis : {-9, 9}) {
      GraphBuilder g;
      Tensor x = g.input("x", DType::F32, {2, 3});
      g.reduce("sum", x, {axis});
      g.concat({x, x}, axis);
      g.gather(x, g.iota(DType::I64, {2}, 0), axis);
      g.transpose(x, {axis, 0});
      g.updateState(g.state("s", DType::F32, {2, 3}), x, g.constant(0, DType::I64), axis);
      CHECK(mistakeOf(g).substr(0, 19) == "kfuse.reduce: axes ");
    }
  }
  SUBCASE("constant") {
    GraphBuilder g;
    std::vector<double> two{1, 2};
    g.output("y", g.constant(two, DType::F32, {3}));
    CHECK(mistakeOf(g) == "a constant of shape [3] takes 3 values or one, got 2");
  }
}

TEST_CASE("graph builder: misuse is a mistake") {
  GraphBuilder g;
  SUBCASE("no type") {
    g.output("y", g.input("x", static_cast<DType>(99), {2}));
    CHECK(mistakeOf(g) == "the element type 99 is no DType, which are 0 to 11");
  }
  SUBCASE("cast to no type") {
    g.output("y", g.cast(g.input("x", DType::F32, {2}), static_cast<DType>(12)));
    CHECK(mistakeOf(g) == "the element type 12 is no DType, which are 0 to 11");
  }
  SUBCASE("no names") {
    g.input("", DType::F32, {2});
    CHECK(mistakeOf(g) == "an argument has no name; give it one");
  }
  SUBCASE("no name of an output") {
    g.output("", g.input("x", DType::F32, {2}));
    CHECK(mistakeOf(g) == "an output has no name; give it one");
  }
  SUBCASE("sizes whose product overflows") {
    g.input("x", DType::F32, {std::int64_t{1} << 62, 4});
    CHECK(mistakeOf(g).find("fewer than 2^48 elements") != std::string::npos);
  }
  SUBCASE("more dimensions than models have") {
    g.input("x", DType::F32, Shape(17, 1));
    CHECK(mistakeOf(g) == "a shape of 17 dimensions was given, expected at most 16");
  }
  SUBCASE("a product of more elements than there are") {
    Tensor x = g.input("x", DType::F32, {std::int64_t{1} << 40, 1}),
           w = g.input("w", DType::F32, {1, std::int64_t{1} << 40});
    g.output("y", g.matmul(x, w));
    CHECK(mistakeOf(g).find("fewer than 2^48 elements") != std::string::npos);
  }
  SUBCASE("a slice whose last element overflows") {
    Tensor x = g.input("x", DType::F32, {8});
    g.output("y", g.slice(x, {1}, {3}, {INT64_MIN}));
    CHECK(mistakeOf(g).find("beyond every size") != std::string::npos);
  }
  SUBCASE("a reshape to sizes whose product overflows") {
    g.output("y", g.reshape(g.input("x", DType::F32, {8}), {-1, INT64_MAX, INT64_MAX}));
    CHECK(mistakeOf(g).find("fewer than 2^48 elements") != std::string::npos);
  }
  SUBCASE("integers that are none") {
    for (double none : {double(NAN), double(INFINITY), 0x1p31, 0.5}) {
      GraphBuilder one;
      one.output("y", one.constant(none, DType::I32));
      CHECK(mistakeOf(one).find("a constant of i32 cannot hold") != std::string::npos);
    }
  }
  SUBCASE("values at a null pointer") {
    g.output("y", g.constant(std::span<const double>(static_cast<const double *>(nullptr), 3), DType::F32, {3}));
    CHECK(mistakeOf(g).find("null pointer") != std::string::npos);
  }
  SUBCASE("a tensor that was moved from") {
    Tensor x = g.input("x", DType::F32, {2});
    Tensor other = std::move(x);
    g.output("y", g.relu(x));
    CHECK(mistakeOf(g) == "an empty Tensor was given");
  }
  SUBCASE("a tensor of a builder that is gone") {
    Tensor x;
    for (int i = 0; i < 8; ++i) { // One of them most likely gets the memory of the one before.
      GraphBuilder one;
      one.output("y", one.relu(x));
      CHECK_FALSE(one.build());
      x = one.input("x", DType::F32, {2});
    }
  }
}

TEST_CASE("graph builder: one that was moved from says so") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::F32, {2});
  GraphBuilder other = std::move(g);
  CHECK(mistakeOf(g).find("was moved from") != std::string::npos);
  CHECK_FALSE(static_cast<bool>(g.relu(x)));
  g.output("y", g.input("x", DType::F32, {2}));
  CHECK(mistakeOf(g).find("was moved from") != std::string::npos);
  other.output("y", other.relu(x)); // Its tensors go along.
  CHECK(other.build());
}

TEST_CASE("graph builder: constants of 8-bit floats saturate") {
  GraphBuilder g;
  for (auto [type, most] : {std::pair(DType::F8E4M3, "4.480000e+02"), {DType::F8E5M2, "5.734400e+04"}}) {
    g.output(std::string("large") + most, g.constant(1e9, type));
    CHECK(textOf(g).find(most) != std::string::npos);
  }
}

TEST_CASE("graph builder: no op and no operands crash") {
  for (const char *op :
       {"add",      "where", "lt",           "relu",  "softmax", "cast",   "reduce",   "transpose",  "rotary", "pow",
        "constant", "iota",  "state_update", "fused", "concat",  "gather", "rms_norm", "layer_norm", "",       "\xff"})
    for (int count = 0; count <= 5; ++count)
      for (const Shape &shape : {Shape{}, Shape{3}, Shape{2, 3}}) {
        GraphBuilder g;
        Tensor x = g.input("x", DType::F32, shape), i = g.input("i", DType::Bool, shape);
        const Tensor none;
        switch (count) {
        case 0:
          g.pointwise(op, {});
          break;
        case 1:
          g.pointwise(op, {x});
          break;
        case 2:
          g.pointwise(op, {x, i});
          break;
        case 3:
          g.pointwise(op, {i, x, x});
          break;
        case 4:
          g.pointwise(op, {i, x, x, none});
          break;
        default:
          g.pointwise(op, {x, x, x, x, x});
        }
        (void)g.build();
      }
}

TEST_CASE("graph builder: empty tensors and odd lists never crash") {
  GraphBuilder g;
  const Tensor none, x = g.input("x", DType::F32, {2, 3}), scalar = g.input("s", DType::F32, {});
  for (const Tensor &one : {none, x, scalar})
    for (const Tensor &other : {none, x, scalar}) {
      g.matmul(one, other);
      g.softmax(one);
      g.layerNorm(one, other, other, NAN);
      g.rmsNorm(one, other, -1);
      g.rotary(one, other, other);
      g.reduce("frobnicate", one, {0, 0});
      g.reduce("sum", one, {});
      g.reshape(one, {-1, -1});
      g.reshape(one, {});
      g.transpose(one, {0, 0, INT_MIN});
      g.broadcast(one, {-1});
      g.slice(one, {0}, {1, 1}, {1, 1, 1});
      g.slice(one, {}, {});
      g.concat({one, other}, INT_MAX);
      g.concat({}, 0);
      g.gather(one, other, INT_MIN);
      g.updateState(one, other, one, INT_MAX);
      g.where(one, other, one);
      g.cast(one, DType::I32);
    }
  CHECK_FALSE(g.build());
}
