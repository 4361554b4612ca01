#include "codegen/cuda/text/Wgmma.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cassert>

using namespace llvm;

namespace kfuse::codegen::cuda {

/// "bf16", "e4m3": what PTX calls the type.
static StringRef instructionType(DType type) {
  switch (type) {
  case DType::F16:
    return "f16";
  case DType::BF16:
    return "bf16";
  case DType::F32:
    return "tf32";
  case DType::F8E4M3:
    return "e4m3";
  default:
    assert(type == DType::F8E5M2 && "no product of other types is printed");
    return "e5m2";
  }
}

void writeWgmma(SourceWriter &writer, const WgmmaText &product) {
  const std::int64_t accumulators = product.columns / 2,
                     step = 32 / static_cast<std::int64_t>(byteWidth(product.rowsType));
  SmallVector<std::string> places, sums, rows, rowPlaces;
  for (std::int64_t i = 0; i < accumulators; ++i) {
    places.push_back("%" + std::to_string(i));
    sums.push_back("\"+f\"(d[" + std::to_string(i) + "])");
  }
  if (product.areRowsInRegisters)
    for (int i = 0; i < 4; ++i)
      rows.push_back("\"r\"(rows[" + std::to_string(i) + "])");
  else
    rows.push_back("\"l\"(rows)");
  std::int64_t next = accumulators;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rowPlaces.push_back("%" + std::to_string(next++));
  const std::string rowText = product.areRowsInRegisters ? "{" + join(rowPlaces, ", ") + "}" : rowPlaces[0],
                    columnText = "%" + std::to_string(next), accumulate = "%" + std::to_string(next + 1);
  auto layout = [](bool isTransposed) { return isTransposed ? ", 1" : ", 0"; };
  std::string layouts;
  if (step == 16)
    layouts = (product.areRowsInRegisters ? "" : layout(product.areRowsTransposed)) +
              std::string(layout(product.areColumnsTransposed));
  writer.open("struct " + product.name);
  writer.open("static __device__ __forceinline__ void multiplyAdd(float (&d)[" + Twine(accumulators) + "], " +
              (product.areRowsInRegisters ? "const unsigned (&rows)[4]" : "unsigned long long rows") +
              ", unsigned long long columns, int accumulate)");
  writer.line("asm volatile(\"{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, " + accumulate +
              ", 0;\\n\\twgmma.mma_async.sync.aligned.m64n" + Twine(product.columns) + "k" + Twine(step) + ".f32." +
              instructionType(product.rowsType) + "." + instructionType(product.columnsType) + " {" +
              join(places, ", ") + "}, " + rowText + ", " + columnText + ", p, 1, 1" + layouts + ";\\n\\t}\"");
  writer.line("             : " + join(sums, ", "));
  writer.line("             : " + join(rows, ", ") + ", \"l\"(columns), \"r\"(accumulate));");
  writer.close();
  writer.close(";");
  writer.line();
}

} // namespace kfuse::codegen::cuda
