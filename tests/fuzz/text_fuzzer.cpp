// Any bytes as the dialect's text: an error or a module that prints as text that is read again, is planned and printed
// as kernels.
#include "ir/import/Text.h"
#include "tests/fuzz/PlanAndEmit.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace kfuse;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ir::Model> model = ir::importText({reinterpret_cast<const char *>(data), size}, "fuzz.mlir", context);
  if (!model)
    return model.error().message.empty() ? std::abort(), 0 : 0;
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  model->module->print(stream);
  if (!ir::importText(printed, "printed.mlir", context))
    std::abort();
  test::planAndEmit(*model->module);
  return 0;
}
