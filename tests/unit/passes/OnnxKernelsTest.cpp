// What the model files of examples/models become: the kernels of the whole pipeline, counted by what they fuse.
#include "ImportedModel.h"
#include "PassHarness.h"

#include "codegen/CostModel.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace kfuse;

namespace {

using Kernels = std::map<std::string, int>;

/// "matmul + add + gelu": what a kernel computes; layout and constants are addresses and literals in it.
std::string nameOf(ir::FusedOp fused) {
  std::string name;
  auto layers = fused.getBody().getOps<ir::FusedOp>();
  if (!layers.empty())
    return "chain of " + std::to_string(std::distance(layers.begin(), layers.end()));
  for (mlir::Operation &op : fused.getBody().front().without_terminator()) {
    auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op);
    bool moves = fusable && (fusable.getOpKind() == ir::OpKind::Layout || fusable.getOpKind() == ir::OpKind::Generator);
    if (!moves)
      name += (name.empty() ? "" : " + ") + op.getName().stripDialect().str();
  }
  return name.empty() ? "copy" : name;
}

struct Planned {
  Kernels main, prepare;
  double arenaOverBound = 1;
};

Planned planned(const std::string &path, const char *target) {
  ImportedModel model(path);
  REQUIRE_MESSAGE(model, model.error());
  std::unique_ptr<ir::CostModel> costModel = codegen::makeCostModel(*ir::findTarget(target));
  mlir::ModuleOp module = *model.get().module;
  REQUIRE(test::runPasses(module, [&](mlir::PassManager &manager) { passes::buildPipeline(manager, *costModel); }) ==
          "");
  Planned result;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (auto fused : function.getOps<ir::FusedOp>())
      ++(function.getName() == "main" ? result.main : result.prepare)[nameOf(fused)];
  auto bytes = [&](const char *name) {
    return static_cast<double>(model.main()->getAttrOfType<mlir::IntegerAttr>(name).getInt());
  };
  if (double bound = bytes("kfuse.arena_lower_bound_bytes"); bound > 0)
    result.arenaOverBound = bytes("kfuse.arena_bytes") / bound;
  return result;
}

std::string listed(const Kernels &kernels) {
  std::string text;
  for (const auto &[name, count] : kernels)
    text += std::to_string(count) + " " + name + "\n";
  return text;
}

struct Lists {
  Kernels main, prepare;
};

struct Expected {
  const char *file;
  Lists lists;
  std::map<std::string, Lists> otherwise = {}; ///< For targets that fuse more, or less.

  const Lists &on(const std::string &target) const {
    auto found = otherwise.find(target);
    return found == otherwise.end() ? lists : found->second;
  }
};

/// Decoding with attention as one kernel, and gate and up as another.
const Lists decodeOnGpu{{{"rms_norm", 2},
                         {"rotary", 1},
                         {"matmul", 3},
                         {"copy", 1}, // The new values, behind those of the cache.
                         {"rotary + attention", 1},
                         {"matmul + silu + matmul + mul", 1},
                         {"matmul + add", 2}},
                        {}};

/// Where TMA and wgmma make large products cheaper, too: the norm in front of gate and up is computed by their kernel.
/// The new values are copied beside the rotary embedding of the keys.
const Lists decodeOnHopper{{{"rms_norm", 1},
                            {"rotary", 1},
                            {"matmul", 3},
                            {"rotary + attention", 1},
                            {"rms_norm + matmul + silu + matmul + mul", 1},
                            {"matmul + add", 2}},
                           {}};

