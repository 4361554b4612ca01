"""Elementwise ops: aten's promotion of types is written out as casts."""

import math

import torch

from . import layout
from .site import HALVES, Refusal, Site, is_tensor, type_of

aten = torch.ops.aten


def unary(name):
    def lower(site: Site, x):
        return site.g.pointwise(name, site.cast(x, site.type))

    return lower


def binary(name):
    def lower(site: Site, a, b):
        compute = site.compute_type(a, b)
        if compute == "bool":
            raise Refusal(f"{name} of booleans")
        return site.cast(site.g.pointwise(name, site.cast(a, compute), site.cast(b, compute)), site.type)

    return lower


def sum_of(name):
    """a + alpha b, or a - alpha b."""
    plain = binary(name)

    def lower(site: Site, a, b, *, alpha=1):
        if alpha != 1:
            b = b * alpha if not is_tensor(b) else binary("mul")(site, b, alpha)
        return plain(site, a, b)

    return lower


def reversed_difference(site: Site, a, b, alpha=1):
    return sum_of("sub")(site, b, a, alpha=alpha)


def comparison(name):
    def lower(site: Site, a, b):
        compute = type_of(torch.result_type(site.given(0), site.given(1)))
        compute = "i32" if compute == "bool" else compute
        return site.g.pointwise(name, site.cast(a, compute), site.cast(b, compute))

    return lower


def truth(site: Site, x):
    """x != 0."""
    if is_tensor(x) and x.type != "bool":
        return site.g.pointwise("ne", x, site.cast(0, x.type))
    return site.cast(x, "bool")


def logical(name):
    def lower(site: Site, *operands):
        return site.g.pointwise(name, *(truth(site, x) for x in operands))

    return lower


def bitwise(name):
    """Bit by bit; of booleans logical."""

    def lower(site: Site, *operands):
        if name == "not" and site.type != "bool":
            raise Refusal("bitwise_not of integers")
        return site.g.pointwise(name, *(site.cast(x, site.type) for x in operands))

    return lower


def power(site: Site, x, exponent):
    if is_tensor(exponent) or not is_tensor(x):
        return binary("pow")(site, x, exponent)
    compute = "f32" if site.type in HALVES else site.type
    x = site.cast(x, compute)
    roots = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if exponent in (1, 2, 3, 4):
        result = x
        for _ in range(int(exponent) - 1):
            result = site.g.mul(result, x)
    elif exponent in roots and compute == "f32":
        result = site.g.pointwise(roots[exponent], x)
    elif compute == "f32":
        result = site.g.pointwise("pow", x, site.cast(exponent, compute))
    else:
        raise Refusal(f"an integer to the power {exponent}")
    return site.cast(result, site.type)


def quotient_by_mode(site: Site, a, b, *, rounding_mode=None):
    if rounding_mode is None:
        return binary("div")(site, a, b)
    compute = "f32" if site.type in HALVES else site.type
    a, b = site.cast(a, compute), site.cast(b, compute)
    whole = compute in ("i32", "i64")
    if rounding_mode == "floor" and whole:
        result = site.g.div(site.g.sub(a, site.g.pointwise("mod", a, b)), b)
    elif rounding_mode == "floor":
        result = floor_of_quotient(site, a, b)
    else:
        result = site.g.div(a, b) if whole else trunc(site, site.g.div(a, b))
    return site.cast(result, site.type)


def floor_of_quotient(site: Site, a, b):
    """By what the division leaves, as torch has it: the quotient itself may round up to a whole number."""
    g, zero = site.g, site.cast(0, a.type)
    left = g.pointwise("rem", a, b)
    quotient = g.div(g.sub(a, left), b)
    signs = [site.cast(g.pointwise("lt", x, zero), "i32") for x in (left, b)]
    below = g.pointwise("and", g.pointwise("ne", left, zero), g.pointwise("ne", *signs))
    rounded = g.pointwise("round", g.where(below, g.sub(quotient, site.cast(1, a.type)), quotient))
    return g.where(g.pointwise("eq", b, zero), g.div(a, b), rounded)


def gelu(site: Site, x, *, approximate="none"):
    return site.g.pointwise("gelu_tanh" if approximate == "tanh" else "gelu", x)


def where(site: Site, condition, then, otherwise):
    return site.g.where(condition, site.cast(then, site.type), site.cast(otherwise, site.type))


def clamp(site: Site, x, low=None, high=None):
    x = site.cast(x, site.type)
    if low is not None:
        x = site.g.pointwise("max", x, site.cast(low, site.type))
    return x if high is None else site.g.pointwise("min", x, site.cast(high, site.type))


def in_f32(formula):
    """A formula of floats, computed in f32 and rounded once."""

    def lower(site: Site, x, *numbers, **named):
        if site.type not in ("f32", *HALVES):
            raise Refusal(f"{site.node.target} of {site.type}")
        return site.cast(formula(site, site.cast(x, "f32"), *numbers, **named), site.type)

    return lower


def leaky_relu(site: Site, x, slope=0.01):
    return site.g.where(positive(site, x), x, site.g.mul(x, site.cast(slope, "f32")))


