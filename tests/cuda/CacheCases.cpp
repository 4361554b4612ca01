#include "tests/cuda/TemplateCases.h"

#include <utility>

namespace kfuse::test {
namespace {

std::string tensor(const std::vector<int> &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

/// Lines of text, each an op whose value has the prefix and a number for its name.
class Lines {
public:
  explicit Lines(std::string prefix) : prefix(std::move(prefix)) {}
  std::string text;

  std::string emit(const std::string &op, const std::string &operands, const std::string &types,
                   const std::string &result, const std::string &attributes = "") {
    std::string name = prefix + std::to_string(next++);
    text += name + " = kfuse." + op + " " + operands + " " + attributes + " : " +
            (types.empty() ? "" : "(" + types + ") -> ") + result + "\n";
    return name;
  }
  std::string constant(const std::string &number, const std::string &type) {
    return emit("constant", "dense<" + number + ">", "", "tensor<" + type + ">");
  }

private:
  std::string prefix;
  int next = 0;
};

/// The scores of keys that a row sees: up to its own number behind its sequence's position, or before its length; from
/// `window` before the last on.
std::string masked(Lines &lines, const CacheSketch &s, const std::string &scores, const std::string &at) {
  const std::string type = tensor({s.batch, s.heads, s.rows, s.keys}, s.type), row = tensor({s.rows, 1}, "i64"),
                    key = tensor({1, s.keys}, "i64"), ofBatch = tensor({s.batch, 1, 1, 1}, "i64"),
                    rows = tensor({s.batch, 1, s.rows, 1}, "i64");
  const std::string keyIndex = lines.emit("iota", "{dim = 1 : i64}", "", key),
                    position = lines.emit("reshape", at, tensor({s.batch}, "i64"), ofBatch);
  std::string counts, countsType = tensor({s.batch, 1, s.rows, s.keys}, "i1");
  if (s.isLength) {
    countsType = tensor({s.batch, 1, 1, s.keys}, "i1");
    counts = lines.emit("lt", keyIndex + ", " + position, key + ", " + ofBatch, countsType);
  } else {
    const std::string rowIndex = lines.emit("iota", "{dim = 0 : i64}", "", row),
                      last = lines.emit("add", rowIndex + ", " + position, row + ", " + ofBatch, rows);
    counts = lines.emit("le", keyIndex + ", " + last, key + ", " + rows, countsType);
    if (s.window > 0) {
      const std::string later = lines.emit("add", keyIndex + ", " + lines.constant(std::to_string(s.window), "i64"),
                                           key + ", tensor<i64>", key);
      const std::string near = lines.emit("gt", later + ", " + last, key + ", " + rows, countsType);
      counts = lines.emit("and", counts + ", " + near, countsType + ", " + countsType, countsType);
    }
  }
  const std::string lowest = lines.constant(s.type == "bf16"  ? "0xFF80"
                                            : s.type == "f16" ? "0xFC00"
                                                              : "0xFF800000",
                                            s.type);
  return lines.emit("where", counts + ", " + scores + ", " + lowest,
                    countsType + ", " + type + ", tensor<" + s.type + ">", type);
}

} // namespace

TemplateCase cacheCase(const CacheSketch &s) {
  const std::string query = tensor({s.batch, s.heads, s.rows, s.size}, s.type),
                    cache = tensor({s.batch, s.keyHeads, s.keys, s.size}, s.type),
                    fresh = tensor({s.batch, s.keyHeads, s.rows, s.size}, s.type),
                    all = tensor({s.batch, s.heads, s.keys, s.size}, s.type),
                    scores = tensor({s.batch, s.heads, s.rows, s.keys}, s.type), ofBatch = tensor({s.batch}, "i64"),
                    role = s.writes ? " {kfuse.role = \"state\"}" : "";
  Lines lines("%x");
  const std::string at =
      lines.emit("mul", "%p, " + lines.constant(std::to_string(s.step), "i64"), ofBatch + ", tensor<i64>", ofBatch);
  auto cached = [&](const std::string &state, const std::string &rows, std::string &updated) {
    updated = s.writes ? lines.emit("state_update", state + ", " + rows + ", " + at,
                                    cache + ", " + fresh + ", " + ofBatch, cache, "{axis = 2 : i64}")
                       : state;
    if (s.heads == s.keyHeads)
      return updated;
    const std::string one = tensor({s.batch, s.keyHeads, 1, s.keys, s.size}, s.type),
                      repeated = tensor({s.batch, s.keyHeads, s.heads / s.keyHeads, s.keys, s.size}, s.type);
    const std::string shaped = lines.emit("reshape", updated, cache, one);
    return lines.emit("reshape", lines.emit("broadcast", shaped, one, repeated), repeated, all);
  };
  std::string newKeys, newValues;
  const std::string keys = cached("%k", "%nk", newKeys), values = cached("%v", "%nv", newValues);
  Lines inside("%y");
  const std::string product = inside.emit("matmul", "%a, %b", query + ", " + all, scores, "{transpose_b}");
  const std::string scaled =
      inside.emit("mul", product + ", " + inside.constant("0.25", s.type), scores + ", tensor<" + s.type + ">", scores);
  const std::string weights = inside.emit("softmax", masked(inside, s, scaled, "%d"), scores, scores);
  const std::string result = inside.emit("matmul", weights + ", %c", scores + ", " + all, query);
  const std::string operandTypes = query + ", " + all + ", " + all + ", " + ofBatch;
  const std::string returned = s.writes ? newKeys + ", " + newValues + ", %r" : "%r",
                    returnedTypes = s.writes ? cache + ", " + cache + ", " + query : query;
  std::string name = "cache_" + std::to_string(s.batch) + "x" + std::to_string(s.heads) + "of" +
                     std::to_string(s.keyHeads) + "_" + std::to_string(s.rows) + "x" + std::to_string(s.keys) + "_" +
                     std::to_string(s.size) + (s.isLength ? "_lengths" : "") + (s.writes ? "_written" : "") +
                     (s.window > 0 ? "_window" : "") + "_" + s.type;
  return {std::move(name), "func.func @f(%q: " + query + ", %k: " + cache + role + ", %v: " + cache + role +
                               ", %p: " + ofBatch + " {kfuse.role = \"input\"}" +
                               (s.writes ? ", %nk: " + fresh + ", %nv: " + fresh : "") + ") -> (" + returnedTypes +
                               ") {\n" + lines.text + "%r = kfuse.attention %q, " + keys + ", " + values + ", " + at +
                               " : (" + operandTypes + ") -> " + query + " {\n^bb0(%a: " + query + ", %b: " + all +
                               ", %c: " + all + ", %d: " + ofBatch + "):\n" + inside.text + "kfuse.yield " + result +
                               " : " + query + "\n}\nreturn " + returned + " : " + returnedTypes + "\n}"};
}

std::vector<TemplateCase> cacheCases() {
  const CacheSketch sketches[] = {
      {.batch = 2, .heads = 2, .keyHeads = 2, .rows = 40, .keys = 210, .size = 32, .step = 19},
      {.batch = 3, .heads = 4, .keyHeads = 2, .rows = 9, .keys = 301, .size = 64, .step = 41},
      {.type = "f16",
       .batch = 2,
       .heads = 3,
       .keyHeads = 3,
       .rows = 70,
       .keys = 150,
       .size = 40,
       .step = 13,
       .window = 33},
      {.batch = 4, .heads = 2, .keyHeads = 1, .rows = 33, .keys = 133, .size = 32, .isLength = true, .step = 23},
      {.batch = 3, .heads = 8, .keyHeads = 2, .rows = 8, .keys = 301, .size = 64, .writes = true, .step = 57},
      {.type = "f16",
       .batch = 2,
       .heads = 2,
       .keyHeads = 2,
       .rows = 20,
       .keys = 170,
       .size = 136,
       .writes = true,
       .step = 31},
      {.type = "f32", .batch = 2, .heads = 2, .keyHeads = 1, .rows = 21, .keys = 99, .size = 20, .step = 17},
      {.batch = 2, .heads = 2, .keyHeads = 2, .rows = 190, .keys = 400, .size = 64, .step = 39},
  };
  std::vector<TemplateCase> cases;
  for (const CacheSketch &sketch : sketches)
    cases.push_back(cacheCase(sketch));
  return cases;
}

} // namespace kfuse::test
