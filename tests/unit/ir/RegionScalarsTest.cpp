// The scalar form of random regions, interpreted, against the reference evaluator: two descriptions of
// each op that share no line.
#include "EvaluateText.h"
#include "ScalarInterpreter.h"

#include "ir/GraphModule.h"
#include "ir/RegionScalars.h"
#include "kfuse/graph.h"

#include <algorithm>
#include <random>

using namespace kfuse;
using namespace kfuse::test;

namespace {

/// Draws small graphs. All floats are f32, all indices i64 between -2 and 5.
class RandomGraph {
public:
  explicit RandomGraph(unsigned seed) : random(seed) {}
  GraphBuilder g;

  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random); }

  Shape randomShape(int rank) {
    Shape shape;
    for (int i = 0; i < rank; ++i)
      shape.push_back(pick(1, 4));
    return shape;
  }
  Tensor fresh(const Shape &shape, DType type = DType::F32) {
    return g.input("x" + std::to_string(inputs++), type, shape);
  }
  /// Something that broadcasts to `shape`.
  Tensor freshBroadcast(Shape shape) {
    shape.erase(shape.begin(), shape.begin() + pick(0, static_cast<int>(shape.size())));
    for (std::int64_t &size : shape)
      if (pick(0, 2) == 0)
        size = 1;
    return fresh(shape);
  }

  /// Elementwise and of the same shape as x.
  Tensor elementwise(const Tensor &x) {
    static const char *unaries[] = {"relu", "tanh", "neg"}, *binaries[] = {"add", "sub", "mul", "max"};
    switch (pick(0, 4)) {
    case 0:
      return g.pointwise(unaries[pick(0, 2)], {x});
    case 1:
      return g.pointwise(binaries[pick(0, 3)], {x, freshBroadcast(x.shape())});
    case 2:
      return g.add(x, g.constant(0.5, DType::F32));
    case 3:
      return g.where(g.pointwise("lt", {freshBroadcast(x.shape()), x}), x, g.constant(-1, DType::F32));
    default:
      return x.shape().empty() ? g.pointwise("tanh", {x})
                               : g.mul(x, g.cast(g.iota(DType::I64, x.shape(), pick(0, rankOf(x) - 1)), DType::F32));
    }
  }

  Tensor transpose(const Tensor &x) {
    std::vector<int> order(rankOf(x));
    for (int i = 0; i < rankOf(x); ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    return g.transpose(x, order);
  }

  /// The same elements with two neighbouring dimensions merged, or one split.
  Tensor reshape(const Tensor &x) {
    Shape shape = x.shape();
    int dim = pick(0, rankOf(x) - 1);
    if (pick(0, 1) && dim + 1 < rankOf(x)) {
      shape[dim] *= shape[dim + 1];
      shape.erase(shape.begin() + dim + 1);
    } else {
      std::int64_t factor = shape[dim] % 2 == 0 ? 2 : shape[dim] % 3 == 0 ? 3 : 1;
      shape[dim] /= factor;
      shape.insert(shape.begin() + dim + pick(0, 1), factor);
    }
    return g.reshape(x, shape);
  }

  Tensor slice(const Tensor &x) {
    Shape offsets, sizes, strides;
    for (std::int64_t size : x.shape()) {
      int stride = pick(1, 2), count = pick(1, static_cast<int>((size + stride - 1) / stride));
      int first = pick(0, static_cast<int>(size - (count - 1) * stride - 1));
      bool backwards = pick(0, 2) == 0;
      offsets.push_back(backwards ? first + (count - 1) * stride : first);
      sizes.push_back(count);
      strides.push_back(backwards ? -stride : stride);
    }
    return g.slice(x, offsets, sizes, strides);
  }

  Tensor concat(const Tensor &x) {
    int axis = pick(0, rankOf(x) - 1);
    Shape other = x.shape();
    other[axis] = pick(1, 3);
    Tensor y = fresh(other);
    return pick(0, 1) ? g.concat({x, y, x}, axis) : g.concat({y, x}, axis);
  }

  Tensor gather(const Tensor &x) {
    return g.gather(x, fresh(randomShape(pick(0, 2)), DType::I64), pick(0, rankOf(x) - 1));
  }

  Tensor rotary(const Tensor &x) {
    Shape table = x.shape();
    if (table.back() % 2)
      return elementwise(x);
    table.erase(table.begin(), table.begin() + pick(0, rankOf(x) - 1));
    for (std::size_t i = 0; i + 1 < table.size(); ++i)
      if (pick(0, 1))
        table[i] = 1;
    if (pick(0, 1))
      table.back() /= 2;
    return g.rotary(x, fresh(table), fresh(table), pick(0, 1));
  }

  Tensor anyLayout(const Tensor &x) {
    switch (pick(0, 5)) {
    case 0:
      return transpose(x);
    case 1:
      return reshape(x);
    case 2:
      return slice(x);
    case 3:
      return concat(x);
    case 4:
      return gather(x);
    default:
      return rotary(x);
    }
  }

  /// Parts of x and other numbers, put together to x's shape along one axis, along two as one, or along a part of one.
  Tensor rearrange(const Tensor &x) {
    if (pick(0, 2) == 0)
      return g.reshape(rearrange(reshape(x)), x.shape());
    int axis = pick(0, 2) ? rankOf(x) - 1 : pick(0, rankOf(x) - 1);
    int size = static_cast<int>(x.shape()[axis]);
    if (size < 2)
      return elementwise(x);
    int cut = pick(1, size - 1);
    auto part = [&](int first, int count) {
      Shape offsets(rankOf(x), 0), sizes = x.shape();
      offsets[axis] = first, sizes[axis] = count;
      return pick(0, 4) ? g.slice(x, offsets, sizes) : fresh(sizes);
    };
    Tensor tail = elementwise(part(cut, size - cut));
    return g.concat({tail, part(0, cut)}, axis);
  }

  /// A few ops after x, of any kind that a region reads backwards.
  Tensor chain(Tensor x, int ops) {
    for (int i = 0; i < ops; ++i)
      x = rankOf(x) > 0 && elementCount(x.shape()) < 200 && pick(0, 1) ? anyLayout(x) : elementwise(x);
    return x;
  }
  /// A few ops whose elements stay one to one with x's.
  Tensor faithfulChain(Tensor x, int ops) {
    for (int i = 0; i < ops; ++i)
      x = rankOf(x) == 0 || pick(0, 2) ? elementwise(x) : pick(0, 1) ? transpose(x) : reshape(x);
    return x;
  }

  static int rankOf(const Tensor &x) { return static_cast<int>(x.shape().size()); }

private:
  std::mt19937 random;
  int inputs = 0;
};

