#include "tools/kfuse/PackSource.h"

#include "runtime/BucketContexts.h"
#include "runtime/pack/Pack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace kfuse::tools {
namespace {

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// The words of C and C++ that are no names of members.
const std::set<std::string_view> &keywords() {
  static const std::set<std::string_view> words{
      "alignas",   "alignof",   "and",       "and_eq",   "asm",           "auto",         "bitand",   "bitor",
      "bool",      "break",     "case",      "catch",    "char",          "class",        "compl",    "concept",
      "const",     "constexpr", "continue",  "decltype", "default",       "delete",       "do",       "double",
      "else",      "enum",      "explicit",  "export",   "extern",        "false",        "float",    "for",
      "friend",    "goto",      "if",        "inline",   "int",           "long",         "mutable",  "namespace",
      "new",       "noexcept",  "not",       "not_eq",   "nullptr",       "operator",     "or",       "or_eq",
      "private",   "protected", "public",    "register", "requires",      "restrict",     "return",   "short",
      "signed",    "sizeof",    "static",    "struct",   "switch",        "template",     "this",     "throw",
      "true",      "try",       "typedef",   "typeid",   "typename",      "union",        "unsigned", "using",
      "virtual",   "void",      "volatile",  "wchar_t",  "while",         "xor",          "xor_eq",   "consteval",
      "constinit", "co_await",  "co_return", "co_yield", "static_assert", "thread_local", "typeof"};
  return words;
}

/// Text as a literal of C; digraphs and trigraphs are none.
std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (unsigned char c : text) {
    const bool isPlain = c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '?';
    quoted += isPlain ? std::string(1, static_cast<char>(c)) : fmt::format("\\{:03o}", c);
  }
  return quoted + '"';
}

/// A tensor as the header has it.
struct Member {
  const TensorDesc *tensor;
  const char *role; ///< The C interface's: "KFR_INPUT".
  std::size_t index;
  std::string name; ///< The struct's member.

  bool isRead() const { return std::string_view(role) == "KFR_INPUT" || std::string_view(role) == "KFR_PARAMETER"; }
  std::string macro(const std::string &prefix) const { return prefix + "_" + upper(name); }
};

/// Gives tensors names that C takes, no two of which are the same in capitals: they are macros, too.
class MemberNames {
public:
  std::string of(const std::string &tensor) {
    std::string plain;
    for (char c : tensor)
      plain += isLetter(c) || isDigit(c) ? c : '_';
    if (plain.empty() || !isLetter(plain.front()) || plain.front() == '_' || keywords().contains(plain))
      plain = "t_" + plain;
    std::string chosen = plain;
    for (int n = 2; !taken.insert(upper(chosen)).second; ++n)
      chosen = plain + "_" + std::to_string(n);
    return chosen;
  }

private:
  std::set<std::string> taken{"PACK", "SESSION"}; // Macros of the header.
};

/// A size that a run gives.
struct LengthMember {
  const Dim *dim;
  std::string name;
};

struct Members {
  std::vector<Member> parameters, bound; ///< Those that a session binds: inputs, states and outputs.
  std::vector<LengthMember> lengths;
};

/// An output that is a state after its update needs no memory of its own.
Members membersOf(const runtime::Manifest &manifest) {
  MemberNames names;
  Members members;
  auto add = [&](std::vector<Member> &to, const std::vector<TensorDesc> &tensors, const char *role) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (&tensors != &manifest.outputs || manifest.updatedStates[i] < 0)
        to.push_back({&tensors[i], role, i, names.of(tensors[i].name)});
  };
  add(members.bound, manifest.inputs, "KFR_INPUT");
  add(members.bound, manifest.states, "KFR_STATE");
  add(members.bound, manifest.outputs, "KFR_OUTPUT");
  add(members.parameters, manifest.parameters, "KFR_PARAMETER");
  for (const Dim &dim : manifest.dims)
    members.lengths.push_back({&dim, names.of(dim.name)});
  return members;
}

