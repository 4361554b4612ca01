"""Files that the importer refuses, each with its reason."""
import numpy as np
from onnx import TensorProto

from writers.model import F32, I64, X, Y, info, node, noise, tensor, write


def malformed():
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
    write("narrow_sum", [node("Cast", ["x"], ["n"], to=TensorProto.UINT8), node("Add", ["n", "n"], ["s"], name="sum"), node("Cast", ["s"], ["y"], to=F32)],
          [info("x", F32, [4])], [info("y", F32, [4])])
    write("grid_mode", [node("GridSample", ["x", "g"], ["y"], mode="spline")], [info("x", F32, [1, 1, 4, 4]), info("g", F32, [1, 2, 2, 2])], [info("y", F32, [1, 1, 2, 2])])
    write("grid_shape", [node("GridSample", ["x", "g"], ["y"])], [info("x", F32, [1, 1, 4, 4]), info("g", F32, [1, 2, 2, 3])], [info("y", F32, [1, 1, 2, 2])])
