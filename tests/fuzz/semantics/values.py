"""Element types, and random tensors of them. Floats are kept as f64 whatever their type, integers and booleans as they
are, so that an op can be evaluated in f64 and rounded afterwards."""

import math

import ml_dtypes
import numpy as np
from onnx import TensorProto

F32, F16, BF16, I32, I64, BOOL, I8, U8 = "f32", "f16", "bf16", "i32", "i64", "bool", "i8", "u8"
FLOATS, INTEGERS = (F32, F16, BF16), (I32, I64)

ONNX_TYPE = {
    F32: TensorProto.FLOAT,
    F16: TensorProto.FLOAT16,
    BF16: TensorProto.BFLOAT16,
    I32: TensorProto.INT32,
    I64: TensorProto.INT64,
    BOOL: TensorProto.BOOL,
    I8: TensorProto.INT8,
    U8: TensorProto.UINT8,
}
TYPE_OF_ONNX = {onnx: own for own, onnx in ONNX_TYPE.items()}
NUMPY_TYPE = {
    F32: np.dtype(np.float32),
    F16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    BOOL: np.dtype(np.bool_),
    I8: np.dtype(np.int8),
    U8: np.dtype(np.uint8),
}
MANTISSA_BITS = {F32: 24, F16: 11, BF16: 8}
SMALLEST_NORMAL = {F32: 2.0**-126, F16: 2.0**-14, BF16: 2.0**-126}

# Sizes that divide nothing, powers of two, and many ones.
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64)
MOST_ELEMENTS = 1500


def round_to(array, dtype):
    """An array of f64 as its type would store it."""
    with np.errstate(all="ignore"):
        return array.astype(NUMPY_TYPE[dtype]).astype(np.float64)


def stored(array, dtype):
    """An array as its bytes lie in memory."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array.astype(NUMPY_TYPE[dtype]))


def kept(array):
    """An array of NumPy's, or of ml_dtypes', as it is kept here."""
    array = np.asarray(array)
    if array.dtype == np.bool_ or array.dtype in (np.int32, np.int64, np.int8, np.uint8):
        return array
    return array.astype(np.float64)


def ulp(array, dtype):
    """The distance of a value's neighbours in its type."""
    magnitude = np.maximum(np.abs(array), SMALLEST_NORMAL[dtype])
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(magnitude))
        return np.exp2(exponent - (MANTISSA_BITS[dtype] - 1))


def random_shape(rng, low=0, high=4):
    shape = [rng.choice(SIZES) for _ in range(rng.randint(low, high))]
    while math.prod(shape) > MOST_ELEMENTS:
        shape[rng.randrange(len(shape))] = rng.choice((1, 2, 3, 4))
    return tuple(shape)


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e-3, 1e4, -65504.0, 1e-7)
# The ends of the types, and what floats cannot hold.
RARE_INTEGERS = {
    I32: (0, -128, 2**15, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)),
    I64: (0, -128, 2**24 + 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63)),
}


def random_floats(rng, dtype, shape, special=False):
    noise = np.random.default_rng(rng.getrandbits(32))
    scale = rng.choice((0.1, 1, 1, 1, 4, 20))
    array = np.asarray(noise.normal(0, scale, shape))
    kind = rng.random()
    if kind < 0.15:  # Ties, and steps of floor.
        array = np.round(array * 2) / 2
    elif kind < 0.2:  # A mean far from zero.
        array = array + 10 * scale
    if special and array.size:
        chosen = noise.random(shape) < 0.1
        array = np.where(chosen, noise.choice(SPECIAL, shape), array)
    return round_to(np.asarray(array), dtype)


def random_integers(rng, dtype, shape, low=-9, high=9):
    noise = np.random.default_rng(rng.getrandbits(32))
    array = noise.integers(low, high, shape, endpoint=True)
    if (low, high) == (-9, 9) and rng.random() < 0.2 and array.size:
        array = np.where(noise.random(shape) < 0.2, noise.choice(np.asarray(RARE_INTEGERS[dtype], np.int64), shape), array)
    return np.asarray(array).astype(NUMPY_TYPE[dtype])


def random_values(rng, dtype, shape, special=False):
    if dtype == BOOL:
        return np.asarray(np.random.default_rng(rng.getrandbits(32)).random(shape) < 0.5)
    if dtype in INTEGERS:
        return random_integers(rng, dtype, shape)
    return random_floats(rng, dtype, shape, special)
