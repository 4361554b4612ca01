#!/usr/bin/env python3
"""Writes the small ONNX files beside it, which the importer's tests read. Needs onnx and numpy; the files are
committed, so that nothing that builds or tests kfuse does.

Usage: write_models.py [FOLDER]
"""
import pathlib
import sys

import numpy as np
from onnx import AttributeProto, FunctionProto, TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info
rng = np.random.default_rng(7)


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


X, Y = info("x", F32, [2, 3]), info("y", F32, None)


def external(name, location, offset, length):
    weight = TensorProto(name=name, data_type=F32, data_location=TensorProto.EXTERNAL)
    weight.dims.extend([3, 4] if name == "w" else [4])
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            weight.external_data.add(key=key, value=str(value))
    return weight


def write_decode():
    """Attention of one token with 40 keys, whose queries are normalised: in f16, as exporters of Qwen3 write it."""
    f16 = TensorProto.FLOAT16
    nodes = [node("RMSNormalization", ["q", "w"], ["qn"], axis=-1, epsilon=1e-6),
             node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
             node("MatMul", ["qn", "kt"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
             node("MatMul", ["p", "v"], ["y"])]
    keys = [1, 1, 40, 16]
    write("decode_q_norm", nodes, [info("q", f16, [1, 1, 1, 16]), info("w", f16, [16]), info("k", f16, keys),
                                   info("v", f16, keys)], [info("y", f16, [1, 1, 1, 16])], opset=23)


def write_external():
    """y = x w + b with w and b in one file, b at an odd address."""
    weight, bias = noise(3, 4), noise(4)
    (FOLDER / "external.bin").write_bytes(bytes(64) + weight.tobytes() + bytes(1) + bias.tobytes())
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], name="gemm")]
    files = {
        "external": ("external.bin", 64, 48),
        "external_escapes": ("../data/external.bin", 64, 48),
        "external_absolute": ("/etc/hostname", 0, 48),
        "external_missing": ("nowhere.bin", 0, 48),
        "external_short": ("external.bin", 100, 48),
        "external_length": ("external.bin", 64, 47),
        "external_offset": ("external.bin", "-8", 48),
    }
    for name, (location, offset, length) in files.items():
        write(name, nodes, [X], [Y], [external("w", location, offset, length), external("b", "external.bin", 113, None)])


def write_dynamic():
    """Two inputs that share a symbolic batch; the sequence is bound through either; one size has no name."""
    ids, mask = info("ids", I64, ["batch", "seq"]), info("mask", F32, ["batch", "seq", 1])
    nodes = [node("Gather", ["table", "ids"], ["rows"]), node("Mul", ["rows", "mask"], ["y"])]
    write("dynamic", nodes, [ids, mask], [Y], [tensor("table", noise(10, 4))])
    write("dynamic_unnamed", [node("Relu", ["x"], ["y"])], [info("x", F32, [None, 4])], [Y])


def write_opsets():
    """What moved from attributes to inputs, and opsets that are refused."""
    x = info("x", F32, [4, 6])
    write("reduce_opset13", [node("ReduceMean", ["x"], ["y"], axes=[-1], keepdims=0)], [x], [Y], opset=13)
    halves = info("x", TensorProto.FLOAT16, [1, 2])
    write("halves", [node("ReduceL2", ["x"], ["length"], keepdims=0),
                     node("BatchNormalization", ["z", "s", "b", "m", "v"], ["scaled"], epsilon=1e-5),
                     node("Mean", ["x", "large"], ["mean"]), node("LogSoftmax", ["logits"], ["logs"])],
          [halves], [info(name, TensorProto.FLOAT16, [1, 2]) for name in ("mean", "scaled", "logs")] + [info("length", TensorProto.FLOAT16, [])],
          [tensor(name, value, np.float16) for name, value in
           {"z": [[0.5, 1]], "s": [3000, 1], "b": [0, 60000], "m": [0.4375, 0], "v": [0.0001, 0.0001], "large": [65440, 0], "logits": [[0, -10.25]]}.items()])
    flags = info("x", TensorProto.BOOL, [4, 6])
    write("reduce_bool", [node("ReduceMax", ["x", "a"], ["any"], keepdims=0), node("ReduceMin", ["x", "a"], ["all"])], [flags],
          [info("any", TensorProto.BOOL, [4]), info("all", TensorProto.BOOL, [4, 1])], [tensor("a", [-1])])
    write("reduce_opset18", [node("ReduceMean", ["x", "a"], ["y"], keepdims=0)], [x], [Y], [tensor("a", [-1])], opset=18)
    outputs = [info("y", F32, None), info("z", F32, None)]
    write("split_opset13", [node("Split", ["x", "s"], ["y", "z"], axis=1)], [x], outputs, [tensor("s", [2, 4])], opset=13)
    write("split_opset18", [node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)], [x], outputs, opset=18)
    for opset in (12, 13, 23, 24):
        write(f"relu_opset{opset}", [node("Relu", ["x"], ["y"])], [x], [Y], opset=opset)


