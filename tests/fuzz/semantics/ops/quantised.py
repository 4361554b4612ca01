"""Generators of ops on tensors of 8 and 4 bits, and what they compute, in NumPy."""

import numpy as np

from ..graph import CONTRIB, Reject
from ..reference import CONTRIB as OF_RUNTIME
from ..reference import at, own
from ..values import F32, I8, I32, I64, NUMPY_TYPE, U8
from .registry import generator

DIVISION = "the evaluator divides in the type of the scale; kfuse in f32"


def spread(scales, shape, attributes):
    """Scales, or zero points, as large as what they scale."""
    if scales is None or scales.size == 1 and scales.ndim < 2:
        return 0 if scales is None else scales.reshape(())
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    if block:
        return np.take(np.repeat(scales, block, axis), range(shape[axis]), axis)
    return scales.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def wide(zeros):
    return None if zeros is None else zeros.astype(np.int64)


@own("DequantizeLinear", DIVISION)
@own("com.microsoft.DequantizeLinear", OF_RUNTIME)
def _dequantize(arrays, attributes):
    x, scales, zeros = arrays[0].astype(np.int64), arrays[1], wide(at(arrays, 2))
    return [(x - spread(zeros, x.shape, attributes)) * spread(scales, x.shape, attributes)]


def saturated(steps, dtype):
    ends = np.iinfo(dtype)
    return np.clip(np.nan_to_num(steps, posinf=1e9, neginf=-1e9), ends.min, ends.max).astype(dtype)


@own("QuantizeLinear", DIVISION)
@own("com.microsoft.QuantizeLinear", OF_RUNTIME)
def _quantize(arrays, attributes):
    x, scales, zeros = arrays[0], arrays[1], at(arrays, 2)
    steps = np.round(x / spread(scales, x.shape, attributes)) + spread(wide(zeros), x.shape, attributes)
    return [saturated(steps, np.uint8 if zeros is None else zeros.dtype)]


@own("DynamicQuantizeLinear", DIVISION)
def _dynamic(arrays, attributes):
    x = arrays[0]
    low, high = min(0, np.min(x)), max(0, np.max(x))
    scale = (high - low) / 255 or 1.0
    zero = saturated(np.round(-low / scale), np.uint8)
    return [saturated(np.round(x / scale) + int(zero), np.uint8), np.asarray(scale), zero]


@own("MatMulInteger", "NumPy multiplies integers of 64 bits")
def _product(arrays, attributes):
    a, b = (wide(one) for one in arrays[:2])
    zero_a, zero_b = (wide(at(arrays, i)) for i in (2, 3))
    if zero_a is not None:
        a = a - (zero_a[:, None] if zero_a.ndim else zero_a)
    return [(a @ (b if zero_b is None else b - zero_b)).astype(np.int32)]


def halves(packed, columns, bits):
    if bits == 8:
        return packed.astype(np.int64)[..., :columns]
    both = np.stack([packed & 15, packed >> 4], -1).astype(np.int64)
    return both.reshape(*packed.shape[:-1], -1)[..., :columns]


def block_zeros(arrays, i, shape, bits):
    zeros = at(arrays, i)
    if zeros is None:
        return np.full(shape, 1 << bits - 1)
    return zeros if zeros.dtype == np.float64 else halves(zeros.reshape(shape[0], -1), shape[1], bits)


@own("com.microsoft.MatMulNBits", OF_RUNTIME)
def _matmul_nbits(arrays, attributes):
    k, n, block, bits = (attributes[name] for name in ("K", "N", "block_size", "bits"))
    scales = arrays[2].reshape(n, -1)
    q = halves(arrays[1].reshape(n, -1), scales.shape[1] * block, bits)
    zeros = block_zeros(arrays, 3, scales.shape, bits)
    weights = ((q - np.repeat(zeros, block, 1)) * np.repeat(scales, block, 1))[:, :k]
    bias = at(arrays, 5)
    return [arrays[0] @ weights.T + (0 if bias is None else bias)]


@own("com.microsoft.GatherBlockQuantized", OF_RUNTIME)
def _gather(arrays, attributes):
    block, bits, scales = attributes["block_size"], attributes["bits"], arrays[2]
    q = halves(arrays[0], arrays[0].shape[1] * (2 if bits == 4 else 1), bits)
    zeros = block_zeros(arrays, 3, scales.shape, bits)
    table = (q - np.repeat(zeros, block, 1)[:, : q.shape[1]]) * np.repeat(scales, block, 1)[:, : q.shape[1]]
    return [table[arrays[1]]]


def _small(b, dtype, shape, kind=None):
    ends = np.iinfo(NUMPY_TYPE[dtype])
    noise = np.random.default_rng(b.rng.getrandbits(32))
    numbers = noise.integers(ends.min, ends.max, shape, dtype=NUMPY_TYPE[dtype], endpoint=True)
    return b.source(numbers, dtype, kind or b.rng.choice(("input", "initializer")))


def _powers(b, dtype, shape):
    """Scales that divide exactly: what lies halfway between two integers does so in any type."""
    noise = np.random.default_rng(b.rng.getrandbits(32))
    return b.source(2.0 ** noise.integers(-4, 2, shape), dtype, b.rng.choice(("parameter", "initializer")))


