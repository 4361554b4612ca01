"""How each op of the importer is drawn at random: one generator an op, by its name in the importer's table."""

import math

import numpy as np

from .graph import CONTRIB, Reject
from .values import BOOL, FLOATS, F32, I32, I64, INTEGERS, NUMPY_TYPE, ONNX_TYPE, random_floats, random_integers, round_to

GENERATORS = {}


def generator(*names):
    def register(generate):
        for name in names:
            GENERATORS[name] = generate
        return generate

    return register


# Elementwise.


def _unary(op, dtypes=None, **limits):
    def generate(b):
        b.node(op, [b.operand(op, **limits)], dtypes)

    GENERATORS[op] = generate


for _op in (
    """Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor HardSwish Identity Mish Neg Relu Round Sigmoid Sign Sin Sinh Softplus Softsign
    Tan Tanh""".split()
):
    _unary(_op)
for _op in ("Not", "IsNaN"):
    _unary(_op, BOOL)


@generator("Acos", "Acosh", "Asin", "Atanh")
def _inverse(b):
    """Operands lie where the function is defined, as a rule."""
    op = b.op
    x = b.operand(op)
    if not b.chance(0.2):
        dtype = "Cosh" if op == "Acosh" else "Sin"
        (x,) = b.node(dtype, [x])
    b.node(op, [x])


@generator("Log")
def _log(b):
    b.node("Log", [_positive(b, "Log")])


@generator("Sqrt")
def _sqrt(b):
    b.node("Sqrt", [_positive(b, "Sqrt")])


@generator("Reciprocal")
def _reciprocal(b):
    b.node("Reciprocal", [_positive(b, "Reciprocal") if b.chance(0.5) else b.operand("Reciprocal")])


def _positive(b, op):
    x = b.operand(op)
    if b.special or b.chance(0.1):
        return x
    (x,) = b.node("Abs", [x])
    if b.chance(0.5):
        (x,) = b.node("Add", [x, b.source(round_to(np.full((), 0.25), x.dtype), x.dtype)])
    return x


def _binary(op, result=None):
    def generate(b):
        x = b.operand(op)
        inputs = [x, b.partner(x)]
        b.rng.shuffle(inputs)
        b.node(op, inputs, result)

    GENERATORS[op] = generate


for _op in ("Add", "Sub", "Mul"):
    _binary(_op)
for _op in "BitwiseAnd BitwiseOr BitwiseXor".split():


    def _bitwise(b, op=_op):
        x = b.pick([I32, I64])
        if not b.dtypes(op):
            raise Reject("no type fits")
        inputs = [x, b.partner(x)]
        b.rng.shuffle(inputs)
        b.node(op, inputs)

    GENERATORS[_op] = _bitwise


@generator("BitwiseNot")
def _bitwise_not(b):
    if b.dtypes("BitwiseNot"):
        b.node("BitwiseNot", [b.pick([I32, I64])])


for _op in "And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual".split():
    _binary(_op, BOOL)


def _nonzero(b, x):
    """Integers that may divide."""
    shape = b.broadcast_shape(x.shape)
    array = random_integers(b.rng, x.dtype, shape, 1, 9) * (-1 if b.chance(0.3) else 1)
    return b.source(array.astype(NUMPY_TYPE[x.dtype]), x.dtype)


@generator("Div")
def _div(b):
    x = b.operand("Div")
    b.node("Div", [x, _nonzero(b, x) if x.dtype in INTEGERS else b.partner(x)])


@generator("Mod")
def _mod(b):
    x = b.operand("Mod")
    if x.dtype in FLOATS:
        b.node("Mod", [x, b.partner(x)], fmod=1)
    else:
        b.node("Mod", [x, _nonzero(b, x)], fmod=b.rng.choice((None, 0, 1)))


@generator("Pow")
def _pow(b):
    x = b.pick([dtype for dtype in b.dtypes("Pow") if dtype in FLOATS])
    kind = b.rng.randrange(4)
    if kind == 0:
        exponent = b.partner(x)
    elif kind == 1:
        exponent = b.source(np.asarray(b.rng.choice((-2, -1, 0, 1, 2, 3)), NUMPY_TYPE[I64]), I64)
    else:
        exponent = b.source(np.asarray(b.rng.choice((-2.0, -1, -0.5, 0, 0.5, 1, 2, 3))), x.dtype)
        if abs(exponent.array) == 0.5:  # A root, as in NumPy, which has another sign at -0 and -infinity than C's power.
            (x,) = b.node("Abs", [x])
    b.node("Pow", [x, exponent])