def write_functions():
    """y = scaled(x) with factor 3 from the call, then with 2 from the function's default; a function calls another."""
    attribute = AttributeProto(name="value_float", ref_attr_name="factor", type=AttributeProto.FLOAT)
    constant = node("Constant", [], ["f"])
    constant.attribute.append(attribute)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    default = helper.make_attribute("factor", 2.0)
    scaled = helper.make_function("local", "scaled", ["a"], ["b"], [constant, node("Mul", ["a", "f"], ["b"])], opsets,
                                  attribute_protos=[default])
    calls = [node("scaled", ["a"], ["t"], name="call", domain="local", factor=3.0),
             node("scaled", ["t"], ["b"], name="call", domain="local")]
    twice = helper.make_function("local", "twice", ["a"], ["b"], calls, opsets)
    write("functions", [node("twice", ["x"], ["y"], domain="local")], [X], [Y], functions=[scaled, twice], domains=["local"])
    endless = helper.make_function("local", "twice", ["a"], ["b"], [node("twice", ["a"], ["b"], domain="local")], opsets)
    write("functions_endless", [node("twice", ["x"], ["y"], domain="local")], [X], [Y], functions=[endless], domains=["local"])
    chain = [helper.make_function("local", f"f{i}", ["a"], ["b"], [node(f"f{i + 1}", ["a"], ["t"], domain="local"),
                                                                   node(f"f{i + 1}", ["t"], ["b"], domain="local")], opsets)
             for i in range(40)]
    chain.append(helper.make_function("local", "f40", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opsets))
    write("functions_explode", [node("f0", ["x"], ["y"], domain="local")], [X], [Y], functions=chain, domains=["local"])


def write_empty():
    """Tensors of no elements keep their other dimensions where they are padded, joined and cut."""
    x, e = info("x", F32, [2, 3]), info("e", F32, [2, 0])
    nodes = [node("Pad", ["e", "pads"], ["padded"]), node("Concat", ["e", "e"], ["rows"], axis=0),
             node("Concat", ["e", "x", "e"], ["columns"], axis=1), node("Concat", ["nothing", "x"], ["joined"], axis=0),
             node("Slice", ["rows", "one", "three", "zero"], ["cut"]), node("Pad", ["cut", "right"], ["cut_and_padded"])]
    outputs = [info(name, F32, None) for name in "padded columns joined cut_and_padded".split()]
    write("empty", nodes, [x, e], outputs,
          [tensor("pads", [1, 1, 1, 2]), tensor("nothing", np.zeros(0, np.float32)), tensor("zero", [0]), tensor("one", [1]),
           tensor("three", [3]), tensor("right", [0, 0, 0, 1])])
    write("empty_mismatch", [node("Concat", ["e", "c"], ["y"], axis=1)], [e], [Y], [tensor("c", np.ones((3, 1), np.float32))])


def write_activations():
    """Activations where a plain formula loses every digit, in f32 and in bf16."""
    x, h = info("x", F32, [5]), info("h", TensorProto.BFLOAT16, [5])
    nodes = [node("Softplus", ["x"], ["softplus"]), node("Elu", ["x"], ["elu"]), node("Mish", ["x"], ["mish"]),
             node("HardSwish", ["h"], ["hard_swish"]), node("HardSigmoid", ["h"], ["hard_sigmoid"], alpha=1 / 6),
             node("LeakyRelu", ["h"], ["leaky_relu"]), node("Mean", ["h", "h", "h"], ["mean"])]
    outputs = [info(name, F32, None) for name in ("softplus", "elu", "mish")]
    outputs += [info(name, TensorProto.BFLOAT16, None) for name in ("hard_swish", "hard_sigmoid", "leaky_relu", "mean")]
    write("activations", nodes, [x, h], outputs, opset=22)


def write_integers():
    """Numbers that no f64 holds, and those beyond the ends of their types."""
    x, y = info("x", I64, [4]), info("i", TensorProto.INT32, [4])
    nodes = [node("Mul", ["x", "odd"], ["times_odd"]), node("Add", ["x", "odd_splat"], ["plus_odd"]),
             node("Cast", ["x"], ["low_bits"], to=TensorProto.INT32), node("Pow", ["x", "three"], ["cube"]),
             node("Pow", ["i", "zero"], ["ones"]), node("Mod", ["x", "seven"], ["rest"], fmod=1),
             node("Div", ["x", "minus_one"], ["quotient"]), node("Range", ["from", "to", "by"], ["range"]),
             node("Mul", ["from", "by"], ["folded"]), node("Add", ["i", "i"], ["doubled"])]
    outputs = [info(name, I64, None) for name in "times_odd plus_odd cube rest quotient range folded".split()]
    outputs += [info(name, TensorProto.INT32, None) for name in ("low_bits", "ones", "doubled")]
    odd = 2**53 + 1
    write("integers", nodes, [x, y], outputs,
          [tensor("odd", odd, np.int64), tensor("odd_splat", [odd] * 4, np.int64), tensor("three", 3, np.int64), tensor("zero", 0, np.int64),
           tensor("seven", 7, np.int64), tensor("minus_one", -1, np.int64), tensor("from", odd, np.int64),
           tensor("to", odd + 2**60 + 1, np.int64), tensor("by", 2**60, np.int64)])