/// Compares the interpreted scalar form of a block with the evaluator. The reason, if it has no form.
std::string compare(mlir::Block &body, unsigned seed) {
  Result<ir::ScalarGraph> scalars = ir::scalariseRegion(body);
  if (!scalars)
    return scalars.error().message;
  INFO(scalars->str());

  std::vector<HostTensor> arguments;
  std::vector<Doubles> inputs;
  for (mlir::Value argument : body.getArguments()) {
    bool isReal = isFloat(ir::dtypeOf(argument.getType()));
    Shape shape = ir::shapeOf(argument);
    arguments.push_back(isReal ? reference::normal(DType::F32, shape, seed + arguments.size())
                               : reference::integers(DType::I64, shape, seed + arguments.size(), -2, 6));
    inputs.push_back(reference::toDoubles(arguments.back()));
  }
  auto expected = reference::evaluate(body, arguments, Mode::Exact);
  REQUIRE_MESSAGE(expected, expected.error().message);
  std::vector<Doubles> results = ScalarInterpreter(*scalars, inputs).run();
  REQUIRE(results.size() == expected->size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    Doubles exact = reals((*expected)[i]);
    REQUIRE(results[i].size() == exact.size());
    auto [wrong, right] = std::mismatch(results[i].begin(), results[i].end(), exact.begin(), [](double a, double b) {
      return std::fabs(a - b) <= 1e-9 * std::max(1.0, std::fabs(b));
    });
    CHECK_MESSAGE(right == exact.end(), "element " << wrong - results[i].begin() << " of result " << i << " differs");
  }
  return {};
}

