#include "tests/unit/SampleProgram.h"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <random>
#include <utility>

using namespace kfuse;
using runtime::BufferRef;
using runtime::Program;

namespace {

/// Every field set to something that is no default.
Program fullProgram() {
  Program program = test::sampleProgram(100);
  runtime::ProgramKernel &kernel = program.kernels[0];
  kernel.plan.options = {"--use_fast_math"};
  kernel.plan.workspaceBytes = 4096;
  kernel.plan.zeroedBytes = 256;
  kernel.plan.tensorMaps = {{2, DType::F32, {10, 10}, {40}, {8, 8}, 128}};
  codegen::Launch &launch = kernel.plan.launches[0];
  launch.cluster = {2, 1, 1};
  launch.sharedBytes = 1024;
  launch.programmaticLaunch = true;
  launch.items = 7;
  launch.grain = 3;
  launch.args.push_back({codegen::KernelArg::Kind::Workspace, 16});
  launch.args.push_back({codegen::KernelArg::Kind::TensorMap, 0});
  kernel.binary.image = {std::byte{0x7f}, std::byte{0}, std::byte{0xff}};
  kernel.binary.facts = {32, 8, 16, 64};
  return program;
}

std::string deserialiseError(std::span<const std::byte> bytes) {
  Result<Program> program = Program::deserialise(bytes);
  REQUIRE_FALSE(program);
  CHECK(program.error().code == ErrorCode::BadModel);
  CHECK(program.error().message.find('\n') == std::string::npos);
  return program.error().message;
}

/// The magic, followed by `count` times `body`.
std::vector<std::byte> fileOf(std::initializer_list<int> body, std::size_t count = 1) {
  std::vector<std::byte> bytes;
  for (char letter : std::string("kfuseprg"))
    bytes.push_back(static_cast<std::byte>(letter));
  for (std::size_t i = 0; i < count; ++i)
    for (int value : body)
      bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

} // namespace

TEST_CASE("Program: bytes round-trip") {
  for (const Program &program : {fullProgram(), test::sampleProgram(1), Program{}}) {
    Result<Program> again = Program::deserialise(program.serialise());
    REQUIRE_MESSAGE(again, again.error().message);
    CHECK(*again == program);
  }
}

TEST_CASE("Program: foreign, truncated and other versions' bytes are refused") {
  std::vector<std::byte> bytes = fullProgram().serialise();
  CHECK(deserialiseError({}).find("first bytes") != std::string::npos);
  CHECK(deserialiseError(std::vector<std::byte>(100)).find("first bytes") != std::string::npos);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    deserialiseError(std::span(bytes).first(size));
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  deserialiseError(longer);
  CHECK(deserialiseError(fileOf({0xa1, 0x67, 'v', 'e', 'r', 's', 'i', 'o', 'n', 6})).find("version 6, expected 5") !=
        std::string::npos);
}

TEST_CASE("Program: hostile CBOR neither recurses nor allocates") {
  const std::size_t deep = 1000000;
  deserialiseError(fileOf({0x81}, deep));                                     // Nested arrays.
  deserialiseError(fileOf({0xa1, 0x60}, deep));                               // Nested maps.
  deserialiseError(fileOf({0x7f}, deep));                                     // Nested open strings.
  deserialiseError(fileOf({0x5f}, deep));                                     // Nested open byte strings.
  deserialiseError(fileOf({0xc0}, deep));                                     // Nested tags.
  deserialiseError(fileOf({0x9b, 0x7f, 255, 255, 255, 255, 255, 255, 255}));  // 2^63 array items.
  deserialiseError(fileOf({0xbb, 255, 255, 255, 255, 255, 255, 255, 255}));   // 2^64 map entries.
  deserialiseError(fileOf({0x5b, 255, 255, 255, 255, 255, 255, 255, 255}));   // 2^64 bytes.
  deserialiseError(fileOf({0xfb, 0x7f, 0xef, 255, 255, 255, 255, 255, 255})); // A huge float.
}

TEST_CASE("Program: random damage is refused or yields a valid program") {
  std::mt19937 random(7);
  auto below = [&](std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random); };
  const std::vector<std::byte> original = fullProgram().serialise();
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    std::vector<std::byte> bytes = original;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      std::size_t at = 8 + below(bytes.size() - 8);
      std::size_t kind = below(4);
      if (kind == 0)
        bytes[at] = static_cast<std::byte>(below(256));
      else if (kind == 1)
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
      else if (kind == 2)
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
      else
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::byte>(below(256)));
    }
    Result<Program> program = Program::deserialise(bytes);
    if (!program) {
      CHECK(program.error().code == ErrorCode::BadModel);
      continue;
    }
    ++accepted;
    CHECK(program->validate());
    Result<Program> again = Program::deserialise(program->serialise());
    REQUIRE(again);
    CHECK(*again == *program);
  }
  // Edits inside names, sources and images are harmless; all others must have been seen.
  CHECK(accepted > 100);
  CHECK(accepted < 8000);
}