def write_malformed():
    relu = node("Relu", ["x"], ["y"], name="relu")
    write("unsupported", [node("Conv", ["x", "x"], ["a"], name="conv1"), node("Conv", ["a", "a"], ["b"], name="conv2"),
                          node("Fancy", ["b"], ["c"], domain="acme"), node("Relu", ["c"], ["y"])], [X], [Y], domains=["acme"])
    write("unknown_attribute", [node("Relu", ["x"], ["y"], name="relu", slope=2)], [X], [Y])
    write("attribute_type", [node("Softmax", ["x"], ["y"], name="softmax", axis=1.5)], [X], [Y])
    write("duplicate_name", [relu, node("Tanh", ["x"], ["y"])], [X], [Y])
    write("out_of_order", [node("Tanh", ["z"], ["y"], name="tanh"), node("Relu", ["x"], ["z"])], [X], [Y])
    write("cycle", [node("Add", ["x", "z"], ["y"], name="add"), node("Relu", ["y"], ["z"])], [X], [Y])
    write("no_output", [relu], [X], [info("other", F32, None)])
    write("missing_input", [node("Add", ["x"], ["y"], name="add")], [X], [Y])
    write("unmade_output", [node("LayerNormalization", ["x", "w"], ["n", "mean"], name="norm"), node("Relu", ["mean"], ["y"])],
          [X], [Y], [tensor("w", noise(3))])
    write("shape_mismatch", [node("Add", ["x", "w"], ["y"], name="add")], [X], [Y], [tensor("w", noise(2, 4))])
    write("type_mismatch", [node("Add", ["x", "i"], ["y"], name="add")], [X], [Y], [tensor("i", [1, 2, 3])])
    write("gather_outside", [node("Gather", ["x", "i"], ["y"], name="gather")], [X], [Y], [tensor("i", [0, 5])])
    write("reshape_mismatch", [node("Reshape", ["x", "s"], ["y"], name="reshape")], [X], [Y], [tensor("s", [4, -1])])
    write("expand_huge", [node("Expand", ["x", "s"], ["y"], name="expand")], [X], [Y], [tensor("s", [2**31, 2**31, 2, 3])])
    write("unknown_shape", [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "i"], ["y"], name="reshape")],
          [X, info("i", I64, [2])], [Y])
    write("string_input", [relu], [info("x", TensorProto.STRING, [2])], [Y])
    write("negative_dim", [relu], [info("x", F32, [2, -3])], [Y])
    write("huge_dim", [relu], [info("x", F32, [2**62, 2**62])], [Y])

    def broken(name, **fields):
        weight = TensorProto(name="w", data_type=F32, dims=[2, 3], raw_data=bytes(24))
        for key, value in fields.items():
            weight.ClearField(key)
            if isinstance(value, list):
                getattr(weight, key).extend(value)
            else:
                setattr(weight, key, value)
        write(name, [node("Add", ["x", "w"], ["y"])], [X], [Y], [weight])

    broken("data_short", raw_data=bytes(23))
    broken("data_type", data_type=99)
    broken("data_huge", dims=[2**40, 2**40])
    broken("data_negative", dims=[-2, 3])
    weight = TensorProto(name="w", data_type=F32, dims=[2, 3], float_data=[1.0] * 5)
    write("data_count", [node("Add", ["x", "w"], ["y"])], [X], [Y], [weight])


def write_typed():
    """Initializers in typed fields and in types that are converted; each output is its value plus 0."""
    values = {
        "f32": helper.make_tensor("f32", F32, [3], [1.5, -2, 3e38]),
        "f16": helper.make_tensor("f16", TensorProto.FLOAT16, [2], [1.5, -65504]),
        "bf16": helper.make_tensor("bf16", TensorProto.BFLOAT16, [2], [1.5, -3.0]),
        "f64": helper.make_tensor("f64", TensorProto.DOUBLE, [2], [0.1, -2.0]),
        "f64_raw": tensor("f64_raw", [0.1, -2.0], np.float64),
        "i64": helper.make_tensor("i64", I64, [2], [2**62 + 1, -5]),
        "i32": helper.make_tensor("i32", TensorProto.INT32, [2], [7, -5]),
        "bool": helper.make_tensor("bool", TensorProto.BOOL, [3], [1, 0, 1]),
    }
    values["bool"].ClearField("int32_data")
    values["bool"].raw_data = bytes([255, 0, 1])
    outputs = [info(f"{name}_out", value.data_type, None) for name, value in values.items()]
    write("typed", [node("Identity", [name], [f"{name}_out"]) for name in values], [], outputs, values.values())


