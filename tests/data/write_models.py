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
    past = [info(f"past.{name}", F32, ["batch_size", 2, "past_length", 8]) for name in ("key", "value")]
    total = info("attention_mask", I64, ["batch_size", "past_length + sequence_length"])
    joins = [node("Concat", [value.name, "new"], [value.name + ".out"], axis=2) for value in past]
    write("dynamic_past", [*joins, node("Cast", ["attention_mask"], ["mask"], to=F32)],
          [info("new", F32, ["batch_size", 2, "sequence_length", 8]), total, *past],
          [info(name, F32, None) for name in ("past.key.out", "past.value.out", "mask")])
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
    for opset in (12, 13, 24, 25):
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
    layers = [node("LSTM", ["x", "x", "x"], [f"h{i}"], name=f"lstm{i}") for i in range(5)]
    write("unsupported", [*layers, node("Fancy", ["h0"], ["c"], domain="acme"), node("Relu", ["c"], ["y"])], [X], [Y], domains=["acme"])
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
    i, u, many = info("i", I64, [3, 1]), info("u", F32, [3, 3]), info("i", I64, [2**18, 1])
    write("gather_nd_depth", [node("GatherND", ["x", "i"], ["y"], name="gather")], [X, info("i", I64, [4, 3])], [Y])
    write("gather_nd_batch", [node("GatherND", ["x", "i"], ["y"], name="gather", batch_dims=1)], [X, i], [Y])
    write("gather_nd_outside", [node("GatherND", ["x", "i"], ["y"], name="gather")], [X], [Y], [tensor("i", [[0, 2], [1, -4]])])
    write("gather_nd_floats", [node("GatherND", ["x", "i"], ["y"], name="gather")], [X, info("i", F32, [4, 1])], [Y])
    write("scatter_updates", [node("ScatterND", ["x", "i", "u"], ["y"], name="scatter")], [X, i, info("u", F32, [3, 2])], [Y])
    write("scatter_outside", [node("ScatterND", ["x", "i", "u"], ["y"], name="scatter")], [X, u], [Y], [tensor("i", [[0], [1], [2]])])
    write("scatter_reduction", [node("ScatterND", ["x", "i", "u"], ["y"], name="scatter", reduction="mean")], [X, i, u], [Y])
    write("scatter_axis", [node("ScatterElements", ["x", "i", "u"], ["y"], name="scatter", axis=2)],
          [X, info("i", I64, [2, 3]), info("u", F32, [2, 3])], [Y])
    write("scatter_shapes", [node("ScatterElements", ["x", "i", "u"], ["y"], name="scatter")], [X, info("i", I64, [2, 2]), info("u", F32, [2, 3])], [Y])
    write("scatter_many", [node("ScatterND", ["x", "i", "u"], ["y"], name="scatter")],
          [info("x", F32, [2**20]), many, info("u", F32, [2**18])], [Y])
    write("scatter_factors", [node("ScatterND", ["x", "i", "u"], ["y"], name="scatter", reduction="mul")],
          [X, info("i", I64, [65, 1]), info("u", F32, [65, 3])], [Y], opset=18)
    write("tensor_scatter_axis", [node("TensorScatter", ["x", "u"], ["y"], name="scatter", axis=0)], [X, info("u", F32, [1, 3])], [Y], opset=24)
    write("tensor_scatter_rows", [node("TensorScatter", ["x", "u"], ["y"], name="scatter", axis=1)], [X, info("u", F32, [2, 4])], [Y], opset=24)
    write("topk_k", [node("TopK", ["x", "k"], ["y", "j"], name="topk")], [X], [Y], [tensor("k", [4])])
    write("topk_unknown", [node("TopK", ["x", "k"], ["y", "j"], name="topk")], [X, info("k", I64, [1])], [Y])
    write("topk_long", [node("TopK", ["x", "k"], ["y", "j"], name="topk")], [info("x", F32, [1, 2**18])], [Y], [tensor("k", [2**17])])
    write("argmax_axis", [node("ArgMax", ["x"], ["y"], name="argmax", axis=2)], [X], [info("y", I64, None)])
    write("one_hot_depth", [node("OneHot", ["i", "d", "v"], ["y"], name="onehot")], [i, info("d", I64, [1])], [Y], [tensor("v", np.float32([0, 1]))])
    write("one_hot_values", [node("OneHot", ["i", "d", "v"], ["y"], name="onehot")], [i], [Y], [tensor("d", [3]), tensor("v", np.float32([0, 1, 2]))])
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


