#include "passes/products/Neighbourhood.h"

#include "ir/RegionKey.h"
#include "passes/Fixed.h"
#include "passes/Generated.h"
#include "passes/SplitPrepare.h"
#include "passes/fuse/Partition.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// More ops than a layer's half has are no neighbourhood.
constexpr size_t mostOps = 48;

bool isEnd(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return !fusable || fusable.getOpKind() == OpKind::Contraction;
}

bool isRowReduction(Operation *op) {
  auto fusable = dyn_cast_or_null<FusableOpInterface>(op);
  return fusable && fusable.getOpKind() == OpKind::RowReduction;
}

/// Adds `op` and what is made anew wherever it is read: constants, masks.
void addWithGenerated(Operation *op, llvm::DenseSet<Operation *> &ops) {
  if (!ops.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp(); producer && isGenerated(operand))
      addWithGenerated(producer, ops);
}

/// In block order; empty when there are too many.
SmallVector<Operation *> collect(ArrayRef<MatmulOp> products) {
  llvm::DenseSet<Operation *> ops;
  SmallVector<Operation *> pending;
  for (MatmulOp product : products) {
    addWithGenerated(product, ops);
    pending.push_back(product);
    Operation *before = product.getLhs().getDefiningOp();
    for (; isa_and_nonnull<ReshapeOp>(before); before = before->getOperand(0).getDefiningOp())
      ops.insert(before);
    if (isRowReduction(before))
      addWithGenerated(before, ops);
  }
  while (!pending.empty() && ops.size() <= mostOps)
    for (Operation *user : pending.pop_back_val()->getUsers())
      if (!user->hasTrait<OpTrait::IsTerminator>() && !ops.contains(user)) {
        addWithGenerated(user, ops);
        if (!isEnd(user))
          pending.push_back(user);
      }
  if (ops.size() > mostOps)
    return {};
  SmallVector<Operation *> ordered(ops.begin(), ops.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

} // namespace

std::string Neighbourhood::key() {
  Block &body = main().getBody().front();
  std::string key = regionKey(body);
  for (BlockArgument argument : body.getArguments())
    (key += ",") += roleOf(main(), argument);
  return key;
}

Neighbourhood neighbourhoodOf(ArrayRef<MatmulOp> products, const llvm::DenseSet<Value> &fixed) {
  SmallVector<Operation *> ops = collect(products);
  if (ops.empty())
    return {};
  MatmulOp first = products.front();
  auto function = first->getParentOfType<func::FuncOp>();
  OpBuilder builder(first->getContext());
  Neighbourhood result;
  result.module = ModuleOp::create(builder.getUnknownLoc());
  auto main = func::FuncOp::create(builder.getUnknownLoc(), "main", builder.getFunctionType({}, {}));
  result.module->push_back(main);
  Block *body = main.addEntryBlock();
  builder.setInsertionPointToEnd(body);

  IRMapping mapping;
  SmallVector<StringRef> roles;
  SmallVector<Value> returned;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand)) {
        auto argument = dyn_cast<BlockArgument>(operand);
        roles.push_back(argument ? roleOf(function, argument) : fixed.contains(operand) ? "parameter" : "input");
        mapping.map(operand, body->addArgument(operand.getType(), builder.getUnknownLoc()));
      }
    Operation *copy = builder.clone(*op, mapping);
    copy->removeAttr(attentionAttrName); // Layers that are alike have equal text.
    for (auto [before, after] : llvm::zip_equal(op->getResults(), copy->getResults()))
      if (llvm::any_of(before.getUsers(), [&](Operation *user) { return !llvm::is_contained(ops, user); }))
        returned.push_back(after);
  }
  builder.create<func::ReturnOp>(builder.getUnknownLoc(), returned);
  main.setType(builder.getFunctionType(body->getArgumentTypes(), ValueRange(returned).getTypes()));
  for (auto [i, role] : llvm::enumerate(roles))
    main.setArgAttr(i, roleAttrName, builder.getStringAttr(role));
  for (MatmulOp product : products)
    result.products.push_back(cast<MatmulOp>(mapping.lookup(product.getResult()).getDefiningOp()));
  return result;
}

double estimateUs(ModuleOp module, const CostModel &model) {
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  auto main = module.lookupSymbol<func::FuncOp>("main");
  splitPrepare(main);
  Partition partition(main.getBody().front(), model);
  if (failed(partition.run()))
    return std::numeric_limits<double>::infinity();
  return partition.totals().us;
}

} // namespace kfuse::passes