class Cases:
    """One model of many small graphs, each with the reference evaluator's answer inside. A case's output is the
    largest difference; its operands are initializers, floats thus parameters and integers folded."""

    def __init__(self, opset=23, domains=()):
        self.opset, self.domains = opset, domains
        self.nodes, self.initializers, self.outputs = [], [], []

    def add(self, name, nodes, expected=None, result="y", **operands):
        tensors = [tensor(key, value) for key, value in operands.items()]
        if expected is None:
            single = model(nodes, [], [info(result, F32, None)], tensors, self.opset)
            expected = ReferenceEvaluator(single).run(None, {})[0]
        self.initializers += [self.renamed(name, value) for value in tensors]
        for one in nodes:
            copy = type(one)()
            copy.CopyFrom(one)
            copy.name = f"{name}.{one.op_type}"
            copy.input[:] = [f"{name}.{value}" if value else "" for value in one.input]
            copy.output[:] = [f"{name}.{value}" if value else "" for value in one.output]
            self.nodes.append(copy)
        self.compare(name, f"{name}.{result}", np.asarray(expected))

    @staticmethod
    def renamed(case, value):
        value.name = f"{case}.{value.name}"
        return value

    def compare(self, name, result, expected):
        """max |result - expected|, plus 1 where the shapes differ."""
        self.initializers.append(tensor(f"{name}.expected", expected.astype(np.float32)))
        shape = tensor(f"{name}.shape", (1, *expected.shape), np.int64)
        self.initializers.append(shape)
        self.nodes += [
            node("Cast", [result], [f"{name}.f32"], to=F32),
            node("Sub", [f"{name}.f32", f"{name}.expected"], [f"{name}.difference"]),
            node("Abs", [f"{name}.difference"], [f"{name}.absolute"]),
            node("ReduceMax", [f"{name}.absolute"], [f"{name}.worst"], keepdims=0),
            node("Shape", [result], [f"{name}.sizes"]),
            node("Concat", [f"{name}.leading", f"{name}.sizes"], [f"{name}.actual"], axis=0),  # Never empty.
            node("Equal", [f"{name}.actual", shape.name], [f"{name}.same"]),
            node("Cast", [f"{name}.same"], [f"{name}.one"], to=I64),
            node("ReduceMin", [f"{name}.one"], [f"{name}.fits"], keepdims=0),
            node("Cast", [f"{name}.fits"], [f"{name}.fitting"], to=F32),
            node("Sub", [f"{name}.unit", f"{name}.fitting"], [f"{name}.misfit"]),
            node("Add", [f"{name}.worst", f"{name}.misfit"], [name]),
        ]
        self.initializers += [tensor(f"{name}.unit", 1.0, np.float32), tensor(f"{name}.leading", [1], np.int64)]
        self.outputs.append(info(name, F32, []))

    def write(self, name):
        write(name, self.nodes, [], self.outputs, self.initializers, self.opset, domains=self.domains)


