// Every op against the reference evaluator of the onnx package: the files hold a small graph and its answer for each
// case, and give the largest difference (tests/data/writers).
#include "ImportedModel.h"

#include "ir/dialect/Kfuse.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kfuse;

namespace {

void checkCases(const std::string &file, std::size_t cases) {
  CAPTURE(file);
  ImportedModel model(testData(file));
  REQUIRE_MESSAGE(model, model.error());
  auto differences = model.evaluate();
  CHECK(differences.size() == cases);
  for (const auto &[name, difference] : differences) {
    CAPTURE(name);
    // The answers are in f32: half a unit in the last place of values up to 128.
    CHECK(difference.at(0) <= 8e-6);
  }
}

} // namespace

TEST_CASE("onnx ops: pointwise") { checkCases("ops_pointwise.onnx", 65); }
TEST_CASE("onnx ops: layout, indexing and shapes") { checkCases("ops_layout.onnx", 45); }
TEST_CASE("onnx ops: gathers, scatters, and what compares the elements of a row") {
  checkCases("ops_indexing.onnx", 123);
}
TEST_CASE("onnx ops: reductions, norms and products") { checkCases("ops_rows.onnx", 43); }
TEST_CASE("onnx ops: attention and rotary embedding") { checkCases("ops_transformer.onnx", 13); }
TEST_CASE("onnx ops: ONNX Runtime's own") { checkCases("ops_microsoft.onnx", 8); }
TEST_CASE("onnx ops: windows") { checkCases("ops_windows.onnx", 59); }
TEST_CASE("onnx ops: hyperbolic functions, blocks of images and other single ones") { checkCases("ops_more.onnx", 45); }
TEST_CASE("onnx ops: what reads between elements, adds up blocks or transforms; bits, and narrow integers") {
  checkCases("ops_sampling.onnx", 80);
}
TEST_CASE("onnx ops: Einsum") { checkCases("ops_einsum.onnx", 34); }
TEST_CASE("onnx ops: ONNX Runtime's attention of packed sequences") { checkCases("ops_packed_attention.onnx", 5); }
TEST_CASE("onnx ops: ONNX Runtime's attention") { checkCases("ops_runtime_attention.onnx", 21); }
TEST_CASE("onnx ops: ONNX Runtime's grouped queries") { checkCases("ops_group_query.onnx", 19); }
TEST_CASE("onnx ops: what else ONNX Runtime's optimiser writes") { checkCases("ops_runtime.onnx", 23); }

TEST_CASE("onnx ops: tensors of 8, 4 and 2 bits") { checkCases("ops_quantised.onnx", 66); }

TEST_CASE("onnx ops: weights that lie along N in the file are stored along K, where products read them") {
  checkCases("ops_along_n.onnx", 5);
  ImportedModel model(testData("ops_along_n.onnx"));
  model.main().walk([](ir::DequantizeOp weights) {
    CHECK(weights.getType().getShape().vec() == Shape{10, 48});
    CHECK(llvm::isa<mlir::BlockArgument>(weights->getOperand(0)));
  });
}

