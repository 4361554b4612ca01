#include "runtime/pack/Pack.h"

#include "tests/unit/SamplePack.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <random>

using namespace kfuse;
using namespace kfuse::runtime;
using test::imageOf, test::programsFor, test::sampleContents;

namespace {

std::vector<std::byte> contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return imageOf({std::istreambuf_iterator<char>(file), {}});
}

std::string failureOf(const std::vector<std::byte> &bytes) {
  Result<Pack> pack = Pack::parse(bytes, "p.kfp");
  Result<void> whole = pack ? pack->verify() : pack.error();
  if (whole)
    return "";
  CHECK((whole.error().code == ErrorCode::BadModel));
  CHECK(whole.error().message.find('\n') == std::string::npos);
  return whole.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

template <class Number> void put(std::vector<std::byte> &bytes, std::size_t offset, Number number) {
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

} // namespace

TEST_CASE("pack: what is written reads back, without sources") {
  const std::vector<std::byte> bytes = writePack(sampleContents());
  Result<Pack> pack = Pack::parse(bytes, "p");
  REQUIRE_MESSAGE(pack, pack.error().message);
  CHECK(pack->verify());
  CHECK(pack->manifest().inputs == sampleContents().manifest.inputs);
  CHECK(pack->manifest().updatedStates == sampleContents().manifest.updatedStates);
  REQUIRE(pack->manifest().variants.size() == 3);
  CHECK(pack->manifest().variants[0].title() == "sm_90a for NVIDIA H200");
  CHECK(pack->manifest().variants[2].isPtx());
  for (std::size_t i = 0; i < 3; ++i) {
    Result<VariantPrograms> loaded = pack->load(i);
    REQUIRE_MESSAGE(loaded, loaded.error().message);
    VariantPrograms expected = programsFor(pack->manifest().variants[i].target);
    for (Program *program : {&expected.main, &*expected.prepare})
      for (ProgramKernel &kernel : program->kernels)
        kernel.plan.source.clear();
    CHECK((loaded->main == expected.main));
    REQUIRE(loaded->prepare);
    CHECK((*loaded->prepare == *expected.prepare));
  }
}

TEST_CASE("pack: weights are inside, or the caller's") {
  const std::vector<std::byte> with = writePack(sampleContents());
  Result<Pack> pack = Pack::parse(with, "p");
  REQUIRE(pack);
  CHECK(pack->holdsWeights());
  Result<std::span<const std::byte>> w0 = pack->weights(0);
  REQUIRE(w0);
  CHECK(w0->size() == 400);
  CHECK((w0->front() == std::byte{3}));
  for (bool isNamed : {true, false}) { // One parameter's, which are not there, or nobody's.
    PackContents contents = sampleContents();
    contents.weights.clear();
    contents.weights.resize(isNamed ? 1 : 0);
    const std::vector<std::byte> without = writePack(contents);
    Result<Pack> other = Pack::parse(without, "p");
    REQUIRE(other);
    CHECK_FALSE(other->holdsWeights());
    CHECK(other->weights(0)->empty());
    CHECK(other->verify());
  }
}

TEST_CASE("pack: code that programs share lies in it once") {
  const std::vector<std::byte> bytes = writePack(sampleContents());
  Result<Pack> pack = Pack::parse(bytes, "p");
  REQUIRE(pack);
  std::size_t code = 0;
  for (std::size_t i = 0; i < pack->file().size(); ++i)
    code += pack->file().kind(i) == SectionKind::Code ? 1 : 0;
  CHECK(code == 6); // Two kernels for each of three targets; main and prepare have the same.
}

TEST_CASE("pack: every byte that is changed is refused") {
  const std::vector<std::byte> whole = writePack(sampleContents());
  REQUIRE(failureOf(whole).empty());
  std::vector<std::byte> changed = whole;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    changed[i] ^= std::byte{static_cast<unsigned char>(1U << i % 8)};
    CHECK_MESSAGE(!failureOf(changed).empty(), "byte " << i);
    changed[i] = whole[i];
  }
}

