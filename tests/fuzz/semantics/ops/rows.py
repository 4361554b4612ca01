"""Generators of reductions, norms and products."""

import math

import numpy as np

from ..graph import CONTRIB, Reject
from ..values import FLOATS, I64, INTEGERS
from .registry import generator
from .static import shape_of


@generator("LpNormalization")
def _lp_normalization(b):
    x = b.operand("LpNormalization", low=1)
    b.node("LpNormalization", [x], axis=b.axis(x.rank), p=b.rng.choice((None, 1, 2)))


@generator("ReduceLogSum", "ReduceLogSumExp")
def _log_sum(b):
    op = b.op
    x = b.pick([dtype for dtype in b.dtypes(op) if dtype in FLOATS])
    if op == "ReduceLogSum":
        (x,) = b.node("Abs", [x])
    axes, keep = b.axes(x.rank), b.rng.choice((None, 0, 1))
    if b.opset < 18 or not axes:
        b.node(op, [x], keepdims=keep, axes=axes or None if b.opset < 18 else None)
    else:
        b.node(op, [x, b.known(np.asarray(axes, np.int64))], keepdims=keep)


@generator("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare")
def _reduce(b):
    op = b.op
    x = b.operand(op)
    axes = b.axes(x.rank)
    keep = b.rng.choice((None, 0, 1))
    is_input = b.opset >= (13 if op == "ReduceSum" else 18)
    noop = b.rng.choice((None, 0, 1)) if is_input else None
    given = axes if axes or b.chance(0.3) else None
    if given is None or not is_input:
        b.node(op, [x], keepdims=keep, noop_with_empty_axes=noop, axes=given or None)
    else:
        b.node(op, [x, b.known(np.asarray(given, np.int64))], keepdims=keep, noop_with_empty_axes=noop)


@generator("ReduceProd")
def _reduce_prod(b):
    shape = shape_of(b) if b.chance(0.5) else b.known([b.rng.randint(-4, 5) for _ in range(b.rng.randint(1, 4))])
    axes = {} if b.chance(0.5) else {"axes": [0]} if b.opset < 18 else {}
    inputs = [shape] if axes or b.opset < 18 or b.chance(0.5) else [shape, b.known([0])]
    b.node("ReduceProd", inputs, keepdims=b.rng.choice((None, 0)), **axes)


@generator("ArgMax", "ArgMin")
def _arg_max(b):
    x = b.operand(b.op, low=1)
    flags = {"keepdims": b.rng.choice((None, 0, 1)), "select_last_index": b.rng.choice((None, 0, 1))}
    b.node(b.op, [x], I64, axis=b.rng.choice((None, b.axis(x.rank))), **flags)


@generator("TopK")
def _top_k(b):
    if b.chance(0.15):  # Rows that are ranked in pieces.
        dtype = b.some_dtype(b.dtypes("TopK"))
        shape = [b.rng.choice((1, 2)), b.rng.choice((513, 700, 1111))]
        x, axis = b.fresh(dtype, shape[:: b.rng.choice((1, -1))]), b.rng.choice((0, 1))
    else:
        x = b.operand("TopK", low=1)
        axis = b.axis(x.rank)
    k = b.rng.randint(1, min(x.shape[axis], 40))
    flags = {"largest": b.rng.choice((None, 0, 1)), "sorted": b.rng.choice((None, 1))}
    b.node("TopK", [x, b.known([k])], [x.dtype, I64], outputs=2, axis=axis if axis != -1 or b.chance(0.5) else None, **flags)


@generator("Softmax", "LogSoftmax")
def _softmax(b):
    x = b.operand(b.op, low=1)
    b.node(b.op, [x], axis=b.rng.choice((None, b.axis(x.rank))))


def _norm_weight(b, x, axis):
    shape = x.shape[axis % x.rank :]
    if b.chance(0.1):
        shape = [1 if b.chance(0.5) else size for size in shape]
    return b.fresh(x.dtype, shape)


@generator("LayerNormalization", "RMSNormalization")
def _norm(b):
    x = b.operand(b.op, low=1)
    axis = b.rng.choice((-1, b.axis(x.rank)))
    inputs = [x, _norm_weight(b, x, axis)]
    if b.op == "LayerNormalization" and b.chance(0.6):
        inputs.append(b.fresh(x.dtype, x.shape[axis % x.rank :]))
    b.node(b.op, inputs, axis=axis if axis != -1 or b.chance(0.5) else None, epsilon=b.rng.choice((None, 1e-3)))


