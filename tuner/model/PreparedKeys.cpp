#include "tuner/model/PreparedKeys.h"

#include "ir/dialect/Kfuse.h"
#include "tuner/model/ProgramBuilder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::tuner {
namespace {

class Keys {
public:
  explicit Keys(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      known[function.getArgument(i)] =
          digest("argument " + describeArgument(function, i).name + typeOf(function.getArgument(i)));
    for (Operation &op : function.getBody().front().without_terminator())
      visit(op);
  }
  /// By value: what is known moves as more comes to it.
  std::string of(Value value) const { return known.find(value)->second; }

private:
  static std::string digest(const std::string &text) {
    const auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
    return llvm::toHex(hash);
  }
  static std::string typeOf(Value value) {
    std::string text;
    llvm::raw_string_ostream(text) << value.getType();
    return text;
  }

  /// A kernel's ops are those of its body.
  void visit(Operation &op) {
    if (auto fused = dyn_cast<ir::FusedOp>(op)) {
      Block &body = fused.getBody().front();
      for (auto [argument, input] : llvm::zip_equal(body.getArguments(), fused.getInputs()))
        known[argument] = of(input);
      for (Operation &inner : body.without_terminator())
        visit(inner);
      for (auto [result, yielded] : llvm::zip_equal(fused.getResults(), body.getTerminator()->getOperands()))
        known[result] = of(yielded);
      return;
    }
    std::string text = op.getName().getStringRef().str();
    for (Value operand : op.getOperands())
      text += " " + of(operand);
    llvm::raw_string_ostream stream(text);
    stream << op.getAttrDictionary();
    for (auto [i, result] : llvm::enumerate(op.getResults()))
      known[result] = digest(text + " " + std::to_string(i) + typeOf(result));
  }

  llvm::DenseMap<Value, std::string> known;
};

} // namespace

std::vector<std::string> preparedKeys(func::FuncOp prepare) {
  const Keys keys(prepare);
  std::vector<std::string> results;
  for (Value result : prepare.getBody().front().getTerminator()->getOperands())
    results.push_back(keys.of(result));
  return results;
}

} // namespace kfuse::tuner
