"""A graph under construction. Every node is evaluated as it is added, so that shapes and values are known, and what the
reference refuses is not added."""

import math
import random
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from .oracle import NodeFunction, Run, evaluate_node, full_name
from .values import BOOL, F32, FLOATS, INTEGERS, MOST_ELEMENTS, NUMPY_TYPE, ONNX_TYPE
from .values import random_integers, random_shape, random_values, round_to, stored

CONTRIB = "com.microsoft"


class Reject(Exception):
    """This node makes no valid model, or none worth testing."""


@dataclass
class Value:
    name: str
    dtype: str
    array: np.ndarray  # As the reference's first run has it.
    kind: str = "made"  # Or "input", "parameter", "initializer".

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim


@dataclass
class Step:
    node: onnx.NodeProto
    function: NodeFunction
    dtypes: list


@dataclass
class Graph:
    seed: int
    opset: int = 23
    values: list = field(default_factory=list)  # All that a later node may read.
    sources: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    outputs: list = field(default_factory=list)

    def ops(self):
        return [full_name(step.node) for step in self.steps]

    def to_model(self):
        """The ONNX model. Inputs, then parameters whose data the caller gives, are its inputs."""

        def info(value):
            return helper.make_tensor_value_info(value.name, ONNX_TYPE[value.dtype], value.shape)

        inputs = [info(value) for value in self.arguments()]
        initializers = [tensor_of(v.array, v.dtype, v.name) for v in self.sources if v.kind == "initializer"]
        outputs = [info(value) for value in self.outputs]
        graph = helper.make_graph([step.node for step in self.steps], "fuzz", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        if any(step.node.domain for step in self.steps):
            opsets.append(helper.make_opsetid(CONTRIB, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def arguments(self):
        """In the order in which the model takes them."""
        return [v for v in self.sources if v.kind == "input"] + [v for v in self.sources if v.kind == "parameter"]

    def argument_bytes(self):
        return b"".join(stored(value.array, value.dtype).tobytes() for value in sorted(self.arguments(), key=lambda value: value.name))


def info_of(name, dtype, shape):
    return helper.make_tensor_value_info(name, ONNX_TYPE[dtype], shape)


def tensor_of(array, dtype, name=""):
    return helper.make_tensor(name, ONNX_TYPE[dtype], array.shape, stored(array, dtype).tobytes(), raw=True)


class Builder:
    """What generators of ops draw from."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.graph = Graph(seed, self.rng.choice((*range(13, 24), *[24] * 10)))
        self.special = self.rng.random() < 0.2  # NaN and infinities among the inputs.
        self.float_type = self.rng.choice((F32, F32, F32, "f16", "bf16"))
        self.count = 0
        self.op = ""  # That is drawn now.

    # Choices.

    @property
    def opset(self):
        return self.graph.opset

    def chance(self, probability):
        return self.rng.random() < probability

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def dtypes(self, op, position=0):
        """The types that ONNX gives an operand, of those that kfuse has."""
        if not onnx.defs.has(op, max_inclusive_version=self.opset):
            raise Reject(f"{op} is not in opset {self.opset}")
        schema = onnx.defs.get_schema(op, self.opset)
        named = schema.inputs[min(position, len(schema.inputs) - 1)].type_str
        constraints = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
        allowed = constraints.get(named, [named])
        text = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i64": "int64", "bool": "bool"}
        return [dtype for dtype in text if f"tensor({text[dtype]})" in allowed]

    def some_dtype(self, dtypes):
        """The graph's float type more often than all others."""
        if self.float_type in dtypes and self.chance(0.7):
            return self.float_type
        others = [dtype for dtype in dtypes if dtype not in FLOATS or dtype == self.float_type or self.chance(0.1)]
        if not others:
            raise Reject("no type fits")
        return self.rng.choice(others)

    # Values.

    def source(self, array, dtype, kind=None):
        """A value from outside: an input, a parameter, an initializer or a Constant."""
        array = np.asarray(array, np.float64 if dtype in FLOATS else None)
        kind = kind or self.rng.choice(("input", "input", "input", "parameter", "initializer", "constant"))
        if array.size == 0 and kind != "constant":
            kind = "initializer"
        if kind == "constant":
            node = helper.make_node("Constant", [], [self.name("c")], value=tensor_of(array, dtype))
            return self.add(node, [dtype])[0]
        value = Value(self.name({"parameter": "w", "initializer": "k"}.get(kind, "x")), dtype, array, kind)
        self.graph.sources.append(value)
        self.graph.values.append(value)
        return value

    def fresh(self, dtype, shape, kind=None):
        return self.source(random_values(self.rng, dtype, tuple(shape), self.special), dtype, kind)

    def finite(self, dtype, shape, kind="input"):
        return self.source(random_values(self.rng, dtype, tuple(shape)), dtype, kind)

    def known(self, numbers, dtype="i64"):
        """Integers that are known when the model is read."""
        return self.source(np.asarray(numbers, NUMPY_TYPE[dtype]), dtype, self.rng.choice(("initializer", "constant")))

    def pick(self, dtypes, low=0, high=4, fits=lambda value: True):
        """A value of one of the types: an earlier one, or a fresh one."""
        fitting = [
            value
            for value in self.graph.values[-12:]
            if value.dtype in dtypes and low <= value.rank <= high and value.array.size and fits(value)
        ]
        if fitting and self.chance(0.75):
            made = [value for value in fitting if value.kind == "made"]
            return self.rng.choice(made if made and self.chance(0.7) else fitting)
        dtype = self.some_dtype(dtypes)
        for _ in range(30):
            shape = random_shape(self.rng, low, high)
            if fits(Value("", dtype, np.zeros(shape))):
                return self.fresh(dtype, shape)
        raise Reject("no shape fits")

    def operand(self, op, position=0, **limits):
        return self.pick(self.dtypes(op, position), **limits)

    def partner(self, value, dtype=None, one_way=False):
        """A value that broadcasts with `value`; one-way if the result keeps its shape."""
        dtype = dtype or value.dtype

        def fits(other):
            try:
                shape = np.broadcast_shapes(value.shape, other.shape)
            except ValueError:
                return False
            return math.prod(shape) <= MOST_ELEMENTS and (not one_way or shape == value.shape)

        earlier = [other for other in self.graph.values[-12:] if other.dtype == dtype and other.array.size and fits(other)]
        if earlier and self.chance(0.5):
            return self.rng.choice(earlier)
        return self.fresh(dtype, self.broadcast_shape(value.shape, one_way))

    def broadcast_shape(self, shape, one_way=False):
        shape = [size if self.chance(0.75) else 1 for size in shape]
        if not one_way:
            elements = max(math.prod(shape), 1)
            shape = [self.rng.choice((2, 3, 5)) if size == 1 and self.chance(0.1) and elements < 200 else size for size in shape]
        if self.chance(0.4):
            shape = shape[self.rng.randint(0, len(shape)) :]
        elif not one_way and len(shape) < 4 and self.chance(0.1) and math.prod(shape) < 400:
            shape = [self.rng.choice((1, 2, 3)), *shape]
        return tuple(shape)

    def floats(self):
        """The types of ops that are not ONNX's own."""
        return [self.float_type] if self.chance(0.9) else [F32]

    def small_shape(self, low=0):
        return tuple(self.rng.choice((1, 2, 3, 5)) for _ in range(self.rng.randint(low, 3)))

    def factor(self, x, kind=None):
        """What a product of `x` with it takes: a vector, a matrix, or a batch of them."""
        if self.chance(0.1):
            return self.fresh(x.dtype, x.shape[-1:])
        shape = (x.shape[-1], self.rng.choice((1, 2, 5, 8, 16, 33)))
        if self.chance(0.3) and x.rank > 2:
            shape = (*(size if self.chance(0.7) else 1 for size in x.shape[:-2]), *shape)
        return self.fresh(x.dtype, shape, kind or self.rng.choice(("parameter", "initializer", "input")))

    def axis(self, rank):
        """One of `rank` axes, from the front or from the end."""
        if rank == 0:
            raise Reject("a scalar has no axis")
        return self.rng.randint(-rank, rank - 1)

    def axes(self, rank, least=0):
        chosen = [axis for axis in range(rank) if self.chance(0.5)]
        if len(chosen) < least:
            chosen = self.rng.sample(range(rank), least)
        self.rng.shuffle(chosen)
        return [axis - rank if self.chance(0.3) else axis for axis in chosen]

    # Nodes.

    def node(self, op, inputs, dtypes=None, outputs=1, domain="", **attributes):
        """Adds a node and returns its results. Their types are the first input's unless said."""
        names = [value.name if value else "" for value in inputs]
        while names and not names[-1]:
            names.pop()
        attributes = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(op, names, [self.name("v") for _ in range(outputs)], domain=domain, **attributes)
        dtypes = dtypes or [inputs[0].dtype] * outputs
        return self.add(node, [dtypes] * outputs if isinstance(dtypes, str) else dtypes, inputs)

    def cast(self, x, dtype):
        return self.node("Cast", [x], dtype, to=ONNX_TYPE[dtype])

    def add(self, node, dtypes, inputs=()):
        function = NodeFunction(node, self.opset)
        squares = "Norm" in node.op_type or node.op_type in ("ReduceL2", "ReduceSumSquare")
        if squares and any(np.nanmax(np.abs(v.array), initial=0, where=np.isfinite(v.array)) > 1e15 for v in inputs if v):
            raise Reject("f32 does not hold the squares")
        arrays = [value.array if value else None for value in inputs][: len(node.input)]
        try:
            results = evaluate_node(function, arrays, dtypes, Run(0, 0))
        except Exception as error:
            raise Reject(f"{node.op_type}: {error}") from error
        for i, (array, dtype) in enumerate(zip(results, dtypes)):
            if array is None:
                node.output[i] = ""
                continue
            if array.size > 4 * MOST_ELEMENTS:
                raise Reject("too large")
            is_float = array.dtype == np.float64
            if is_float != (dtype in FLOATS) or (not is_float and array.dtype != NUMPY_TYPE[dtype]):
                raise Reject(f"{node.op_type}: {array.dtype} where {dtype} was expected")
            if is_float and array.size and not self.special and not np.isfinite(array).all() and self.chance(0.8):
                raise Reject("overflows")
        self.graph.steps.append(Step(node, function, list(dtypes)))
        made = []
        for name, array, dtype in zip(node.output, results, dtypes):
            made.append(Value(name, dtype, array) if name else None)
            if name:
                self.graph.values.append(made[-1])
        return made

    # The whole.

    def mark(self):
        graph = self.graph
        return len(graph.values), len(graph.sources), len(graph.steps)

    def reset(self, mark):
        graph = self.graph
        for items, count in zip((graph.values, graph.sources, graph.steps), mark):
            del items[count:]

    def finish(self):
        """Outputs: what nothing reads, and some of the others."""
        graph = self.graph
        read = {name for step in graph.steps for name in step.node.input}
        made = [value for value in graph.values if value.kind == "made" and value.array.size]
        constants = {name for step in graph.steps if step.node.op_type == "Constant" for name in step.node.output}
        graph.outputs = [
            value
            for value in made
            if value.name not in constants and (value.name not in read or self.chance(0.12))
        ]
        prune(graph)
        return graph


def prune(graph):
    """Drops what no output needs."""
    needed = {value.name for value in graph.outputs}
    kept = []
    for step in reversed(graph.steps):
        if needed.intersection(step.node.output):
            kept.append(step)
            needed.update(name for name in step.node.input if name)
    graph.steps = kept[::-1]
    graph.sources = [value for value in graph.sources if value.name in needed]