std::string sizesOf(const std::vector<Member> &members, const std::string &prefix) {
  std::string text;
  for (const Member &member : members) {
    const TensorDesc &tensor = *member.tensor;
    text += fmt::format("#define {}_BYTES {}\n", member.macro(prefix), tensor.bytes());
    if (!tensor.shape.empty())
      text += fmt::format("#define {0}_RANK {1}\n#define {0}_SHAPE {{{2}}}\n", member.macro(prefix),
                          tensor.shape.size(), fmt::join(tensor.shape, ", "));
  }
  return text;
}

std::string fieldsOf(const std::vector<Member> &members) {
  std::string text;
  for (const Member &member : members)
    text += fmt::format("  {}void *{}; /* {} {}{} */\n", member.isRead() ? "const " : "", member.name,
                        toString(member.tensor->type), toString(member.tensor->shape),
                        std::string_view(member.role) == "KFR_STATE" ? ", updated in place" : "");
  return text;
}

/// What a session of any program of the pack needs.
Result<std::uint64_t> sessionBytes(const runtime::Pack &pack) {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < pack.manifest().variants.size(); ++i) {
    Result<std::vector<runtime::VariantPrograms>> programs = pack.loadAll(i);
    if (!programs)
      return programs.error();
    most = std::max(most, runtime::BucketContexts::bytes(runtime::mainsOf(*programs), pack.manifest().dims.size()));
  }
  return most;
}

constexpr const char *load = R"(
/* Chooses the program for the device and loads it, as kfr_load() does. */
static inline kfr_code {0}_load(const kfr_load_options *options, kfr_program **program, kfr_error *error) {{
  kfr_pack *pack = NULL;
  kfr_code code = kfr_open_memory({0}_pack, {1}_PACK_BYTES, &pack, error);
  if (code == KFR_OK)
    code = kfr_load(pack, options, program, error);
  kfr_pack_release(pack); /* The program holds it. */
  return code;
}}
)";

constexpr const char *prepareNone = R"(
/* There are no parameters. kfr_session_new() makes sessions of the weights, one for each stream. */
static inline kfr_code {0}_prepare(kfr_program *program, kfr_weights **weights, kfr_error *error) {{
  return kfr_prepare(program, NULL, 0, weights, error);
}}
)";

constexpr const char *prepare = R"(
/* Of the device, and fixed between runs. Null: the pack's. */
typedef struct {{
{1}}} {0}_parameters;

/* Prepares them, once. kfr_session_new() makes sessions of the weights, one for each stream. */
static inline kfr_code {0}_prepare(kfr_program *program, const {0}_parameters *parameters, kfr_weights **weights,
                                   kfr_error *error) {{
  const kfr_binding all[] = {{
{2}  }};
  kfr_binding given[sizeof all / sizeof *all];
  size_t i, count = 0;
  for (i = 0; i < sizeof all / sizeof *all; ++i)
    if (all[i].data)
      given[count++] = all[i];
  return kfr_prepare(program, given, count, weights, error);
}}
)";

constexpr const char *run = R"(
/* Of the device, dense and row-major{4}. */
typedef struct {{
{1}}} {0}_tensors;

/* Enqueues a run on a CUstream, null: the default one. On the CPU it has ended when this returns. */
static inline kfr_code {0}_run(kfr_session *session, void *stream, const {0}_tensors *tensors, kfr_error *error) {{
  const struct {{
    kfr_role role;
    size_t index;
    void *memory;
    size_t bytes;
  }} bound[] = {{
{2}  }};
  size_t i;
  for (i = 0; i < sizeof bound / sizeof *bound; ++i) {{
    kfr_code code = kfr_bind_at(session, bound[i].role, bound[i].index, bound[i].memory, bound[i].bytes, error);
    if (code != KFR_OK)
      return code;
  }}
{3}}}
)";

std::string prepareOf(const std::vector<Member> &parameters, const std::string &name, const std::string &prefix) {
  if (parameters.empty())
    return fmt::format(fmt::runtime(prepareNone), name);
  std::string rows;
  for (const Member &member : parameters)
    rows += fmt::format("      {{{}, parameters->{}, {}_BYTES}},\n", literal(member.tensor->name), member.name,
                        member.macro(prefix));
  return fmt::format(fmt::runtime(prepare), name, fieldsOf(parameters), rows);
}