std::string compare(const GraphBuilder &builder, unsigned seed) {
  Result<Graph> graph = builder.build();
  REQUIRE_MESSAGE(graph, graph.error().message);
  INFO("seed " << seed << "\n" << graph->text());
  return compare(graph->internals().module.get().lookupSymbol<mlir::func::FuncOp>("main").getBody().front(), seed);
}

/// Draws graphs by `draw`, and counts those that have a scalar form.
template <class Draw> int countForms(unsigned graphs, Draw draw) {
  int forms = 0;
  for (unsigned seed = 1; seed <= graphs; ++seed) {
    RandomGraph random(seed);
    draw(random);
    forms += compare(random.g, seed).empty();
  }
  return forms;
}

} // namespace

namespace {

std::string text(const Shape &shape) {
  std::string sizes;
  for (std::int64_t size : shape)
    sizes += std::to_string(size) + "x";
  return "tensor<" + sizes + "f32>";
}

/// Rearranged numbers, or exponentials of them, seen through windows, which reach outside them, and what a kernel makes
/// of those: their sums, or a product with weights. `returnsBoth`: the numbers that the windows are of, too.
std::string windowed(std::mt19937 &random, bool isProduct, bool isComputed, bool returnsBoth = false) {
  auto pick = [&](int low, int high) { return std::int64_t{std::uniform_int_distribution(low, high)(random)}; };
  auto numbers = [](const Shape &values) {
    std::string list;
    for (std::int64_t value : values)
      list += (list.empty() ? "" : ", ") + std::to_string(value);
    return "array<i64: " + list + ">";
  };
  // x [C, N, H, W] -> [N, H, W, C] -> [N, H, W * C], in whose last dimension a window is a run.
  const std::int64_t channels = pick(1, 3), images = pick(1, 2), height = pick(1, 6), width = pick(1, 6),
                     high = pick(1, 3), run = pick(1, 3) * channels, rows = pick(1, 4), columns = pick(1, 4);
  const Shape x{channels, images, height, width}, turned{images, height, width, channels},
      flat{images, height, width * channels}, windows{images, high, run, rows, columns},
      moved{images, rows, columns, high, run}, matrix{images * rows * columns, high * run}, weights{high * run, 3},
      product{images * rows * columns, 3}, sums{images, rows, columns};
  std::string body = "%0 = kfuse.transpose %a {permutation = array<i64: 1, 2, 3, 0>} : (" + text(x) + ") -> " +
                     text(turned) + "\n%1 = kfuse.reshape %0 : (" + text(turned) + ") -> " + text(flat) +
                     (isComputed ? "\n%c = kfuse.exp %1 : (" + text(flat) + ") -> " + text(flat) : "") +
                     "\n%2 = kfuse.window " + (isComputed ? "%c" : "%1") + " {kernel = " + numbers({high, run}) +
                     ", strides = " + numbers({pick(1, 3), pick(1, 2) * channels}) +
                     ", dilations = " + numbers({pick(1, 3), 1}) +
                     ", pads = " + numbers({pick(-1, 3), pick(-1, 2) * channels}) + "} : (" + text(flat) + ") -> " +
                     text(windows) + "\n";
  if (isProduct)
    body += "%3 = kfuse.transpose %2 {permutation = array<i64: 0, 3, 4, 1, 2>} : (" + text(windows) + ") -> " +
            text(moved) + "\n%4 = kfuse.reshape %3 : (" + text(moved) + ") -> " + text(matrix) +
            "\n%r = kfuse.matmul %4, %b : (" + text(matrix) + ", " + text(weights) + ") -> " + text(product) + "\n";
  else
    body += "%r = kfuse.reduce %2 {function = \"sum\", axes = array<i64: 1, 2>} : (" + text(windows) + ") -> " +
            text(sums) + "\n";
  const std::string result = text(isProduct ? product : sums) + (returnsBoth ? ", " + text(flat) : "");
  return "func.func @f(%a: " + text(x) + ", %b: " + text(weights) + ") -> (" + result + ") {\n" + body + "return %r" +
         (returnsBoth ? ", %c" : "") + " : " + result + "\n}";
}

} // namespace

