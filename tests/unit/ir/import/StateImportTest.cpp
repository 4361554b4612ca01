// Inputs that are written and returned: which become states, what is written where, and what is refused.
#include "ImportedModel.h"

#include "ir/import/StatePatterns.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kfuse;
using reference::HostTensor;

namespace {

ir::ImportOptions states(std::vector<std::string> patterns, std::map<std::string, Shape> shapes = {}) {
  return {.shapes = std::move(shapes), .parameters = {}, .states = std::move(patterns)};
}

void checkRefused(const char *file, const ir::ImportOptions &options, const std::string &message,
                  ErrorCode code = ErrorCode::Usage) {
  CAPTURE(file);
  ImportedModel model(testData(file), options);
  REQUIRE(!model);
  CHECK(model.error() == testData(file) + ": " + message);
  CHECK(model.code() == code);
}

std::vector<std::string> growing(int capacity) {
  const std::string rows = ":" + std::to_string(capacity);
  return {"past_key=present_key" + rows, "past_value=v" + rows};
}

/// `rows` of `whole` [1, heads, rows, size] along its axis, and `fill` up to `capacity`.
HostTensor firstRows(const HostTensor &whole, std::int64_t rows, std::int64_t capacity, double fill) {
  const std::vector<double> from = reference::toDoubles(whole);
  const std::int64_t all = whole.shape[2], size = whole.shape[3];
  std::vector<double> to(static_cast<std::size_t>(whole.shape[1] * capacity * size), fill);
  for (std::int64_t head = 0; head < whole.shape[1]; ++head)
    std::copy_n(from.begin() + head * all * size, rows * size, to.begin() + head * capacity * size);
  return reference::tensorOf(whole.type, {1, whole.shape[1], capacity, size}, to);
}

} // namespace

TEST_CASE("states: a pattern's star is the same text on both sides") {
  const std::vector<std::string> inputs{"ids", "past_key_values.0.key", "past_key_values.1.key", "past.7"};
  const std::vector<std::string> outputs{"logits", "present.0.key", "present.1.key", "now7"};
  auto pairs = ir::pairStates({"past_key_values*=present*:64", "past.*=now*"}, inputs, outputs);
  REQUIRE(pairs);
  REQUIRE(pairs->size() == 3);
  CHECK((*pairs)[1].input == "past_key_values.1.key");
  CHECK((*pairs)[1].output == "present.1.key");
  CHECK((*pairs)[1].capacity == 64);
  CHECK((*pairs)[2].output == "now7");
  CHECK((*pairs)[2].capacity == 0);
  auto twice = ir::pairStates({"past_key_values.*.*=present.*.*"}, inputs, outputs);
  REQUIRE(twice);
  CHECK(twice->front().output == "present.0.key");

  auto refused = [&](const std::string &pattern) { return ir::pairStates({pattern}, inputs, outputs).error().message; };
  CHECK(refused("past") == "--state past is not of the form 'past*=present*' or, for a cache that grows, "
                           "'past*=present*:4096'");
  CHECK(refused("past*=present") == "--state past*=present has 1 '*' on the left and 0 on the right; each stands for "
                                    "the same text");
  CHECK(refused("cache*=present*") == "--state cache*=present* names no input; the model has ids, "
                                      "past_key_values.0.key, past_key_values.1.key, past.7");
  CHECK(refused("past*=present*") == "--state past*=present* takes input 'past_key_values.0.key' for output "
                                     "'present_key_values.0.key', which there is not; the model has logits, "
                                     "present.0.key, present.1.key, now7");
  CHECK(refused("past.7=now7:1") == "--state past.7=now7:1 gives a capacity of 1 rows; from 2 on");
  CHECK(ir::pairStates({"past.7=now7", "past.7=logits"}, inputs, outputs).error().message ==
        "--state past.7=logits takes input 'past.7' for output 'logits', but --state past.7=now7 takes 'past.7' for "
        "'now7'; name each once");
}

