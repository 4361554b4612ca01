"""Generators of ops that move, look up and scatter elements."""

import math

import numpy as np

from ..graph import Reject
from ..values import BOOL, F32, I32, I64, INTEGERS, NUMPY_TYPE, random_integers
from .registry import generator


@generator("Reshape")
def _reshape(b):
    x = b.operand("Reshape")
    shape = _split_sizes(b, x.array.size)
    if shape and b.chance(0.3):
        shape[b.rng.randrange(len(shape))] = -1
    elif b.chance(0.2):
        shape = [0 if i < x.rank and x.shape[i] == size and b.chance(0.7) else size for i, size in enumerate(shape)]
    allow_zero = 1 if b.opset >= 14 and 0 not in shape and b.chance(0.1) else None
    b.node("Reshape", [x, b.known(np.asarray(shape, np.int64))], allowzero=allow_zero)


def _split_sizes(b, elements):
    """Sizes whose product is `elements`."""
    sizes = []
    while elements > 1 and len(sizes) < 4:
        factors = [factor for factor in range(1, elements + 1) if elements % factor == 0]
        size = b.rng.choice(factors)
        sizes.append(size)
        elements //= size
    return sizes + [elements] if elements > 1 or (b.chance(0.2) and len(sizes) < 4) else sizes


@generator("Flatten")
def _flatten(b):
    x = b.operand("Flatten")
    b.node("Flatten", [x], axis=b.rng.choice((None, b.rng.randint(-x.rank, x.rank))) if x.rank else 0)


@generator("Squeeze")
def _squeeze(b):
    x = b.operand("Squeeze", fits=lambda value: 1 in value.shape)
    ones = [axis - x.rank if b.chance(0.3) else axis for axis, size in enumerate(x.shape) if size == 1]
    if b.chance(0.3):
        b.node("Squeeze", [x])
    else:
        b.node("Squeeze", [x, b.known(b.rng.sample(ones, b.rng.randint(1, len(ones))))])


@generator("Unsqueeze")
def _unsqueeze(b):
    x = b.operand("Unsqueeze", high=3)
    count = b.rng.randint(1, 2)
    rank = x.rank + count
    axes = [axis - rank if b.chance(0.3) else axis for axis in b.rng.sample(range(rank), count)]
    b.node("Unsqueeze", [x, b.known(axes)])


@generator("Transpose")
def _transpose(b):
    x = b.operand("Transpose")
    permutation = b.rng.sample(range(x.rank), x.rank)
    if b.chance(0.1):  # Not ONNX, but exported.
        permutation = [dim - b.rng.choice((0, x.rank)) for dim in permutation]
    b.node("Transpose", [x], perm=None if b.chance(0.2) else permutation or None)


@generator("Expand")
def _expand(b):
    x = b.operand("Expand")
    b.node("Expand", [x, b.known(np.asarray(b.broadcast_shape(x.shape), np.int64))])


@generator("Tile")
def _tile(b):
    x = b.operand("Tile")
    repeats = [b.rng.choice((1, 1, 1, 2, 3)) for _ in x.shape]
    if x.array.size * math.prod(repeats) > 2000:
        repeats = [1] * x.rank
    b.node("Tile", [x, b.known(np.asarray(repeats, np.int64))])


@generator("Concat")
def _concat(b):
    x = b.operand("Concat", low=1)
    axis = b.axis(x.rank)
    pieces = [x]
    for _ in range(b.rng.choice((0, 1, 1, 2, 4))):
        shape = list(x.shape)
        shape[axis] = b.rng.choice((0, 1, 1, 2, 3, 5))
        same = [v for v in b.graph.values[-12:] if v.dtype == x.dtype and v.rank == x.rank and _agree(v, x, axis)]
        pieces.append(b.rng.choice(same) if same and b.chance(0.5) else b.fresh(x.dtype, shape))
    b.rng.shuffle(pieces)
    b.node("Concat", pieces, axis=axis)


def _agree(a, b, axis):
    return all(i == axis % a.rank or one == other for i, (one, other) in enumerate(zip(a.shape, b.shape)))


