// The scalar form of a fused region: what one element of its results is, as a small DAG.
//
// Every op says once, through FusableOpInterface::scalarise, what an element of its result at an index is in terms of
// elements of its operands. Layout ops (transpose, slice, broadcast, reshape, concat, gather) only transform indices,
// so they vanish into the addresses of loads. Both code generators, CUDA text and linalg for the CPU, print this one
// form.
#pragma once

#include "kfuse/types.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace kfuse::ir {

/// Number of elements of a shape; 1 for a scalar.
int64_t elementsIn(llvm::ArrayRef<int64_t> dims);

/// The type that values of a stored type are computed in: of every float f32, of small integers i32.
DType computeType(DType stored);

/// A node of a ScalarGraph.
struct Scalar {
  int id = -1;
  explicit operator bool() const { return id >= 0; }
  friend bool operator==(Scalar, Scalar) = default;
};

/// `low <= index < high`; a load whose guards do not all hold yields 0 and touches no memory.
struct Guard {
  mlir::AffineExpr index;
  int64_t low = 0;
  int64_t high = 0;
  friend bool operator==(const Guard &, const Guard &) = default;
};

/// A value at each point of the domain.
struct ScalarNode {
  enum class Kind {
    Load,     ///< An element of a region's input, or 0.
    Constant, ///< The same number everywhere.
    Index,    ///< The value of an index expression (iota), as an i64.
    Apply,    ///< A scalar function of the operands.
    Cast,     ///< The operand in another type. Between floats nothing is rounded: see `type`.
    Reduce,   ///< A function of the operand over the domain's reduction dimension: one value for a whole row.
    Contract  ///< The sum of products of the two operands over the domain's contraction dimension, in f32.
  };
  Kind kind = Kind::Constant;
  /// The type that the node is computed in (computeType). Floats are rounded, and small integers cut, when they are
  /// stored: the narrower types are those of inputs and outputs.
  DType type = DType::F32;
  /// Apply: the op's mnemonic. Reduce: "sum", "max" or "min". Contract: "tf32" where operands may be cut behind
  /// 10 bits of mantissa, else "".
  std::string function;
  llvm::SmallVector<Scalar, 3> operands;
  double constant = 0;    ///< Constant: a float.
  int64_t integer = 0;    ///< Constant: an integer or boolean, whose every bit counts.
  unsigned input = 0;     ///< Load: the number of the input.
  mlir::AffineMap map;    ///< Load: domain dims and symbols -> index of the input tensor.
  mlir::AffineExpr index; ///< Index: over the domain and symbols.
  /// Integer nodes whose values the symbols s0, s1, ... of `map`, `index` and `guards` take (gather).
  llvm::SmallVector<Scalar, 2> symbols;
  llvm::SmallVector<Guard, 2> guards; ///< Load: where one does not hold, the value is 0.
};

/// The iteration space of a region.
struct Domain {
  /// Size of each dimension. Row regions: rows..., columns. Matmul regions: batch..., M, N, K.
  llvm::SmallVector<int64_t, 6> extents;
  int reductionDim = -1;   ///< Dimension a Reduce runs over (the last; of a matmul region N or K), or -1.
  int contractionDim = -1; ///< Dimension a Contract runs over (the last), or -1.

  unsigned rank() const { return extents.size(); }
  int64_t points() const;
};

/// One result of a region: `value` is stored at `map(domain)` of a tensor. Where the map does not use the reduction
/// dimension there is one element for each row.
struct ScalarOutput {
  Scalar value;
  DType type = DType::F32; ///< Stored type.
  Shape shape;
  mlir::AffineMap map; ///< Domain dims and symbols -> index of the result tensor.
  /// Integer nodes whose values the map's symbols take: a state update writes at a run-time position. A store whose
  /// index leaves the shape is dropped.
  llvm::SmallVector<Scalar, 2> symbols;
  int inPlace = -1; ///< A state update: the number of the input whose memory the result takes; else -1.
};

/// Where a run ends a dimension of the domain: of what is computed from index `count`, an integer node, on nobody reads
/// anything, so that a kernel need not compute it.
struct RunExtent {
  unsigned dim = 0;
  Scalar count;
  friend bool operator==(const RunExtent &, const RunExtent &) = default;
};

/// A tensor that a region reads.
struct ScalarInput {
  DType type = DType::F32;
  Shape shape;
};

/// The scalar form of one region. Nodes are in topological order (operands before users) and unique: equal nodes are
/// one node.
struct ScalarGraph {
  Domain domain;
  std::vector<ScalarNode> nodes;
  std::vector<ScalarInput> inputs;
  std::vector<ScalarOutput> outputs;
  std::optional<RunExtent> runExtent; ///< The same for all outputs.

  const ScalarNode &operator[](Scalar s) const { return nodes[s.id]; }
  /// True when the value differs along domain dimension `dim` (a Reduce or Contract hides its own).
  bool dependsOn(Scalar s, unsigned dim) const;
  /// For people and tests: one line a node.
  std::string str() const;
};

/// What an op may ask while it describes its result at an index; ir/RegionScalars.cpp implements it. Every method
/// returns an invalid Scalar after a refusal.
class ScalarBuilder {
public:
  virtual ~ScalarBuilder() = default;
  virtual mlir::MLIRContext *context() = 0;
  /// The op's operand `i` at `index` (one expression per operand dimension).
  virtual Scalar operand(unsigned i, llvm::ArrayRef<mlir::AffineExpr> index) = 0;
  /// A number of a float type.
  virtual Scalar constant(double value, DType type) = 0;
  /// A number of an integer type, or a boolean.
  virtual Scalar integer(int64_t value, DType type) = 0;
  virtual Scalar apply(llvm::StringRef function, llvm::ArrayRef<Scalar> operands, DType type) = 0;
  virtual Scalar cast(Scalar value, DType type) = 0;
  virtual Scalar indexValue(mlir::AffineExpr index) = 0;
  /// An index expression whose value is the integer node `value`, known to lie in [0, extent).
  virtual mlir::AffineExpr dynamicIndex(Scalar value, int64_t extent) = 0;
  /// Loads made inside `body` happen only where low <= index < high. A reduction inside it is that of the whole row all
  /// the same: there only the guards of rows hold.
  virtual Scalar guarded(Guard guard, llvm::function_ref<Scalar()> body) = 0;
  /// Whether `value` is a load, or a cast of one: 0 where its guards do not hold.
  virtual bool isLoad(Scalar value) const = 0;
  /// Reduces `body(k)` over k in [0, extent): `extent` must be the domain's reduction extent.
  virtual Scalar reduce(llvm::StringRef function, int64_t extent,
                        llvm::function_ref<Scalar(mlir::AffineExpr k)> body) = 0;
  /// Sums lhs(k) * rhs(k) over k in [0, extent): the contraction anchor of a matmul region. `precision` is "" or
  /// "tf32".
  virtual Scalar contract(int64_t extent, llvm::function_ref<Scalar(mlir::AffineExpr k)> lhs,
                          llvm::function_ref<Scalar(mlir::AffineExpr k)> rhs, llvm::StringRef precision) = 0;
  /// Gives up; the first reason is kept.
  virtual Scalar refuse(const llvm::Twine &reason) = 0;
};

} // namespace kfuse::ir
