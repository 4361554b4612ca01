"""Generators of what is known when the model is read: constants, shapes, branches, loops."""

import numpy as np

from ..graph import Reject, helper, info_of, tensor_of
from ..values import BOOL, FLOATS, F32, I32, I64, NUMPY_TYPE, ONNX_TYPE, random_floats, random_integers
from .registry import generator


@generator("Constant")
def _constant(b):
    kind = b.rng.randrange(5)
    if kind == 0:
        b.fresh(b.rng.choice((F32, "f16", "bf16", I32, I64, BOOL)), b.small_shape(), "constant")
    elif kind == 1:
        b.node("Constant", [], F32, value_float=b.rng.uniform(-2, 2))
    elif kind == 2:
        b.node("Constant", [], I64, value_int=b.rng.randint(-9, 9))
    elif kind == 3:
        b.node("Constant", [], I64, value_ints=[b.rng.randint(-9, 9) for _ in range(b.rng.randint(1, 4))])
    else:
        b.node("Constant", [], F32, value_floats=[b.rng.uniform(-2, 2) for _ in range(b.rng.randint(1, 4))])


@generator("ConstantOfShape")
def _constant_of_shape(b):
    shape = b.known(np.asarray(b.small_shape(), np.int64))
    if b.chance(0.3):
        b.node("ConstantOfShape", [shape], F32)
    else:
        dtype = b.rng.choice((F32, "f16", I32, I64, BOOL))
        array = random_floats(b.rng, dtype, (1,)) if dtype in FLOATS else random_integers(b.rng, I64, (1,))
        b.node("ConstantOfShape", [shape], dtype, value=tensor_of(array, dtype))


def shape_of(b):
    x = b.pick([F32, "f16", "bf16", I32, I64, BOOL], low=1)
    ends = {}
    if b.opset >= 15 and b.chance(0.4):
        ends = {"start": b.rng.choice((None, 0, 1, -1, -2)), "end": b.rng.choice((None, -1, x.rank, 9))}
    (shape,) = b.node("Shape", [x], I64, **ends)
    if shape.array.size == 0:
        raise Reject("empty")
    return shape


@generator("Shape")
def _shape(b):
    shape = shape_of(b)
    if b.chance(0.5):
        b.node("ConstantOfShape", [shape], F32)


@generator("Size")
def _size(b):
    b.node("Size", [b.pick([F32, "f16", I32, I64, BOOL])], I64)


@generator("Range")
def _range(b):
    dtype = b.rng.choice((F32, I32, I64))
    step = b.rng.choice((1, 1, 2, -1, -3)) * (0.5 if dtype == F32 and b.chance(0.3) else 1)
    start = b.rng.randint(-3, 3)
    limit = start + step * b.rng.randint(1, 12) + (0.25 if dtype == F32 else 0)
    numbers = [b.known(np.asarray(number), dtype) if dtype != F32 else b.source(np.asarray(float(number)), F32, "constant")
               for number in (start, limit, step)]
    b.node("Range", numbers, dtype)


@generator("EyeLike")
def _eye_like(b):
    x = b.pick([F32, "f16", I32, I64], low=2, high=2)
    dtype = b.rng.choice((None, F32, I64, BOOL))
    b.node("EyeLike", [x], dtype or x.dtype, dtype=ONNX_TYPE[dtype] if dtype else None, k=b.rng.choice((None, 0, 1, -2)))


@generator("If")
def _if(b):
    dtype = b.rng.choice((F32, "f16", I64))
    condition = b.source(np.asarray(b.chance(0.5)), BOOL, b.rng.choice(("initializer", "constant")))
    shape = b.small_shape()
    branches = {}
    for name in ("then_branch", "else_branch"):
        values = random_floats(b.rng, dtype, shape) if dtype in FLOATS else random_integers(b.rng, dtype, shape)
        nodes = [helper.make_node("Constant", [], ["a"], value=tensor_of(values, dtype)), helper.make_node("Neg", ["a"], ["b"])]
        branches[name] = helper.make_graph(nodes, name, [], [info_of(b.rng.choice("ab"), dtype, shape)])
    b.node("If", [condition], dtype, **branches)


@generator("Loop")
def _loop(b):
    """Steps of ops that are exact."""
    x = b.pick([F32, "f16", I64], high=3, fits=lambda value: value.array.size < 100)
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Neg", ["x"], ["turned"]),
        helper.make_node("Abs", ["turned"], ["positive"]),
        helper.make_node("Max", ["turned", "positive"], ["y"]) if b.chance(0.5) else helper.make_node("Identity", ["turned"], ["y"]),
    ]
    inputs = [info_of("step", I64, ()), info_of("go", BOOL, ()), info_of("x", x.dtype, x.shape)]
    outputs = [info_of("on", BOOL, ()), info_of("y", x.dtype, x.shape), info_of("turned", x.dtype, x.shape)]
    trips = b.known(np.asarray(b.rng.randint(1, 4)))
    go = b.source(np.asarray(True), BOOL, "initializer")
    body = helper.make_graph(nodes, "body", inputs, outputs)
    b.node("Loop", [trips, go, x], [x.dtype, x.dtype], outputs=2, body=body)


@generator("NonZero")
def _non_zero(b):
    dtype = b.rng.choice((I64, BOOL))
    array = random_integers(b.rng, I64, b.small_shape(1), -1, 1)
    (where,) = b.node("NonZero", [b.source(array.astype(NUMPY_TYPE[dtype]), dtype, "constant")], I64)
    if where.array.size == 0:
        raise Reject("empty")