TEST_CASE("states: a cache that grows in the file gives the same in place, at every length") {
  const std::int64_t capacity = 16, added = 3;
  for (std::int64_t past : {1, 5, 13}) {
    CAPTURE(past);
    const HostTensor keys = reference::uniform(DType::F32, {1, 2, past, 4}, 1),
                     values = reference::uniform(DType::F32, {1, 2, past, 4}, 2);
    std::map<std::string, HostTensor> inputs{{"new_key", reference::uniform(DType::F32, {1, 2, added, 4}, 3)},
                                             {"new_value", reference::uniform(DType::F32, {1, 2, added, 4}, 4)},
                                             {"q", reference::uniform(DType::F32, {1, 2, added, 4}, 5)}};
    std::vector<double> mask(static_cast<std::size_t>(past + added), 1);
    mask[1] = 0;

    ImportedModel copying(testData("cache_grows.onnx"), states({}, {{"past", {past}}, {"total", {past + added}}}));
    REQUIRE_MESSAGE(copying, copying.error());
    inputs["past_key"] = keys, inputs["past_value"] = values;
    inputs["mask"] = reference::tensorOf(DType::I64, {1, past + added}, mask);
    auto expected = copying.evaluate(inputs);

    ImportedModel inPlace(testData("cache_grows.onnx"), states(growing(capacity)));
    REQUIRE_MESSAGE(inPlace, inPlace.error());
    CHECK(inPlace.count("kfuse.state_update") == 2);
    inPlace.main().walk([](ir::ConcatOp joined) { // What is still joined is sizes.
      CHECK(!isFloat(ir::dtypeOf(joined->getResult(0).getType())));
    });
    mask.resize(capacity, 0);
    inputs["past_key"] = firstRows(keys, past, capacity, 7.5),
    inputs["past_value"] = firstRows(values, past, capacity, 7.5);
    inputs["mask"] = reference::tensorOf(DType::I64, {1, capacity}, mask);
    inputs["past_length"] = reference::tensorOf(DType::I64, {}, {static_cast<double>(past)});
    auto actual = inPlace.evaluate(inputs);

    REQUIRE(actual["y"].size() == expected["y"].size());
    for (std::size_t i = 0; i < expected["y"].size(); ++i)
      CHECK(actual["y"][i] == doctest::Approx(expected["y"][i]).epsilon(1e-12));
    const HostTensor present = reference::tensorOf(DType::F32, {1, 2, past + added, 4}, expected["present_key"]);
    CHECK(actual["present_key"] == reference::toDoubles(firstRows(present, past + added, capacity, 7.5)));
  }
}