def write_indexing():
    """Reads and writes at indices that are known (initializers) and at such that only the run knows: floats are
    parameters, what is cast from one is not folded."""
    cases = Cases(opset=24)
    runtime = [node("Cast", ["at"], ["i"], to=I64)]
    x = noise(3, 4, 5)

    def both(name, one, indices, *, before=(), **operands):
        """With indices known and unknown."""
        cases.add(name, [*before, one], i=np.asarray(indices, np.int64), **operands)
        cases.add(f"{name}_runtime", [*runtime, *before, one], at=np.asarray(indices, np.float32), **operands)

    def grid(*shape):
        return np.stack(np.meshgrid(*[np.arange(size) for size in shape], indexing="ij"), -1)

    gather = node("GatherND", ["x", "i"], ["y"])
    both("GatherND", gather, [[0, 1], [-1, -4], [2, 3]], x=x)
    both("GatherND_elements", gather, rng.integers(-3, 3, (2, 2, 3)), x=x)
    both("GatherND_batch", node("GatherND", ["x", "i"], ["y"], batch_dims=1), [[[1], [0]], [[-1], [2]], [[3], [3]]], x=x)
    both("GatherND_batches", node("GatherND", ["x", "i"], ["y"], batch_dims=2), rng.integers(-5, 5, (3, 4, 2, 1)), x=x)
    both("GatherND_regular", gather, grid(2, 4)[:, None, ::-1] * [1, 1], x=x)
    both("GatherND_strided", gather, (grid(2, 3) * [2, -1] + [0, 3])[:, :, None], x=x)
    both("GatherND_diagonal", gather, np.arange(3)[:, None].repeat(2, 1), x=x)
    both("GatherND_corner", gather, [2, 3, 4], x=x)
    both("GatherElements_front", node("GatherElements", ["x", "i"], ["y"], axis=0), rng.integers(-3, 3, (3, 4, 5)), x=x)
    both("GatherElements_last", node("GatherElements", ["x", "i"], ["y"], axis=2), rng.integers(-5, 5, (3, 4, 2)), x=x)
    spread = node("Expand", ["i", "s"], ["spread"])
    both("GatherElements_spread", node("GatherElements", ["x", "spread"], ["y"], axis=1), [[[3], [0]], [[1], [1]], [[0], [-1]]],
         before=[spread], x=x, s=np.array([3, 2, 5]))

    data, rows = noise(3, 4, 5), noise(2, 4, 5)
    scatter = node("ScatterND", ["x", "i", "u"], ["y"])
    both("ScatterND_rows", scatter, [[2], [-3]], x=data, u=rows)
    both("ScatterND_last_remains", scatter, [[1], [1]], x=data, u=rows)
    both("ScatterND_row", scatter, [[-2]], x=data, u=rows[:1])
    both("ScatterND_elements", scatter, rng.integers(-3, 3, (4, 3)), x=data, u=noise(4))
    both("ScatterND_box", scatter, (grid(2, 2) + [1, 2]), x=data, u=noise(2, 2, 5))
    both("ScatterND_columns", scatter, np.stack([np.arange(3), [3, 0, 1]], -1), x=data, u=noise(3, 5))
    both("ScatterND_matrix", scatter, rng.integers(0, 4, (3, 2, 2)) % [3, 4], x=data, u=noise(3, 2, 5))
    both("ScatterND_alternate", scatter, np.array([[0], [2]]), x=data, u=rows)
    for reduction in ("add", "mul", "max", "min"):
        reduce = node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
        both(f"ScatterND_{reduction}", reduce, [[2], [0], [2]], x=data, u=noise(3, 4, 5))
        both(f"ScatterND_{reduction}_row", reduce, [[1]], x=data, u=rows[:1])
        one = node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction=reduction)
        both(f"ScatterElements_{reduction}", one, rng.integers(-4, 4, (3, 6, 5)), x=data, u=noise(3, 6, 5))
    for axis in (0, 1, -1):
        shape = [2, 3, 4]
        indices = rng.integers(-data.shape[axis], data.shape[axis], shape)
        both(f"ScatterElements_{axis}", node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis), indices, x=data, u=noise(*shape))
    both("ScatterElements_spread", node("ScatterElements", ["x", "spread", "u"], ["y"], axis=1), [[[3], [0]]], before=[spread],
         x=data, u=noise(3, 2, 5), s=np.array([3, 2, 5]))
    both("ScatterElements_per_batch", node("ScatterElements", ["x", "spread", "u"], ["y"], axis=1), [[[3], [0]], [[1], [2]], [[2], [-1]]],
         before=[spread], x=data, u=noise(3, 2, 5), s=np.array([3, 2, 5]))
    integers = np.arange(12).reshape(3, 4)
    cases.add("ScatterND_integers", [node("ScatterND", ["x", "i", "u"], ["y"], reduction="max")], x=integers, i=np.array([[0], [2], [0]]),
              u=np.array([[5, -1, 7, 2], [9, 9, 9, 10], [1, 2, 3, 4]]))
    cases.add("ScatterND_empty", [scatter], x=data, i=np.zeros((0, 1), np.int64), u=np.zeros((0, 4, 5), np.float32))

    # Rows behind each other, as caches are written: keys [batch, heads, positions, size].
    cache, new = noise(2, 3, 6, 4), noise(2, 3, 2, 4)
    moved = [node("Transpose", ["cache"], ["c"], perm=[2, 0, 1, 3]), node("Transpose", ["new"], ["n"], perm=[2, 0, 1, 3]),
             node("Unsqueeze", ["at1", "last"], ["i"]), node("ScatterND", ["c", "i", "n"], ["z"]),
             node("Transpose", ["z"], ["y"], perm=[1, 2, 0, 3])]
    for start in (0, 4, -1):
        run = [node("Cast", ["from"], ["f"], to=I64), node("Add", ["f", "run"], ["at1"])]
        cases.add(f"ScatterND_run_{start + 1}", run + moved, **{"from": np.float32([start])}, run=np.arange(2), cache=cache, new=new,
                  last=np.array([-1]))
    for mode in ("linear", "circular"):
        for count in (1, 2, 6):
            for per_batch in (False, True):
                places = np.float32([0, 6 - count] if mode == "linear" else [5, 4]) if per_batch else np.float32([0, 0])
                write_at = [node("Cast", ["at"], ["i"], to=I64), node("TensorScatter", ["x", "u", "i"], ["y"], mode=mode)]
                cases.add(f"TensorScatter_{mode}_{count}_{int(per_batch)}", write_at, x=cache, u=noise(2, 3, count, 4), at=places)
    cases.add("TensorScatter", [node("TensorScatter", ["x", "u"], ["y"])], x=cache, u=new)
    cases.add("TensorScatter_axis", [node("TensorScatter", ["x", "u", "i"], ["y"], axis=1)], x=cache, u=noise(2, 2, 6, 4), i=np.array([1, 0]))

    odd = noise(4, 9).round(1)
    odd[0, 3], odd[0, 5], odd[1, 2], odd[2, :3] = np.nan, np.nan, np.inf, -np.inf
    made = node("Mul", ["x", "factor"], ["m"])
    for largest in (0, 1):
        for axis in (0, 1):
            topk = node("TopK", ["x", "k"], ["v", "y"], axis=axis, largest=largest)
            cases.add(f"TopK_indices_{largest}{axis}", [topk], x=odd, k=np.array([4]))
        cases.add(f"TopK_values_{largest}", [node("TopK", ["x", "k"], ["y", "i"], largest=largest)], x=noise(3, 7), k=np.array([3]))
        cases.add(f"TopK_integers_{largest}", [made, node("Cast", ["m"], ["n"], to=I64), node("TopK", ["n", "k"], ["y", "i"], largest=largest)],
                  x=np.float32([[3, -1, 3, 2], [0, 0, -5, 1]]), factor=np.float32(1), k=np.array([2]))
        long = noise(2, 601).round(2)
        long[0, 400], long[1, 590:594] = np.nan, [np.inf, -np.inf, np.nan, 2]
        topk = node("TopK", ["x", "k"], ["v", "y"], largest=largest)
        cases.add(f"TopK_long_{largest}", [topk], x=long, k=np.array([17]))
        for last in (0, 1):
            op = "ArgMax" if largest else "ArgMin"
            flags = dict(select_last_index=last)
            cases.add(f"{op}_{last}", [node(op, ["x"], ["y"], axis=1, keepdims=0, **flags)], x=odd)
            cases.add(f"{op}_{last}_made", [made, node(op, ["m"], ["y"], axis=-2, **flags)], x=odd, factor=np.float32(1))
            cases.add(f"{op}_{last}_long", [made, node(op, ["m"], ["y"], axis=1, **flags)], x=long, factor=np.float32(1))
            cases.add(f"{op}_{last}_integers", [node("Cast", ["x"], ["n"], to=I64), node(op, ["n"], ["y"], axis=1, **flags)],
                      x=np.float32([[1, 3, 3, 1], [2, 2, 2, 2]]))
    one_hot = node("OneHot", ["i", "depth", "v"], ["y"])
    both("OneHot", one_hot, [[0, 3], [-1, 1]], depth=np.int64(4), v=np.float32([0.5, 2]))
    both("OneHot_outside", one_hot, [4, -5, 2], depth=np.int64(4), v=np.array([1, 0]))
    both("OneHot_axis", node("OneHot", ["i", "depth", "v"], ["y"], axis=0), [[0, 3, 2], [-1, 1, 0]], depth=np.int64(4),
         v=np.float32([0.5, 2]))
    cases.write("ops_indexing")


def write_caches():
    """A cache of two heads' keys that gets one row at a run-time position, in the ways of PyTorch's exporters; and a mask
    that transformers reads by indices."""
    cache, row = info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3])
    position, output = info("position", I64, []), info("y", F32, [1, 2, 5, 3])
    inputs = [cache, row, position]
    as_vector = node("Reshape", ["position", "one"], ["p"])
    swap = dict(perm=[2, 0, 1, 3])
    write("cache_index_copy", [as_vector, node("Unsqueeze", ["p", "last"], ["i"]), node("Transpose", ["cache"], ["c"], **swap),
                               node("Transpose", ["row"], ["r"], **swap), node("ScatterND", ["c", "i", "r"], ["n"]),
                               node("Transpose", ["n"], ["y"], perm=[1, 2, 0, 3])], inputs, [output],
          [tensor("one", [1]), tensor("last", [-1])])
    pieces = [node("Expand", [name, "box"], [f"{name}_spread"]) for name in ("batches", "heads", "p")]
    pieces += [node("Unsqueeze", [f"{name}_spread", "last"], [f"{name}_column"]) for name in ("batches", "heads", "p")]
    write("cache_index_put", [as_vector, *pieces, node("Concat", ["batches_column", "heads_column", "p_column"], ["i"], axis=-1),
                              node("ScatterND", ["cache", "i", "row"], ["y"])], inputs, [output],
          [tensor("one", [1]), tensor("last", [-1]), tensor("box", [1, 2, 1]), tensor("batches", [[[0]]]), tensor("heads", [[0], [1]])])
    write("cache_scatter", [node("Reshape", ["position", "ones"], ["p"]), node("Expand", ["p", "box"], ["i"]),
                            node("ScatterElements", ["cache", "i", "row"], ["y"], axis=2)], inputs, [output],
          [tensor("ones", [1, 1, 1, 1]), tensor("box", [1, 2, 1, 3])])
    write("cache_tensor_scatter", [as_vector, node("TensorScatter", ["cache", "row", "p"], ["y"])], inputs, [output],
          [tensor("one", [1])], opset=24)
    write("cache_slice", [node("Transpose", ["cache"], ["c"], perm=[2, 1, 0, 3]), node("Transpose", ["row"], ["r"], perm=[2, 1, 0, 3]),
                          node("ScatterND", ["c", "i", "r"], ["n"]), node("Transpose", ["n"], ["y"], perm=[2, 1, 0, 3])],
          [cache, row], [output], [tensor("i", [[3]])])
    places = np.stack(np.broadcast_arrays(np.arange(2).reshape(2, 1, 1, 1), np.arange(6)), -1)
    write("mask_gather_nd", [node("Cast", ["mask"], ["b"], to=TensorProto.BOOL), node("GatherND", ["b", "i"], ["y"])],
          [info("mask", I64, [2, 6])], [info("y", TensorProto.BOOL, [2, 1, 1, 6])], [tensor("i", places)])


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