TEST_CASE("region scalars: windows") {
  std::mt19937 random(1);
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const std::string source = windowed(random, seed % 2 == 0, seed % 4 < 2);
    INFO(source);
    ParsedModule parsed(source);
    CHECK(compare(parsed.body(), seed) == "");
  }
}

TEST_CASE("region scalars: what windows are of is no result of their kernel") {
  // Windows with as many elements as there are numbers may still leave some out.
  std::mt19937 random(2);
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const std::string source = windowed(random, /*isProduct=*/false, /*isComputed=*/true, /*returnsBoth=*/true);
    INFO(source);
    ParsedModule parsed(source);
    CHECK(compare(parsed.body(), seed).find("one to one") != std::string::npos);
  }
}

TEST_CASE("region scalars: elementwise and layout ops") {
  CHECK(countForms(400, [](RandomGraph &random) {
          random.g.output("y", random.chain(random.fresh(random.randomShape(random.pick(1, 3))), random.pick(1, 6)));
        }) == 400);
}

TEST_CASE("region scalars: softmax, norms and reductions") {
  int forms = countForms(400, [](RandomGraph &random) {
    GraphBuilder &g = random.g;
    Shape shape = random.randomShape(random.pick(1, 3));
    shape.back() = random.pick(2, 6);
    Tensor x = random.chain(random.fresh(shape), random.pick(0, 3));
    if (x.shape().empty())
      x = g.reshape(x, {1});
    Tensor weight = random.fresh({x.shape().back()}), bias = random.fresh({x.shape().back()});
    std::vector<int> axes{random.pick(0, RandomGraph::rankOf(x) - 1)};
    if (int last = RandomGraph::rankOf(x) - 1; random.pick(0, 1) && axes[0] != last)
      axes.push_back(last);
    Tensor y;
    switch (random.pick(0, 5)) {
    case 0:
      y = g.softmax(x);
      break;
    case 1:
      y = g.layerNorm(x, weight, bias);
      break;
    case 2:
      y = g.rmsNorm(x, weight);
      break;
    case 3:
      y = g.layerNorm(x, {}, {});
      break;
    default:
      y = g.reduce(random.pick(0, 1) ? "mean" : "max", x, axes);
    }
    g.output("y", random.faithfulChain(y, random.pick(0, 3)));
    if (random.pick(0, 3) == 0)
      g.output("rows", y);
    if (random.pick(0, 3) == 0)
      g.output("sum", x);
  });
  CHECK(forms > 300);
}

TEST_CASE("region scalars: row ops twice over the same rows") {
  int forms = countForms(100, [](RandomGraph &random) {
    GraphBuilder &g = random.g;
    Tensor x = random.fresh({random.pick(1, 3), random.pick(2, 5)});
    Tensor centred = g.sub(x, g.reshape(g.reduce("max", x, {-1}), {x.shape()[0], 1}));
    Tensor normed =
        random.pick(0, 1) ? g.rmsNorm(random.elementwise(centred), {}) : g.softmax(random.elementwise(centred));
    g.output("y", random.faithfulChain(normed, 2));
  });
  CHECK(forms > 90);
}