def write_pointwise():
    cases = Cases()
    x = noise(3, 5) * 3
    for op in ("Abs Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Mish Neg Relu Sigmoid Sign Sin "
               "Softplus Softsign Tan Tanh").split():
        cases.add(op, [node(op, ["x"], ["y"])], x=x)
    for op in ("Log", "Reciprocal", "Sqrt"):
        cases.add(op, [node(op, ["x"], ["y"])], x=np.abs(x) + 0.5)
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], a=noise(2, 3, 5), b=noise(3, 1) + 2)
    cases.add("Elu_alpha", [node("Elu", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("LeakyRelu_alpha", [node("LeakyRelu", ["x"], ["y"], alpha=0.3)], x=x)
    cases.add("Gelu_tanh", [node("Gelu", ["x"], ["y"], approximate="tanh")], x=x)
    cases.add("Pow", [node("Pow", ["a", "b"], ["y"])], a=np.abs(x) + 0.1, b=noise(5))
    cases.add("Pow_integer_exponent", [node("Pow", ["a", "b"], ["y"])], a=x, b=np.int64(3))
    cases.add("Sum", [node("Sum", ["a", "b", "c"], ["y"])], a=x, b=noise(5), c=noise(3, 1))
    cases.add("Mean", [node("Mean", ["a", "b", "c"], ["y"])], a=x, b=noise(5), c=noise(3, 1))
    cases.add("Clip", [node("Clip", ["x", "low", "high"], ["y"])], x=x, low=np.float32(-0.5), high=np.float32(1))
    cases.add("Clip_above", [node("Clip", ["x", "", "high"], ["y"])], x=x, high=np.float32(0.25))
    cases.add("Fmod", [node("Mod", ["a", "b"], ["y"], fmod=1)], a=x, b=noise(3, 5) + 2.5)
    cases.add("Mod_integers", [node("Mod", ["a", "b"], ["y"])], a=np.array([-7, 7, -7, 7]), b=np.array([3, 3, -3, -3]))
    cases.add("Fmod_integers", [node("Mod", ["a", "b"], ["y"], fmod=1)], a=np.array([-7, 7, -7, 7]), b=np.array([3, 3, -3, -3]))
    cases.add("Div_integers", [node("Div", ["a", "b"], ["y"])], [-3, 3, 3, -3], a=np.array([-7, 7, -7, 7]), b=np.array([2, 2, -2, -2]))
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], a=np.float32([[1, 2], [3, 4]]), b=np.float32([2, 3]))
    logic = {"a": np.array([True, True, False, False]), "b": np.array([True, False, True, False])}
    for op in ("And", "Or", "Xor"):
        cases.add(op, [node(op, ["a", "b"], ["y"])], **logic)
    cases.add("Not", [node("Not", ["a"], ["y"])], a=logic["a"])
    cases.add("Where", [node("Where", ["c", "a", "b"], ["y"])], c=np.array([True, False, True, False, True]), a=x, b=noise(3, 1))
    odd = np.float32([1, np.inf, -np.inf, np.nan])
    cases.add("IsNaN", [node("IsNaN", ["x"], ["y"])], x=odd)
    cases.add("IsInf", [node("IsInf", ["x"], ["y"])], x=odd)
    cases.add("IsInf_negative", [node("IsInf", ["x"], ["y"], detect_positive=0)], x=odd)
    cases.add("IsInf_none", [node("IsInf", ["x"], ["y"], detect_positive=0, detect_negative=0)], x=odd)
    cases.add("Cast_integer", [node("Cast", ["x"], ["y"], to=I64)], x=x)
    cases.add("Cast_bool", [node("Cast", ["x"], ["y"], to=TensorProto.BOOL)], x=np.float32([0, -0.0, 0.25, -3]))
    cases.add("CastLike", [node("CastLike", ["x", "i"], ["y"])], x=x, i=np.int64([1, 2]))
    cases.add("Dropout", [node("Dropout", ["x"], ["y"])], x=x)
    cases.add("Dropout_mask", [node("Dropout", ["x"], ["n", "y"])], np.ones((3, 5)), x=x)
    cases.add("BatchNormalization", [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)],
              x=noise(2, 3, 4), s=noise(3), b=noise(3), m=noise(3), v=np.abs(noise(3)) + 0.1)
    cases.write("ops_pointwise")


def write_layout():
    cases = Cases()
    x, last = noise(2, 3, 4), 2**63 - 1
    whole = dict(x=x)

    def vectors(**values):
        return {key: np.array(value, np.int64) for key, value in values.items()}

    cases.add("Reshape", [node("Reshape", ["x", "s"], ["y"])], **whole, **vectors(s=[0, -1, 2]))
    cases.add("Reshape_scalar", [node("Reshape", ["x", "s"], ["y"])], x=np.float32([[3]]), **vectors(s=[]))
    cases.add("Flatten", [node("Flatten", ["x"], ["y"], axis=2)], **whole)
    cases.add("Flatten_0", [node("Flatten", ["x"], ["y"], axis=0)], **whole)
    cases.add("Flatten_negative", [node("Flatten", ["x"], ["y"], axis=-2)], **whole)
    cases.add("Squeeze", [node("Squeeze", ["x", "a"], ["y"])], x=noise(1, 3, 1), **vectors(a=[-1]))
    cases.add("Squeeze_all", [node("Squeeze", ["x"], ["y"])], x=noise(1, 3, 1))
    cases.add("Unsqueeze", [node("Unsqueeze", ["x", "a"], ["y"])], **whole, **vectors(a=[-1, 0]))
    cases.add("Transpose", [node("Transpose", ["x"], ["y"], perm=[1, 2, 0])], **whole)
    cases.add("Transpose_reversed", [node("Transpose", ["x"], ["y"])], **whole)
    cases.add("Expand", [node("Expand", ["x", "s"], ["y"])], x=noise(3, 1), **vectors(s=[2, 1, 4]))
    cases.add("Tile", [node("Tile", ["x", "r"], ["y"])], **whole, **vectors(r=[1, 2, 3]))
    cases.add("Concat", [node("Concat", ["a", "b"], ["y"], axis=-2)], a=noise(2, 1, 3), b=noise(2, 2, 3))
    cases.add("Concat_empty", [node("Concat", ["a", "b"], ["y"], axis=0)], a=np.zeros((0, 3), np.float32), b=noise(2, 3))
    cases.add("Split_rest", [node("Split", ["x"], ["a", "b", "y"], axis=2, num_outputs=3)], x=noise(2, 7)[:, None])
    cases.add("Slice", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole, **vectors(s=[1, 0], e=[last, -1], a=[1, 2], t=[1, 2]))
    cases.add("Slice_backwards", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole,
              **vectors(s=[-1, 3], e=[-last - 1, 0], a=[1, 2], t=[-1, -2]))
    cases.add("Slice_long_step", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], **whole, **vectors(s=[0], e=[last], a=[2], t=[last]))
    cases.add("Slice_all_axes", [node("Slice", ["x", "s", "e"], ["y"])], **whole, **vectors(s=[0, -2, 1], e=[1, 100, 3]))
    cases.add("Pad", [node("Pad", ["x", "p", "v"], ["y"])], x=x, v=np.float32(7), **vectors(p=[0, 1, 2, 1, 0, 1]))
    cases.add("Pad_axes", [node("Pad", ["x", "p", "", "a"], ["y"])], x=x, **vectors(p=[1, 2], a=[-1]))
    cases.add("Gather", [node("Gather", ["x", "i"], ["y"], axis=1)], **whole, **vectors(i=[[2, 0], [-1, 1]]))
    cases.add("Gather_scalar", [node("Gather", ["x", "i"], ["y"], axis=-1)], **whole, **vectors(i=-2))
    cases.add("GatherElements", [node("GatherElements", ["x", "i"], ["y"], axis=1)], **whole, **vectors(i=rng.integers(-3, 3, (2, 2, 4))))
    table, picks = np.arange(12).reshape(3, 4), rng.integers(0, 4, (2, 3))
    cases.add("GatherElements_folded", [node("GatherElements", ["x", "i"], ["y"], axis=1)],
              np.take_along_axis(table[:2], picks, 1), x=table, i=picks)
    for upper in (0, 1):
        for k in (-2, 0, 1):
            cases.add(f"Trilu_{upper}_{k + 2}", [node("Trilu", ["x", "k"], ["y"], upper=upper)], x=noise(2, 4, 5), **vectors(k=k))
    for reverse in (0, 1):
        for exclusive in (0, 1):
            flags = dict(reverse=reverse, exclusive=exclusive)
            cases.add(f"CumSum_{reverse}{exclusive}", [node("CumSum", ["x", "a"], ["y"], **flags)], **whole, **vectors(a=1))
            cases.add(f"CumSum_folded_{reverse}{exclusive}", [node("CumSum", ["x", "a"], ["y"], **flags)],
                      **vectors(x=[[1, 2, 3], [4, 5, 6]], a=-1))
    cases.add("Shape", [node("Shape", ["x"], ["y"], start=-2, end=5)], **whole)
    cases.add("Size", [node("Size", ["x"], ["y"])], **whole)
    cases.add("ConstantOfShape", [node("ConstantOfShape", ["s"], ["y"], value=tensor("v", [5]))], **vectors(s=[2, 3]))
    cases.add("Range", [node("Range", ["a", "b", "c"], ["y"])], **vectors(a=10, b=-1, c=-3))
    cases.add("Range_real", [node("Range", ["a", "b", "c"], ["y"])], a=np.float32(0.5), b=np.float32(2), c=np.float32(0.4))
    cases.add("NonZero", [node("NonZero", ["x"], ["y"])], **vectors(x=[[1, 0, 2], [0, 3, 0]]))
    cases.write("ops_layout")