def write_more():
    """Ops that decoders, vision models and legacy exports have now and then."""
    cases = Cases(opset=24)
    x = noise(3, 5) * 3
    for op in "Asinh Atan Celu Cosh Selu Shrink Sinh Swish ThresholdedRelu".split():
        cases.add(op, [node(op, ["x"], ["y"])], x=x)
    for op in ("Acos", "Asin", "Atanh"):
        cases.add(op, [node(op, ["x"], ["y"])], x=noise(3, 5))
    cases.add("Acosh", [node("Acosh", ["x"], ["y"])], x=np.abs(x) + 1)
    cases.add("Round", [node("Round", ["x"], ["y"])], x=np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, -7.5001]))
    near = np.float32([1e-6, -3e-4, 2e-2])  # Where the sums of a plain formula cancel: the result over its operand.
    for op, function in (("Sinh", np.sinh), ("Asinh", np.arcsinh), ("Atanh", np.arctanh), ("Asin", np.arcsin)):
        cases.add(f"{op}_near_0", [node(op, ["x"], ["v"]), node("Div", ["v", "x"], ["y"])], function(near.astype(np.float64)) / near, x=near)
    far = np.float32([3e38, 1e20, 9000])
    for op, function in (("Asinh", np.arcsinh), ("Acosh", np.arccosh)):
        cases.add(f"{op}_far", [node(op, ["x"], ["v"]), node("Div", ["v", "e"], ["y"])], np.ones(3), x=far,
                  e=function(far.astype(np.float64)).astype(np.float32))
    for op, function in (("Sinh", np.sinh), ("Cosh", np.cosh)):
        large = np.float32([-89.2, 88.9, 60])
        cases.add(f"{op}_far", [node(op, ["x"], ["v"]), node("Div", ["v", "e"], ["y"])], np.ones(3), x=large,
                  e=function(large.astype(np.float64)).astype(np.float32))
    cases.add("Celu_alpha", [node("Celu", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("Selu_alpha", [node("Selu", ["x"], ["y"], alpha=0.5, gamma=2.0)], x=x)
    cases.add("Shrink_bias", [node("Shrink", ["x"], ["y"], lambd=1.5, bias=0.25)], x=x)
    cases.add("Swish_alpha", [node("Swish", ["x"], ["y"], alpha=0.5)], x=x)
    cases.add("ThresholdedRelu_alpha", [node("ThresholdedRelu", ["x"], ["y"], alpha=-0.5)], x=x)
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        data = np.abs(noise(2, 3, 4)) + 0.5
        cases.add(op, [node(op, ["x", "a"], ["y"])], x=data, a=np.array([0, -1]))
        cases.add(f"{op}_dropped", [node(op, ["x", "a"], ["y"], keepdims=0)], x=data, a=np.array([1]))
        cases.add(f"{op}_all", [node(op, ["x"], ["y"], keepdims=0)], x=data)
    wide = np.float32([[100, 99, -100], [-np.inf, -np.inf, 2]])
    cases.add("ReduceLogSumExp_wide", [node("ReduceLogSumExp", ["x", "a"], ["y"])], np.logaddexp.reduce(wide.astype(np.float64), 1, keepdims=True),
              x=wide, a=np.array([1]))
    cases.add("ReduceLogSumExp_nothing", [node("ReduceLogSumExp", ["x"], ["v"]), node("Exp", ["v"], ["y"])], np.zeros((1, 1)),
              x=np.full((2, 3), -np.inf, np.float32))
    cases.add("LpNormalization", [node("LpNormalization", ["x"], ["y"], axis=1)], x=noise(2, 3, 4))
    cases.add("LpNormalization_1", [node("LpNormalization", ["x"], ["y"], p=1)], x / np.abs(x).sum(-1, keepdims=True), x=x)
    cases.add("LpNormalization_zero", [node("LpNormalization", ["x"], ["y"])], np.zeros((2, 3)), x=np.zeros((2, 3), np.float32))
    image = noise(2, 12, 3, 5)
    for mode in ("DCR", "CRD"):
        cases.add(f"DepthToSpace_{mode}", [node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)], x=image)
    cases.add("SpaceToDepth", [node("SpaceToDepth", ["x"], ["y"], blocksize=3)], x=noise(2, 2, 6, 9))
    cases.add("EyeLike", [node("EyeLike", ["x"], ["y"], k=-1)], np.eye(3, 5, -1), x=x)
    qkv = dict(q=noise(2, 4, 3, 8), k=noise(2, 2, 5, 8), v=noise(2, 2, 5, 6))
    cases.add("Attention_lengths", [node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"])], **qkv, n=np.array([5, 2]))
    cases.add("Attention_lengths_causal", [node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"], is_causal=1)], **qkv, n=np.array([3, 4]))
    cases.add("Attention_short_mask", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=np.ones((3, 4), bool))
    cases.write("ops_more")


def write_einsum():
    cases = Cases()
    shapes = {
        "bsd,dhe->bhse": ((2, 3, 4), (4, 5, 2)), "bhqe,bhke->bhqk": ((2, 3, 4, 5), (2, 3, 6, 5)),
        "bhqk,bhke->bhqe": ((2, 3, 4, 6), (2, 3, 6, 5)), "bhqe,dhe->bqd": ((2, 3, 4, 5), (7, 3, 5)),
        "ij,jk": ((3, 4), (4, 5)), "ij,jk->ki": ((3, 4), (4, 5)), "ij,kj": ((3, 4), (5, 4)), "ji,jk": ((4, 3), (4, 5)),
        "ij,ij->": ((3, 4), (3, 4)), "bi,bi->b": ((3, 4), (3, 4)), "i,j->ij": ((3,), (4,)), "i,i->i": ((3,), (3,)),
        "bi,i": ((3, 4), (4,)), "ij->ji": ((3, 4),), "ij->": ((3, 4),), "ijk->ik": ((3, 4, 2),), "ii->i": ((4, 4),), "ii": ((4, 4),),
        "bii->ib": ((3, 4, 4),), "iji,jk->ik": ((3, 4, 3), (4, 2)), "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
        "...d,de->...e": ((2, 3, 4), (4, 5)), "b...,...->b...": ((2, 3, 4), (3, 4)), "...i->...": ((2, 3, 4),),
        "abc,cd,de->abe": ((2, 3, 4), (4, 5), (5, 2)), "ab,bc,cd,da->": ((2, 3), (3, 4), (4, 5), (5, 2)),
        "bnqd,brd->bnqr": ((2, 3, 4, 5), (2, 6, 5)), "nchw,nkc->nkhw": ((2, 3, 4, 5), (2, 6, 3)), "btd,td->bt": ((2, 3, 4), (3, 4)),
        "ij,k->i": ((3, 4), (5,)), "bhwc,hkc->bhwk": ((2, 3, 4, 5), (3, 6, 5)), "bhwc,wkc->bhwk": ((2, 3, 4, 5), (4, 6, 5)),
    }
    for i, (equation, operands) in enumerate(shapes.items()):
        names = "abcd"[: len(operands)]
        spaced = equation.replace(",", " , ") if i % 3 == 0 else equation
        arrays = {name: noise(*shape) for name, shape in zip(names, operands)}
        wide = [array.astype(np.float64) for array in arrays.values()]
        cases.add(f"Einsum_{i}", [node("Einsum", list(names), ["y"], equation=spaced)], np.asarray(np.einsum(equation, *wide)), **arrays)
    cases.add("Einsum_broadcast", [node("Einsum", ["a", "b"], ["y"], equation="bij,bjk->bik")],
              np.einsum("bij,bjk->bik", (a := noise(1, 3, 4)), (b := noise(2, 4, 5))), a=a, b=b)
    numbers = np.arange(12).reshape(3, 4)
    cases.add("Einsum_integers", [node("Einsum", ["a", "a"], ["y"], equation="ij,kj->ik")], numbers @ numbers.T, a=numbers)
    cases.write("ops_einsum")
    for name, equation in (("letters", "i1,j->i"), ("result", "ij,jk->iz"), ("rank", "ijk,jk->i"), ("sizes", "ij,ij->i"), ("terms", "ij->i")):
        write(f"einsum_{name}", [node("Einsum", ["x", "w"], ["y"], name="einsum", equation=equation)], [X], [Y], [tensor("w", noise(3, 3))])


def by_runtime(nodes, result, tensors, opset=21):
    """What ONNX Runtime's CPU kernels compute."""
    import onnxruntime

    single = model(nodes, [], [info(result, F32, None)], tensors, opset, domains=["com.microsoft"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(single.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]


def write_runtime():
    """ONNX Runtime's attention and what else its optimiser writes, against its own kernels for CPUs, or NumPy where it has
    none."""
    cases = Cases(domains=["com.microsoft"])

    def add(name, op, inputs, outputs=("y",), before=(), expected=None, *, operands, **attributes):
        nodes = [*before, node(op, inputs, list(outputs), domain="com.microsoft", **attributes)]
        if expected is None:
            expected = by_runtime(nodes, "y", [tensor(key, value) for key, value in operands.items()])
        cases.add(name, nodes, expected, **operands)

    def later(*names):
        """Integers that are known only when the model runs: floats are parameters."""
        return [node("Cast", [f"{name}.f"], [name], to=TensorProto.INT32) for name in names]

    def numbers(values):
        return np.array(values, np.int32)

    # MultiHeadAttention.
    q, k, v = noise(2, 3, 16), noise(2, 5, 16), noise(2, 5, 16)
    qkv, heads = dict(q=q, k=k, v=v), dict(num_heads=4)
    multi = "MultiHeadAttention"
    add(multi, multi, ["q", "k", "v"], operands=qkv, **heads)
    add(f"{multi}_bias", multi, ["q", "k", "v", "b"], operands=dict(**qkv, b=noise(48)), scale=0.3, **heads)
    keys_mask = numbers([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
    add(f"{multi}_mask", multi, ["q", "k", "v", "", "m"], operands=dict(**qkv, m=keys_mask), **heads)
    add(f"{multi}_lengths", multi, ["q", "k", "v", "", "m"], before=later("m"), operands={**qkv, "m.f": np.float32([2, 4])}, **heads)
    add(f"{multi}_rows_mask", multi, ["q", "k", "v", "", "m"], operands=dict(**qkv, m=numbers(rng.integers(0, 2, (2, 3, 5)))), **heads)
    add(f"{multi}_attention_bias", multi, ["q", "k", "v", "", "", "a"], operands=dict(**qkv, a=noise(1, 4, 3, 5)), **heads)
    past = dict(p=noise(2, 4, 2, 4), r=noise(2, 4, 2, 4))
    square = dict(q=q, k=k[:, :3], v=v[:, :3])
    for which, outputs in (("", ("y", "key", "value")), ("_key", ("o", "y", "value"))):
        add(f"{multi}_past{which}", multi, ["q", "k", "v", "b", "", "", "p", "r"], outputs, operands=dict(**square, **past, b=noise(48)),
            unidirectional=1, **heads)
    add(f"{multi}_cross", multi, ["q", "k", "v"], operands=dict(q=q, k=noise(2, 4, 5, 4), v=noise(2, 4, 5, 4)), **heads)
    def plain_attention(q, k, v, mask=0):
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)
    packed = noise(2, 5, 4, 3, 4)
    add(f"{multi}_packed", multi, ["q"], operands=dict(q=packed), expected=plain_attention(*(packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))),
        **heads)

    # Attention.
    x, w, b = noise(2, 3, 8), noise(8, 48), noise(48)
    merged, operands = "Attention", dict(x=x, w=w, b=b)
    add(f"{merged}_ms", merged, ["x", "w", "b"], operands=operands, **heads)
    add(f"{merged}_ms_causal", merged, ["x", "w", "b"], operands=operands, unidirectional=1, **heads)
    add(f"{merged}_ms_sizes", merged, ["x", "w", "b"], operands=dict(x=x, w=noise(8, 40), b=noise(40)), qkv_hidden_sizes=[16, 16, 8], **heads)
    masks = {"mask": numbers([[1, 1, 0], [1, 0, 0]]), "rows": numbers(rng.integers(0, 2, (2, 3, 3)))}
    for name, mask in masks.items():
        add(f"{merged}_ms_{name}", merged, ["x", "w", "b", "m"], operands=dict(**operands, m=mask), **heads)
    for name, bounds in {"ends": [2, 3], "starts": [2, 3, 0, 1]}.items():
        add(f"{merged}_ms_{name}", merged, ["x", "w", "b", "m"], before=later("m"), operands={**operands, "m.f": np.float32(bounds)}, **heads)
    for which, outputs in (("", ("y", "present")), ("_present", ("o", "y"))):
        add(f"{merged}_ms_past{which}", merged, ["x", "w", "b", "m", "p"], outputs,
            operands=dict(**operands, m=numbers([[1] * 5, [0, 1, 1, 1, 1]]), p=noise(2, 2, 4, 2, 4)), unidirectional=1, **heads)
    add(f"{merged}_ms_bias", merged, ["x", "w", "b", "m", "", "a"], operands=dict(**operands, m=masks["mask"], a=noise(2, 1, 3, 3)), **heads)
    most = rng.integers(0, 2, (2, 1, 6, 6))
    by_head = [part.reshape(2, 3, 4, 4).transpose(0, 2, 1, 3) for part in np.split(x @ w + b, 3, -1)]
    add(f"{merged}_ms_most", merged, ["x", "w", "b", "m"], operands=dict(**operands, m=numbers(most)),
        expected=plain_attention(*by_head, np.where(most[:, :, :3, :3], 0, -10000)), **heads)

    cases.write("ops_runtime_attention")

    cases = Cases(domains=["com.microsoft"])
    # GroupQueryAttention: prompts, steps, buffers that are shared; with numbers that are known and not.
    group, counts = "GroupQueryAttention", dict(num_heads=4, kv_num_heads=2)
    tables = dict(c=noise(16, 8), s=noise(16, 8))
    result_of = {"": ("y", "key", "value"), "_key": ("o", "y", "value"), "_value": ("o", "key", "y")}
    gqa = ["q", "k", "v", "p", "r", "n", "t", "c", "s"]

    def projected(length):
        return dict(q=noise(2, length, 64), k=noise(2, length, 32), v=noise(2, length, 32), **tables)

    def cache(rows):
        return dict(p=noise(2, 2, rows, 16), r=noise(2, 2, rows, 16))

    prompt = dict(**projected(3), n=numbers([2, 2]), t=numbers([3]))
    for flags in (dict(), dict(do_rotary=1), dict(do_rotary=1, rotary_interleaved=1), dict(softcap=0.7, scale=0.5), dict(smooth_softmax=1),
                  dict(local_window_size=2)):
        label = "_".join(f"{key}{value}" for key, value in flags.items())
        add(f"{group}_prompt_{label}", group, ["q", "k", "v", "", "", *gqa[5:]], result_of[""], operands=prompt, **flags, **counts)
    packed = dict(q=noise(2, 3, 128), n=prompt["n"], t=prompt["t"], **tables)
    add(f"{group}_packed", group, ["q", "", "", "", "", *gqa[5:]], result_of[""], operands=packed, do_rotary=1, **counts)
    for which, outputs in result_of.items():
        step = {**projected(1), **cache(4), "n.f": np.float32([4, 2]), "t": numbers([5])}
        for one in "pr":
            step[one][1, :, 2:] = 0  # Rows that do not count: ONNX Runtime leaves them open.
        add(f"{group}_step{which}", group, gqa, outputs, before=later("n"), operands=step, do_rotary=1, **counts)
        shared = {**projected(1), **cache(7), "n.f": np.float32([3, 6]), "t": numbers([7])}
        for one in "pr":
            shared[one][0, :, 3:] = 0
        add(f"{group}_shared{which}", group, gqa, outputs, before=later("n"), operands=shared, do_rotary=1, local_window_size=3, **counts)
        # ONNX Runtime takes several rows after a past for one batch element at a time.
        rows = {**projected(2), **cache(4), "n.f": np.float32([4, 3]), "t": numbers([5])}
        before, operation = later("n"), node(group, gqa, list(outputs), domain="com.microsoft", do_rotary=1, **counts)
        each = [by_runtime([*before, operation], "y", [tensor(key, value[i : i + 1] if key in "qkvpr" else value[i : i + 1] if key == "n.f" else
                                                                 numbers([n]) if key == "t" else value) for key, value in
                                                          {**rows, **{one: rows[one][:, :, : n - 2] for one in "pr"}}.items()])
                for i, n in enumerate((5, 4))]
        if which:  # The second element's fifth row is not its own.
            each[1] = np.concatenate([each[1], np.zeros((1, 2, 1, 16), np.float32)], 2)
            for one in "pr":
                rows[one][1, :, 3:] = 0
        add(f"{group}_rows{which}", group, gqa, outputs, before=before, operands=rows, do_rotary=1, expected=np.concatenate(each), **counts)
    one = {key: value[:1] if key in "qkvpr" else value for key, value in {**projected(2), **cache(3)}.items()}
    add(f"{group}_rows_later", group, gqa, result_of[""], before=later("n", "t"),
        operands={**one, "n.f": np.float32([4]), "t.f": np.float32([5])}, do_rotary=1, **counts)
    biased = {**projected(1), **cache(4), "n": numbers([4, 4]), "t": numbers([5]), "a": noise(1, 4, 1, 5), "h": noise(4)}
    add(f"{group}_bias", group, [*gqa, "", "a"], result_of[""], operands={k: v for k, v in biased.items() if k != "h"}, do_rotary=1, **counts)
    add(f"{group}_sink", group, [*gqa, "", "", "h"], result_of[""], operands={k: v for k, v in biased.items() if k != "a"}, do_rotary=1, **counts)

    cases.write("ops_group_query")

    # What else its optimiser writes.
    cases = Cases(domains=["com.microsoft"])
    ids = numbers([[1, 4, 2], [0, 3, 3]])
    embedding = dict(i=ids, g=numbers([[0, 0, 1], [1, 0, 0]]), w=noise(6, 8), p=noise(5, 8), s=noise(2, 8), a=noise(8), b=noise(8))
    embed = "EmbedLayerNormalization"
    add(embed, embed, ["i", "g", "w", "p", "s", "a", "b"], ("y", "lengths"), operands=embedding, epsilon=1e-3)
    add(f"{embed}_sum", embed, ["i", "", "w", "p", "", "a", "b"], ("o", "", "y"),
        operands={key: value for key, value in embedding.items() if key not in "gs"})
    add(f"{embed}_positions", embed, ["i", "g", "w", "p", "s", "a", "b", "", "o"], ("y", "lengths"), operands=dict(**embedding, o=numbers([[2, 0, 1]])))
    def group_norm(x, gamma, beta, groups):
        n, h, w, c = x.shape
        rows = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
        centred = rows - rows.mean((1, 3), keepdims=True)
        return (centred / np.sqrt(rows.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    def silu(x):
        return x / (1 + np.exp(-x))
    image = dict(x=noise(2, 3, 5, 6), g=noise(6), b=noise(6))
    add("GroupNorm", "GroupNorm", ["x", "g", "b"], expected=group_norm(*image.values(), 3), operands=image, groups=3, activation=0)
    add("GroupNorm_silu", "GroupNorm", ["x", "g", "b"], expected=silu(group_norm(*image.values(), 2)), operands=image, groups=2, activation=1)
    first = {**image, "x": image["x"].transpose(0, 3, 1, 2)}
    add("GroupNorm_first", "GroupNorm", ["x", "g", "b"], expected=group_norm(*image.values(), 3).transpose(0, 3, 1, 2), operands=first, groups=3,
        activation=0, channels_last=0)
    skipped = dict(**image, s=noise(2, 6), o=noise(6))
    total = image["x"] + skipped["s"][:, None, None] + skipped["o"]
    add("SkipGroupNorm", "SkipGroupNorm", ["x", "g", "b", "s", "o"], expected=group_norm(total, image["g"], image["b"], 3), operands=skipped, groups=3,
        activation=0)
    add("SkipGroupNorm_sum", "SkipGroupNorm", ["x", "g", "b", "s", "o"], ("n", "y"), expected=total, operands=skipped, groups=3, activation=0)
    others = np.random.default_rng(11)
    def conv(name, *shapes, **attributes):
        operands = {key: others.uniform(-1, 1, shape).astype(np.float32) for key, shape in zip("xwb", (*shapes, shapes[1][:1]))}
        single = model([node("Conv", ["x", "w", "b"], ["y"], **attributes)], [], [info("y", F32, None)], [tensor(key, value) for key, value in operands.items()])
        last = {key: np.moveaxis(value, 1, -1) if value.ndim > 1 else value for key, value in operands.items()}
        add(f"NhwcConv_{name}", "NhwcConv", ["x", "w", "b"], expected=np.moveaxis(ReferenceEvaluator(single).run(None, {})[0], 1, -1),
            operands=last, **attributes)
    conv("image", (2, 6, 5, 4), (8, 6, 3, 2), pads=[1, 0, 1, 1], strides=[2, 1])
    conv("groups", (2, 6, 7, 4), (4, 3, 3, 3), group=2, dilations=[2, 1])
    conv("depthwise", (1, 6, 5, 4), (6, 1, 3, 3), group=6, auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    conv("line", (2, 3, 9), (5, 3, 4), pads=[2, 1])
    x, bias = noise(2, 3, 8), noise(8)
    add("BiasAdd", "BiasAdd", ["x", "b", "s"], expected=2 * x + bias, operands=dict(x=x, b=bias, s=x))
    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    erf = np.vectorize(__import__("math").erf)
    add("BiasSplitGelu", "BiasSplitGelu", ["x", "b"], expected=left * right / 2 * (1 + erf(right / np.sqrt(2))), operands=dict(x=x, b=bias))
    rows = np.exp(x + bias) / np.exp(x + bias).sum(-1, keepdims=True)
    add("BiasSoftmax", "BiasSoftmax", ["x", "b"], expected=rows, operands=dict(x=x, b=bias), axis=2, is_inner_broadcast=1)
    gemm = dict(a=noise(3, 4), b=noise(4, 5), c=noise(5))
    for activation in ("Relu", "LeakyRelu", "Tanh", "Sigmoid"):
        add(f"FusedGemm_{activation}", "FusedGemm", ["a", "b", "c"], operands=gemm, activation=activation, activation_alpha=0.2)
    product = noise(3, 8) @ (weights := noise(8, 4))
    factor = noise(3, 8)
    product = factor.astype(np.float64) @ weights
    add("GemmFastGelu", "GemmFastGelu", ["x", "w"], expected=product / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (product + 0.044715 * product**3))),
        operands=dict(x=factor, w=weights))
    table = noise(8, 3)

    def bucket(distance, both):
        """As T5's code has it, for 8 buckets and 20 positions."""
        count, base, back = 8, 0, -distance
        if both:
            count, base, back = 4, 4 * (distance > 0), abs(distance)
        back = max(back, 0)
        if back < count // 2:
            return base + back
        return base + min(count // 2 + int(np.log(back / (count // 2)) / np.log(20 / (count // 2)) * (count - count // 2)), count - 1)
    for both in (0, 1):
        buckets = np.array([[bucket(key - query, both) for key in range(31)] for query in range(31)])
        expected = table.reshape(3, 8)[:, buckets][None]  # In memory it is [heads, buckets].
        add(f"RelativePositionBias_{both}", "RelativePositionBias", ["t", "q", "k"], expected=expected,
            operands=dict(t=table, q=np.int64(31), k=np.int64(31)), is_bidirectional=both, max_distance=20)
    gated = dict(q=noise(2, 3, 8), b=noise(8), r=noise(1, 2, 3, 3), w=noise(4, 6), g=noise(6), e=noise(1, 2, 1, 1))
    query = (gated["q"] + gated["b"]).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(query @ gated["w"] + gated["g"]).reshape(2, 2, 3, 2, 3).sum(-1)))
    add("GatedRelativePositionBias", "GatedRelativePositionBias", ["q", "b", "r", "w", "g", "e"],
        expected=(gates[..., :1] * (gates[..., 1:] * gated["e"] - 1) + 2) * gated["r"], operands=gated, num_heads=2)
    cases.write("ops_runtime")


def write_genai():
    """A step of a decoder as onnxruntime-genai writes it: lengths come from the mask, past and present may share a buffer."""
    i32 = TensorProto.INT32
    nodes = [node("ReduceSum", ["attention_mask", "one"], ["sum"], keepdims=0), node("Sub", ["sum", "one"], ["before"]),
             node("Cast", ["before"], ["seqlens_k"], to=i32), node("Shape", ["attention_mask"], ["sizes"]),
             node("Gather", ["sizes", "one_number"], ["length"]), node("Cast", ["length"], ["total"], to=i32),
             node("MatMul", ["x", "w"], ["qkv"]),
             node("GroupQueryAttention", ["qkv", "", "", "past.key", "past.value", "seqlens_k", "total", "cos", "sin"],
                  ["y", "present.key", "present.value"], domain="com.microsoft", num_heads=2, kv_num_heads=1, do_rotary=1)]
    cache = ["batch_size", 1, "past_sequence_length", 16]
    inputs = [info("x", F32, ["batch_size", 1, 8]), info("attention_mask", I64, ["batch_size", "total_sequence_length"]),
              info("past.key", F32, cache), info("past.value", F32, cache)]
    present = ["batch_size", 1, "total_sequence_length", 16]
    outputs = [info("y", F32, ["batch_size", 1, 32]), info("present.key", F32, present), info("present.value", F32, present)]
    write("genai", nodes, inputs, outputs, [tensor("w", noise(8, 64)), tensor("cos", noise(12, 8)), tensor("sin", noise(12, 8)), tensor("one", [1]),
                                            tensor("one_number", np.int64(1))], domains=["com.microsoft"])


def write_control_flow():
    """Branches and loops whose conditions are known, nested, and some that are not."""
    def body(nodes, inputs, outputs, initializers=()):
        return helper.make_graph(nodes, "body", [info(*one) for one in inputs], [info(name, F32, None) for name in outputs], list(initializers))

    rows = info("x", F32, ["rows", 3])
    # x has 1 row: squeezed; else its rows are added and a weight of the branch.
    squeeze = body([node("Squeeze", ["x", "zero"], ["a"])], [], ["a"])
    add_up = body([node("ReduceSum", ["x", "zero"], ["sum"], keepdims=0), node("Add", ["sum", "w"], ["a"])], [], ["a"],
                  [tensor("w", np.float32([10, 20, 30]))])
    choose = [node("Shape", ["x"], ["s"], end=1), node("Equal", ["s", "one"], ["c"]),
              node("If", ["c"], ["b"], name="choose", then_branch=squeeze, else_branch=add_up), node("Mul", ["b", "two"], ["y"])]
    known = [tensor("zero", [0]), tensor("one", [1]), tensor("two", np.float32(2))]
    write("if_shape", choose, [rows], [Y], known)
    write("if_data", [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "two"], ["c"]), *choose[2:]], [X], [Y], known)

    # Three steps: the sum doubles and grows by x and the step's number; each step's is kept. A branch inside looks outside.
    even = body([node("Identity", ["next"], ["r"])], [], ["r"])
    odd = body([node("Add", ["next", "w"], ["r"])], [], ["r"], [tensor("w", np.float32([1, 2, 3]))])
    steps = [node("Cast", ["i"], ["number"], to=F32), node("Add", ["sum", "sum"], ["twice"]), node("Add", ["twice", "x"], ["more"]),
             node("Add", ["more", "number"], ["next"]), node("Mod", ["i", "period"], ["rest"]), node("Equal", ["rest", "none"], ["isEven"]),
             node("If", ["isEven"], ["out"], then_branch=even, else_branch=odd), node("Identity", ["go"], ["goOn"])]
    inputs = [("i", I64, []), ("go", TensorProto.BOOL, []), ("sum", F32, [2, 3])]
    loop_body = body(steps, inputs, ["goOn", "out", "out"], [tensor("period", np.int64(2)), tensor("none", np.int64(0))])
    outputs = [info("total", F32, None), info("all", F32, None)]
    trips = [tensor("n", np.int64(3)), tensor("start", np.zeros((2, 3), np.float32))]
    write("loop", [node("Loop", ["n", "", "start"], ["total", "all"], name="loop", body=loop_body)], [X], outputs, trips)
    until = body([node("Add", ["sum", "x"], ["out"]), node("Less", ["i", "last"], ["goOn"])], inputs, ["goOn", "out"],
                 [tensor("last", np.int64(4))])
    write("loop_until", [node("Loop", ["", "yes", "start"], ["y"], name="loop", body=until)], [X], [Y],
          [tensor("yes", np.array(True)), trips[1]])
    write("loop_data", [node("Cast", ["x0"], ["n"], to=I64), node("Loop", ["n", "", "start"], ["total", "all"], name="loop", body=loop_body)],
          [X, info("x0", F32, [])], outputs, trips[1:])
    endless = body([node("Add", ["sum", "x"], ["out"]), node("Identity", ["go"], ["goOn"])], inputs, ["goOn", "out"])
    write("loop_endless", [node("Loop", ["", "yes", "start"], ["y"], name="loop", body=endless)], [X], [Y], [tensor("yes", np.array(True)), trips[1]])
    lstm = body([node("LSTM", ["x", "x", "x"], ["a"], name="lstm")], [], ["a"])
    write("if_unsupported", [node("Shape", ["x"], ["s"], end=1), node("Equal", ["s", "one"], ["c"]),
                             node("If", ["c"], ["b"], then_branch=squeeze, else_branch=lstm), node("Relu", ["b"], ["y"])], [rows], [Y], known)


def write_states():
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

    rows_of = {name: [1, heads, rows, 4] for name in ("q", "k", "v")} | {name: [1, heads, "past", 4] for name in ("past_key", "past_value")}
    write("cache_attention", [node("Attention", ["q", "k", "v", "", "past_key", "past_value"], ["y", "present_key", "present_value"], is_causal=1)],
          [info(name, F32, shape) for name, shape in rows_of.items()],
          [info("y", F32, None), *(info(name, F32, [1, heads, "total", 4]) for name in ("present_key", "present_value"))], opset=23)

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


def write_windows():
    """Convolutions, pools, resizing and what else works on [N, C, S...]."""
    cases = Cases()
    line, image, pair, volume = noise(2, 6, 11), noise(1, 6, 9, 7), noise(2, 6, 5, 4), noise(1, 2, 5, 6, 4)

    def conv(name, x, results, kernel, group=1, bias=True, **attributes):
        operands = dict(x=x, w=noise(results, x.shape[1] // group, *kernel))
        if bias:
            operands["b"] = noise(results)
        cases.add(f"Conv_{name}", [node("Conv", list(operands), ["y"], group=group, **attributes)], **operands)

    conv("line", line, 5, [3], pads=[1, 1])
    conv("line_strided", line, 5, [3], pads=[1, 1], strides=[2])
    conv("line_patches", line, 4, [5], strides=[5])
    conv("line_gaps", line, 4, [2], strides=[3])
    conv("images", pair, 8, [3, 3], pads=[1, 1, 1, 1])
    conv("image_plain", image, 8, [3, 2], bias=False)
    conv("image_dilated", image, 8, [3, 3], pads=[2, 3, 2, 1], dilations=[2, 3], strides=[2, 1])
    conv("images_pointwise", pair, 8, [1, 1])
    conv("image_pointwise_strided", image, 8, [1, 1], strides=[2, 3])
    conv("image_patches", noise(2, 3, 8, 16), 8, [4, 8], strides=[4, 8])
    conv("image_patches_of_channels", noise(2, 8, 6, 4), 8, [2, 2], strides=[2, 2])
    conv("images_groups", pair, 4, [3, 3], group=2, pads=[1, 1, 1, 1])
    conv("image_groups_patches", image, 6, [3, 7], group=3, strides=[3, 7])
    conv("depthwise", pair, 6, [3, 3], group=6, pads=[1, 1, 1, 1], strides=[2, 1])
    conv("depthwise_twice", image, 12, [3, 3], group=6, pads=[0, 1, 2, 1])
    conv("depthwise_large", image, 6, [5, 3], group=6, pads=[2, 1, 2, 1], dilations=[1, 2])
    conv("causal", line, 6, [4], group=6, pads=[3, 0])
    conv("volume", volume, 3, [3, 2, 2], pads=[1, 0, 1, 1, 1, 0])
    conv("same_upper", image, 2, [4, 3], auto_pad="SAME_UPPER", strides=[2, 2])
    conv("same_lower", image, 2, [4, 3], auto_pad="SAME_LOWER", strides=[2, 2])
    conv("valid", image, 2, [4, 3], auto_pad="VALID")
    for name, kernel in {"small": [3, 2], "large": [5, 3]}.items():
        nodes = [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Conv", ["t", "w", "b"], ["y"], group=6, pads=[1, 1, 1, 0])]
        cases.add(f"depthwise_channels_last_{name}", nodes, x=pair.transpose(0, 2, 3, 1), w=noise(12, 1, *kernel), b=noise(12))
    weights, bias = noise(6, 4, 3, 2), noise(4)
    for name, attributes in {"plain": {}, "strided": dict(strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2]),
                             "dilated": dict(dilations=[2, 2], strides=[1, 2]), "cut": dict(pads=[3, 0, 2, 0])}.items():
        cases.add(f"ConvTranspose_{name}", [node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)], x=image, w=weights, b=bias)

    image, line = noise(1, 2, 9, 7), line[:, :2]
    for op in ("MaxPool", "AveragePool"):
        cases.add(op, [node(op, ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2])], x=image)
        cases.add(f"{op}_padded", [node(op, ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1])], x=image)
        cases.add(f"{op}_line", [node(op, ["x"], ["y"], kernel_shape=[4], strides=[3])], x=line)
    cases.add("MaxPool_dilated", [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], dilations=[2, 3], strides=[1, 1])], x=image)
    # The evaluator moves windows to the left where ceil_mode adds to the right.
    padded = np.full((1, 2, 12, 9), -np.inf, np.float32)
    padded[:, :, 1:10, 1:8] = image
    largest = np.array([[padded[:, :, 2 * i:2 * i + 4, 3 * j:3 * j + 3].max((2, 3)) for j in range(3)] for i in range(5)])
    cases.add("MaxPool_ceil", [node("MaxPool", ["x"], ["y"], kernel_shape=[4, 3], strides=[2, 3], pads=[1, 1, 1, 1], ceil_mode=1)],
              largest.transpose(2, 3, 0, 1), x=image)
    ends = [line[:, :, i:i + 4].mean(2) for i in (0, 3, 6, 9)]
    cases.add("AveragePool_ceil", [node("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], ceil_mode=1)], np.stack(ends, 2), x=line)
    cases.add("AveragePool_with_pads",
              [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)], x=image)
    cases.add("MaxPool_integers", [node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0], strides=[2])],
              np.array([[[-5, -1, -2]]]), x=np.array([[[-5, -1, -7, -2, -3]]], np.int32))
    cases.add("LpPool", [node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1])], x=image)
    cases.add("GlobalAveragePool", [node("GlobalAveragePool", ["x"], ["y"])], x=image)
    cases.add("GlobalMaxPool", [node("GlobalMaxPool", ["x"], ["y"])], x=image)

    def resize(name, x, sizes=None, scales=None, **attributes):
        operands = dict(x=x)
        if scales:
            operands["s"] = np.float32(scales)
        else:
            operands["n"] = np.int64(sizes)
        inputs = ["x", "", "s" if scales else "", *["n"] * (not scales)]
        cases.add(f"Resize_{name}", [node("Resize", inputs, ["y"], **attributes)], **operands)

    resize("nearest_twice", image, scales=[1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("nearest_half", image, sizes=[1, 2, 4, 3], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("nearest", image, sizes=[1, 2, 13, 5])
    resize("nearest_ceil", image, sizes=[1, 2, 13, 5], nearest_mode="ceil", coordinate_transformation_mode="align_corners")
    for transformation in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        resize(f"linear_{transformation}", image, sizes=[1, 2, 14, 1], mode="linear", coordinate_transformation_mode=transformation)
    resize("cubic", image, sizes=[1, 2, 5, 12], mode="cubic", cubic_coeff_a=-0.75)
    resize("cubic_outside", image, sizes=[6, 12], mode="cubic", axes=[2, 3], exclude_outside=1)
    resize("antialias", image, sizes=[4, 3], mode="linear", axes=[3, 2], antialias=1)

    scale, bias = noise(6), noise(6)

    def channel_norm(x, groups, scale, bias):
        rows = x.reshape(x.shape[0], groups, -1)
        rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return rows.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]

    cases.add("GroupNormalization", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
              channel_norm(pair, 2, scale, bias), x=pair, s=scale, b=bias)
    cases.add("GroupNormalization_of_groups", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)],
              channel_norm(pair, 3, scale[:3].repeat(2), bias[:3].repeat(2)), x=pair, s=scale[:3], b=bias[:3])
    cases.add("InstanceNormalization", [node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=1e-5)],
              channel_norm(pair, 6, scale, bias), x=pair, s=scale, b=bias)
    for mode in ("edge", "reflect", "wrap"):
        cases.add(f"Pad_{mode}", [node("Pad", ["x", "p"], ["y"], mode=mode)], x=image, p=np.array([0, 1, 2, 0, 1, 0, 3, 6]))
    cases.add("Pad_cut", [node("Pad", ["x", "p"], ["y"])], np.pad(image[:, :, 2:, :6], [(0, 0)] * 2 + [(0, 1), (1, 0)]), x=image,
              p=np.array([0, 0, -2, 1, 0, 0, 1, -1]))
    cases.write("ops_windows")