TEST_CASE("region scalars: rows beside rearrangements of them") {
  int forms = countForms(600, [](RandomGraph &random) {
    GraphBuilder &g = random.g;
    Shape shape = random.randomShape(random.pick(1, 3));
    shape.back() = random.pick(2, 6);
    Tensor x = random.fresh(shape), y;
    switch (random.pick(0, 3)) {
    case 0:
      y = g.softmax(x);
      break;
    case 1:
      y = g.layerNorm(x, random.fresh({shape.back()}), {});
      break;
    case 2:
      y = g.rmsNorm(x, random.fresh({shape.back()}));
      break;
    default: {
      Shape rows = shape;
      rows.back() = 1;
      y = g.sub(x, g.reshape(g.reduce("mean", x, {-1}), rows));
    }
    }
    Tensor other = random.rearrange(y);
    if (random.pick(0, 2) == 0)
      other = random.rearrange(other);
    g.output("y", g.add(random.elementwise(y), other));
  });
  CHECK(forms > 480);
}

TEST_CASE("region scalars: a rotated half of a row is of the same norm as the row") {
  GraphBuilder g;
  Tensor y = g.rmsNorm(g.input("x", DType::F32, {3, 8}), g.input("w", DType::F32, {8}));
  Tensor half = g.pointwise("neg", {g.slice(y, {0, 5}, {3, 3})}), rest = g.slice(y, {0, 0}, {3, 5});
  g.output("y", g.add(y, g.concat({half, rest}, 1)));
  CHECK(compare(g, 1) == "");

  Result<Graph> graph = g.build();
  REQUIRE(graph);
  mlir::Block &body = graph->internals().module.get().lookupSymbol<mlir::func::FuncOp>("main").getBody().front();
  Result<ir::ScalarGraph> scalars = ir::scalariseRegion(body);
  REQUIRE(scalars);
  INFO(scalars->str());
  CHECK(std::ranges::count(scalars->nodes, ir::ScalarNode::Kind::Reduce, &ir::ScalarNode::kind) == 1);
}

TEST_CASE("region scalars: a row that no point of a rearrangement reads is not loaded") {
  GraphBuilder g;
  Tensor y = g.softmax(g.input("x", DType::F32, {2, 4})), other = g.input("z", DType::F32, {8});
  Tensor flat = g.concat({g.reshape(y, {8}), other}, 0);
  g.output("y", g.add(y, g.reshape(g.slice(flat, {8}, {4}), {1, 4})));
  CHECK(compare(g, 1) == "");
}

TEST_CASE("region scalars: a product with what comes before and after it") {
  int forms = countForms(300, [](RandomGraph &random) {
    GraphBuilder &g = random.g;
    std::int64_t m = random.pick(1, 5), n = random.pick(1, 5), k = random.pick(1, 6);
    GraphBuilder::Transpose transpose{random.pick(0, 1) == 1, random.pick(0, 1) == 1};
    Shape a = random.randomShape(random.pick(0, 2)), b = a;
    for (std::int64_t &size : b)
      if (random.pick(0, 2) == 0)
        size = 1;
    a.insert(a.end(), {transpose.a ? k : m, transpose.a ? m : k});
    b.insert(b.end(), {transpose.b ? n : k, transpose.b ? k : n});
    Tensor left = random.fresh(a), right = random.fresh(b);
    if (random.pick(0, 2) == 0)
      left = random.elementwise(left);
    if (random.pick(0, 2) == 0)
      right = random.elementwise(right);
    if (random.pick(0, 3) == 0)
      left = g.slice(g.concat({left, left}, 0), Shape(a.size(), 0), a);
    Tensor y = random.faithfulChain(g.matmul(left, right, transpose), random.pick(0, 5));
    g.output("y", y);
    if (random.pick(0, 3) == 0)
      g.output("z", random.elementwise(y));
  });
  CHECK(forms >= 298);
}