def elu(site: Site, x, alpha=1, scale=1, input_scale=1):
    curve = site.g.pointwise("expm1", site.g.mul(x, site.cast(input_scale, "f32")))
    below = site.g.mul(curve, site.cast(alpha * scale, "f32"))
    return site.g.where(positive(site, x), site.g.mul(x, site.cast(scale, "f32")), below)


def positive(site: Site, x):
    return site.g.pointwise("gt", x, site.cast(0, x.type))


def sign(site: Site, x):
    above, below = positive(site, x), site.g.pointwise("lt", x, site.cast(0, x.type))
    return site.g.sub(site.cast(above, x.type), site.cast(below, x.type))


def ceil(site: Site, x):
    return site.g.pointwise("neg", site.g.pointwise("floor", site.g.pointwise("neg", x)))


def trunc(site: Site, x):
    return site.g.where(positive(site, x), site.g.pointwise("floor", x), ceil(site, x))


def is_infinite(site: Site, x):
    if x.type in ("i32", "i64", "bool"):
        return site.filled(False, "bool", site.shape)
    return site.g.pointwise("eq", site.g.pointwise("abs", x), site.cast(math.inf, x.type))


def square(site: Site, x):
    return power(site, x, 2)


def cast(site: Site, x, *_, **options):
    if options.get("device") is not None and site.given(0).device != torch.device(options["device"]):
        raise Refusal(f"a copy to another device, {options['device']}")
    if site.type == "bool":
        return truth(site, x)
    if x.type.startswith("f8") and is_computed(site.node.args[0]):
        raise Refusal("a cast to 8 bits and back, whose rounding kfuse would leave out")
    return site.cast(x, site.type)


def is_computed(node) -> bool:
    """Whether the graph computes the elements, and not just moves them."""
    if node.op != "call_function":
        return False
    return node.target not in layout.TABLE or any(map(is_computed, node.all_input_nodes))


# One function of kfuse with the same name or the given one, and the types that it is computed in.
_UNARY = {
    "relu": "relu", "silu": "silu", "sigmoid": "sigmoid", "tanh": "tanh", "erf": "erf", "exp": "exp", "expm1": "expm1",
    "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "sin": "sin",
    "cos": "cos", "atan": "atan", "round": "round", "floor": "floor", "neg": "neg", "abs": "abs",
}  # fmt: skip
_BINARY = {
    aten.mul.Tensor: "mul", aten.mul.Scalar: "mul", aten.div.Tensor: "div", aten.div.Scalar: "div",
    aten.maximum.default: "max", aten.minimum.default: "min", aten.remainder.Tensor: "mod",
    aten.remainder.Scalar: "mod", aten.fmod.Tensor: "rem", aten.fmod.Scalar: "rem",
}  # fmt: skip

TABLE = (
    {getattr(aten, name).default: unary(op) for name, op in _UNARY.items()}
    | {op: binary(name) for op, name in _BINARY.items()}
    | {getattr(getattr(aten, name), kind): comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
       for kind in ("Tensor", "Scalar")}
    | {getattr(aten, f"logical_{name}").default: logical(name) for name in ("and", "or", "not")}
    | {
        aten.add.Tensor: sum_of("add"),
        aten.add.Scalar: sum_of("add"),
        aten.sub.Tensor: sum_of("sub"),
        aten.sub.Scalar: sum_of("sub"),
        aten.rsub.Scalar: reversed_difference,
        aten.bitwise_and.Tensor: bitwise("and"),
        aten.bitwise_and.Scalar: bitwise("and"),
        aten.bitwise_or.Tensor: bitwise("or"),
        aten.bitwise_or.Scalar: bitwise("or"),
        aten.bitwise_not.default: bitwise("not"),
        aten.logical_xor.default: lambda site, a, b: site.g.pointwise(
            "ne", site.cast(truth(site, a), "i32"), site.cast(truth(site, b), "i32")
        ),
        aten.isnan.default: lambda site, x: site.g.pointwise("is_nan", x),
        aten.pow.Tensor_Scalar: power,
        aten.pow.Tensor_Tensor: power,
        aten.pow.Scalar: power,
        aten.square.default: square,
        aten.leaky_relu.default: in_f32(leaky_relu),
        aten.elu.default: in_f32(elu),
        aten.ceil.default: in_f32(ceil),
        aten.sign.default: sign,
        aten.trunc.default: in_f32(trunc),
        aten.isinf.default: is_infinite,
        aten.div.Tensor_mode: quotient_by_mode,
        aten.gelu.default: gelu,
        aten.where.self: where,
        aten.clamp.default: clamp,
        aten.clamp.Tensor: clamp,
        aten.clamp_min.default: clamp,
        aten.clamp_max.default: lambda site, x, high: clamp(site, x, None, high),
        aten.hardtanh.default: lambda site, x, low=-1, high=1: clamp(site, x, low, high),
        aten._to_copy.default: cast,
        torch.ops.prims.convert_element_type.default: cast,
    }
)  # fmt: skip