@generator("Max", "Min", "Mean", "Sum")
def _variadic(b):
    op = b.op
    x = b.operand(op)
    inputs = [x]
    for _ in range(b.rng.choice((0, 1, 1, 2, 3))):
        inputs.append(b.partner(x, one_way=True))
    b.rng.shuffle(inputs)
    b.node(op, inputs)


@generator("Clip")
def _clip(b):
    x = b.operand("Clip")

    def bound():
        if b.chance(0.3):
            return None
        if x.dtype in INTEGERS:
            return b.fresh(x.dtype, ())
        return b.source(round_to(np.asarray(b.rng.uniform(-3, 3)), x.dtype), x.dtype)

    low, high = bound(), bound()
    if low and high and low.array > high.array:
        low, high = high, low
    b.node("Clip", [x, low, high])


@generator("Where")
def _where(b):
    x = b.operand("Where", 1)
    inputs = [x, b.partner(x)]
    b.rng.shuffle(inputs)
    b.node("Where", [b.partner(x, BOOL), *inputs], x.dtype)


@generator("Cast")
def _cast(b):
    x = b.operand("Cast")
    dtype = b.rng.choice([F32, "f16", "bf16", I32, I64, BOOL])
    b.cast(x, dtype)


@generator("CastLike")
def _cast_like(b):
    x = b.operand("CastLike")
    dtype = b.rng.choice(b.dtypes("CastLike", 1))
    b.node("CastLike", [x, b.pick([dtype])], dtype)


@generator("Dropout")
def _dropout(b):
    x = b.operand("Dropout")
    ratio = b.source(np.asarray(0.5), F32, "initializer") if b.chance(0.3) else None
    training = b.source(np.asarray(False), BOOL, "initializer") if ratio and b.chance(0.5) else None
    if b.chance(0.3):
        b.node("Dropout", [x, ratio, training], [x.dtype, BOOL], outputs=2)
    else:
        b.node("Dropout", [x, ratio, training])


@generator("Elu")
def _elu(b):
    b.node("Elu", [b.operand("Elu")], alpha=b.rng.choice((None, 0.5, 2.0)))


@generator("Celu")
def _celu(b):
    b.node("Celu", [b.operand("Celu")], alpha=b.rng.choice((None, 0.5, 2.0)))


@generator("Selu")
def _selu(b):
    b.node("Selu", [b.operand("Selu")], alpha=b.rng.choice((None, 0.5)), gamma=b.rng.choice((None, 2.0)))


@generator("ThresholdedRelu", "Swish")
def _with_alpha(b):
    b.node(b.op, [b.operand(b.op)], alpha=b.rng.choice((None, 0.25, -0.5)))


@generator("Shrink")
def _shrink(b):
    x = b.pick([dtype for dtype in b.dtypes("Shrink") if dtype in FLOATS])
    b.node("Shrink", [x], lambd=b.rng.choice((None, 1.5)), bias=b.rng.choice((None, 0.25)))


@generator("LeakyRelu")
def _leaky_relu(b):
    b.node("LeakyRelu", [b.operand("LeakyRelu")], alpha=b.rng.choice((None, 0.2, -0.5)))


@generator("PRelu")
def _prelu(b):
    x = b.operand("PRelu")
    b.node("PRelu", [x, b.partner(x, one_way=True)])


@generator("HardSigmoid")
def _hard_sigmoid(b):
    b.node("HardSigmoid", [b.operand("HardSigmoid")], alpha=b.rng.choice((None, 0.5)), beta=b.rng.choice((None, 0.1)))


@generator("IsInf")
def _is_inf(b):
    x = b.operand("IsInf")
    b.node("IsInf", [x], BOOL, detect_negative=b.rng.choice((None, 0, 1)), detect_positive=b.rng.choice((None, 0, 1)))


@generator("Gelu")
def _gelu(b):
    b.node("Gelu", [b.operand("Gelu")], approximate=b.rng.choice((None, "none", "tanh")))