/// Each layer of a transformer: its products (q, k and v are one), one kernel for each attention (on the CPU, for its
/// softmax) and norm, and nothing else.
const Expected models[] = {
    {"bert.dynamo.onnx",
     {{{"add + add + layer_norm", 1}, // The word embedding is gathered where it is added.
       {"matmul + add", 2},
       {"attention", 2},
       {"matmul + add + add", 4},
       {"layer_norm", 4},
       {"matmul + add + gelu", 2}},
      {{"copy", 1}}}, // Four in one launch.
     {{"cpu",
       {{{"add + add + layer_norm", 1},
         {"matmul + add", 2},
         {"attention", 2},
         {"matmul + add + add", 4},
         {"layer_norm", 4},
         {"matmul + add + gelu", 2}},
        {{"copy", 4}}}}}},
    // The second layer's rows that the result does not need are not computed, but its product of three is one.
    {"encoder_torch.script.onnx",
     {{{"matmul + add", 2}, {"attention", 2}, {"matmul + add + add", 4}, {"layer_norm", 4}, {"matmul + add + gelu", 2}},
      {}}},
    {"ffn_2048x4096.onnx", {{{"matmul + add + gelu_tanh", 1}, {"matmul + add", 1}, {"layer_norm", 1}}, {}}},
    {"linear_head_b256.onnx",
     {{{"matmul + add + relu", 20}, {"matmul + add", 1}}, {}},
     {{"sm_90a", {{{"chain of 21", 1}}, {}}}}},
    // 5 norms and 4 rotary embeddings, and none of the parts that the file spells them in; the heads that it
    // expands to four are addresses of the products. Gate and up are one f32 product, too. The norms' weights are
    // in those of the products behind them. Queries and keys are turned in one launch.
    {"llama.dynamo.onnx",
     {{{"rms_norm", 5},
       {"rotary + rotary", 2},
       {"matmul", 4},
       {"attention", 2}, // With the mask and the guard of rows without keys.
       {"silu + mul", 2},
       {"matmul + add", 4}},
      {{"mul + mul + mul + mul + mul + mul + mul + mul + mul + mul", 1}}},
     {{"cpu",
       {{{"rms_norm", 5}, {"rotary", 4}, {"matmul", 4}, {"attention", 2}, {"silu + mul", 2}, {"matmul + add", 4}},
        {{"copy", 2}, {"mul", 4}, {"mul + mul + mul", 2}}}}}},
    {"llama_block_decode_b1_kv1024.onnx",
     {{{"rms_norm", 2},
       {"rotary", 2},
       {"matmul", 5},
       {"matmul + mul + mul", 1}, // Two scales, whose product bf16 does not hold.
       {"softmax", 1},
       {"matmul + silu + mul", 1},
       {"matmul + add", 2}},
      {}},
     {{"sm_80", decodeOnGpu}, {"sm_90a", decodeOnHopper}}},
    {"llama_block_prefill_s1024.onnx",
     {{{"rms_norm", 2},
       {"rotary", 2},
       {"matmul", 4},
       {"attention", 1}, // With the causal mask in place, and its heads behind each other in the result.
       {"matmul + silu + mul", 1},
       {"matmul + add", 2}},
      {}},
     {{"cpu",
       {{{"rms_norm", 2},
         {"rotary", 2},
         {"matmul", 4},
         {"attention", 1},
         {"matmul + silu + mul", 1},
         {"matmul + add", 2}},
        {}}},
      {"sm_90a",
       {{{"rms_norm", 2},
         {"rotary", 1},
         {"matmul", 3},
         {"rotary + attention", 1}, // It computes its queries.
         {"matmul + silu + matmul + mul", 1},
         {"matmul + add", 2}},
        {}}}}},
    {"ln_gelu_2048x4096.onnx", {{{"matmul + add + gelu_tanh", 1}, {"layer_norm", 1}}, {}}},
    {"seqlen_head_b256.onnx",
     {{{"matmul + add", 20}, {"layer_norm + relu", 19}}, {}},
     {{"sm_90a", {{{"chain of 20", 1}}, {}}}}},
    {"stacked_heads_b256.onnx", {{{"matmul + add + relu", 20}, {"matmul", 1}}, {}}},
};

} // namespace

TEST_CASE("onnx: the kernels of the ten model files") {
  for (const char *target : {"cpu", "sm_80", "sm_90a"})
    for (const Expected &expected : models) {
      CAPTURE(std::string(target));
      CAPTURE(std::string(expected.file));
      Planned result = planned(exampleModel(expected.file), target);
      CHECK(listed(result.main) == listed(expected.on(target).main));
      CHECK(listed(result.prepare) == listed(expected.on(target).prepare));
    }
}

TEST_CASE("decoding: the kernel of attention computes its queries and writes the cache") {
  Kernels kernels = planned(exampleModel("llama_block_decode_b1_kv1024.mlir"), "sm_90a").main;
  CHECK(kernels["state_update + rotary + rotary + state_update + attention"] == 1);
  for (const auto &[name, count] : kernels)
    CHECK((name.find("rotary") == std::string::npos && name.find("update") == std::string::npos) ==
          (name.find("attention") == std::string::npos));
}

TEST_CASE("examples: no arena is more than 5 % above its lower bound") {
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(exampleModel("")))
    if (std::string type = entry.path().extension(); type == ".onnx" || type == ".mlir") {
      CAPTURE(entry.path().filename().string());
      CHECK(planned(entry.path(), "sm_90a").arenaOverBound <= 1.05);
      ++files;
    }
  CHECK(files >= 10);
}