TEST_CASE("Program: validation names what does not fit") {
  using Edit = std::function<void(Program &)>;
  using Space = BufferRef::Space;
  const std::vector<std::pair<std::string, Edit>> cases{
      {"3 arguments but 2 roles", [](Program &p) { p.roles.pop_back(); }},
      {"4 results but 3 result states", [](Program &p) { p.resultState.pop_back(); }},
      {"unknown element type 200", [](Program &p) { p.arguments[0].type = DType(200); }},
      {"negative dimension -1", [](Program &p) { p.arguments[0].shape = {-1}; }},
      {"larger than 2^47", [](Program &p) { p.results[0].shape = {INT64_MAX, INT64_MAX}; }},
      {"unknown role 9", [](Program &p) { p.roles[0] = Role(9); }},
      {"argument 3 of 3", [](Program &p) { p.resultState[1] = 3; }},
      {"argument 18446744073709551614 of 3", [](Program &p) { p.resultState[1] = -2; }},
      {"aliases an argument that is no state", [](Program &p) { p.resultState[1] = 0; }},
      {"has 400 bytes, its state 404", [](Program &p) { p.arguments[2].shape = {101}; }},
      {"arena is larger", [](Program &p) { p.arenaBytes = UINT64_MAX; }},
      {"step 0 runs kernel 2 of 2", [](Program &p) { p.steps[0].kernel = 2; }},
      {"binds 2 buffers, kernel 'add' has 3", [](Program &p) { p.steps[0].buffers.pop_back(); }},
      {"uses argument 3 of 3", [](Program &p) { p.steps[0].buffers[0].index = 3; }},
      {"uses result 4 of 4", [](Program &p) { p.steps[1].buffers[2].index = 4; }},
      {"400 bytes at 4 of a buffer of 400", [](Program &p) { p.steps[0].buffers[0].offset = 4; }},
      {"at 18446744073709551615", [](Program &p) { p.steps[0].buffers[2].offset = UINT64_MAX; }},
      {"unknown space 77", [](Program &p) { p.steps[0].buffers[0].space = Space(77); }},
      {"writes to a constant", [](Program &p) { p.steps[0].buffers[2] = {Space::Constant, 0, 0}; }},
      {"which is no state", [](Program &p) { p.steps[0].buffers[2] = {Space::Argument, 0, 0}; }},
      {"says of 2 what they alias", [](Program &p) { p.kernels[0].plan.inPlace = {0, 0}; }},
      {"aliases input 2 of 2", [](Program &p) { p.kernels[0].plan.inPlace = {2}; }},
      {"512 zeroed bytes in a workspace of 256",
       [](Program &p) {
         p.kernels[0].plan.zeroedBytes = 512;
         p.kernels[0].plan.workspaceBytes = 256;
       }},
      {"not a multiple of 256", [](Program &p) { p.kernels[0].plan.zeroedBytes = 4; }},
      {"takes a buffer 3 of 3", [](Program &p) { p.kernels[0].plan.launches[0].args[0].index = 3; }},
      {"takes a tensor map 1 of 1", [](Program &p) { p.kernels[0].plan.launches[0].args[4].index = 1; }},
      {"takes a workspace byte 4096 of 4096", [](Program &p) { p.kernels[0].plan.launches[0].args[3].index = 4096; }},
      {"unknown kind 9", [](Program &p) { p.kernels[0].plan.launches[0].args[0].kind = codegen::KernelArg::Kind(9); }},
      {"dimension of 0", [](Program &p) { p.kernels[0].plan.launches[0].grid[1] = 0; }},
      {"tensor map of buffer 3 of 3", [](Program &p) { p.kernels[0].plan.tensorMaps[0].buffer = 3; }},
      {"2 sizes, 0 strides", [](Program &p) { p.kernels[0].plan.tensorMaps[0].strideBytes.clear(); }},
      {"swizzles 16 bytes", [](Program &p) { p.kernels[0].plan.tensorMaps[0].swizzleBytes = 16; }},
      {"writes result 4 of 4", [](Program &p) { p.passThroughs[0].result = 4; }},
      {"neither an argument nor a constant", [](Program &p) { p.passThroughs[0].source.space = Space::Arena; }},
      {"reads a state that the program updates",
       [](Program &p) {
         p.arguments.push_back({"t", DType::F32, {100}});
         p.roles.push_back(Role::State);
         p.results.push_back({"t_next", DType::F32, {100}});
         p.resultState.push_back(3);
         p.passThroughs.push_back({4, {Space::Argument, 2, 0}});
       }},
  };
  REQUIRE(fullProgram().validate());
  for (const auto &[expected, edit] : cases) {
    Program program = fullProgram();
    edit(program);
    Result<void> valid = program.validate();
    INFO(expected);
    REQUIRE_FALSE(valid);
    INFO(valid.error().message);
    CHECK(valid.error().code == ErrorCode::BadModel);
    CHECK(valid.error().message.find(expected) != std::string::npos);
    // Only what came from a file may be mended by compiling the model again.
    CHECK(valid.error().message.find("compile") == std::string::npos);
    Result<Program> read = Program::deserialise(program.serialise());
    REQUIRE_FALSE(read);
    CHECK(read.error().message == "the file is damaged: " + valid.error().message + "; compile the model again");
  }
}

TEST_CASE("Workspace: no kernel's scratch reaches another's zeroed bytes") {
  Program program = test::sampleProgram(8);
  auto &first = program.kernels[0].plan, &second = program.kernels[1].plan;
  first.zeroedBytes = 512;
  first.workspaceBytes = 600;
  second.zeroedBytes = 256;
  second.workspaceBytes = 2000;
  runtime::Workspace workspace(program);
  CHECK(workspace.zeroed == 512);
  CHECK(workspace.scratch == 2000 - 256);
  for (const codegen::KernelPlan *plan : {&first, &second}) {
    CHECK(workspace.offset(*plan) + plan->zeroedBytes == workspace.zeroed);
    CHECK(workspace.offset(*plan) + plan->workspaceBytes <= workspace.bytes());
  }
  Program other = test::sampleProgram(8);
  other.kernels[0].plan.zeroedBytes = other.kernels[0].plan.workspaceBytes = 1024;
  const runtime::Workspace ofBoth(std::array<const Program *, 2>{&program, &other});
  CHECK(ofBoth.zeroed == 1024);
  CHECK(ofBoth.scratch == workspace.scratch);
}
