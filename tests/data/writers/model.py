"""One ONNX file from nodes, and numbers for its tensors."""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info
X, Y = info("x", F32, [2, 3]), info("y", F32, None)
rng = np.random.default_rng()


def restart_numbers():
    """The numbers of a file do not depend on what was written before it."""
    rng.bit_generator.state = np.random.default_rng(7).bit_generator.state


def noise(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def tensor(name, values, dtype=None):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def model(nodes, inputs=(), outputs=(), initializers=(), opset=20, functions=(), domains=()):
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def write(name, *args, **kwargs):
    save(model(*args, **kwargs), FOLDER / f"{name}.onnx")
