// Initializers: where their elements lie, and the types they are kept in.
#include "ImportedModel.h"
#include "TemporaryFolder.h"

#include <doctest/doctest.h>

using namespace kfuse;

TEST_CASE("data: external weights are mapped, at any alignment") {
  ImportedModel model(testData("external.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  REQUIRE(model.get().parameters.count("w") == 1);
  const ir::ParameterData &weight = model.get().parameters["w"], &bias = model.get().parameters["b"];
  CHECK(weight.shape == Shape{3, 4});
  CHECK(weight.bytes.size() == 48);
  CHECK(bias.bytes.data() == weight.bytes.data() + 49); // One mapping; the bias follows a byte of padding.
  CHECK(weight.owner == bias.owner);

  auto x = reference::tensorOf(DType::F32, {2, 3}, {1, 0, 0, 0, 0, 0});
  std::vector<double> y = model.evaluate({{"x", x}})["y"];
  REQUIRE(y.size() == 8);
  float w00 = 0, b0 = 0;
  std::memcpy(&w00, weight.bytes.data(), sizeof(float));
  std::memcpy(&b0, bias.bytes.data(), sizeof(float));
  CHECK(y[0] == doctest::Approx(w00 + b0));
  CHECK(y[4] == doctest::Approx(b0));
}

TEST_CASE("data: typed fields, and types that are converted") {
  ImportedModel model(testData("typed.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  auto results = model.evaluate();
  CHECK(results["f32_out"] == std::vector<double>{1.5, -2, 3e38F});
  CHECK(results["f16_out"] == std::vector<double>{1.5, -65504});
  CHECK(results["bf16_out"] == std::vector<double>{1.5, -3});
  CHECK(results["f64_out"] == std::vector<double>{0.1F, -2});
  CHECK(results["f64_raw_out"] == std::vector<double>{0.1F, -2});
  CHECK(results["i32_out"] == std::vector<double>{7, -5});
  CHECK(results["bool_out"] == std::vector<double>{1, 0, 1});
  // Too large for a double: read from the constant itself.
  bool found = false;
  model.main().walk([&](ir::ConstantOp constant) {
    auto value = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
    if (value.getElementType().isInteger(64))
      found = *value.getValues<std::int64_t>().begin() == (std::int64_t{1} << 62) + 1;
  });
  CHECK(found);
}

TEST_CASE("data: floats of several elements are parameters, the rest is part of the graph") {
  ImportedModel model(testData("typed.onnx"));
  REQUIRE_MESSAGE(model, model.error());
  CHECK(model.get().parameters.size() == 5);
  CHECK(model.get().parameters.count("f64") == 1);
  CHECK((model.get().parameters["f64"].type == DType::F32));
  CHECK(model.get().parameters.count("i64") == 0);
  CHECK(model.count("kfuse.constant") == 3);
}

namespace {

namespace fs = std::filesystem;

/// The error of a model at `model` whose data is in external.bin; "" where it is read.
std::string errorOf(const fs::path &model) {
  ImportedModel imported(model.string());
  if (!imported)
    CHECK((imported.code() == ErrorCode::BadModel));
  return imported.error();
}

fs::path folderIn(const fs::path &parent, const char *name) {
  fs::create_directory(parent / name);
  return parent / name;
}

} // namespace

TEST_CASE("data: links lead nowhere but into the model's folders") {
  tuner::test::TemporaryFolder temporary;
  const fs::path model = testData("external.onnx"), data = testData("external.bin");
  const fs::path plain = folderIn(temporary.path, "plain"), far = folderIn(temporary.path, "far");
  fs::copy(model, plain);
  SUBCASE("out of the folder") {
    fs::copy(data, far);
    fs::create_symlink(far / "external.bin", plain / "external.bin");
    std::string error = errorOf(plain / "external.onnx");
    CHECK(error.find("which is neither in the model's folder nor beside its file") != std::string::npos);
    CHECK(error.find((far / "external.bin").string()) != std::string::npos);
  }
  SUBCASE("out of the folder through one of its folders") {
    fs::copy(data, far);
    fs::create_symlink(far, plain / "sub");
    fs::create_symlink("sub/external.bin", plain / "external.bin");
    CHECK(errorOf(plain / "external.onnx") != "");
  }
  SUBCASE("into a folder of a name that begins alike") {
    fs::copy(data, folderIn(temporary.path, "plainer"));
    fs::create_symlink("../plainer/external.bin", plain / "external.bin");
    CHECK(errorOf(plain / "external.onnx") != "");
  }
  SUBCASE("within the folder") {
    fs::copy(data, folderIn(plain, "sub") / "bytes");
    fs::create_symlink("sub/bytes", plain / "external.bin");
    CHECK(errorOf(plain / "external.onnx") == "");
  }
  SUBCASE("a folder that is itself a link") {
    fs::copy(data, plain);
    fs::create_symlink(plain, temporary.path / "alias");
    CHECK(errorOf(temporary.path / "alias/external.onnx") == "");
  }
  SUBCASE("a cache of links: the model's file and its data lie in one folder") {
    const fs::path blobs = folderIn(temporary.path, "blobs"), snapshot = folderIn(temporary.path, "snapshot");
    fs::copy(model, blobs / "0a1b");
    fs::copy(data, blobs / "2c3d");
    fs::create_symlink("../blobs/0a1b", snapshot / "external.onnx");
    fs::create_symlink("../blobs/2c3d", snapshot / "external.bin");
    CHECK(errorOf(snapshot / "external.onnx") == "");
    fs::remove(snapshot / "external.bin");
    fs::create_symlink("../far/2c3d", snapshot / "external.bin");
    fs::rename(blobs / "2c3d", far / "2c3d");
    CHECK(errorOf(snapshot / "external.onnx") != "");
  }
}
