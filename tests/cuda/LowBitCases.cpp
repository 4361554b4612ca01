#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

#include <algorithm>

namespace kfuse::test {
namespace {

/// A product of `m` rows with weights of `integer` ("ui4", "i8", ...) in groups of `group` along K.
struct Sketch {
  int m = 1, n = 1, k = 1, group = 128;
  std::string integer = "ui4";
  /// "" for none, "stored", one for all, or a type of floats: "floats" is that of the product, and "bf16 as f32" is
  /// stored as the first and the op's as the second.
  std::string zeros = {};
  int stored = 0;        ///< Elements of a row of weights in memory, where they are more than K.
  int products = 1;      ///< Two are a gate and what it gates.
  bool fixed = true;     ///< The weights are parameters.
  bool oneScale = false; ///< All weights have one.
};

std::string dims(int rows, int columns) { return std::to_string(rows) + "x" + std::to_string(columns); }

/// The type of zeros that are stored; "" for others.
std::string zeroType(const Sketch &s, const std::string &type) {
  const std::string stored = s.zeros.substr(0, s.zeros.find(' '));
  const bool areFloats = stored == "f16" || stored == "bf16" || stored == "f32";
  return stored == "stored" ? s.integer : stored == "floats" ? type : areFloats ? stored : "";
}

bool isCast(const Sketch &s) { return s.zeros.find(" as ") != std::string::npos; }

std::string nameOf(std::string zeros) {
  std::replace(zeros.begin(), zeros.end(), ' ', '_');
  return zeros;
}

TemplateCase lowBitProduct(const Sketch &s, const std::string &type) {
  const int blocks = (s.k + s.group - 1) / s.group, stored = s.stored ? s.stored : s.k;
  const std::string x = tensor(dims(s.m, s.k), type), q = tensor(dims(s.n, stored), s.integer),
                    part = tensor(dims(s.n, s.k), s.integer),
                    scales = s.oneScale ? tensor("1x1", type) : tensor(dims(s.n, blocks), type),
                    zerosOf = zeroType(s, type), zerosDims = s.oneScale ? "1x1" : dims(s.n, blocks),
                    zeros = tensor(zerosDims, zerosOf.empty() ? s.integer : zerosOf),
                    taken = isCast(s) ? tensor(zerosDims, s.zeros.substr(s.zeros.rfind(' ') + 1)) : zeros,
                    w = tensor(dims(s.n, s.k), type), y = tensor(dims(s.m, s.n), type);
  std::string parameters = "%x: " + x, body;
  auto parameter = [&](const std::string &name, const std::string &of) {
    parameters += ", %" + name + ": " + of + (s.fixed ? " {kfuse.role = \"parameter\"}" : "");
  };
  for (int i = 0; i < s.products; ++i) {
    const std::string number = std::to_string(i);
    parameter("q" + number, q);
    if (s.oneScale)
      body += "  %s" + number + " = kfuse.constant dense<0.0625> : " + scales + "\n";
    else
      parameter("s" + number, scales);
    std::string given = "%q" + number, zero;
    if (!zerosOf.empty()) {
      parameter("z" + number, zeros);
      zero = ", %z" + number;
      if (isCast(s)) {
        body += "  %c" + number + " = kfuse.cast %z" + number + " : (" + zeros + ") -> " + taken + "\n";
        zero = ", %c" + number;
      }
    } else if (!s.zeros.empty()) {
      body += "  %z" + number + " = kfuse.constant dense<" + s.zeros + "> : " + zeros + "\n";
      zero = ", %z" + number;
    }
    if (stored != s.k) {
      body += "  %p" + number + " = kfuse.slice " + given +
              " {offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (" + q + ") -> " + part + "\n";
      given = "%p" + number;
    }
    body += "  %w" + number + " = kfuse.dequantize " + given + ", %s" + number + zero +
            " {blocks = array<i64: " + (s.oneScale ? "0, 0" : "1, " + std::to_string(s.group)) + ">} : (" + part +
            ", " + scales + (zero.empty() ? "" : ", " + taken) + ") -> " + w + "\n  %y" + number +
            " = kfuse.matmul %x, %w" + number + " {transpose_b} : (" + x + ", " + w + ") -> " + y + "\n";
  }
  std::string result = "%y0";
  if (s.products == 2) {
    body += "  %g = kfuse.silu %y0 : (" + y + ") -> " + y + "\n  %r = kfuse.mul %g, %y1 : (" + y + ", " + y + ") -> " +
            y + "\n";
    result = "%r";
  }
  return {"low_bits_" + dims(s.m, s.n) + "x" + std::to_string(s.k) + "_of" + std::to_string(s.group) + "_" + s.integer +
              (s.zeros.empty() ? "" : "_zeros_" + nameOf(s.zeros)) + (s.products == 2 ? "_gated" : "") +
              (stored != s.k ? "_cut" : "") + (s.oneScale ? "_one_scale" : "") + (s.fixed ? "" : "_given") + "_" + type,
          "func.func @f(" + parameters + ") -> " + y + " {\n" + body + "  return " + result + " : " + y + "\n}\n"};
}

} // namespace

std::vector<TemplateCase> lowBitCases(const std::string &type) {
  std::vector<TemplateCase> cases;
  for (const Sketch &sketch : {
           Sketch{.m = 1, .n = 72, .k = 512, .zeros = "8"},
           Sketch{.m = 3, .n = 150, .k = 1056, .group = 32, .zeros = "stored"},
           Sketch{.m = 13, .n = 33, .k = 640, .integer = "i4"},
           Sketch{.m = 2, .n = 40, .k = 352, .group = 96, .zeros = "stored", .stored = 384},
           Sketch{.m = 5, .n = 65, .k = 256, .group = 256, .integer = "i4", .zeros = "stored"},
           Sketch{.m = 1, .n = 48, .k = 272, .group = 16, .integer = "ui8", .zeros = "stored"},
           Sketch{.m = 16, .n = 100, .k = 512, .group = 64, .integer = "i8"},
           Sketch{.m = 4, .n = 72, .k = 512, .zeros = "8", .fixed = false},
           Sketch{.m = 2, .n = 56, .k = 768, .zeros = "stored", .products = 2},
           Sketch{.m = 9, .n = 40, .k = 512, .zeros = "floats"},
           Sketch{.m = 3, .n = 48, .k = 256, .integer = "i8", .zeros = "3", .oneScale = true},
           Sketch{.m = 1, .n = 40, .k = 256, .group = 32, .integer = "i8", .zeros = "floats"},
           Sketch{.m = 2, .n = 40, .k = 256, .zeros = "f32"},
       })
    cases.push_back(lowBitProduct(sketch, type));
  return cases;
}

std::vector<TemplateCase> manyRowLowBitCases(const std::string &type) {
  std::vector<TemplateCase> cases;
  for (const Sketch &sketch : {
           Sketch{.m = 40, .n = 200, .k = 1024, .zeros = "8"},
           Sketch{.m = 17, .n = 150, .k = 1056, .group = 32, .zeros = "stored"},
           Sketch{.m = 65, .n = 72, .k = 1152, .group = 96, .integer = "i4", .zeros = "stored", .stored = 1216},
           Sketch{.m = 100, .n = 136, .k = 640, .group = 640, .integer = "i4"},
           Sketch{.m = 33, .n = 130, .k = 528, .group = 16, .integer = "ui8", .zeros = "stored"},
           Sketch{.m = 130, .n = 264, .k = 768, .group = 64, .integer = "i8"},
           Sketch{.m = 24, .n = 72, .k = 512, .zeros = "8", .fixed = false},
           Sketch{.m = 70, .n = 160, .k = 1024, .zeros = "floats", .products = 2},
           Sketch{.m = 40, .n = 72, .k = 512, .integer = "ui8", .oneScale = true},
           Sketch{.m = 20, .n = 80, .k = 512, .group = 64, .zeros = type == "f16" ? "bf16" : "f16"},
           Sketch{.m = 70, .n = 160, .k = 1024, .zeros = "stored", .products = 2},
       })
    cases.push_back(lowBitProduct(sketch, type));
  return cases;
}

std::vector<TemplateCase> weightBitCases(int m) {
  std::vector<TemplateCase> cases;
  for (const std::string type : {"bf16", "f16"})
    for (const Sketch &sketch : {
             Sketch{.m = m, .n = 136, .k = 256, .zeros = "stored"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .integer = "i8", .zeros = "stored"},
             Sketch{.m = m, .n = 136, .k = 256, .zeros = "floats"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .integer = "i4", .zeros = "floats"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 64, .integer = "ui8", .zeros = "floats"},
             // A difference in f16 would be rounded once more on its way to a product in bf16.
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .zeros = "bf16"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .integer = "i8", .zeros = "bf16"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .integer = "ui8", .zeros = "bf16"},
         })
      cases.push_back(lowBitProduct(sketch, type));
  return cases;
}

std::vector<TemplateCase> differenceBitCases(int m) {
  std::vector<TemplateCase> cases;
  for (const std::string type : {"bf16", "f16"})
    for (const Sketch &sketch : {
             Sketch{.m = m, .n = 136, .k = 256, .zeros = "f32"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .zeros = "f16 as f32"},
             Sketch{.m = m, .n = 136, .k = 256, .integer = "i8", .zeros = "bf16 as f32"},
             Sketch{.m = m, .n = 136, .k = 256, .group = 32, .integer = "ui8", .zeros = "f16"},
         })
      cases.push_back(lowBitProduct(sketch, type));
  return cases;
}

TemplateCase castZerosCase() { return lowBitProduct({.m = 8, .n = 64, .k = 256, .zeros = "f32 as f16"}, "f16"); }

TemplateCase lowBitProduct(int m, int n, int k, int group, const std::string &integer, const std::string &type) {
  return lowBitProduct(
      {.m = m, .n = n, .k = k, .group = group, .integer = integer, .zeros = integer == "ui4" ? "8" : ""}, type);
}

} // namespace kfuse::test