TEST_CASE("region scalars: state updates") {
  int forms = countForms(200, [](RandomGraph &random) {
    GraphBuilder &g = random.g;
    Shape value = random.randomShape(3), state = value;
    int axis = random.pick(0, 2);
    state[axis] += random.pick(0, 4);
    Tensor cache = g.state("cache", DType::F32, state);
    bool perRow = axis != 0 && random.pick(0, 1);
    Tensor position = random.fresh(perRow ? Shape{state[0]} : random.pick(0, 1) ? Shape{1} : Shape{}, DType::I64);
    g.output("cache", g.updateState(cache, random.faithfulChain(random.fresh(value), 0), position, axis));
  });
  CHECK(forms == 200);
}

TEST_CASE("region scalars: two products of one iteration space") {
  GraphBuilder g;
  Tensor x = g.input("x", DType::F32, {2, 4, 5}), gate = g.input("gate", DType::F32, {3, 5}),
         up = g.input("up", DType::F32, {2, 5, 3});
  g.output("y", g.mul(g.pointwise("neg", {g.matmul(x, gate, {.b = true})}), g.matmul(x, up)));
  CHECK(compare(g, 1) == "");
}

TEST_CASE("region scalars: rows of a product's result, and of its operand") {
  GraphBuilder after;
  Tensor x = after.input("x", DType::F32, {2, 3, 5}), w = after.input("w", DType::F32, {5, 4}),
         bias = after.input("bias", DType::F32, {4});
  after.output("y", after.softmax(after.add(after.matmul(x, w), bias)));
  CHECK(compare(after, 1) == "");

  GraphBuilder before;
  Tensor a = before.input("a", DType::F32, {3, 5}), weight = before.input("weight", DType::F32, {5}),
         b = before.input("b", DType::F32, {4, 5});
  before.output("y", before.matmul(before.rmsNorm(a, weight), b, {.b = true}));
  CHECK(compare(before, 1) == "");
}

TEST_CASE("region scalars: refusals name what stands in the way") {
  auto refusal = [](auto build) {
    GraphBuilder g;
    build(g);
    return compare(g, 0);
  };
  CHECK(refusal([](GraphBuilder &g) {
          Tensor x = g.input("x", DType::F32, {4, 4}), a = g.input("a", DType::F32, {4, 7});
          g.output("y", g.add(g.matmul(x, x), g.matmul(a, a, {.b = true})));
        }) == "products of 4 and 7 along K in one region");
  CHECK(refusal([](GraphBuilder &g) {
          Tensor x = g.input("x", DType::F32, {4, 4});
          g.output("y", g.add(g.matmul(x, x), g.transpose(g.matmul(x, g.pointwise("neg", {x})), {1, 0})));
        }) == "a product is needed at another place than where kfuse.matmul is computed");
  CHECK(refusal([](GraphBuilder &g) {
          Tensor x = g.input("x", DType::F32, {4, 6});
          g.output("y", g.softmax(g.transpose(g.matmul(x, x, {.b = true}), {1, 0})));
        }) == "kfuse.softmax works along another dimension than kfuse.matmul");
  CHECK(refusal([](GraphBuilder &g) { // Which row is added differs from column to column.
          Tensor x = g.input("x", DType::F32, {4, 6}), most = g.reduce("max", x, {-1});
          g.output("y", g.add(g.sub(x, g.reshape(most, {4, 1})), g.gather(most, g.input("i", DType::I64, {6}), 0)));
        }) == "kfuse.reduce works along another dimension than kfuse.reduce");
  CHECK(refusal([](GraphBuilder &g) {
          Tensor x = g.input("x", DType::F32, {4, 6});
          g.output("y", g.slice(g.softmax(x), {0, 0}, {4, 3}));
        }) == "a result is not placed one to one in the iteration space of kfuse.softmax");
}
