import os

import lit.formats

config.name = "kfuse"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = config.filecheck_folder
config.test_exec_root = os.path.join(config.build_folder, "output")

tools = os.path.dirname(config.filecheck)
config.substitutions += [("kfuse-opt", config.kfuse_opt), ("FileCheck", config.filecheck)]
# `not` inverts an exit status; it lies beside FileCheck.
config.substitutions.append((r"\bnot\b", os.path.join(tools, "not")))