std::string runOf(const Members &members, const std::string &name, const std::string &prefix) {
  std::string rows, fields = fieldsOf(members.bound);
  for (const Member &member : members.bound)
    rows += fmt::format("      {{{}, {}, {}tensors->{}, {}_BYTES}},\n", member.role, member.index,
                        member.isRead() ? "(void *)(uintptr_t)" : "", member.name, member.macro(prefix));
  if (members.lengths.empty())
    return fmt::format(fmt::runtime(run), name, fields, rows, "  return kfr_run(session, stream, error);\n", "");
  std::vector<std::string> lengths;
  for (const LengthMember &length : members.lengths) {
    fields += fmt::format("  int64_t {}; /* {} to {} */\n", length.name, length.dim->low, length.dim->high);
    lengths.push_back("tensors->" + length.name);
  }
  const std::string last = fmt::format("  const int64_t lengths[] = {{{}}};\n"
                                       "  return kfr_run_lengths(session, stream, lengths, {}, error);\n",
                                       fmt::join(lengths, ", "), lengths.size());
  return fmt::format(
      fmt::runtime(run), name, fields, rows, last,
      ", in their shapes for\n * the lengths of the run, which kfr_shape() has; the macros are of the largest");
}

} // namespace

bool isIdentifier(std::string_view name) {
  return !name.empty() && isLetter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return isLetter(c) || isDigit(c); });
}

std::string packSymbol(const std::string &name) { return name + "_pack"; }

Result<std::string> headerOf(std::span<const std::byte> bytes, const std::string &name) {
  Result<runtime::Pack> pack = runtime::Pack::parse(bytes, name);
  if (!pack)
    return pack.error();
  Result<std::uint64_t> session = sessionBytes(*pack);
  if (!session)
    return session.error();
  const std::string prefix = upper(name);
  const Members members = membersOf(pack->manifest());
  std::string text = fmt::format("/* A model's kernels for C and C++, made by {0}. Link {1}.c or {1}.o, and\n"
                                 " * libkfuse_runtime: .so, or .a and -lm. What stands here is explained in\n"
                                 " * kfuse/runtime.h. */\n"
                                 "#ifndef {2}_H\n#define {2}_H\n\n#include <kfuse/runtime.h>\n\n"
                                 "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
                                 pack->manifest().tool, name, prefix);
  text += fmt::format("#define {}_PACK_BYTES {}\n"
                      "/* Of kfr_session_new(), whichever program runs. */\n"
                      "#define {}_SESSION_BYTES {}\n",
                      prefix, bytes.size(), prefix, *session);
  text += sizesOf(members.bound, prefix) + sizesOf(members.parameters, prefix);
  text += fmt::format("\nextern const uint64_t {}[];\n", packSymbol(name));
  text += fmt::format(fmt::runtime(load), name, prefix);
  text += prepareOf(members.parameters, name, prefix) + runOf(members, name, prefix);
  return text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string sourceOf(std::span<const std::byte> pack, const std::string &name) {
  constexpr std::size_t perLine = 6;
  std::string text =
      fmt::format("/* The pack of {0}.h. */\n#include \"{0}.h\"\n\nconst uint64_t {1}[] = {{", name, packSymbol(name));
  for (std::size_t i = 0; i * sizeof(std::uint64_t) < pack.size(); ++i) {
    const auto rest = pack.subspan(i * sizeof(std::uint64_t));
    std::uint64_t word = 0; // Little-endian, as the machines that packs are for; zeros behind the last byte.
    std::memcpy(&word, rest.data(), std::min(rest.size(), sizeof word));
    fmt::format_to(std::back_inserter(text), "{}{:#x},", i % perLine == 0 ? "\n    " : " ", word);
  }
  return text + "\n};\n";
}

} // namespace kfuse::tools