TEST_CASE("pack: a file that is cut, or goes on, is refused") {
  std::vector<std::byte> whole = writePack(sampleContents());
  for (std::size_t size = 0; size < whole.size(); size += 61) // In memory of its own, for AddressSanitizer.
    CHECK_FALSE(failureOf(std::vector(whole.begin(), whole.begin() + std::ptrdiff_t(size))).empty());
  whole.push_back(std::byte{0});
  CHECK(contains(failureOf(whole), "its header says"));
}

TEST_CASE("pack: foreign, older and newer files are told apart") {
  CHECK(failureOf(imageOf("SQLite format 3")) ==
        "p.kfp is no pack: its first bytes are not 'KFUSEPAK'; kfuse pack makes one");
  CHECK(contains(failureOf({}), "is no pack"));
  CHECK(contains(failureOf(imageOf("KFUSEPAK")), "it has 8 bytes, its header alone 64"));
  std::vector<std::byte> bytes = writePack(sampleContents());
  put(bytes, 8, std::uint16_t(2));
  CHECK(failureOf(bytes) == "p.kfp is a pack of version 2, this kfuse reads version 1; use a newer kfuse");
  put(bytes, 8, std::uint16_t(0));
  CHECK(failureOf(bytes) == "p.kfp is a pack of version 0, this kfuse reads version 1; make it again");
}

TEST_CASE("pack: a pack that is sealed but makes no sense is refused") {
  auto failureWith = [](auto change) {
    PackContents contents = sampleContents();
    change(contents);
    return failureOf(writePack(std::move(contents)));
  };
  auto first = [](PackContents &contents) -> VariantPrograms & { return contents.variants.front().second.front(); };
  CHECK(contains(failureWith([](PackContents &c) { c.weights.resize(2); }), "weights of 2 of its 1 parameters"));
  CHECK(
      contains(failureWith([](PackContents &c) { c.weights[0] = c.weights[0].first(8); }), "'w0' are 8, expected 400"));
  CHECK(contains(failureWith([](PackContents &c) { c.variants.clear(); }), "it holds no program"));
  CHECK(contains(failureWith([](PackContents &c) { c.manifest.updatedStates = {-1, 1, -1, -1}; }), "state 1 of 1"));
  CHECK(contains(failureWith([](PackContents &c) { c.manifest.updatedStates.pop_back(); }), "of each output"));
  CHECK(contains(failureWith([](PackContents &c) { c.manifest.inputs[0].shape = {99}; }), "takes other tensors"));
  CHECK(
      contains(failureWith([](PackContents &c) { c.manifest.outputs.pop_back(), c.manifest.updatedStates.pop_back(); }),
               "takes other tensors"));
  CHECK(contains(failureWith([](PackContents &c) { c.manifest.parameters[0].name = "w1"; }), "prepares 'w0'"));
  CHECK(contains(failureWith([&](PackContents &c) { first(c).prepare.reset(); }), "takes 'w', which is no parameter"));
  CHECK(contains(failureWith([&](PackContents &c) { first(c).main.target = "sm_80"; }), "its variant for sm_90a"));
  CHECK(contains(failureWith([&](PackContents &c) { first(c).main.steps[0].kernel = 7; }), "kernel 7 of 2"));
  CHECK(contains(failureWith([&](PackContents &c) { first(c).main.resultState = {-1, -1, -1, -1}; }), "other states"));
  CHECK(contains(failureWith([](PackContents &c) {
                   c.manifest.parameters.push_back({"w", DType::F32, {3}});
                   c.weights.clear();
                 }),
                 "prepares 'w', which is a parameter's name"));
  CHECK(contains(failureWith([](PackContents &c) { c.manifest.outputs[1].name = "y"; }),
                 "two tensors of a kind are named 'y'"));
}