TEST_CASE("states: Attention of several new rows sees those up to each one's own, at every length") {
  for (std::int64_t past : {1, 4}) {
    CAPTURE(past);
    std::map<std::string, HostTensor> inputs{{"past_key", reference::uniform(DType::F32, {1, 2, past, 4}, 1)},
                                             {"past_value", reference::uniform(DType::F32, {1, 2, past, 4}, 2)}};
    for (std::uint64_t seed = 3; const char *name : {"q", "k", "v"})
      inputs[name] = reference::uniform(DType::F32, {1, 2, 3, 4}, seed++);
    ImportedModel copying(testData("cache_attention.onnx"), states({}, {{"past", {past}}}));
    REQUIRE_MESSAGE(copying, copying.error());
    const std::vector<double> expected = copying.evaluate(inputs)["y"];

    ImportedModel inPlace(testData("cache_attention.onnx"), states({"past*=present*:8"}));
    REQUIRE_MESSAGE(inPlace, inPlace.error());
    for (const char *name : {"past_key", "past_value"})
      inputs[name] = firstRows(inputs[name], past, 8, 7.5);
    inputs["past_length"] = reference::tensorOf(DType::I64, {}, {static_cast<double>(past)});
    const std::vector<double> actual = inPlace.evaluate(inputs)["y"];
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("states: a cache with a capacity is a state, its length an input") {
  ImportedModel model(testData("cache_grows.onnx"), states(growing(16)));
  REQUIRE_MESSAGE(model, model.error());
  std::map<std::string, std::string> roles;
  std::map<std::string, Shape> shapes;
  for (unsigned i = 0; i < model.main().getNumArguments(); ++i) {
    roles[model.name(i)] = model.role(i);
    shapes[model.name(i)] = model.argumentShape(i);
  }
  CHECK(roles["past_key"] == "state");
  CHECK(shapes["past_key"] == Shape{1, 2, 16, 4});
  CHECK(roles["past_length"] == "input");
  CHECK(shapes["past_length"] == Shape{});
  CHECK(shapes["mask"] == Shape{1, 16}); // By the name of the present's dimension.
  REQUIRE(model.get().states.size() == 2);
  CHECK(model.get().states[1].output == "v");
  CHECK(model.get().states[1].isInPlace);
  CHECK(model.get().states[1].how == "rows are written at past_length along axis 2, with room for 16");
}

TEST_CASE("states: the last rows of a present are those of the run") {
  ImportedModel model(testData("cache_last_row.onnx"), states(growing(9)));
  REQUIRE_MESSAGE(model, model.error());
  std::map<std::string, HostTensor> inputs{
      {"past_length", reference::tensorOf(DType::I64, {}, {4})},
      {"mask", reference::tensorOf(DType::I64, {1, 9}, std::vector<double>(9, 1))}};
  for (const char *name : {"new_key", "new_value", "q"})
    inputs[name] = reference::uniform(DType::F32, {1, 2, 3, 4}, 6);
  for (const char *name : {"past_key", "past_value"})
    inputs[name] = reference::uniform(DType::F32, {1, 2, 9, 4}, 7);
  const std::vector<double> added = reference::toDoubles(inputs["new_value"]), last = model.evaluate(inputs)["z"];
  REQUIRE(last.size() == 8);
  for (std::size_t head = 0; head < 2; ++head)
    CHECK(last[head * 4 + 1] == added[head * 12 + 9]);
}

TEST_CASE("states: what no cache in place can be is refused, and says why") {
  checkRefused("cache_grows.onnx", states({"past_key=present_key"}, {{"past", {5}}, {"total", {8}}}),
               "--state past_key=present_key: input 'past_key' is f32 of 1x2x5x4 and output 'present_key' f32 of "
               "1x2x8x4; a state is one tensor before and after, and this one grows: give it room, --state "
               "'past_key=present_key:4096'");
  checkRefused("cache_grows.onnx", states(growing(3)),
               "a cache with room for 3 rows has none for a past beside the 3 that are new in each run; give --state a "
               "larger capacity");
  checkRefused("cache_grows.onnx", states({"past_key=present_key:16", "past_value=v:17"}),
               "--state past_value=v:17: a capacity of 17 beside one of 16; the caches of a model grow together, give "
               "one");
  checkRefused("cache_grows.onnx", states({"q=y:16"}, {{"past", {5}}, {"total", {8}}}),
               "--state q=y:16: output 'y' is not input 'q' with rows joined to it (Concat), so that a capacity means "
               "nothing; a cache of one shape before and after takes none");
  checkRefused("cache_fixed.onnx", states(growing(16)),
               "--state past_key=present_key:16: the past of input 'past_key' has 5 rows in the file, on which "
               "positions and masks in it may rest; export it with dimension 2 dynamic");
  checkRefused("cache_prepended.onnx", states(growing(16)),
               "--state past_key=present_key:16: output 'present_key' is not input 'past_key' with rows joined to it "
               "(Concat), so that a capacity means nothing; a cache of one shape before and after takes none");
  checkRefused("cache_read.onnx", states(growing(16)),
               "input 'past_key' is read by node 'z' besides the one that joins rows to it, and so is not kept in "
               "place; load it without --state",
               ErrorCode::BadModel);
  checkRefused("cache_summed.onnx", states(growing(16)),
               "node 'mean' (ReduceMean): it reduces over the rows of a cache, of which there are as many as the run "
               "says; without --state for the cache it has one length",
               ErrorCode::BadModel);
  checkRefused("cache_cut.onnx", states(growing(16)),
               "node 'first_rows' (Slice): it takes a part of a cache's rows, of which there are as many as the run "
               "says; without --state for the cache it has one length",
               ErrorCode::BadModel);
}

TEST_CASE("states: rows that a graph writes at a position are written in place") {
  ImportedModel model(testData("cache_static.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.role(0) == "state");
  CHECK(model.count("kfuse.state_update") == 1);
  CHECK(model.count("kfuse.where") == 0);
  REQUIRE(model.get().states.size() == 1);
  CHECK(model.get().states[0].how == "rows are written at a position along axis 1");

  const HostTensor keys = reference::uniform(DType::F32, {2, 6, 4}, 1),
                   row = reference::uniform(DType::F32, {2, 1, 4}, 2);
  auto results = model.evaluate({{"keys", keys}, {"new", row}, {"position", reference::tensorOf(DType::I64, {}, {4})}});
  std::vector<double> expected = reference::toDoubles(keys), added = reference::toDoubles(row);
  for (std::size_t batch = 0; batch < 2; ++batch)
    std::copy_n(added.begin() + static_cast<std::ptrdiff_t>(batch) * 4, 4,
                expected.begin() + static_cast<std::ptrdiff_t>(batch) * 24 + 16);
  CHECK(results["new_keys"] == expected);

  // By name it is the same; the old value beside the new one is no state.
  ImportedModel named(testData("cache_static.onnx"), states({"keys=new_keys"}));
  REQUIRE_MESSAGE(named, named.error());
  CHECK(named.count("kfuse.state_update") == 1);
  ImportedModel read(testData("cache_static_read.onnx"));
  REQUIRE_MESSAGE(read, read.error());
  CHECK(read.role(0) == "input");
  REQUIRE(read.get().states.size() == 1);
  CHECK(!read.get().states[0].isInPlace);
  CHECK(read.get().states[0].how ==
        "the old value of 'keys' is read by 'both' together with the new one, which would overwrite it");
  checkRefused("cache_static_read.onnx", states({"keys=new_keys"}),
               "--state keys=new_keys: the old value of 'keys' is read by 'both' together with the new one, which "
               "would overwrite it");
}

TEST_CASE("states: any input becomes one by name, and is written over as a whole") {
  ImportedModel plain(testData("state_whole.onnx"));
  REQUIRE_MESSAGE(plain, plain.error());
  CHECK(plain.role(0) == "input");
  CHECK(plain.get().states.empty());
  ImportedModel model(testData("state_whole.onnx"), states({"*=next_*"}));
  CHECK(!model); // x has no next_x.
  ImportedModel named(testData("state_whole.onnx"), states({"st*=next_st*"}));
  REQUIRE_MESSAGE(named, named.error());
  CHECK(named.role(0) == "state");
  const HostTensor state = reference::uniform(DType::F32, {3, 5}, 1), x = reference::uniform(DType::F32, {5}, 2);
  CHECK(named.evaluate({{"state", state}, {"x", x}}) == plain.evaluate({{"state", state}, {"x", x}}));
  checkRefused("state_whole.onnx", states({"x=y"}),
               "--state x=y: input 'x' is f32 of 5 and output 'y' f32 of 3x5; a state is one tensor before and after");
}

TEST_CASE("states: rows that are written through a transpose and its inverse") {
  ImportedModel model(testData("cache_index_copy.onnx"), states({}));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().states.size() == 1);
  CHECK(model.get().states[0].isInPlace);
  CHECK(model.get().states[0].how == "rows are written at a position along axis 2");
}

TEST_CASE("states: rows at a known position, as an assignment to a slice writes them, are written in place") {
  ImportedModel model(testData("cache_slice.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().states.size() == 1);
  CHECK(model.get().states[0].how == "rows are written at a position along axis 2");
  CHECK(model.count("kfuse.state_update") == 1);
  CHECK(model.count("kfuse.concat") == 0);

  const HostTensor cache = reference::uniform(DType::F32, {1, 2, 5, 3}, 1),
                   row = reference::uniform(DType::F32, {1, 2, 1, 3}, 2);
  std::vector<double> expected = reference::toDoubles(cache);
  const std::vector<double> added = reference::toDoubles(row);
  for (std::ptrdiff_t head = 0; head < 2; ++head)
    std::copy_n(added.begin() + head * 3, 3, expected.begin() + head * 15 + 9);
  CHECK(model.evaluate({{"cache", cache}, {"row", row}})["y"] == expected);

  // A part of the old value beside the new one is read from a copy.
  ImportedModel read(testData("cache_slice_read.onnx"));
  REQUIRE_MESSAGE(read, read.error());
  REQUIRE(read.get().states.size() == 1);
  CHECK(read.get().states[0].how ==
        "the old value of 'cache' is read by 'both' together with the new one, which would overwrite it");
}

TEST_CASE("states: TensorScatter writes several rows in place, counted from the end below 0") {
  ImportedModel model(testData("cache_tensor_scatter_rows.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.count("kfuse.state_update") == 1);
  REQUIRE(model.get().states.size() == 1);
  CHECK(model.get().states[0].isInPlace);
  const HostTensor cache = reference::uniform(DType::F32, {2, 5, 3}, 1),
                   rows = reference::uniform(DType::F32, {2, 2, 3}, 2);
  std::vector<double> expected = reference::toDoubles(cache);
  const std::vector<double> added = reference::toDoubles(rows);
  std::copy_n(added.begin(), 6, expected.begin() + 3);      // The first sequence's, from 1 on.
  std::copy_n(added.begin() + 6, 6, expected.begin() + 24); // The second's, from -2 on.
  CHECK(
      model.evaluate({{"cache", cache}, {"rows", rows}, {"at", reference::tensorOf(DType::I64, {2}, {1, -2})}})["y"] ==
      expected);
}

TEST_CASE("states: GroupQueryAttention writes several rows into a shared buffer in place, wherever each sequence is") {
  ImportedModel copying(testData("cache_group_query_read.onnx")), inPlace(testData("cache_group_query.onnx"));
  REQUIRE_MESSAGE(copying, copying.error());
  REQUIRE_MESSAGE(inPlace, inPlace.error());
  CHECK(copying.count("kfuse.state_update") == 0);
  CHECK(inPlace.count("kfuse.state_update") == 2);
  REQUIRE(inPlace.get().states.size() == 2);
  CHECK(inPlace.get().states[1].output == "present_value");
  CHECK(inPlace.get().states[1].isInPlace);
  CHECK(inPlace.get().states[1].how == "rows are written at a position along axis 2");

  std::map<std::string, HostTensor> inputs;
  for (std::uint64_t seed = 1; const auto &[name, shape] : std::map<std::string, Shape>{{"q", {2, 3, 64}},
                                                                                        {"k", {2, 3, 32}},
                                                                                        {"v", {2, 3, 32}},
                                                                                        {"past_key", {2, 2, 7, 16}},
                                                                                        {"past_value", {2, 2, 7, 16}}})
    inputs[name] = reference::uniform(DType::F32, shape, seed++);
  for (const auto &lengths : {std::vector<double>{6, 2}, {4, 5}}) { // The last row's number, of either sequence.
    inputs["seqlens_k"] = reference::tensorOf(DType::I32, {2}, lengths);
    auto expected = copying.evaluate(inputs), actual = inPlace.evaluate(inputs);
    for (const char *name : {"y", "present_key", "present_value"})
      CHECK(actual[name] == expected[name]);
  }

  checkRefused("cache_group_query.onnx", {.shapes = {}, .parameters = {"past_*"}, .states = {}},
               "'past_key' is a parameter, and output 'present_key' is it with rows written in place; --params may not "
               "name it");
  checkRefused("cache_group_query.onnx", states({"past_key=present_value"}),
               "--state past_key=present_value: input 'past_key' is kept in place as another output already");
}

TEST_CASE("states: rows of a cache that a mask chooses are copied, which is said") {
  ImportedModel model(testData("cache_masked.onnx"), states({}));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().states.size() == 1);
  CHECK(!model.get().states[0].isInPlace);
  CHECK(model.get().states[0].how ==
        "a mask chooses what is written, not one row at a position; --state 'cache=y' keeps "
        "it in one buffer, by a copy");
}

TEST_CASE("states: a window of a cache that moves is copied, which is said") {
  ImportedModel model(testData("cache_window.onnx"), states({}));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().states.size() == 1);
  CHECK(!model.get().states[0].isInPlace);
  CHECK(model.get().states[0].how == "its first rows go as new ones come, a window that moves; --state 'cache=y' keeps "
                                     "it in one buffer, by a copy");
  ImportedModel named(testData("cache_window.onnx"), states({"cache=y"}));
  REQUIRE_MESSAGE(named, named.error());
  CHECK(named.get().states[0].isInPlace);
}

TEST_CASE("states: a cache without a capacity grows by a copy, which is said") {
  ImportedModel model(testData("cache_grows.onnx"), states({}, {{"past", {5}}, {"total", {8}}}));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().states.size() == 2);
  CHECK(!model.get().states[0].isInPlace);
  CHECK(model.get().states[0].how ==
        "it grows from 5 rows to 8 by a copy; where the file has its past's length dynamic, --state "
        "'past_key=present_key:ROWS' keeps it in place, with room for ROWS");
}