@generator("BatchNormalization")
def _batch_norm(b):
    x = b.operand("BatchNormalization", low=2)
    channels = (x.shape[1],)
    variance = b.source(round_to(np.abs(random_floats(b.rng, x.dtype, channels)) + 0.1, x.dtype), x.dtype)
    others = [b.fresh(x.dtype, channels) for _ in range(3)]
    operands, epsilon = [x, *others, variance], b.rng.choice((None, 1e-3))
    if b.opset < 14 or b.chance(0.6):
        b.node("BatchNormalization", operands, epsilon=epsilon)
        return
    if x.array.size < 4 * x.shape[1] or not np.isfinite(x.array).all():
        raise Reject("a variance of few numbers, or of none")
    if any(np.var(x.array[:, channel]) < 1e-2 * (1 + np.mean(x.array[:, channel]) ** 2) for channel in range(x.shape[1])):
        raise Reject("numbers that are all but equal, whose difference is rounding")
    b.node("BatchNormalization", operands, outputs=b.rng.choice((1, 3)), epsilon=epsilon, training_mode=1, momentum=0.75)


@generator("com.microsoft.Gelu", "com.microsoft.QuickGelu")
def _contrib_unary(b):
    op = b.op.split(".")[-1]
    alpha = b.rng.choice((None, 1.0)) if op == "QuickGelu" else None
    b.node(op, [b.pick(b.floats())], domain=CONTRIB, alpha=alpha)


@generator("com.microsoft.BiasGelu", "com.microsoft.FastGelu")
def _contrib_biased(b):
    x = b.pick(b.floats(), low=1)
    bias = None if "Fast" in b.op and b.chance(0.3) else b.fresh(x.dtype, x.shape[-1:])
    b.node(b.op.split(".")[-1], [x, bias], domain=CONTRIB)


# Layout.


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


# Indexing.


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


# Rows.


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
    shape = _shape_of(b) if b.chance(0.5) else b.known([b.rng.randint(-4, 5) for _ in range(b.rng.randint(1, 4))])
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


# Products.


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


# Windows.


def _spatial(b, op):
    """[N, C, S...], of three dimensions of space at most."""
    return b.operand(op, low=3, high=5 if b.chance(0.15) else 4, fits=lambda value: value.array.size <= 800)


def _window_attributes(b, sizes, dilates=True, ceils=False):
    """kernel_shape and the rest, so that windows fit."""
    rank = len(sizes)
    patches = b.chance(0.25)
    kernel, strides, dilations, before, after = [], [], [], [], []
    for size in sizes:
        length = b.rng.choice([k for k in (1, 2, 3, 3, 4, 8) if k <= size + 2])
        stride = length if patches else b.rng.choice((1, 1, 1, 2, 3))
        dilation = b.rng.choice((1, 1, 1, 2, 3)) if dilates and not patches else 1
        reach = dilation * (length - 1) + 1
        most = max(min(reach - 1, 4), 0)
        low, high = (0, 0) if patches and size >= reach else (b.rng.randint(0, most), b.rng.randint(0, most))
        if size + low + high < reach:
            length = dilation = 1
            low = high = 0
        kernel.append(length), strides.append(stride), dilations.append(dilation)
        before.append(low), after.append(high)
    attributes = {"strides": strides if set(strides) != {1} or b.chance(0.5) else None}
    if dilates and set(dilations) != {1}:
        attributes["dilations"] = dilations
    fits = all(size >= d * (k - 1) + 1 for size, d, k in zip(sizes, dilations, kernel))
    if b.chance(0.2) and (fits or b.chance(0.5)):
        attributes["auto_pad"] = b.rng.choice(("SAME_UPPER", "SAME_LOWER", *["VALID"] * fits))
    elif any(before + after) or b.chance(0.3):
        attributes["pads"] = before + after
    if ceils and "auto_pad" not in attributes:
        attributes["ceil_mode"] = b.rng.choice((None, None, 1))
    return kernel, attributes