def _linear(b, dequantizes, domain):
    x = b.pick([F32] if domain or b.opset < 19 or b.chance(0.5) else b.floats(), low=1, fits=lambda value: np.isfinite(value.array).all())
    dtype, shape, flags = b.rng.choice((I8, U8)), (), {}
    form = b.rng.choice(("all", "axis", "blocks"))
    if form != "all":
        axis = b.rng.randrange(x.rank)
        flags["axis"] = axis
        shape = x.shape[axis : axis + 1]
        if form == "blocks" and not domain and b.opset >= 21 and shape[0] > 1:
            flags["block_size"] = b.rng.randint(2, shape[0])
            shape = tuple(-(-size // flags["block_size"]) if i == axis else size for i, size in enumerate(x.shape))
    scale = _powers(b, x.dtype, shape)
    zero = _small(b, dtype, shape) if domain or b.chance(0.6) else None
    dtype = dtype if zero else U8
    if dequantizes and b.chance(0.5):
        q = _small(b, dtype, x.shape)
    else:
        (q,) = b.node("QuantizeLinear", [x, scale, zero], dtype, domain=domain, **flags)
    if dequantizes:
        b.node("DequantizeLinear", [q, scale, zero], x.dtype, domain=domain, **flags)
    else:
        b.cast(q, F32)


@generator("QuantizeLinear")
def _quantize_linear(b):
    _linear(b, False, "")


@generator("DequantizeLinear")
def _dequantize_linear(b):
    _linear(b, True, "")


@generator("com.microsoft.QuantizeLinear")
def _runtime_quantize_linear(b):
    _linear(b, False, CONTRIB)


@generator("com.microsoft.DequantizeLinear")
def _runtime_dequantize_linear(b):
    _linear(b, True, CONTRIB)


@generator("DynamicQuantizeLinear")
def _dynamic_quantize_linear(b):
    """Of multiples of 1 / 8 from -16 to 15.875: the scale is 1 / 8 exactly."""
    noise = np.random.default_rng(b.rng.getrandbits(32))
    steps = noise.integers(-128, 127, b.small_shape(1), endpoint=True) / 8.0
    steps.flat[0] = -16
    if steps.size < 2:
        raise Reject("one number has no range")
    steps.flat[1] = 15.875
    x = b.source(steps, F32, "input")
    q, scale, zero = b.node("DynamicQuantizeLinear", [x], [U8, F32, U8], 3)
    b.node("DequantizeLinear", [q, scale, zero], F32)


@generator("MatMulInteger")
def _matmul_integer(b):
    rows, inner, columns = (b.rng.choice((1, 2, 3, 7, 16, 33)) for _ in range(3))
    inner = b.rng.choice((inner, inner, 300))
    types = [b.rng.choice((I8, U8)) for _ in range(2)]
    operands = [_small(b, types[0], (rows, inner)), _small(b, types[1], (inner, columns))]
    if b.chance(0.6):
        operands.append(_small(b, types[0], b.rng.choice(((), (rows,)))))
        if b.chance(0.6):
            operands.append(_small(b, types[1], b.rng.choice(((), (columns,)))))
    b.node("MatMulInteger", operands, I32)


@generator("com.microsoft.MatMulNBits")
def _matmul_nbits_node(b):
    x = b.pick([F32], low=2, high=3, fits=lambda value: value.shape[-1] > 1 and np.isfinite(value.array).all())
    k, n, block, bits = x.shape[-1], b.rng.choice((1, 2, 5, 8, 16)), b.rng.choice((16, 32)), b.rng.choice((4, 8))
    blocks = -(-k // block)
    operands = [x, _small(b, U8, (n, blocks, block * bits // 8), "initializer"), b.finite(F32, (n, blocks)), None, None, None]
    zeros = b.rng.choice(("none", "packed", "floats"))
    if zeros == "packed":
        operands[3] = _small(b, U8, (n, (blocks * bits + 7) // 8), "initializer")
    elif zeros == "floats":
        operands[3] = b.finite(F32, (n, blocks))
    if b.chance(0.4):
        operands[5] = b.finite(F32, (n,))
    b.node("MatMulNBits", operands, F32, domain=CONTRIB, K=k, N=n, block_size=block, bits=bits)


@generator("com.microsoft.GatherBlockQuantized")
def _gather_block_quantized(b):
    rows, columns, bits = b.rng.choice((1, 3, 7)), b.rng.choice((16, 32, 48)), b.rng.choice((4, 8))
    blocks = -(-columns // 16)
    operands = [_small(b, U8, (rows, columns * bits // 8), "initializer")]
    noise = np.random.default_rng(b.rng.getrandbits(32))
    operands.append(b.source(noise.integers(0, rows, b.small_shape()), I64, "input"))
    operands.append(b.finite(F32, (rows, blocks)))
    if b.chance(0.5):
        operands.append(_small(b, U8, (rows, (blocks * bits + 7) // 8), "initializer"))
    b.node("GatherBlockQuantized", operands, F32, domain=CONTRIB, block_size=16, bits=bits)
