"""What a file says: data in other files, symbolic dimensions, opsets, functions, tensors of every type and of no elements."""
import numpy as np
from onnx import AttributeProto, TensorProto, helper

from writers.model import F32, FOLDER, I64, X, Y, info, node, noise, tensor, write


def external_tensor(name, location, offset, length):
    weight = TensorProto(name=name, data_type=F32, data_location=TensorProto.EXTERNAL)
    weight.dims.extend([3, 4] if name == "w" else [4])
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            weight.external_data.add(key=key, value=str(value))
    return weight


def external():
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
        write(name, nodes, [X], [Y], [external_tensor("w", location, offset, length), external_tensor("b", "external.bin", 113, None)])


def dynamic():
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


def opsets():
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


def functions():
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


def empty():
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


def typed():
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
