"""Groups of nodes as exporters write them: what the passes recognise and rewrite is tested by them, not by chance."""

import math

import numpy as np

from .values import BOOL, FLOATS, F32, I64, round_to

PATTERNS = []


def pattern(generate):
    PATTERNS.append(generate)
    return generate


def _float(b, **limits):
    return b.pick([b.float_type], **limits)


def _scalar(b, number, dtype):
    return b.source(round_to(np.asarray(float(number)), dtype), dtype, b.rng.choice(("constant", "initializer")))


def _one(b, op, *inputs, **attributes):
    return b.node(op, list(inputs), attributes.pop("dtype", None), **attributes)[0]


def _reduce(b, op, x, axis=-1):
    if b.opset >= (13 if op == "ReduceSum" else 18):
        return _one(b, op, x, b.known([axis]))
    return _one(b, op, x, axes=[axis])


@pattern
def silu(b):
    x = _float(b)
    _one(b, "Mul", x, _one(b, "Sigmoid", x))


@pattern
def gelu(b):
    x = _float(b)
    inner = _one(b, "Div", x, _scalar(b, math.sqrt(2), x.dtype))
    outer = _one(b, "Add", _one(b, "Erf", inner), _scalar(b, 1, x.dtype))
    if b.chance(0.5):
        _one(b, "Mul", _one(b, "Mul", x, outer), _scalar(b, 0.5, x.dtype))
    else:
        _one(b, "Mul", _one(b, "Mul", x, _scalar(b, 0.5, x.dtype)), outer)


@pattern
def gelu_tanh(b):
    x = _float(b)
    cube = _one(b, "Mul", x, _one(b, "Mul", x, x)) if b.chance(0.5) else _one(b, "Pow", x, _scalar(b, 3, x.dtype))
    inner = _one(b, "Add", x, _one(b, "Mul", cube, _scalar(b, 0.044715, x.dtype)))
    tanh = _one(b, "Tanh", _one(b, "Mul", inner, _scalar(b, math.sqrt(2 / math.pi), x.dtype)))
    half = _one(b, "Mul", x, _scalar(b, 0.5, x.dtype))
    _one(b, "Mul", half, _one(b, "Add", tanh, _scalar(b, 1, x.dtype)))


def _maybe_wide(b, x):
    """Exporters compute norms of 16-bit floats in f32."""
    return b.cast(x, F32)[0] if x.dtype != F32 and b.chance(0.6) else x


def _back(b, y, dtype):
    return y if y.dtype == dtype else b.cast(y, dtype)[0]


def _square(b, x):
    return _one(b, "Mul", x, x) if b.chance(0.5) else _one(b, "Pow", x, _scalar(b, 2, x.dtype))


def _over_root(b, x, variance):
    root = _one(b, "Sqrt", _one(b, "Add", variance, _scalar(b, 1e-5 if x.dtype == F32 else 1e-2, x.dtype)))
    return _one(b, "Div", x, root) if b.chance(0.5) else _one(b, "Mul", x, _one(b, "Reciprocal", root))


def layer_norm_of(b, x):
    wide = _maybe_wide(b, x)
    centred = _one(b, "Sub", wide, _reduce(b, "ReduceMean", wide))
    y = _back(b, _over_root(b, centred, _reduce(b, "ReduceMean", _square(b, centred))), x.dtype)
    y = _one(b, "Mul", y, b.fresh(x.dtype, x.shape[-1:], "parameter"))
    return _one(b, "Add", y, b.fresh(x.dtype, x.shape[-1:], "parameter"))


def rms_norm_of(b, x):
    wide = _maybe_wide(b, x)
    y = _back(b, _over_root(b, wide, _reduce(b, "ReduceMean", _square(b, wide))), x.dtype)
    weight = b.fresh(x.dtype, x.shape[-1:], "parameter")
    if b.chance(0.2):  # Gemma's.
        weight = _one(b, "Add", weight, _scalar(b, 1, x.dtype))
    return _one(b, "Mul", y, weight)


@pattern
def layer_norm(b):
    layer_norm_of(b, _float(b, low=1))


@pattern
def rms_norm(b):
    rms_norm_of(b, _float(b, low=1))


