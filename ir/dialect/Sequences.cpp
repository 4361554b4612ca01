// Sequences that are packed behind each other.
#include "ir/dialect/Kfuse.h"

using namespace mlir;

namespace kfuse::ir {

LogicalResult SameSequenceOp::verify() {
  const ArrayRef<int64_t> rows = dimsOf(getRowStarts()), keys = dimsOf(getKeyStarts());
  if (rows.size() != 1 || keys.size() != 1 || rows[0] != keys[0] || rows[0] < 2)
    return emitOpError() << "takes starts [sequences + 1] of rows and of keys, got [" << rows << "] and [" << keys
                         << "]";
  if (dtypeOf(getRowStarts().getType()) != dtypeOf(getKeyStarts().getType()))
    return emitOpError() << "takes starts of one type, got " << getRowStarts().getType() << " and "
                         << getKeyStarts().getType();
  if (dimsOf(getResult()).size() != 2)
    return emitOpError() << "gives [rows, keys], not " << getType();
  return success();
}

} // namespace kfuse::ir
