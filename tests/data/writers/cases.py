"""Many small graphs in one model, each beside the answer of an independent implementation."""
import numpy as np
from onnx.reference import ReferenceEvaluator

from writers.model import F32, I64, info, model, node, tensor, write


class Cases:
    """One model of many small graphs, each with the expected answer inside. A case's output is the largest difference;
    its operands are initializers, floats thus parameters and integers folded."""

    def __init__(self, opset=23, domains=()):
        self.opset, self.domains = opset, domains
        self.nodes, self.initializers, self.outputs = [], [], []

    def add(self, name, nodes, expected=None, result="y", **operands):
        """Expected is what the reference evaluator of onnx computes, unless given."""
        tensors = [tensor(key, value) for key, value in operands.items()]
        if expected is None:
            single = model(nodes, [], [info(result, F32, None)], tensors, self.opset)
            expected = ReferenceEvaluator(single).run(None, {})[0]
        self.append(name, nodes, tensors, expected, result)

    def append(self, name, nodes, tensors, expected, result):
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


def by_runtime(nodes, result, tensors, opset=21):
    """What ONNX Runtime's CPU kernels compute."""
    import onnxruntime

    single = model(nodes, [], [info(result, F32, None)], tensors, opset, domains=["com.microsoft"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(single.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]
