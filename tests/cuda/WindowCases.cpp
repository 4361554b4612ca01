#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

#include <array>
#include <random>

namespace kfuse::test {
namespace {

/// A convolution of images whose channels are last.
struct Images {
  int count, height, width, channels;
  int kernelHeight, kernelWidth, stride, dilation, padBefore, padAfter; ///< Dilation down, pads across and down.
  int results;
};

std::string numbers(std::initializer_list<int> values) {
  std::string text;
  for (int value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "array<i64: " + text + ">";
}

std::string shapeOf(std::initializer_list<int> sizes) {
  std::string text;
  for (int size : sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// relu(windows weights + bias): of windows as the left operand, or (`swapped`) as the right one.
TemplateCase convolution(const std::string &name, const Images &c, const std::string &type, bool swapped = false) {
  const int high = (c.height + c.padBefore + c.padAfter - c.dilation * (c.kernelHeight - 1) - 1) / c.stride + 1;
  const int wide = (c.width + c.padBefore + c.padAfter - c.kernelWidth) / c.stride + 1;
  const int run = c.kernelWidth * c.channels, depth = c.kernelHeight * run, rows = c.count * high * wide;
  const std::string x = tensor(shapeOf({c.count, c.height, c.width * c.channels}), type),
                    windows = tensor(shapeOf({c.count, c.kernelHeight, run, high, wide}), type),
                    moved = tensor(shapeOf({c.count, high, wide, c.kernelHeight, run}), type),
                    matrix = tensor(shapeOf({rows, depth}), type), weights = tensor(shapeOf({c.results, depth}), type),
                    result = tensor(swapped ? shapeOf({c.results, rows}) : shapeOf({rows, c.results}), type),
                    bias = tensor(swapped ? shapeOf({c.results, 1}) : shapeOf({c.results}), type);
  return {name + "_" + type,
          function({x, weights, bias}, result,
                   "%0 = kfuse.window %a {kernel = " + numbers({c.kernelHeight, run}) + ", strides = " +
                       numbers({c.stride, c.stride * c.channels}) + ", dilations = " + numbers({c.dilation, 1}) +
                       ", pads = " + numbers({c.padBefore, c.padBefore * c.channels}) + "} : (" + x + ") -> " +
                       windows + "\n%1 = kfuse.transpose %0 {permutation = array<i64: 0, 3, 4, 1, 2>} : (" + windows +
                       ") -> " + moved + "\n%2 = kfuse.reshape %1 : (" + moved + ") -> " + matrix +
                       "\n%3 = kfuse.matmul " + (swapped ? "%b, %2" : "%2, %b") + " {transpose_b} : (" +
                       (swapped ? weights + ", " + matrix : matrix + ", " + weights) + ") -> " + result +
                       "\n%4 = kfuse.add %3, %c : (" + result + ", " + bias + ") -> " + result +
                       "\n%r = kfuse.relu %4 : (" + result + ") -> " + result + "\nreturn %r : " + result)};
}

/// Windows that each channel slides by itself.
struct Sliding {
  int count, channels, height, width;
  int kernelHeight, kernelWidth, stride, dilationDown, dilationAcross, pad;
  bool channelsLast = false;
  std::string before = "", after = ""; ///< Ops of one operand: on images, on results.
  bool weighsResults = false;          ///< What is summed has a factor of the result's place, too.
};

/// after(sum of windows(before(x)) weights, and bias).
TemplateCase depthwise(const std::string &name, const Sliding &c, const std::string &type) {
  auto sizeOf = [&](int size, int kernel, int dilation) {
    return (size + 2 * c.pad - dilation * (kernel - 1) - 1) / c.stride + 1;
  };
  const int high = sizeOf(c.height, c.kernelHeight, c.dilationDown),
            wide = sizeOf(c.width, c.kernelWidth, c.dilationAcross);
  const std::string image = tensor(shapeOf({c.count, c.channels, c.height, c.width}), type),
                    windows = tensor(shapeOf({c.count, c.channels, c.kernelHeight, c.kernelWidth, high, wide}), type),
                    x = c.channelsLast ? tensor(shapeOf({c.count, c.height, c.width, c.channels}), type) : image,
                    taps = c.channelsLast
                               ? tensor(shapeOf({c.count, high, wide, c.kernelHeight, c.kernelWidth, c.channels}), type)
                               : windows,
                    weights = tensor(c.channelsLast ? shapeOf({c.kernelHeight, c.kernelWidth, c.channels})
                                                    : shapeOf({c.channels, c.kernelHeight, c.kernelWidth, 1, 1}),
                                     type),
                    bias = tensor(c.channelsLast ? shapeOf({c.channels}) : shapeOf({c.channels, 1, 1}), type),
                    result = tensor(c.channelsLast ? shapeOf({c.count, high, wide, c.channels})
                                                   : shapeOf({c.count, c.channels, high, wide}),
                                    type),
                    places = tensor(c.channelsLast ? shapeOf({high, wide, 1, 1, 1}) : shapeOf({high, wide}), type);
  std::string text, from = "%a";
  auto line = [&](const std::string &to, const std::string &op, const std::string &of, const std::string &is) {
    text += to + " = kfuse." + op + " : (" + of + ") -> " + is + "\n";
  };
  if (!c.before.empty())
    line("%0", c.before + " " + from, x, x), from = "%0";
  if (c.channelsLast)
    line("%1", "transpose " + from + " {permutation = array<i64: 0, 3, 1, 2>}", x, image), from = "%1";
  line("%2",
       "window " + from + " {kernel = " + numbers({c.kernelHeight, c.kernelWidth}) +
           ", strides = " + numbers({c.stride, c.stride}) +
           ", dilations = " + numbers({c.dilationDown, c.dilationAcross}) + ", pads = " + numbers({c.pad, c.pad}) + "}",
       image, windows);
  if (c.channelsLast)
    line("%3", "transpose %2 {permutation = array<i64: 0, 4, 5, 2, 3, 1>}", windows, taps);
  from = c.channelsLast ? "%3" : "%2";
  line("%4", "mul " + from + ", %b", taps + ", " + weights, taps);
  if (c.weighsResults)
    line("%5", "mul %4, %d", taps + ", " + places, taps);
  line("%6",
       std::string("reduce ") + (c.weighsResults ? "%5" : "%4") +
           " {function = \"sum\", axes = " + (c.channelsLast ? numbers({3, 4}) : numbers({2, 3})) + "}",
       taps, result);
  line(c.after.empty() ? "%r" : "%7", "add %6, %c", result + ", " + bias, result);
  if (!c.after.empty())
    line("%r", c.after + " %7", result, result);
  std::vector<std::string> arguments{x, weights, bias};
  if (c.weighsResults)
    arguments.push_back(places);
  return {name + "_" + type, function(arguments, result, text + "return %r : " + result)};
}

} // namespace

std::vector<TemplateCase> slidingCases() {
  std::vector<TemplateCase> cases{
      depthwise("depthwise_7x7", {2, 3, 12, 24, 7, 7, 1, 1, 1, 3, false, "", "gelu"}, "bf16"),
      depthwise("depthwise_7x7_of_13", {1, 3, 9, 13, 7, 7, 1, 1, 1, 3}, "f16"),
      depthwise("depthwise_5x3_strided", {2, 2, 11, 32, 5, 3, 2, 1, 1, 1}, "bf16"),
      depthwise("depthwise_3x5_dilated", {1, 3, 17, 20, 3, 5, 1, 2, 3, 2}, "f32"),
      depthwise("depthwise_4_of_a_line", {2, 5, 1, 52, 1, 4, 1, 1, 1, 0, false, "silu"}, "bf16"),
      depthwise("depthwise_inside", {2, 3, 10, 16, 3, 3, 1, 1, 1, 0}, "f32"),
      depthwise("depthwise_of_computed", {1, 2, 8, 24, 3, 7, 1, 1, 1, 3, false, "sigmoid"}, "bf16"),
      depthwise("depthwise_weighed", {1, 3, 7, 19, 3, 3, 1, 1, 1, 1, false, "", "", true}, "f32"),
      depthwise("depthwise_last_7x7", {2, 9, 11, 9, 7, 7, 1, 1, 1, 3, true, "", "gelu"}, "f16"),
      depthwise("depthwise_last_7x7_of_32", {2, 32, 10, 9, 7, 7, 1, 1, 1, 3, true}, "bf16"),
      depthwise("depthwise_last_strided", {1, 24, 11, 13, 3, 5, 2, 1, 1, 2, true}, "bf16"),
      depthwise("depthwise_last_dilated", {1, 33, 13, 12, 5, 3, 1, 2, 2, 2, true, "sigmoid"}, "f32"),
      depthwise("depthwise_last_weighed", {1, 16, 6, 7, 3, 3, 1, 1, 1, 1, true, "", "", true}, "f32"),
      // Images enough that share their weights: bands on tensor cores.
      depthwise("depthwise_7x7_of_18_images", {18, 2, 9, 20, 7, 7, 1, 1, 1, 3, false, "", "gelu"}, "bf16"),
      depthwise("depthwise_3x3_of_9_images", {9, 3, 8, 14, 3, 3, 1, 1, 1, 1}, "f16"),
      depthwise("depthwise_5x6_inside_of_16_images", {16, 1, 11, 28, 5, 6, 1, 1, 1, 0, false, "", "silu"}, "bf16"),
  };
  cases.push_back({"largest_of_windows", R"(
func.func @f(%a: tensor<4x15x29xf32>) -> tensor<4x7x14xf32> {
  %0 = kfuse.window %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0>} : (tensor<4x15x29xf32>) -> tensor<4x3x3x7x14xf32>
  %r = kfuse.reduce %0 {function = "max", axes = array<i64: 1, 2>} : (tensor<4x3x3x7x14xf32>) -> tensor<4x7x14xf32>
  return %r : tensor<4x7x14xf32>
})"});
  cases.push_back({"sums_of_windows_i64", R"(
func.func @f(%a: tensor<3x70xi64>) -> tensor<3x70xi64> {
  %0 = kfuse.window %a {kernel = array<i64: 5>, strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 2>} : (tensor<3x70xi64>) -> tensor<3x5x70xi64>
  %r = kfuse.reduce %0 {function = "sum", axes = array<i64: 1>} : (tensor<3x5x70xi64>) -> tensor<3x70xi64>
  return %r : tensor<3x70xi64>
})"});
  return cases;
}

std::vector<TemplateCase> randomSliding(size_t count) {
  std::mt19937 random(1);
  auto pick = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  auto between = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  const char *const functions[] = {"", "", "sigmoid", "gelu"};
  std::vector<TemplateCase> cases;
  while (cases.size() < count) {
    Sliding c{between(1, 3),  pick({2, 3, 8, 12, 16, 20, 48}),
              between(3, 14), pick({5, 8, 11, 16, 19, 24, 32, 40}),
              between(1, 5),  between(2, 6),
              between(1, 2),  between(1, 2),
              between(1, 3),  between(0, 4)};
    c.channelsLast = random() % 2;
    c.before = functions[random() % 4];
    c.after = functions[random() % 4];
    c.weighsResults = random() % 5 == 0;
    const bool hasRoom = c.height + 2 * c.pad >= c.dilationDown * (c.kernelHeight - 1) + 1 &&
                         c.width + 2 * c.pad >= c.dilationAcross * (c.kernelWidth - 1) + 1 + 4 * c.stride;
    const bool overlaps = c.stride < c.dilationAcross * c.kernelWidth;
    const std::string type = std::array{"f32", "bf16", "f16"}[random() % 3];
    if (hasRoom && overlaps)
      cases.push_back(depthwise("random_" + std::to_string(cases.size()), c, type));
  }
  return cases;
}

std::vector<TemplateCase> largeSlidingCases() {
  return {depthwise("convnext", {32, 96, 56, 56, 7, 7, 1, 1, 1, 3}, "bf16"),
          depthwise("convnext_last", {32, 96, 56, 56, 7, 7, 1, 1, 1, 3, true, "", "gelu"}, "bf16"),
          depthwise("depthwise_last_3x3", {8, 144, 55, 57, 3, 3, 2, 1, 1, 1, true}, "f32"),
          depthwise("conformer", {8, 512, 1, 1500, 1, 31, 1, 1, 1, 0, false, "", "silu"}, "f16")};
}

std::vector<TemplateCase> windowCases(const std::string &type) {
  return {
      convolution("windows_of_16", {2, 7, 5, 16, 3, 3, 1, 1, 1, 1, 24}, type),
      convolution("windows_of_4_strided", {2, 9, 8, 4, 3, 2, 2, 2, 2, 1, 40}, type),
      convolution("windows_of_3", {1, 11, 9, 3, 5, 4, 1, 1, 2, 3, 17}, type),
      convolution("windows_inside", {3, 8, 6, 8, 3, 3, 1, 1, 0, 0, 33}, type),
      convolution("windows_on_the_right", {2, 7, 9, 8, 3, 3, 1, 1, 1, 1, 20}, type, true),
      convolution("windows_of_a_line", {2, 1, 30, 10, 1, 3, 2, 1, 0, 0, 16}, type),
  };
}

} // namespace kfuse::test