def write_rows():
    cases = Cases()
    x = noise(2, 3, 4)
    axes = np.array([0, -1])
    for op in ("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare"):
        cases.add(f"Reduce{op}", [node(f"Reduce{op}", ["x", "a"], ["y"])], x=x, a=axes)
        cases.add(f"Reduce{op}_dropped", [node(f"Reduce{op}", ["x", "a"], ["y"], keepdims=0)], x=x, a=axes[:1])
        cases.add(f"Reduce{op}_all", [node(f"Reduce{op}", ["x"], ["y"], keepdims=0)], x=x)
    cases.add("ReduceSum_noop", [node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)], x=x)
    cases.add("ReduceProd", [node("ReduceProd", ["x"], ["y"], keepdims=0)], x=np.array([2, 3, 7]))
    for axis in (0, 1, -1):
        cases.add(f"Softmax_{axis}", [node("Softmax", ["x"], ["y"], axis=axis)], x=x)
        cases.add(f"LogSoftmax_{axis}", [node("LogSoftmax", ["x"], ["y"], axis=axis)], x=x * 50)
        dims = x.shape[axis:]
        cases.add(f"LayerNormalization_{axis}", [node("LayerNormalization", ["x", "w", "b"], ["y"], axis=axis, epsilon=1e-2)],
                  x=x, w=noise(*dims), b=noise(*dims))
        cases.add(f"RMSNormalization_{axis}", [node("RMSNormalization", ["x", "w"], ["y"], axis=axis)], x=x, w=noise(*dims))
    cases.add("LayerNormalization_scalar_weight", [node("LayerNormalization", ["x", "w"], ["y"], axis=1)], x=x, w=noise(4))

    shapes = {"matrices": ((3, 4), (4, 5)), "batches": ((2, 1, 3, 4), (5, 4, 2)), "vector_matrix": ((4,), (2, 4, 3)),
              "matrix_vector": ((2, 3, 4), (4,)), "vectors": ((4,), (4,))}
    for name, (a, b) in shapes.items():
        cases.add(f"MatMul_{name}", [node("MatMul", ["a", "b"], ["y"])], a=noise(*a), b=noise(*b))
    cases.add("Gemm", [node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1, transB=1)],
              a=noise(4, 3), b=noise(5, 4), c=noise(3, 1))
    cases.add("Gemm_beta_0", [node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)], a=noise(3, 4), b=noise(4, 5), c=noise(5))
    cases.write("ops_rows")


