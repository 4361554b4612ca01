#ifndef KFUSE_DIALECT_TD
#define KFUSE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kfuse_Dialect : Dialect {
  let name = "kfuse";
  let summary = "Model blocks as tensor ops, and the fused regions they become";
  let description = [{
    Values are ranked tensors of static shape. A model is a module with one function, `@main`, whose
    arguments carry `kfuse.role` ("input", "parameter" or "state") and `kfuse.name`, and whose results
    carry `kfuse.name`; a result that is a state written in place carries `kfuse.state = <argument>`.
    `kfuse-split-prepare` moves what depends on parameters alone into `@prepare`.
  }];
  let cppNamespace = "::kfuse::ir";
}

#endif
