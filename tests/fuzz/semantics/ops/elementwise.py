"""Generators of elementwise ops."""

import numpy as np

from ..graph import CONTRIB, Reject
from ..values import BOOL, FLOATS, F32, I32, I64, INTEGERS, NUMPY_TYPE, random_floats, random_integers, round_to
from .registry import GENERATORS, generator


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