@generator("Split")
def _split(b):
    x = b.operand("Split", low=1)
    axis = b.axis(x.rank)
    size = x.shape[axis]
    pieces = b.rng.randint(1, 4)
    if b.chance(0.5):
        cuts = sorted(b.rng.randint(0, size) for _ in range(pieces - 1))
        sizes = np.diff([0, *cuts, size])
        b.node("Split", [x, b.known(sizes)], outputs=pieces, axis=axis)
    elif b.opset >= 18:
        if -(-size // pieces) * (pieces - 1) > size:
            raise Reject("more pieces than elements")
        b.node("Split", [x], outputs=pieces, axis=axis, num_outputs=pieces)
    else:
        pieces = b.rng.choice([count for count in range(1, 5) if size % count == 0])
        b.node("Split", [x], outputs=pieces, axis=axis)


@generator("Slice")
def _slice(b):
    x = b.operand("Slice", low=1)
    axes = b.axes(x.rank, least=1)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = b.rng.choice((1, 1, 1, 2, 3, -1, -1, -2))
        first, last = b.rng.randint(-1, size), b.rng.randint(-1, size + 1)
        if step < 0:
            first, last = max(first, last), min(first, last)
        else:
            first, last = max(min(first, last), 0), max(first, last)
        starts.append(b.rng.choice((first, first - size if 0 <= first < size else first)))
        ends.append(last if last >= 0 else -(2**63) if step < 0 and b.chance(0.5) else -size - 1)
        if step > 0 and b.chance(0.3):
            ends[-1] = 2**63 - 1
        steps.append(step)
    dtype = b.rng.choice((I64, I64, I32))
    limits = np.iinfo(NUMPY_TYPE[dtype])

    def numbers(values):
        return b.known(np.clip(np.asarray(values, object), limits.min, limits.max).astype(np.int64), dtype)

    inputs = [x, numbers(starts), numbers(ends)]
    if axes != list(range(len(axes))) or b.chance(0.5) or steps != [1] * len(axes):
        inputs.append(numbers(axes))
    if steps != [1] * len(axes) or (len(inputs) == 4 and b.chance(0.5)):
        inputs.append(numbers(steps))
    b.node("Slice", inputs)


@generator("Pad")
def _pad(b):
    x = b.operand("Pad", low=1)
    axes = None
    if b.opset >= 18 and b.chance(0.4):
        axes = b.axes(x.rank, least=1)
    count = x.rank if axes is None else len(axes)
    pads = [b.rng.choice((0, 0, 1, 2)) for _ in range(2 * count)]
    mode = b.rng.choice((None, None, "constant", "edge", "reflect", *["wrap"] * (b.opset >= 19)))
    value = b.fresh(x.dtype, ()) if b.chance(0.5) and mode in (None, "constant") else None
    b.node("Pad", [x, b.known(pads), value, b.known(axes) if axes is not None else None], mode=mode)


def _image(b, op, divides):
    dtype = b.some_dtype(b.dtypes(op))
    shape = [b.rng.choice((1, 2)), b.rng.choice((1, 2, 3)), b.rng.choice((1, 2, 3)), b.rng.choice((1, 2, 5))]
    for axis, factor in divides.items():
        shape[axis] *= factor
    return b.fresh(dtype, shape)


@generator("DepthToSpace")
def _depth_to_space(b):
    side = b.rng.choice((1, 2, 3))
    x = _image(b, "DepthToSpace", {1: side * side})
    b.node("DepthToSpace", [x], blocksize=side, mode=b.rng.choice((None, "DCR", "CRD")))


@generator("SpaceToDepth")
def _space_to_depth(b):
    side = b.rng.choice((1, 2, 3))
    b.node("SpaceToDepth", [_image(b, "SpaceToDepth", {2: side, 3: side})], blocksize=side)


def _indices(b, size, shape):
    dtype = b.rng.choice(INTEGERS)
    array = random_integers(b.rng, dtype, shape, -size, size - 1)
    return b.source(array, dtype)


@generator("Gather")
def _gather(b):
    x = b.operand("Gather", low=1, high=3)
    axis = b.axis(x.rank)
    shape = b.rng.choice(((), (1,), (3,), (2, 2), (5,)))
    b.node("Gather", [x, _indices(b, x.shape[axis], shape)], axis=axis)


@generator("GatherElements")
def _gather_elements(b):
    x = b.operand("GatherElements", low=1, high=3)
    axis = b.axis(x.rank)
    shape = [b.rng.randint(1, size) if b.chance(0.3) else size for size in x.shape]
    shape[axis] = b.rng.choice((1, 2, x.shape[axis]))
    b.node("GatherElements", [x, _indices(b, x.shape[axis], shape)], axis=axis)


def _column(b, size, box):
    """Indices of a dimension of `size` for every position of a box: exporters write regular ones in full."""
    ways = [axis for axis, count in enumerate(box) if 1 < count <= size]
    if ways and b.chance(0.5):
        axis = b.rng.choice(ways)
        step = b.rng.choice([step for step in (1, 1, 1, 2, -1) if abs(step) * (box[axis] - 1) < size])
        reach = abs(step) * (box[axis] - 1)
        line = step * np.arange(box[axis]) + b.rng.choice((0, size - 1 - reach)) + (reach if step < 0 else 0)
        return line.reshape([-1 if i == axis else 1 for i in range(len(box))])
    shape = [count if b.chance(0.7) else 1 for count in box]
    return random_integers(b.rng, I64, tuple(shape), -size if b.chance(0.3) else 0, size - 1)


def _coordinates(b, sizes, box):
    """Index tensors of dimensions of `sizes`, one behind the other: as one constant, as one input, or joined."""
    columns = [_column(b, size, box) for size in sizes]
    if b.chance(0.6):
        whole = np.stack([np.broadcast_to(column, box) for column in columns], -1)
        return b.source(whole, I64, b.rng.choice(("constant", "initializer", "input", "input")))
    pieces = []
    for column in columns:
        value = b.source(column, I64, b.rng.choice(("constant", "initializer", "input")))
        if column.shape != tuple(box) or b.chance(0.3):
            (value,) = b.node("Expand", [value, b.known(np.asarray(box, np.int64))])
        pieces.append(b.node("Unsqueeze", [value, b.known([-1])])[0])
    return b.node("Concat", pieces, axis=-1)[0]


@generator("GatherND")
def _gather_nd(b):
    x = b.operand("GatherND", low=1, fits=lambda value: value.array.size)
    batch = b.rng.randint(0, x.rank - 1) if b.chance(0.4) else 0
    depth = b.rng.randint(1, x.rank - batch)
    box = (*x.shape[:batch], *b.rng.choice((b.small_shape(), x.shape[batch : batch + depth], ())))
    if math.prod(box) * math.prod(x.shape[batch + depth :]) > 3000:
        raise Reject("too large")
    b.node("GatherND", [x, _coordinates(b, x.shape[batch : batch + depth], box)], batch_dims=batch or None)


def _reduction(b, x, since_max=18):
    """How several updates of an element become one."""
    if x.dtype == BOOL or b.opset < 16:
        return None
    return b.rng.choice((None, None, "none", "add", "mul", *(("max", "min") if b.opset >= since_max else ())))


@generator("ScatterND")
def _scatter_nd(b):
    x = b.operand("ScatterND", low=1, fits=lambda value: value.array.size)
    depth = b.rng.randint(1, x.rank)
    box = b.rng.choice((b.small_shape(), b.small_shape(), tuple(b.rng.randint(1, size) for size in x.shape[:depth])))
    shape = (*box, *x.shape[depth:])
    if math.prod(shape) > 3000 or math.prod(box) > 60:
        raise Reject("too large")
    b.node("ScatterND", [x, _coordinates(b, x.shape[:depth], box), b.fresh(x.dtype, shape)], reduction=_reduction(b, x))


@generator("ScatterElements")
def _scatter_elements(b):
    x = b.operand("ScatterElements", low=1, high=3)
    axis = b.axis(x.rank)
    shape = [b.rng.randint(1, size) if b.chance(0.3) else size for size in x.shape]
    shape[axis] = b.rng.choice((1, 2, min(x.shape[axis], 7), 11))
    index = _column(b, x.shape[axis], shape)
    dtype = b.rng.choice(INTEGERS)
    if b.chance(0.5):
        indices = b.source(np.broadcast_to(index, shape).astype(NUMPY_TYPE[dtype]), dtype)
    else:
        narrow = b.source(index.astype(NUMPY_TYPE[dtype]), dtype)
        (indices,) = b.node("Expand", [narrow, b.known(np.asarray(shape, np.int64))])
    b.node("ScatterElements", [x, indices, b.fresh(x.dtype, shape)], axis=axis, reduction=_reduction(b, x))


@generator("TensorScatter")
def _tensor_scatter(b):
    x = b.operand("TensorScatter", low=2)
    axis = b.rng.choice([axis for axis in range(-x.rank, x.rank) if axis not in (0, -x.rank)])
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = rows = b.rng.choice((1, 1, min(size, 3), size))
    mode = b.rng.choice((None, "linear", "circular"))
    last = size + 3 if mode == "circular" else size - rows
    at = b.source(random_integers(b.rng, I64, (x.shape[0],), 0, last), I64) if b.chance(0.8) else None
    b.node("TensorScatter", [x, b.fresh(x.dtype, shape), at], mode=mode, axis=axis if axis != -2 or b.chance(0.5) else None)


@generator("OneHot")
def _one_hot(b):
    depth = b.rng.choice((1, 2, 3, 7, 16))
    dtype = b.rng.choice((I32, I64, I64, F32))
    array = random_integers(b.rng, I64, b.small_shape(), -depth - 1, depth)
    if b.chance(0.3):
        index = b.pick([I64, I32], high=3, fits=lambda value: value.array.size <= 100)
    else:
        index = b.source(array.astype(np.float64 if dtype == F32 else NUMPY_TYPE[dtype]), dtype)
    size = b.source(np.asarray(depth if b.chance(0.5) else [depth]), I64, b.rng.choice(("initializer", "constant")))
    values = b.fresh(b.rng.choice((b.float_type, I64, I32, BOOL)), (2,))
    b.node("OneHot", [index, size, values], values.dtype, axis=b.rng.choice((None, b.axis(index.rank + 1))))


@generator("Trilu")
def _trilu(b):
    x = b.operand("Trilu", low=2)
    k = b.source(np.asarray(b.rng.randint(-3, 3)), I64, "initializer") if b.chance(0.7) else None
    b.node("Trilu", [x, k], upper=b.rng.choice((None, 0, 1)))


@generator("CumSum")
def _cum_sum(b):
    x = b.operand("CumSum", low=1, fits=lambda value: value.array.size < 600)
    axis = b.source(np.asarray(b.axis(x.rank)), I64, "initializer")
    b.node("CumSum", [x, axis], exclusive=b.rng.choice((None, 1)), reverse=b.rng.choice((None, 1)))
