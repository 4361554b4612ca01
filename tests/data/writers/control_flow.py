"""Branches and loops."""
import numpy as np
from onnx import TensorProto, helper

from writers.model import F32, I64, X, Y, info, node, tensor, write


def control_flow():
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