TEST_CASE("pack: sealed sections of wrong kinds and numbers are refused") {
  auto failureOfManifest = [](auto change) {
    const std::vector<std::byte> sample = writePack(sampleContents());
    Manifest manifest = Pack::parse(sample, "p")->manifest();
    manifest.weights.clear();
    change(manifest.variants[0]);
    const std::vector<std::byte> bytes = manifest.serialise();
    const std::vector<std::byte> other(300, std::byte{1});
    const Section sections[] = {{SectionKind::Manifest, bytes}, {SectionKind::Code, other}, {SectionKind(77), other}};
    return failureOf(writePackFile(sections));
  };
  CHECK(contains(failureOfManifest([](PackVariant &variant) { variant.main.section = 1; }), "section 1 is not"));
  CHECK(contains(failureOfManifest([](PackVariant &variant) { variant.main.section = 99; }), "section 99 is not"));
  CHECK(contains(failureOfManifest([](PackVariant &variant) { variant.prepare.resize(2); }), "several programs"));
  CHECK(contains(failureOf(writePackFile({})), "section 0 is not"));
  const std::vector<std::byte> noise = imageOf("\xff\xff\xff");
  const Section manifest{SectionKind::Manifest, noise};
  CHECK(contains(failureOf(writePackFile({&manifest, 1})), "no plain CBOR"));
}

TEST_CASE("pack: a later minor version is read, and what it adds is skipped") {
  const std::vector<std::byte> sample = writePack(sampleContents());
  Result<PackFile> file = PackFile::parse(sample, "p");
  REQUIRE(file);
  std::vector<std::vector<std::byte>> contents;
  std::vector<Section> sections;
  for (std::size_t i = 0; i < file->size(); ++i)
    contents.push_back(file->read(i, file->kind(i)).value());
  auto *manifest = reinterpret_cast<const std::uint8_t *>(contents[0].data());
  nlohmann::json later = nlohmann::json::from_cbor(manifest, manifest + contents[0].size());
  later["added"] = {{"by", "version 1.2"}};
  later["variants"][0]["added"] = 7;
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(later);
  contents[0].assign(reinterpret_cast<const std::byte *>(cbor.data()),
                     reinterpret_cast<const std::byte *>(cbor.data() + cbor.size()));
  for (std::size_t i = 0; i < contents.size(); ++i)
    sections.push_back({file->kind(i), contents[i]});
  sections.push_back({SectionKind(77), contents[0]});
  std::vector<std::byte> bytes = writePackFile(sections);
  put(bytes, 10, std::uint16_t(packMinor + 1));
  std::vector<std::byte> sealed(bytes.begin(), bytes.begin() + 24); // PackFile.h says what is sealed.
  sealed.insert(sealed.end(), bytes.begin() + 64, bytes.begin() + 64 + std::ptrdiff_t(56 * sections.size()));
  put(bytes, 24, sha256(sealed));
  CHECK(failureOf(bytes).empty());
  CHECK((Pack::parse(bytes, "p")->manifest() == Pack::parse(sample, "p")->manifest()));
}

TEST_CASE("pack: the pack that version 1.0 wrote is read") {
  const std::vector<std::byte> golden = contentOf(KFUSE_TEST_DIR "/data/pack_1_0.kfp");
  Result<Pack> pack = Pack::parse(golden, "pack_1_0.kfp");
  REQUIRE_MESSAGE(pack, pack.error().message);
  CHECK(pack->verify());
  Result<VariantPrograms> loaded = pack->load(0);
  REQUIRE(loaded);
  VariantPrograms expected = programsFor("sm_90a");
  for (ProgramKernel &kernel : expected.main.kernels)
    kernel.plan.source.clear();
  CHECK((loaded->main == expected.main));
  CHECK(pack->manifest().model == "sample.mlir");
  CHECK(pack->manifest().parameters == std::vector<TensorDesc>{{"w0", DType::F32, {100}}});
  CHECK(pack->weights(0)->size() == 400);
  const PackVariant &variant = pack->manifest().variants[0];
  CHECK(variant.title() == "sm_90a for NVIDIA H200");
  CHECK(variant.nanoseconds == 123456);
  CHECK(variant.multiprocessors == 108);
  CHECK(variant.sharedBytes == 65536);
  CHECK(variant.cuda == 13000);
  CHECK(variant.compiler == "nvrtc 13.0");
  CHECK(pack->manifest().variants[2].title() == "compute_80");
}