TEST_CASE("onnx ops: 4-bit integers of the file lie across rows, those of kfuse in bytes of their row") {
  ImportedModel model(testData("int4_rows.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.resultShape(0) == Shape{3, 5});
}

TEST_CASE("onnx ops: a cache of grouped queries grows, or its buffer is shared and longer than what counts") {
  auto x = reference::uniform(DType::F32, {2, 1, 8}, 1), key = reference::uniform(DType::F32, {2, 1, 4, 16}, 2);
  auto value = reference::uniform(DType::F32, {2, 1, 4, 16}, 3);
  auto ones = [](Shape shape, std::int64_t counting) {
    std::vector<double> mask;
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i)
      mask.push_back(i % shape[1] < counting);
    return reference::tensorOf(DType::I64, shape, mask);
  };
  // [2, 1, 4, 16] in a buffer of 9 rows.
  auto buffer = [](const reference::HostTensor &rows) {
    std::vector<double> from = reference::toDoubles(rows), to(2 * 9 * 16, 7);
    for (std::size_t i = 0; i < from.size(); ++i)
      to[i / 64 * 144 + i % 64] = from[i];
    return reference::tensorOf(DType::F32, {2, 1, 9, 16}, to);
  };
  auto sized = [](std::int64_t past, std::int64_t total) {
    return ir::ImportOptions{
        {{"batch_size", {2}}, {"past_sequence_length", {past}}, {"total_sequence_length", {total}}}, {}};
  };
  ImportedModel growing(testData("genai.onnx"), sized(4, 5)), shared(testData("genai.onnx"), sized(9, 9));
  REQUIRE_MESSAGE(growing, growing.error());
  REQUIRE_MESSAGE(shared, shared.error());
  CHECK(growing.resultShape(1) == Shape{2, 1, 5, 16});
  CHECK(shared.resultShape(1) == Shape{2, 1, 9, 16});
  auto grown =
      growing.evaluate({{"x", x}, {"attention_mask", ones({2, 5}, 5)}, {"past.key", key}, {"past.value", value}});
  auto kept = shared.evaluate(
      {{"x", x}, {"attention_mask", ones({2, 9}, 5)}, {"past.key", buffer(key)}, {"past.value", buffer(value)}});
  for (std::size_t i = 0; i < grown["y"].size(); ++i)
    CHECK(kept["y"][i] == doctest::Approx(grown["y"][i]).epsilon(1e-6));
  for (const char *name : {"present.key", "present.value"})
    for (std::size_t i = 0; i < std::size_t{2} * 9 * 16; ++i) {
      std::size_t row = i / 16 % 9, grownAt = i / 144 * 80 + i % 144;
      CHECK(kept[name][i] == doctest::Approx(row < 5 ? grown[name][grownAt] : 7).epsilon(1e-6));
    }
}

TEST_CASE("onnx ops: attention as Einsum writes it is products of stacks, and transposes heads alone") {
  ImportedModel model(testData("ops_einsum.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  std::map<std::string, int> transposes, products;
  model.main().walk([&](mlir::Operation *op) {
    auto location = llvm::dyn_cast<mlir::NameLoc>(op->getLoc());
    std::string node = location ? location.getName().str() : "";
    transposes[node] += llvm::isa<ir::TransposeOp>(op);
    products[node] += llvm::isa<ir::MatmulOp>(op);
  });
  // The equations of write_einsum in order: projections by head, scores, their product with values, and the output.
  const std::pair<int, int> expected[] = {{1, 1}, {1, 0}, {1, 0}, {1, 1}};
  for (auto [i, counts] : llvm::enumerate(expected)) {
    std::string node = "Einsum_" + std::to_string(i) + ".Einsum";
    CAPTURE(node);
    CHECK(products[node] == counts.first);
    CHECK(transposes[node] == counts.second);
  }
}

TEST_CASE("onnx ops: a branch whose condition is known is imported, and the other's weights and ops do not count") {
  ImportedModel one(testData("if_shape.onnx"), {{{"x", {1, 3}}}, {}});
  REQUIRE_MESSAGE(one, one.error());
  CHECK(one.evaluate({{"x", reference::tensorOf(DType::F32, {1, 3}, {1, 2, 3})}})["y"] == std::vector<double>{2, 4, 6});
  CHECK(one.main().getNumArguments() == 1);
  ImportedModel two(testData("if_shape.onnx"), {{{"x", {2, 3}}}, {}});
  REQUIRE_MESSAGE(two, two.error());
  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(two.evaluate({{"x", x}})["y"] == std::vector<double>{30, 54, 78});

  CHECK(ImportedModel(testData("if_unsupported.onnx"), {{{"x", {1, 3}}}, {}}).error() == "");
  ImportedModel other(testData("if_unsupported.onnx"), {{{"x", {2, 3}}}, {}});
  REQUIRE(!other);
  CHECK(other.error().find("does not have: LSTM (1 node: lstm); recurrent layers") != std::string::npos);
}

TEST_CASE("onnx ops: loops are unrolled: what they carry, what they keep of each step, weights once") {
  ImportedModel model(testData("loop.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  auto results = model.evaluate({{"x", reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6})}});
  // Twice the sum, x and the step's number; w = 1, 2, 3 is added in step 1.
  const std::vector<double> first{1, 2, 3, 4, 5, 6}, second{5, 9, 13, 14, 18, 22}, third{13, 22, 31, 34, 43, 52};
  std::vector<double> all(first);
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), third.begin(), third.end());
  CHECK(results["total"] == third);
  CHECK(results["all"] == all);
  CHECK(model.get().parameters.size() == 2); // The start, and the weight of a branch inside.

  ImportedModel until(testData("loop_until.onnx"));
  REQUIRE_MESSAGE(until, until.error());
  CHECK(until.evaluate({{"x", reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6})}})["y"] ==
        std::vector<double>{5, 10, 15, 20, 25, 30});
}

TEST_CASE("onnx ops: axes and split sizes, as attributes and as inputs") {
  auto x = reference::uniform(DType::F32, {4, 6}, 1);
  ImportedModel older(testData("reduce_opset13.onnx")), newer(testData("reduce_opset18.onnx"));
  REQUIRE_MESSAGE(older, older.error());
  REQUIRE_MESSAGE(newer, newer.error());
  CHECK(older.resultShape(0) == Shape{4});
  CHECK(older.evaluate({{"x", x}}) == newer.evaluate({{"x", x}}));

  ImportedModel sizes(testData("split_opset13.onnx")), halves(testData("split_opset18.onnx"));
  REQUIRE_MESSAGE(sizes, sizes.error());
  REQUIRE_MESSAGE(halves, halves.error());
  CHECK(sizes.resultShape(0) == Shape{4, 2});
  CHECK(sizes.resultShape(1) == Shape{4, 4});
  CHECK(halves.resultShape(1) == Shape{4, 3});
}

TEST_CASE("onnx ops: tensors of no elements keep their other dimensions") {
  ImportedModel model(testData("empty.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  std::map<std::string, Shape> shapes;
  for (unsigned i = 0; i < 4; ++i)
    shapes[model.resultName(i)] = model.resultShape(i);
  CHECK(shapes["padded"] == Shape{4, 3});
  CHECK(shapes["columns"] == Shape{2, 3});
  CHECK(shapes["joined"] == Shape{2, 3});
  CHECK(shapes["cut_and_padded"] == Shape{2, 1});
  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  auto results = model.evaluate({{"x", x}, {"e", reference::HostTensor::zeros(DType::F32, {2, 0})}});
  CHECK(results["padded"] == std::vector<double>(12, 0));
  CHECK(results["columns"] == std::vector<double>{1, 2, 3, 4, 5, 6});

  ImportedModel mismatch(testData("empty_mismatch.onnx"));
  REQUIRE_FALSE(mismatch);
  CHECK(mismatch.error().find("joins [3, 1] to [2, 0]") != std::string::npos);
}

TEST_CASE("onnx ops: activations keep their digits where a sum would cancel, and 16 bits do not hold a constant") {
  ImportedModel model(testData("activations.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.count("kfuse.log1p") == 2);
  CHECK(model.count("kfuse.expm1") == 1);
  auto x = reference::tensorOf(DType::F32, {5}, {-20, -0.0009765625, 0, 3, 100});
  auto h = reference::tensorOf(DType::BF16, {5}, {-2.75, -3, -2.984375, 1, 7});
  auto results = model.evaluate({{"x", x}, {"h", h}});
  auto close = [&](const std::string &name, const std::vector<double> &expected, double error) {
    CAPTURE(name);
    REQUIRE(results[name].size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(std::fabs(results[name][i] - expected[i]) <= error * std::fabs(expected[i]));
  };
  close("softplus", {2.0611536e-9, 0.69265901, 0.69314718, 3.04858735, 100}, 1e-7);
  close("elu", {-1, -0.000976085818, 0, 3, 100}, 1e-7);
  close("mish", {-4.1223072e-8, -0.0005856323094, 0, 2.98653538, 100}, 1e-5);
  constexpr double ofBf16 = 0x1p-8;
  close("hard_swish", {-0.11458333, 0, -0.0077718099, 0.66666667, 7}, ofBf16);
  close("hard_sigmoid", {0.041666667, 0, 0.0026041667, 0.66666667, 1}, ofBf16);
  close("leaky_relu", {-0.0275, -0.03, -0.02984375, 1, 7}, ofBf16);
  close("mean", {-2.75, -3, -2.984375, 1, 7}, 0);
}

TEST_CASE("onnx ops: integers are exact, and wrap") {
  ImportedModel model(testData("integers.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min(), odd = (std::int64_t{1} << 53) + 1;
  const std::vector<std::int64_t> x{3, lowest, odd, -odd};
  std::vector<reference::HostTensor> arguments{reference::HostTensor::zeros(DType::I64, {4}),
                                               reference::tensorOf(DType::I32, {4}, {2147483647, -7, 0, 5})};
  std::memcpy(arguments[0].bytes.data(), x.data(), sizeof(std::int64_t) * x.size());
  for (unsigned i = 2; i < model.main().getNumArguments(); ++i) {
    const ir::ParameterData &data = model.get().parameters.at(model.name(i));
    arguments.push_back({data.type, data.shape, {data.bytes.begin(), data.bytes.end()}});
  }
  auto values = reference::evaluate(model.main().getBody().front(), arguments, reference::Mode::Exact);
  REQUIRE(values);
  auto result = [&](const std::string &name) {
    std::vector<std::int64_t> integers;
    for (unsigned i = 0; i < values->size(); ++i)
      if (model.resultName(i) == name)
        for (reference::Number number : (*values)[i].numbers)
          integers.push_back(number.integer);
    return integers;
  };
  using Integers = std::vector<std::int64_t>;
  constexpr std::int64_t square = (std::int64_t{1} << 54) + 1, cube = (std::int64_t{3} << 53) + 1; // Modulo 2^64.
  CHECK(result("times_odd") == Integers{3 * odd, lowest, square, -square});
  CHECK(result("plus_odd") == Integers{3 + odd, lowest + odd, 2 * odd, 0});
  CHECK(result("low_bits") == Integers{3, 0, 1, -1});
  CHECK(result("cube") == Integers{27, 0, cube, -cube});
  CHECK(result("ones") == Integers{1, 1, 1, 1});
  CHECK(result("rest") == Integers{3, lowest % 7, odd % 7, -(odd % 7)});
  CHECK(result("quotient") == Integers{-3, lowest, -odd, odd});
  CHECK(result("range") == Integers{odd, odd + (std::int64_t{1} << 60)});
  CHECK(result("folded") == Integers{std::int64_t{1} << 60});
  CHECK(result("doubled") == Integers{-2, -14, 0, 10});
}

TEST_CASE("onnx ops: what lies between in 16 bits keeps what the result holds") {
  ImportedModel model(testData("halves.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  std::vector<reference::HostTensor> arguments;
  for (unsigned i = 0; i < model.main().getNumArguments(); ++i) {
    auto found = model.get().parameters.find(model.name(i));
    if (found == model.get().parameters.end())
      arguments.push_back(reference::tensorOf(DType::F16, {1, 2}, {300, 400}));
    else
      arguments.push_back(
          {found->second.type, found->second.shape, {found->second.bytes.begin(), found->second.bytes.end()}});
  }
  auto values = reference::evaluate(model.main().getBody().front(), arguments, reference::Mode::RoundEachOp);
  REQUIRE(values);
  CHECK((*values)[0].real(0) == doctest::Approx(32870).epsilon(1e-3)); // The mean of 300 and 65440.
  CHECK((*values)[1].real(0) == doctest::Approx(0.0625 * 3000 / std::sqrt(0.00011)).epsilon(2e-3));
  CHECK((*values)[1].real(1) == doctest::Approx(60000 + 1 / std::sqrt(0.00011)).epsilon(2e-3));
  CHECK((*values)[2].real(0) == doctest::Approx(-std::log1p(std::exp(-10.25))).epsilon(2e-3));
  CHECK((*values)[3].real(0) == 500);
}

TEST_CASE("onnx ops: activations are quantised in the type of the scale, or in the one that the node names") {
  ImportedModel model(testData("quantised_halves.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  std::vector<reference::HostTensor> arguments{reference::tensorOf(DType::F16, {1}, {28.359375})};
  for (unsigned i = 1; i < model.main().getNumArguments(); ++i)
    arguments.push_back(reference::tensorOf(DType::F16, {}, {0.7}));
  auto values = reference::evaluate(model.main().getBody().front(), arguments, reference::Mode::Exact);
  REQUIRE(values);
  CHECK((*values)[0].real(0) == doctest::Approx(40 * 0.7001953125).epsilon(1e-3)); // A quotient of 40.5.
  CHECK((*values)[1].real(0) == doctest::Approx(41 * 0.7001953125).epsilon(1e-3)); // And of 40.502.
}

TEST_CASE("onnx ops: weights of MatMulNBits less a zero point of 16 bits are numbers of f32, as in ONNX Runtime") {
  ImportedModel model(testData("nbits_halves.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  std::vector<double> one(16);
  one[3] = 1;
  CHECK(model.evaluate({{"x", reference::tensorOf(DType::F16, {1, 16}, one)}})["y"] ==
        std::vector<double>{1369.0 / 64}); // A difference in f16 would make 1368 of it.
}

TEST_CASE("onnx ops: booleans are reduced as integers, which kernels can") {
  ImportedModel model(testData("reduce_bool.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  model.main().walk([](ir::ReduceOp op) { CHECK((ir::dtypeOf(op.getOperand().getType()) == DType::I32)); });
  auto x = reference::integers(DType::Bool, {4, 6}, 3, 0, 2);
  std::vector<double> elements = reference::toDoubles(x), any, all;
  for (auto row = elements.begin(); row != elements.end(); row += 6) {
    any.push_back(*std::max_element(row, row + 6));
    all.push_back(*std::min_element(row, row + 6));
  }
  auto results = model.evaluate({{"x", x}});
  CHECK(results["any"] == any);
  CHECK(results["all"] == all);
}

TEST_CASE("onnx ops: a row of a cache is selected at its place, whichever op writes it") {
  // cache [1, 2, 5, 3] with the row at position 3, which may be counted from the end.
  std::vector<double> elements(30), row{-1, -2, -3, -4, -5, -6};
  for (int i = 0; i < 30; ++i)
    elements[i] = i;
  std::vector<double> expected = elements;
  std::copy_n(row.begin(), 3, expected.begin() + 9);
  std::copy_n(row.begin() + 3, 3, expected.begin() + 24);
  for (const char *file :
       {"cache_index_copy.onnx", "cache_index_put.onnx", "cache_scatter.onnx", "cache_tensor_scatter.onnx"}) {
    CAPTURE(file);
    ImportedModel model(testData(file));
    REQUIRE_MESSAGE(model, model.error());
    CHECK(model.count("kfuse.gather") == 0);
    CHECK(model.count("kfuse.reduce") == 0);
    // where(index == position, row, cache), or the row's update in place: of the cache itself, not of a transposed one.
    int selections = 0;
    const mlir::Value cache = model.main().getArgument(0);
    model.main().walk([&](ir::WhereOp where) {
      selections += where.getCondition().getDefiningOp<ir::EqOp>() && where.getOtherwise() == cache;
    });
    model.main().walk([&](ir::StateUpdateOp update) { selections += update.getState() == cache; });
    CHECK(selections == 1);
    for (double position : {3, -2})
      CHECK(model.evaluate({{"cache", reference::tensorOf(DType::F32, {1, 2, 5, 3}, elements)},
                            {"row", reference::tensorOf(DType::F32, {1, 2, 1, 3}, row)},
                            {"position", reference::tensorOf(DType::I64, {}, {position})}})["y"] == expected);
  }
  ImportedModel known(testData("cache_slice.onnx"));
  REQUIRE_MESSAGE(known, known.error());
  CHECK(known.count("kfuse.where") == 0);
  CHECK(known.count("kfuse.state_update") == 1);
  CHECK(known.evaluate({{"cache", reference::tensorOf(DType::F32, {1, 2, 5, 3}, elements)},
                        {"row", reference::tensorOf(DType::F32, {1, 2, 1, 3}, row)}})["y"] == expected);
}

TEST_CASE("onnx ops: indices that name every place in order read nothing") {
  ImportedModel mask(testData("mask_gather_nd.onnx"));
  REQUIRE_MESSAGE(mask, mask.error());
  CHECK(mask.count("kfuse.gather") == 0);
  CHECK(mask.count("kfuse.slice") == 0);
  auto x = reference::integers(DType::I64, {2, 6}, 5, 0, 2);
  CHECK(mask.evaluate({{"mask", x}})["y"] == reference::toDoubles(x));
}

TEST_CASE("onnx ops: a model's own functions are expanded, with the call's attributes or the function's") {
  ImportedModel model(testData("functions.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(model.evaluate({{"x", x}})["y"] == std::vector<double>{6, 12, 18, 24, 30, 36});
}