@generator("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def _simplified_norm(b):
    x = b.pick(b.floats(), low=1)
    axis = b.rng.choice((-1, b.axis(x.rank)))
    domain, _, op = b.op.rpartition(".")
    b.node(op, [x, b.fresh(x.dtype, x.shape[axis % x.rank :])], domain=domain, axis=axis, epsilon=1e-5)


@generator("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_norm(b):
    x = b.pick(b.floats(), low=2, high=3)
    op = b.op.split(".")[-1]
    rows = [b.fresh(x.dtype, x.shape[-1:]) if i == 0 or b.chance(0.5) else None for i in range(4 - ("Simplified" in op))]
    rows = rows[: 3 if op == "SkipLayerNormalization" else 2]
    b.node(op, [x, b.fresh(x.dtype, x.shape), *rows], outputs=4, domain=CONTRIB, epsilon=b.rng.choice((1e-5, 1e-3)))


@generator("Einsum")
def _einsum(b):
    dtype = b.some_dtype([dtype for dtype in b.dtypes("Einsum") if dtype in FLOATS or dtype in INTEGERS])
    sizes = {letter: b.rng.choice((1, 2, 3, 4, 8)) for letter in "abcdef"}
    ellipsis = [b.rng.choice((1, 2, 3)) for _ in range(b.rng.choice((0, 0, 0, 1, 2)))]
    terms, operands = [], []
    for _ in range(b.rng.choice((1, 2, 2, 2, 3))):
        letters = b.rng.sample("abcdef", b.rng.choice((1, 2, 2, 3, 4)))
        if b.chance(0.1):
            letters.append(b.rng.choice(letters))
        shape = [sizes[letter] for letter in letters]
        if ellipsis and b.chance(0.7):
            at = b.rng.randint(0, len(letters))
            own = [size if b.chance(0.8) else 1 for size in ellipsis]
            letters[at:at], shape[at:at] = ["..."], own
        terms.append("".join(letters))
        operands.append(b.fresh(dtype, shape, b.rng.choice(("input", "parameter"))))
    used = sorted({letter for term in terms for letter in term if letter != "."})
    if math.prod(sizes[letter] for letter in used) * math.prod(ellipsis) > 3000:
        raise Reject("many products")
    equation = b.rng.choice((",", " , ")).join(terms)
    has_ellipsis = any("..." in term for term in terms)
    if b.chance(0.8):
        kept = [letter for letter in used if b.chance(0.6)]
        b.rng.shuffle(kept)
        if has_ellipsis:
            kept.insert(b.rng.randint(0, len(kept)), "...")
        equation += "->" + "".join(kept)
    b.node("Einsum", operands, equation=equation)



@generator("MatMul")
def _matmul(b):
    x = b.pick([dtype for dtype in b.dtypes("MatMul") if dtype in FLOATS], low=1)
    b.node("MatMul", [x, b.factor(x)])


@generator("com.microsoft.FusedMatMul")
def _fused_matmul(b):
    x = b.pick(b.floats(), low=2)
    inner = x.shape[-2] if (trans_a := b.chance(0.3)) else x.shape[-1]
    columns = b.rng.choice((1, 2, 5, 8, 16))
    trans_b = b.chance(0.4)
    shape = (columns, inner) if trans_b else (inner, columns)
    if b.chance(0.3):
        shape = (*x.shape[:-2], *shape)
    alpha = b.rng.choice((None, 0.5, -2.0))
    inputs = [x, b.fresh(x.dtype, shape)]
    b.node("FusedMatMul", inputs, domain=CONTRIB, transA=int(trans_a), transB=int(trans_b), alpha=alpha)


@generator("Gemm")
def _gemm(b):
    x = b.pick([dtype for dtype in b.dtypes("Gemm") if dtype in FLOATS], low=2, high=2)
    trans_a, trans_b = b.chance(0.3), b.chance(0.4)
    rows, inner = x.shape[::-1] if trans_a else x.shape
    columns = b.rng.choice((1, 2, 5, 8, 16, 33))
    y = b.fresh(x.dtype, (columns, inner) if trans_b else (inner, columns))
    c = None
    if b.chance(0.7):
        c = b.fresh(x.dtype, b.rng.choice(((), (columns,), (1, columns), (rows, 1), (rows, columns), (1,))))
    flags = {"transA": int(trans_a) or None, "transB": int(trans_b) or None}
    b.node("Gemm", [x, y, c], **flags, alpha=b.rng.choice((None, 0.5)), beta=b.rng.choice((None, 2.0, 0.0)))