@generator("Conv", "ConvTranspose")
def _conv(b):
    x = _spatial(b, b.op)
    channels = x.shape[1]
    groups = b.rng.choice([1, 1, channels, *[g for g in (2, 3, 4, 8) if channels % g == 0]])
    per_group = b.rng.choice((1, 1, 2, 3, 8)) if groups > 1 else b.rng.choice((1, 2, 5, 8, 16))
    kernel, attributes = _window_attributes(b, x.shape[2:])
    if b.op == "Conv":
        shape = (groups * per_group, channels // groups, *kernel)
    else:
        shape = (channels, per_group, *kernel)
        attributes.pop("auto_pad", None)
        strides = attributes.get("strides") or [1] * len(kernel)
        if b.chance(0.3):
            attributes["output_padding"] = [b.rng.randint(0, stride - 1) for stride in strides]
    weights = b.fresh(x.dtype, shape, b.rng.choice(("parameter", "initializer", "input")))
    if b.op == "ConvTranspose" and not np.isfinite(weights.array).all():
        raise Reject("zeros between the elements of x, which are not there by ONNX, meet infinity")
    bias = b.fresh(x.dtype, (groups * per_group,), "parameter") if b.chance(0.6) else None
    if groups != 1 or b.chance(0.3):
        attributes["group"] = groups
    (y,) = b.node(b.op, [x, weights, bias], kernel_shape=kernel if b.chance(0.7) else None, **attributes)
    if y.array.size == 0:
        raise Reject("pads cut everything off")


@generator("MaxPool", "AveragePool", "LpPool")
def _pool(b):
    x = _spatial(b, b.op)
    dilates = b.op == "MaxPool" or b.opset >= (19 if b.op == "AveragePool" else 18)
    kernel, attributes = _window_attributes(b, x.shape[2:], dilates, ceils=b.op != "LpPool" or b.opset >= 18)
    rank = len(kernel)
    pads = attributes.get("pads", [0] * 2 * rank)
    if any(pads[i] >= kernel[i] or pads[rank + i] >= kernel[i] for i in range(rank)):
        raise Reject("a window of pads alone")
    if b.op == "AveragePool":
        attributes["count_include_pad"] = b.rng.choice((None, 0, 1))
    if b.op == "LpPool":
        attributes["p"] = b.rng.choice((None, 1, 2))
    b.node(b.op, [x], kernel_shape=kernel, **attributes)


@generator("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(b):
    b.node(b.op, [_spatial(b, b.op)])


@generator("InstanceNormalization", "GroupNormalization")
def _channel_norm(b):
    x = _spatial(b, b.op)
    groups = x.shape[1]
    attributes = {"epsilon": b.rng.choice((None, 1e-3))}
    count = groups
    if b.op == "GroupNormalization":
        groups = b.rng.choice([g for g in range(1, groups + 1) if groups % g == 0])
        attributes["num_groups"] = groups
        count = x.shape[1] if b.opset >= 21 else groups
    if x.array.size == x.shape[0] * groups:
        raise Reject("rows of one element")
    b.node(b.op, [x, *(b.fresh(x.dtype, (count,)) for _ in range(2))], **attributes)


@generator("Resize")
def _resize(b):
    mode = b.rng.choice(("nearest", "linear", "linear", "cubic"))
    x = b.pick([d for d in b.dtypes("Resize") if d in FLOATS or mode == "nearest"], low=2, fits=lambda v: v.array.size <= 800)
    if x.dtype in FLOATS and not np.isfinite(x.array).all():
        raise Reject("the evaluator's weights of 0 meet infinity")
    count = b.rng.choice((1, 2, 2, x.rank))
    axes = sorted(b.rng.sample(range(x.rank), min(count, x.rank)))
    factors = [b.rng.choice((0.5, 1, 2, 2, 3, 1.5, 0.75)) if i in axes else 1 for i in range(x.rank)]
    sizes = [max(int(size * factor), 1) for size, factor in zip(x.shape, factors)]
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": b.rng.choice(
            (None, "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
        ),
    }
    if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel" and 1 in sizes:
        raise Reject("the evaluator takes -0.5 for the place of a single result, ONNX says 0")
    if mode == "nearest":
        attributes["nearest_mode"] = b.rng.choice((None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = b.rng.choice((None, -0.5))
        attributes["exclude_outside"] = b.rng.choice((None, 1))
    if mode != "nearest" and b.opset >= 18 and b.chance(0.3):
        attributes["antialias"] = 1
    # The evaluator takes length * scale for the resized length, ONNX the whole number.
    whole = all(size == length * factor for size, length, factor in zip(sizes, x.shape, factors))
    chosen = list(range(x.rank))
    if b.opset >= 18 and b.chance(0.4):
        attributes["axes"] = chosen = axes
    if whole and b.chance(0.5):
        scales = b.source(np.asarray([float(factors[i]) for i in chosen]), F32, "initializer")
        b.node("Resize", [x, None, scales], **attributes)
    else:
        b.node("Resize", [x, None, None, b.known([sizes[i] for i in chosen])], **attributes)


@generator("GridSample")
def _grid_sample(b):
    mode = b.rng.choice(("nearest", "linear", "linear", "cubic"))
    rank = 2 if b.opset < 20 else b.rng.choice((2, 2, 3) if mode != "cubic" else (2,))
    dtypes = [dtype for dtype in b.dtypes("GridSample") if dtype in FLOATS or mode == "nearest"]
    x = b.pick(dtypes, low=rank + 2, high=rank + 2, fits=lambda v: v.array.size <= 400)
    if x.dtype in FLOATS and not np.isfinite(x.array).all():
        raise Reject("a weight of 0 meets infinity")
    aligned = b.rng.choice((None, 0, 1))
    shape = (x.shape[0], *(b.rng.choice((1, 2, 3, 5)) for _ in range(rank)))
    # Places that are no ties of the nearest element, nor where a kernel begins to leave the image.
    far = b.chance(0.2)
    numbers = np.empty((*shape, rank))
    for i, size in enumerate(reversed(x.shape[2:])):
        beyond = 2 * size if far else 2
        for at in np.ndindex(shape):
            place = b.rng.randint(-beyond, size - 1 + beyond) + b.rng.uniform(-0.4, 0.4)
            numbers[at + (i,)] = 2 * place / max(size - 1, 1) - 1 if aligned else (2 * place + 1) / size - 1
    allowed = [dtype for dtype in b.dtypes("GridSample", 1) if dtype in (F32, x.dtype) and dtype in FLOATS]
    dtype = F32 if far else b.rng.choice(allowed)  # In 16 bits distant places are ties.
    grid = b.source(round_to(numbers, dtype), dtype)
    names = {"linear": "bilinear", "cubic": "bicubic"} if b.opset < 20 else {}
    b.node("GridSample", [x, grid], x.dtype, mode=names.get(mode, mode), align_corners=aligned,
           padding_mode=b.rng.choice((None, "zeros", "border", "reflection")))


@generator("Col2Im")
def _col2im(b):
    rank = b.rng.choice((1, 2, 2))
    lengths, strides, dilations, counts, pads = ([b.rng.choice(sizes) for _ in range(rank)] for sizes in
                                                 ((1, 2, 3), (1, 2, 3), (1, 1, 2), (1, 2, 3), (0, 0, 1)))
    after = [b.rng.choice((0, 0, 1)) for _ in range(rank)]
    image = [(count - 1) * stride + dilation * (length - 1) + 1 - before - behind + b.rng.randint(0, stride - 1)
             for length, stride, dilation, count, before, behind in zip(lengths, strides, dilations, counts, pads, after)]
    if min(image) < 1:
        raise Reject("an image without elements")
    dtype = b.some_dtype([dtype for dtype in b.dtypes("Col2Im") if dtype in FLOATS])
    x = b.fresh(dtype, (b.rng.choice((1, 2)), b.rng.choice((1, 3)) * math.prod(lengths), math.prod(counts)))
    if not np.isfinite(x.array).all():
        raise Reject("the evaluator adds 0 times infinity")
    b.node("Col2Im", [x, b.known(image), b.known(lengths)], strides=strides, dilations=dilations, pads=[*pads, *after])


@generator("DFT")
def _dft(b):
    dtypes = [dtype for dtype in b.dtypes("DFT") if dtype in FLOATS]
    rank = b.rng.choice((3, 3, 4))
    shape = [b.rng.choice((1, 2, 3)) for _ in range(rank)]
    axis = b.rng.randint(1, rank - 2)
    shape[axis], shape[-1] = b.rng.choice((2, 3, 5, 8, 13)), b.rng.choice((1, 2))
    inverse, onesided = b.rng.choice((None, 0, 1)), b.rng.choice((None, 0, 1))
    if inverse and onesided:
        shape[-1] = 2
    if onesided and not inverse:
        shape[-1] = 1
    x = b.fresh(b.some_dtype(dtypes), tuple(shape))
    if not np.isfinite(x.array).all():
        raise Reject("a fast transform adds what a product does not")
    length = b.known(np.asarray(shape[axis] + b.rng.choice((-1, 1, 2)))) if b.chance(0.3) else None
    axis -= b.rng.choice((0, rank))
    if b.opset < 20:
        b.node("DFT", [x, length], axis=axis, inverse=inverse, onesided=onesided)
    else:
        b.node("DFT", [x, length, b.known(np.asarray(axis))], inverse=inverse, onesided=onesided)


# Known when the model is read.


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
    from .graph import tensor_of

    shape = b.known(np.asarray(b.small_shape(), np.int64))
    if b.chance(0.3):
        b.node("ConstantOfShape", [shape], F32)
    else:
        dtype = b.rng.choice((F32, "f16", I32, I64, BOOL))
        array = random_floats(b.rng, dtype, (1,)) if dtype in FLOATS else random_integers(b.rng, I64, (1,))
        b.node("ConstantOfShape", [shape], dtype, value=tensor_of(array, dtype))


def _shape_of(b):
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
    shape = _shape_of(b)
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
    from .graph import helper, info_of, tensor_of

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
    from .graph import helper, info_of

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


# Transformers.


@generator("RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def _rotary(b):
    is_contrib = b.op.startswith(CONTRIB)
    if not is_contrib:
        b.dtypes(b.op)
    batch, length, heads = b.rng.choice((1, 2)), b.rng.choice((1, 3, 8)), b.rng.choice((1, 2, 4))
    size = b.rng.choice((2, 4, 8, 16))
    packed = b.chance(0.5)
    dtype = b.some_dtype(b.floats())
    x = b.fresh(dtype, (batch, length, heads * size) if packed else (batch, heads, length, size), "input")
    rotated = size if is_contrib or b.chance(0.7) else b.rng.choice(range(2, size + 1, 2))
    flags = {"interleaved": b.rng.choice((None, 1)), "num_heads": heads if packed else None}
    if rotated != size:
        flags["rotary_embedding_dim"] = rotated
    most = 12
    positions = b.rng.choice(("each", "first")) if is_contrib else b.rng.choice(("each", "none"))
    tables = [b.fresh(dtype, (most, rotated // 2) if positions != "none" else (batch, length, rotated // 2)) for _ in "cs"]
    at = None
    if positions == "each":
        at = b.source(random_integers(b.rng, I64, (batch, length), 0, most - 1), I64, "input")
    elif positions == "first":
        at = b.source(random_integers(b.rng, I64, (1,), 0, most - length), I64, "input")
    if is_contrib:
        b.node("RotaryEmbedding", [x, at, *tables], domain=CONTRIB, **flags)
    else:
        b.node("RotaryEmbedding", [x, *tables, at], **flags)


@generator("Attention")
def _attention(b):
    b.dtypes("Attention")
    batch, kv_heads, repeats = b.rng.choice((1, 2)), b.rng.choice((1, 2)), b.rng.choice((1, 1, 2, 3))
    heads = kv_heads * repeats
    length, keys, size, value_size = (b.rng.choice(sizes) for sizes in ((1, 1, 3, 8), (1, 4, 9, 16), (1, 4, 8, 16), (1, 4, 8)))
    dtype = b.some_dtype(b.floats())
    packed = b.chance(0.4)

    def operand(count, rows, columns):
        shape = (batch, rows, count * columns) if packed else (batch, count, rows, columns)
        same = [v for v in b.graph.values[-12:] if v.dtype == dtype and v.shape == shape and v.kind == "made"]
        return b.rng.choice(same) if same else b.finite(dtype, shape, b.rng.choice(("input", "input", "parameter")))

    inputs = [operand(heads, length, size), operand(kv_heads, keys, size), operand(kv_heads, keys, value_size)]
    if not all(np.isfinite(value.array).all() for value in inputs):
        raise Reject("ONNX adds a mask to the scores, so that NaN shows through where kernels do not look")
    past = b.rng.choice((1, 5)) if b.chance(0.3) else 0
    mask = None
    if b.chance(0.5):
        leading = b.rng.choice(((), (1, 1), (batch, 1), (batch, heads), (heads,)))
        mask_type = b.rng.choice((BOOL, dtype))
        mask = b.finite(mask_type, (*leading, length, past + keys))
    inputs.append(mask)
    if past:
        inputs += [b.finite(dtype, (batch, kv_heads, past, columns)) for columns in (size, value_size)]
    attributes = {"q_num_heads": heads, "kv_num_heads": kv_heads} if packed else {}
    attributes["is_causal"] = b.rng.choice((None, 1))
    attributes["scale"] = b.rng.choice((None, 0.25))
    attributes["softcap"] = b.rng.choice((None, None, 2.0))
    outputs = 1
    if past or b.chance(0.2):
        outputs = 3
    if b.chance(0.15):
        outputs = 4
        attributes["qk_matmul_output_mode"] = b.rng.choice((0, 3))
        if attributes["qk_matmul_output_mode"] == 0:
            attributes["softcap"] = None  # The evaluator gives the scores behind it, ONNX those before it.
    b.node("Attention", inputs, dtype, outputs=outputs, **attributes)


from . import quantised_ops  # noqa: E402,F401  What registers itself here, too.
from . import runtime_ops  # noqa: E402,F401  What registers itself here, too.