def write_transformer():
    cases = Cases()
    q, k, v = noise(2, 4, 3, 8), noise(2, 2, 5, 8), noise(2, 2, 5, 6)
    qkv = dict(q=q, k=k, v=v)
    cases.add("Attention", [node("Attention", ["q", "k", "v"], ["y"])], **qkv)
    cases.add("Attention_softcap", [node("Attention", ["q", "k", "v"], ["y"], softcap=1.5, scale=0.7)], **qkv)
    cases.add("Attention_mask", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=noise(3, 5))
    hidden = np.ones((3, 5), bool)
    hidden[1], hidden[2, 3:] = False, False
    cases.add("Attention_hidden_row", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=hidden)
    past = dict(p=noise(2, 2, 3, 8), s=noise(2, 2, 3, 6))
    cases.add("Attention_past", [node("Attention", ["q", "k", "v", "", "p", "s"], ["y", "key", "value"], is_causal=1)], **qkv, **past)
    cases.add("Attention_present", [node("Attention", ["q", "k", "v", "", "p", "s"], ["o", "y", "value"])],
              np.concatenate([past["p"], k], axis=2), **qkv, **past)
    cases.add("Attention_packed", [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1)],
              q=noise(2, 3, 32), k=noise(2, 5, 16), v=noise(2, 5, 12))
    cos, sin, positions = noise(10, 4), noise(10, 4), rng.integers(0, 10, (2, 3))
    tables = dict(c=cos, s=sin, p=positions)
    for interleaved in (0, 1):
        flags = dict(interleaved=interleaved)
        cases.add(f"Rotary_{interleaved}", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], **flags)], x=q, **tables)
        cases.add(f"Rotary_packed_{interleaved}", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], num_heads=4, **flags)],
                  x=noise(2, 3, 32), **tables)
    cases.add("Rotary_partial", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], rotary_embedding_dim=4)], x=q,
              c=cos[:, :2], s=sin[:, :2], p=positions)
    cases.add("Rotary_tables", [node("RotaryEmbedding", ["x", "c", "s"], ["y"])], x=q, c=noise(2, 3, 4), s=noise(2, 3, 4))
    cases.write("ops_transformer")


def write_microsoft():
    """ONNX Runtime's ops, against their definitions in NumPy."""
    cases = Cases(domains=["com.microsoft"])

    def ms(op, inputs, outputs=("y",), **attributes):
        return [node(op, inputs, list(outputs), domain="com.microsoft", **attributes)]

    def layer_norm(x, w, b):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b

    def rms_norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w

    def tanh_gelu(x):
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x, skip, w, b = noise(2, 3, 8), noise(2, 3, 8), noise(8), noise(8)
    everything = dict(x=x, s=skip, w=w, b=b)
    cases.add("FastGelu", ms("FastGelu", ["x", "b"]), tanh_gelu(x + b), x=x, b=b)
    cases.add("QuickGelu", ms("QuickGelu", ["x"]), x / (1 + np.exp(-1.702 * x)), x=x)
    cases.add("FusedMatMul", ms("FusedMatMul", ["x", "s"], transB=1, alpha=0.5), 0.5 * x @ skip.transpose(0, 2, 1), x=x, s=skip)
    cases.add("SkipLayerNormalization", ms("SkipLayerNormalization", ["x", "s", "w", "b"], epsilon=1e-5), layer_norm(x + skip, w, b),
              **everything)
    cases.add("SkipLayerNormalization_sum", ms("SkipLayerNormalization", ["x", "s", "w", "b"], ["n", "", "", "y"], epsilon=1e-5),
              x + skip, **everything)
    cases.add("SkipSimplifiedLayerNormalization", ms("SkipSimplifiedLayerNormalization", ["x", "s", "w"], epsilon=1e-5),
              rms_norm(x + skip, w), x=x, s=skip, w=w)
    cases.add("SimplifiedLayerNormalization", [node("SimplifiedLayerNormalization", ["x", "w"], ["y"], epsilon=1e-5)], rms_norm(x, w),
              x=x, w=w)
    cos, sin = noise(6, 4), noise(6, 4)
    first, second = x[..., :4], x[..., 4:]
    c, s = cos[None, 2:5], sin[None, 2:5]
    turned = np.concatenate([first * c - second * s, second * c + first * s], -1)
    cases.add("RotaryEmbedding", ms("RotaryEmbedding", ["x", "p", "c", "s"]), turned, x=x, p=np.array([2]), c=cos, s=sin)
    cases.write("ops_microsoft")