@pattern
def norm_and_products(b):
    """A norm, and products that share it: norms are folded, products merged."""
    x = _float(b, low=2, high=3)
    y = layer_norm_of(b, x) if b.chance(0.4) else rms_norm_of(b, x) if b.chance(0.8) else x
    results = []
    for _ in range(b.rng.randint(1, 3)):
        z = _one(b, "MatMul", y, b.fresh(x.dtype, (x.shape[-1], b.rng.choice((4, 8, 16))), b.rng.choice(("parameter", "parameter", "input"))))
        results.append(_one(b, "Add", z, b.fresh(x.dtype, z.shape[-1:], "parameter")) if b.chance(0.4) else z)
    if len(results) > 1 and results[0].shape == results[1].shape:
        gate = _one(b, "Mul", results[0], _one(b, "Sigmoid", results[0]))
        _one(b, "Mul", gate, results[1])


@pattern
def softmax(b):
    x = _float(b, low=1)
    shifted = _one(b, "Exp", _one(b, "Sub", x, _reduce(b, "ReduceMax", x)))
    _one(b, "Div", shifted, _reduce(b, "ReduceSum", shifted))


def _heads(b, x, count, swap=False):
    batch, length, width = x.shape
    y = _one(b, "Reshape", x, b.known([batch, length, count, width // count]))
    return _one(b, "Transpose", y, perm=[0, 2, 3, 1] if swap else [0, 2, 1, 3])


def _rotated(b, x, cos, sin):
    size = x.shape[-1]
    axis = b.known([x.rank - 1])
    first = _one(b, "Slice", x, b.known([0]), b.known([size // 2]), axis)
    second = _one(b, "Slice", x, b.known([size // 2]), b.known([2**63 - 1]), axis)
    turned = _one(b, "Concat", _one(b, "Neg", second), first, axis=-1)
    return _one(b, "Add", _one(b, "Mul", x, cos), _one(b, "Mul", turned, sin))


@pattern
def attention(b):
    """Projections, heads, rotary embedding, a cache, norms of heads, mask, softmax, as decoders have them."""
    dtype = b.float_type
    batch, length, heads, size = b.rng.choice((1, 1, 2)), b.rng.choice((1, 1, 3, 8)), b.rng.choice((1, 2, 4)), b.rng.choice((2, 4, 8, 16))
    kv_heads = b.rng.choice([count for count in (1, 2, 4) if heads % count == 0])
    x = b.fresh(dtype, (batch, length, b.rng.choice((4, 8, 16))), "input")
    q, k, v = (
        _heads(b, _one(b, "MatMul", x, b.fresh(dtype, (x.shape[-1], count * size), "parameter")), count)
        for count in (heads, kv_heads, kv_heads)
    )
    if b.chance(0.3):
        q, k = rms_norm_of(b, q), rms_norm_of(b, k)
    if b.chance(0.4):
        cos, sin = (b.fresh(dtype, (1, 1, length, size), "input") for _ in "cs")
        q, k = _rotated(b, q, cos, sin), _rotated(b, k, cos, sin)
    if b.chance(0.4):
        past = b.rng.choice((1, 4, 7))
        k, v = (_one(b, "Concat", b.fresh(dtype, (batch, kv_heads, past, size), "input"), one, axis=2) for one in (k, v))
    if kv_heads < heads:
        repeats, keys = heads // kv_heads, k.shape[2]
        k, v = (
            _one(b, "Reshape", _one(b, "Expand", _one(b, "Unsqueeze", one, b.known([2])), b.known([batch, kv_heads, repeats, keys, size])), b.known([batch, heads, keys, size]))
            for one in (k, v)
        )
    scores = _one(b, "MatMul", q, _one(b, "Transpose", k, perm=[0, 1, 3, 2]))
    scores = _one(b, "Mul" if b.chance(0.5) else "Div", scores, _scalar(b, b.rng.choice((0.25, 2.0)), dtype))
    if b.chance(0.3):
        scores = _one(b, "Mul", _one(b, "Tanh", _one(b, "Div", scores, _scalar(b, 4, dtype))), _scalar(b, 4, dtype))
    if b.chance(0.5):
        mask_shape = b.rng.choice(((1, 1, length, k.shape[2]), (length, k.shape[2]), (batch, 1, 1, k.shape[2])))
        if b.chance(0.5):
            scores = _one(b, "Add", scores, b.fresh(dtype, mask_shape, "input"))
        else:
            scores = _one(b, "Where", b.fresh(BOOL, mask_shape, "input"), scores, _scalar(b, -1000, dtype), dtype=dtype)
    y = _one(b, "MatMul", _one(b, "Softmax", scores, axis=-1), v)
    y = _one(b, "Reshape", _one(b, "Transpose", y, perm=[0, 2, 1, 3]), b.known([batch, length, heads * size]))
    if b.chance(0.6):
        y = _one(b, "MatMul", y, b.fresh(dtype, (heads * size, x.shape[-1]), "parameter"))
        if b.chance(0.5):
            _one(b, "Add", y, x)


@pattern
def gathered_shape(b):
    """Shape arithmetic: Shape, Gather, Concat, Reshape."""
    x = _float(b, low=2)
    shape = _one(b, "Shape", x, dtype=I64)
    first = _one(b, "Gather", shape, b.known(0), axis=0, dtype=I64)
    target = _one(b, "Concat", _one(b, "Unsqueeze", first, b.known([0])), b.known([-1]), axis=0, dtype=I64)
    _one(b, "Reshape", x, target)


@pattern
def split_and_join(b):
    x = _float(b, low=1, fits=lambda value: value.shape[-1] % 2 == 0)
    half = x.shape[-1] // 2
    first, second = b.node("Split", [x, b.known([half, half])], outputs=2, axis=-1)
    choice = b.rng.randrange(3)
    if choice == 0:
        _one(b, "Mul", first, _one(b, "Sigmoid", second))
    elif choice == 1:
        _one(b, "Concat", _one(b, "Relu", second), first, axis=-1)
    else:
        _one(b, "Concat", first, second, axis=-1)


@pattern
def transposed_products(b):
    x = _float(b, low=2, high=3)
    y = _one(b, "Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])
    weight = _one(b, "Transpose", b.fresh(x.dtype, (b.rng.choice((1, 4, 9)), y.shape[-1]), "parameter"), perm=[1, 0])
    z = _one(b, "MatMul", y, weight)
    if b.chance(0.5):
        _one(b, "Relu", _one(b, "Add", z, b.fresh(x.dtype, z.shape[-1:], "parameter")))


@pattern
def causal_mask(b):
    x = _float(b, low=2, high=4)
    rows, columns = x.shape[-2:]
    ones = b.source(np.ones((rows, columns)), x.dtype, "constant")
    kept = b.cast(_one(b, "Trilu", ones, upper=0), BOOL)[0]
    scores = _one(b, "Where", kept, x, _scalar(b, -1e4, x.dtype), dtype=x.dtype)
    _one(b, "Softmax", scores, axis=-1)


@pattern
def moments(b):
    """Reductions over several axes of one tensor."""
    x = _float(b, low=2)
    axes = b.axes(x.rank, least=2)
    if b.opset >= 18:
        mean = _one(b, "ReduceMean", x, b.known(axes))
    else:
        mean = _one(b, "ReduceMean", x, axes=axes)
    centred = _one(b, "Sub", x, mean)
    _one(b, "ReduceSum", _one(b, "Mul", centred, centred), b.known(axes), keepdims=0)


@pattern
def nothing_between(b):
    """A piece without elements on its way to where it is joined or padded."""
    x = b.pick([b.float_type, I64], low=1, high=3)
    axis = b.rng.randrange(x.rank)
    empty = _one(b, "Slice", x, b.known([1]), b.known([1]), b.known([axis]))
    if b.chance(0.4) and x.rank > 1:
        order = b.rng.sample(range(x.rank), x.rank)
        x, empty, axis = _one(b, "Transpose", x, perm=order), _one(b, "Transpose", empty, perm=order), order.index(axis)
    if b.chance(0.5):
        pads = np.asarray([b.rng.choice((0, 1, 2)) for _ in range(2 * x.rank)])
        pads[axis] = 1
        _one(b, "Pad", empty, b.known(pads), b.fresh(x.dtype, ()))
    else:
        _one(b, "Concat", *b.rng.sample([empty, x, empty], 3), axis=axis - x.rank)