def write_sampling():
    """What reads between elements, adds up blocks and transforms; what holds integers bit by bit, or narrow ones."""
    cases = Cases(opset=20)
    rng = np.random.default_rng(26)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def grid_of(sizes, shape, aligned, beyond):
        """Places that are no ties of the nearest element, up to `beyond` elements outside."""
        numbers = np.empty((*shape, len(sizes)), np.float32)
        for i, size in enumerate(reversed(sizes)):
            places = rng.integers(-beyond, size + beyond, shape) + rng.uniform(-0.4, 0.4, shape)
            numbers[..., i] = 2 * places / max(size - 1, 1) - 1 if aligned else (2 * places + 1) / size - 1
        return numbers

    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for aligned in (0, 1):
                for sizes, shape in (((5, 7), (2, 3, 5)), ((1, 3), (2, 1, 7)), ((3, 2, 5), (2, 3, 1, 5))):
                    if len(sizes) == 3 and mode == "cubic":
                        continue
                    if sizes[0] == 1 and aligned and padding == "reflection":  # The evaluator divides by its length of 0.
                        continue
                    grid = grid_of(sizes, shape, aligned, 9 if sizes == (1, 3) else 3)
                    attributes = dict(mode=mode, padding_mode=padding, align_corners=aligned)
                    cases.add(f"GridSample_{mode}_{padding}_{aligned}_{len(sizes)}_{sizes[0]}",
                              [node("GridSample", ["x", "g"], ["y"], **attributes)], x=normal(2, 3, *sizes), g=grid)
    grid = grid_of((5, 7), (2, 3, 5), 0, 2)
    cases.add("GridSample_defaults", [node("GridSample", ["x", "g"], ["y"])], x=normal(2, 3, 5, 7), g=grid)

    for i, (image, block, attributes) in enumerate((
        ([5, 7], [2, 3], {}), ([5, 7], [3, 3], dict(strides=[2, 2], pads=[1, 1, 1, 1])), ([6, 5], [2, 2], dict(dilations=[1, 3])),
        ([7, 9], [3, 2], dict(strides=[3, 2], pads=[0, 1, 2, 0])), ([9], [4], dict(strides=[2], pads=[1, 2])),
    )):
        rank = len(image)
        strides, dilations, pads = (attributes.get(name, [default] * n) for name, default, n in
                                    (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank)))
        counts = [(image[d] + pads[d] + pads[d + rank] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
        blocks = normal(2, 3 * int(np.prod(block)), int(np.prod(counts)))
        added = np.zeros((2, 3, *(image[d] + pads[d] + pads[d + rank] for d in range(rank))))
        for element in np.ndindex(*block):
            for at in np.ndindex(*counts):
                place = tuple(at[d] * strides[d] + element[d] * dilations[d] for d in range(rank))
                split = blocks.reshape(2, 3, *block, *counts)
                added[(slice(None), slice(None), *place)] += split[(slice(None), slice(None), *element, *at)]
        inner = added[(slice(None), slice(None), *(slice(pads[d], pads[d] + image[d]) for d in range(rank)))]
        cases.add(f"Col2Im_{i}", [node("Col2Im", ["x", "i", "b"], ["y"], **attributes)], inner, x=blocks, i=np.array(image), b=np.array(block))

    real, double = normal(2, 7, 3, 1), normal(2, 7, 3, 2)
    signal, spectrum = real[..., 0].astype(np.float64), double[..., 0] + 1j * double[..., 1].astype(np.float64)

    def parts(numbers):
        return np.stack([numbers.real, numbers.imag], -1)

    def dft(name, operand, expected, axis, length=None, **attributes):
        more = {} if length is None else dict(n=np.array(length))
        cases.add(f"DFT_{name}", [node("DFT", ["x", "n" if more else "", "a"], ["y"], **attributes)], expected, x=operand, a=np.array(axis), **more)

    dft("real", real, parts(np.fft.fft(signal, axis=1)), 1)
    dft("half", real, parts(np.fft.rfft(signal, axis=1)), -3, onesided=1)
    dft("complex", double, parts(np.fft.fft(spectrum, axis=2)), 2)
    dft("inverse", double, parts(np.fft.ifft(spectrum, axis=1)), 1, inverse=1)
    dft("to_real", double, np.fft.irfft(spectrum, axis=1)[..., None], 1, inverse=1, onesided=1)
    dft("to_real_odd", double, np.fft.irfft(spectrum, 5, axis=1)[..., None], 1, 5, inverse=1, onesided=1)
    dft("longer", double, parts(np.fft.fft(spectrum, 11, axis=1)), 1, 11)
    dft("shorter", real, parts(np.fft.rfft(signal, 4, axis=1)), 1, 4, onesided=1)

    bits = dict(a=np.array([12, -1, -(2**62), 5]), b=np.array([10, 77, -2, -7]))
    small = {name: (value % 1000).astype(np.int32) for name, value in bits.items()}
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        # Differences from NumPy's results, which f32 would not hold.
        expected = getattr(np, op.replace("Bitwise", "bitwise_").lower())(bits["a"], bits["b"])
        cases.add(op, [node(op, ["a", "b"], ["v"]), node("Sub", ["v", "e"], ["y"])], np.zeros(4), **bits, e=expected)
        cases.add(f"{op}_int32", [node(op, ["a", "b"], ["y"])], **small)
    cases.add("BitwiseNot", [node("BitwiseNot", ["a"], ["y"])], a=np.array([0, -1, 12]))
    x = np.float32([[0, 255, 256, -1], [300, 127, 128, -129]])
    for kind, dtype in (("UINT8", np.uint8), ("INT8", np.int8), ("UINT16", np.uint16), ("INT16", np.int16)):
        narrow = node("Cast", ["n"], ["u"], to=getattr(TensorProto, kind))
        moved = [narrow, node("Transpose", ["u"], ["t"]), node("Cast", ["t"], ["y"], to=F32)]
        whole = x.astype(np.int64) * 257
        cases.add(f"Cast_{kind}", [node("Cast", ["x"], ["n"], to=TensorProto.INT32), *moved], x.astype(np.int64).astype(dtype).T, x=x)
        cases.add(f"Cast_{kind}_known", moved, whole.astype(dtype).T, n=whole)
    cases.add("Transpose_from_end", [node("Transpose", ["x"], ["y"], perm=[0, -2, -1, 1])], double.transpose(0, 2, 3, 1), x=double)
    counts = [node("OneHot", ["i", "depth", "onoff"], ["r"], axis=-1), node("Tile", ["x", "r"], ["y"])]
    cases.add("Tile_one_hot", counts, np.tile(x, [1, 3]), x=x, i=np.array(1), depth=np.array(2), onoff=np.array([1, 3]))
    images = normal(3, 2, 5) * 2 + 1
    operands = dict(x=images, s=normal(2), b=normal(2), m=normal(2), v=np.abs(normal(2)))
    mean, variance = images.astype(np.float64).mean((0, 2)), images.astype(np.float64).var((0, 2))
    normed = (images - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * operands["s"][:, None] + operands["b"][:, None]
    running = [operands["m"] * 0.75 + mean * 0.25, operands["v"] * 0.75 + variance * 0.25]
    for result, expected in zip(("y", "m1", "v1"), (normed, *running)):
        norm = node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "m1", "v1"], training_mode=1, momentum=0.75)
        cases.add(f"BatchNormalization_training_{result}", [norm], expected, result, **operands)
    # Weights of f32 beside an operand of bf16, as PyTorch's exporter leaves them; all numbers fit both.
    whole = dict(x=rng.integers(-2, 3, (1, 2, 5, 4)).astype(np.float32), w=rng.integers(-2, 3, (3, 2, 3, 3)).astype(np.float32))
    single = model([node("Conv", ["x", "w"], ["y"])], [], [info("y", F32, None)], [tensor(key, value) for key, value in whole.items()])
    mixed = [node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), node("Conv", ["b", "w"], ["c"]), node("Cast", ["c"], ["y"], to=F32)]
    cases.add("Conv_mixed", mixed, ReferenceEvaluator(single).run(None, {})[0], **whole)
    cases.write("ops_sampling")
    write("cache_window", [node("Concat", ["cache", "row"], ["all"], axis=2), node("Slice", ["all", "one", "end", "axis"], ["y"])],
          [info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3])], [info("y", F32, [1, 2, 5, 3])],
          [tensor("one", [1]), tensor("end", [6]), tensor("axis", [2])])
    write("cache_masked", [node("Where", ["isNew", "rows", "cache"], ["y"])],
          [info("cache", F32, [1, 2, 5, 3]), info("rows", F32, [1, 2, 5, 3]), info("isNew", TensorProto.BOOL, [1, 1, 5, 1])],
          [info("y", F32, [1, 2, 5, 3])])
    # A row at a known position, and beside the result the first of the old rows.
    cache, row, pieces = info("cache", F32, [1, 2, 5, 3]), info("row", F32, [1, 2, 1, 3]), [("first", 0, 3), ("last", 4, 5), ("old", 0, 1)]
    cut = [node("Slice", ["cache", f"{name}_start", f"{name}_end", "axis"], [name]) for name, _, _ in pieces]
    write("cache_slice_read", [*cut, node("Concat", ["first", "row", "last"], ["y"], axis=2), node("Mul", ["y", "old"], ["z"], name="both")],
          [cache, row], [info("y", F32, [1, 2, 5, 3]), info("z", F32, [1, 2, 5, 3])],
          [tensor("axis", [2]), *(tensor(f"{name}_{end}", [at]) for name, *ends in pieces for end, at in zip(("start", "end"), ends))])
    write("cache_tensor_scatter_rows", [node("TensorScatter", ["cache", "rows", "at"], ["y"])],
          [info("cache", F32, [2, 5, 3]), info("rows", F32, [2, 2, 3]), info("at", I64, [2])], [info("y", F32, [2, 5, 3])], opset=24)
    # Three rows into a buffer that past and present share; the same where the past is returned, too, and so is no state.
    i32, shared, rows = TensorProto.INT32, [2, 2, 7, 16], [2, 3, 32]
    inputs = [info("q", F32, [2, 3, 64]), info("k", F32, rows), info("v", F32, rows), info("past_key", F32, shared), info("past_value", F32, shared),
              info("seqlens_k", i32, [2])]
    operation = node("GroupQueryAttention", ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total"], ["y", "present_key", "present_value"],
                     domain="com.microsoft", num_heads=4, kv_num_heads=2)
    outputs, total = [info("y", F32, [2, 3, 64]), info("present_key", F32, shared), info("present_value", F32, shared)], [tensor("total", np.int32(7))]
    write("cache_group_query", [operation], inputs, outputs, total, domains=["com.microsoft"])
    old = [node("Identity", [f"past_{which}"], [f"old_{which}"]) for which in ("key", "value")]
    write("cache_group_query_read", [operation, *old], inputs, [*outputs, info("old_key", F32, shared), info("old_value", F32, shared)], total,
          domains=["com.microsoft"])
    write("narrow_sum", [node("Cast", ["x"], ["n"], to=TensorProto.UINT8), node("Add", ["n", "n"], ["s"], name="sum"), node("Cast", ["s"], ["y"], to=F32)],
          [info("x", F32, [4])], [info("y", F32, [4])])
    write("grid_mode", [node("GridSample", ["x", "g"], ["y"], mode="spline")], [info("x", F32, [1, 1, 4, 4]), info("g", F32, [1, 2, 2, 2])], [info("y", F32, [1, 1, 2, 2])])
    write("grid_shape", [node("GridSample", ["x", "g"], ["y"])], [info("x", F32, [1, 1, 4, 4]), info("g", F32, [1, 2, 2, 3])], [info("y", F32, [1, 1, 2, 2])])


if __name__ == "__main__":
    for writer in (write_external, write_decode, write_dynamic, write_opsets, write_functions, write_empty, write_activations,
                   write_integers, write_malformed, write_typed, write_pointwise,
                   write_layout, write_rows, write_transformer, write_microsoft, write_more, write_einsum, write_runtime, write_genai,
                   write_control_flow, write_indexing, write_caches, write_windows, write_states, write_sampling):
        writer()