def write_caches():
    """Attention of three new rows over a cache that they are joined to, with positions and a mask from its length; the same with
    what a cache in place cannot be; and a static cache of which one row is written."""
    own = np.random.default_rng(11)
    heads, rows = 2, 3

    def cached(name, past="past", extra=(), outputs=(), joined=("past_key", "new_key"), present_value="v", **changes):
        shapes = {"past_key": [1, heads, past, 4], "past_value": [1, heads, past, 4], "new_key": [1, heads, rows, 4],
                  "new_value": [1, heads, rows, 4], "q": [1, heads, rows, 4], "mask": [1, "total"]} | changes
        nodes = [
            node("Concat", joined, ["present_key"], axis=-2), node("Identity", ["past_value"], ["pv"]),
            node("Concat", ["pv", "new_value"], ["v"], axis=2),
            # Rows of the past, of all.
            node("Shape", ["past_key"], ["dims"]), node("Gather", ["dims", "two"], ["length"]),
            node("Add", ["length", "three"], ["total"]), node("Squeeze", ["length"], ["first"]), node("Squeeze", ["total"], ["end"]),
            # Queries are moved by rows of a table, and by their positions.
            node("Slice", ["table", "length", "total", "zero"], ["angles"]), node("Add", ["q", "angles"], ["turned"]),
            node("Range", ["first", "end", "one"], ["positions"]), node("Cast", ["positions"], ["numbers"], to=F32),
            node("Unsqueeze", ["numbers", "minus_one"], ["column"]), node("Mul", ["column", "small"], ["moves"]),
            node("Add", ["turned", "moves"], ["query"]),
            # Rows up to a query's own, that the mask does not hide.
            node("Range", ["none", "end", "one"], ["keys"]), node("Unsqueeze", ["positions", "minus_one"], ["own"]),
            node("LessOrEqual", ["keys", "own"], ["causal"]), node("Cast", ["mask"], ["kept"], to=TensorProto.BOOL),
            node("And", ["causal", "kept"], ["seen"]), node("Where", ["seen", "nothing", "hidden"], ["bias"]),
            node("Transpose", ["present_key"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["query", "kt"], ["raw"]),
            node("Add", ["raw", "bias"], ["scores"]), node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"]),
            *extra]
        constants = [tensor("two", [2]), tensor("three", [rows]), tensor("zero", [0]), tensor("one", 1), tensor("none", 0),
                     tensor("huge", [np.iinfo(np.int64).max]),
                     tensor("minus_one", [-1]), tensor("small", 0.125, np.float32), tensor("nothing", 0.0, np.float32),
                     tensor("hidden", -1e9, np.float32), tensor("table", own.uniform(-1, 1, (16, 4)).astype(np.float32))]
        inputs = [info(input, I64 if input == "mask" else F32, shape) for input, shape in shapes.items()]
        present = [1, heads, past if isinstance(past, int) else "total", 4]
        write(name, nodes, inputs, [info("y", F32, None), info("present_key", F32, present), info(present_value, F32, present),
                                    *(info(output, F32, None) for output in outputs)], constants)

    cached("cache_grows")
    cached("cache_fixed", past=5, mask=[1, 8])
    cached("cache_prepended", joined=("new_key", "past_key"))
    cached("cache_read", extra=[node("Relu", ["past_key"], ["z"])], outputs=["z"])
    cached("cache_summed", extra=[node("ReduceMean", ["v", "two"], ["z"], name="mean")], outputs=["z"])
    cached("cache_cut", extra=[node("Slice", ["v", "zero", "three", "two"], ["z"], name="first_rows")], outputs=["z"])
    cached("cache_last_row", extra=[node("Slice", ["v", "minus_one", "huge", "two"], ["z"])], outputs=["z"])

    keys, new = info("keys", F32, [2, 6, 4]), info("new", F32, [2, 1, 4])
    position = info("position", I64, [])
    written = [node("Equal", ["index", "position"], ["here"]), node("Where", ["here", "new", "keys"], ["new_keys"]),
               node("ReduceSum", ["new_keys", "one"], ["sum"], keepdims=0)]
    constants = [tensor("index", np.arange(6).reshape(6, 1)), tensor("one", [1])]
    outputs = [info("sum", F32, [2, 4]), info("new_keys", F32, [2, 6, 4])]
    write("cache_static", written, [keys, new, position], outputs, constants)
    both = [*written, node("Add", ["keys", "new_keys"], ["both"], name="both")]
    write("cache_static_read", both, [keys, new, position], [*outputs, info("both", F32, [2, 6, 4])], constants)
    write("state_whole", [node("Mul", ["state", "decay"], ["kept"]), node("Add", ["kept", "x"], ["next_state"]),
                          node("Exp", ["state"], ["y"])],
          [info("state", F32, [3, 5]), info("x", F32, [5])], [info("y", F32, [3, 5]), info("next_state", F32, [3, 5])],
          [tensor("decay", 0.5, np.float32)])


for writer in (write_external, write_decode, write_dynamic, write_opsets, write_functions, write_empty, write_activations,
               write_integers, write_malformed, write_typed, write_pointwise,
               write_layout, write_rows, write_transformer, write_microsoft, write_caches):
    writer()
