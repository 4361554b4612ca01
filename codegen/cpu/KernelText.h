// Writes a kernel as MLIR text: SSA names, loops, constants and stack memory.
#pragma once

#include "kfuse/types.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

#include <map>
#include <string>
#include <vector>

namespace kfuse::codegen::cpu {

using Names = std::vector<std::string>;

/// MLIR's name of the type a value is computed in ("f32", "i64", "i1").
std::string computeTypeName(DType type);
/// The type a value is stored in: a bool takes a byte.
std::string storedTypeName(DType type);

/// A piece of memory as linalg sees it: an SSA value and its memref type.
struct View {
  std::string name;
  std::string type;
};

/// A dimension of a strided view.
struct ViewDim {
  int64_t size;
  int64_t stride;
};

/// One function of a kernel, written from top to bottom. Constants and stack memory are declared at
/// its head, whenever they are asked for.
class KernelText {
public:
  explicit KernelText(std::string function) : function(std::move(function)) {}

  /// Adds a pointer argument: flat memory of `elements` elements. `attributes`: "llvm.noalias" or "".
  View argument(llvm::StringRef name, llvm::StringRef element, int64_t elements, llvm::StringRef attributes = "");

  void line(const llvm::Twine &text);
  /// A fresh SSA name.
  std::string fresh(llvm::StringRef prefix);
  /// "%prefix7 = value"; returns the name.
  std::string let(llvm::StringRef prefix, const llvm::Twine &value);

  std::string index(int64_t value);
  /// A number of a float type.
  std::string constant(double value, DType type);
  /// A number of an integer type, or a boolean.
  std::string integer(int64_t value, DType type);
  /// The 0 of any type.
  std::string zero(DType type);
  /// Uninitialised memory of the function's frame, aligned to a cache line.
  View stack(llvm::ArrayRef<int64_t> shape, llvm::StringRef element);

  /// The value of an index expression.
  std::string apply(mlir::AffineExpr expr, const Names &dims, const Names &symbols = {});
  /// The index in a grid of these sizes, row-major, of item number `item`.
  Names delinearise(const std::string &item, llvm::ArrayRef<int64_t> grid);
  /// The memory at `offset` elements into flat memory, as dimensions of the given sizes and strides.
  /// `attribute`: "nontemporal" or "".
  View slice(const View &flat, llvm::StringRef element, const std::string &offset, llvm::ArrayRef<ViewDim> dims,
             llvm::StringRef attribute = "");

  /// scf.for over [low, high).
  void loop(const std::string &low, const std::string &high, int64_t step,
            llvm::function_ref<void(const std::string &index)> body);
  /// Does `body` where the i1 `condition` holds; always, if that is empty.
  void when(const std::string &condition, llvm::function_ref<void()> body);

  /// The value of `read`, done only where `condition` holds; `otherwise` elsewhere.
  std::string choose(const std::string &condition, const std::string &type, llvm::function_ref<std::string()> read,
                     const std::string &otherwise);
  /// `opening`, the lines of `body` indented, and "}".
  void block(const llvm::Twine &opening, llvm::function_ref<void()> body);

  /// The whole function.
  std::string str() const;

private:
  std::string declared(const std::string &literal);

  std::string function;
  std::string arguments, head, body;
  unsigned indent = 2;
  std::map<std::string, unsigned, std::less<>> counters;
  std::map<std::string, std::string> constants;
};

/// Splits [0, extent) into strips of `width` and a last shorter one, and calls `body` for each kind:
/// once inside a loop, once behind it. Strip bases are multiples of `width`.
void forStrips(KernelText &text, int64_t extent, int64_t width,
               llvm::function_ref<void(const std::string &base, int64_t size)> body);

/// The strips of block `block` when [0, extent) is cut into blocks of `stripsPerBlock` strips.
void forStripsOfBlock(KernelText &text, const std::string &block, int64_t stripsPerBlock, int64_t extent, int64_t width,
                      llvm::function_ref<void(const std::string &base, int64_t size)> body);

/// Number of those blocks.
inline int64_t blocksOf(int64_t extent, int64_t width, int64_t stripsPerBlock) {
  int64_t block = width * stripsPerBlock;
  return (extent + block - 1) / block;
}

} // namespace kfuse::codegen::cpu
