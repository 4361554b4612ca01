#include "tests/cuda/RegionText.h"
#include "tests/cuda/TemplateCases.h"

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

} // namespace

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
