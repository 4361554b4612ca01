"""Softmax, norms and reductions."""

import math

import torch

from .pointwise import truth
from .site import HALVES, Refusal, Site

aten = torch.ops.aten
_MOST_STEPS = 2**24  # A cumulative sum of 4096 elements takes as many.


def over_last(site: Site, x, dim, function):
    """function, which works on the last axis, on any."""
    axis, rank = site.axis(dim, x), len(x.shape)
    if rank == 0 or axis == rank - 1:
        return function(x)
    order = [i for i in range(rank) if i != axis] + [axis]
    inverse = sorted(range(rank), key=order.__getitem__)
    return site.g.transpose(function(site.g.transpose(x, order)), inverse)


def softmax(site: Site, x, dim, half_to_float=False):
    return site.cast(over_last(site, site.cast(x, site.type), dim, site.g.softmax), site.type)


def softmax_or_zeros(site: Site, scores):
    """Zeros of a row whose scores are all hidden, -inf, as torch has it, and NaN where one is no number. The lowest
    number is a key more, without a value: an attention sink, which kfuse's attention takes. Beside -inf alone it has
    all of the weight, beside any score none."""
    lowest = site.filled(torch.finfo(site.result.dtype).min, scores.type, [*scores.shape[:-1], 1])
    weights = site.g.softmax(site.g.concat([scores, lowest], len(scores.shape) - 1))
    return site.g.slice(weights, [0] * len(scores.shape), scores.shape)


def any_seen(site: Site, x):
    """Whether a row has anything but -inf: of one that has not torch makes zeros, and a softmax NaN."""
    most = site.g.reshape(site.g.reduce("max", x, [-1]), [*x.shape[:-1], 1])
    return site.g.pointwise("ne", most, site.cast(-math.inf, x.type))


def safe_softmax(site: Site, x, dim, dtype=None):
    def rows(x):
        return site.g.where(any_seen(site, x), site.g.softmax(x), site.cast(0, x.type))

    return site.cast(over_last(site, site.cast(x, site.type), dim, rows), site.type)


def log_softmax(site: Site, x, dim, half_to_float=False):
    def rows(x):
        g, kept = site.g, [*x.shape[:-1], 1]
        shifted = g.sub(x, g.reshape(g.reduce("max", x, [-1]), kept))
        total = g.reshape(g.reduce("sum", g.pointwise("exp", shifted), [-1]), kept)
        return g.sub(shifted, g.pointwise("log", total))

    return site.cast(over_last(site, site.cast(x, "f32"), dim, rows), site.type)


def flattened(site: Site, x, normalized_shape):
    """x with the dimensions that are normalized as one."""
    count = len(normalized_shape)
    if count == 1:
        return x
    return site.g.reshape(x, [*x.shape[: len(x.shape) - count], math.prod(normalized_shape)])


def normalised(site: Site, function, x, normalized_shape, vectors, epsilon):
    """In f32 where a weight is wider than x."""
    compute = x.type if all(one is None or one.type == x.type for one in vectors) else "f32"
    flat = site.cast(flattened(site, x, normalized_shape), compute)
    vectors = [one if one is None else site.cast(site.g.reshape(one, [-1]), compute) for one in vectors]
    return site.cast(site.g.reshape(function(flat, *vectors, epsilon), site.shape), site.type)


def layer_norm(site: Site, x, normalized_shape, weight, bias, epsilon):
    return normalised(site, site.g.layer_norm, x, normalized_shape, [weight, bias], epsilon), None, None


def rms_norm(site: Site, x, normalized_shape, weight=None, epsilon=None):
    epsilon = torch.finfo(torch.float32).eps if epsilon is None else epsilon  # The norm is computed in f32.
    return normalised(site, site.g.rms_norm, x, normalized_shape, [weight], epsilon), None


def reduction(function):
    """Over dims, computed in f32 where the result is a half: kfuse rounds once, when it is stored."""

    def lower(site: Site, x, dims=None, keepdim=False, *, dtype=None):
        compute = "f32" if site.type in HALVES else site.type
        if compute == "bool":
            raise Refusal(f"{function} of booleans")
        return reduced(site, function, site.cast(x, compute), dims)

    return lower


def reduced(site: Site, function, x, dims):
    axes = site.axes(dims, x)
    y = site.g.reduce(function, x, axes) if axes else x
    return site.g.reshape(site.cast(y, site.type), site.shape)


def causal_mask(site: Site, rows, keys):
    """True where the key is none of the query's future; the first row sees the first key."""
    row, key = site.g.iota("i32", [rows, 1], 0), site.g.iota("i32", [1, keys], 1)
    return site.g.pointwise("le", key, row)


def cumulative_sum(site: Site, x, dim, *, dtype=None):
    """Each the sum of the elements up to it: n^2 steps, which is little beside an attention of as many rows, and exact
    for integers, what masks are made of."""
    x, size = site.cast(x, site.type), site.result.shape[dim] if x.shape else 1
    if site.type not in ("i32", "i64"):
        raise Refusal(f"a cumulative sum of {site.type}")
    if math.prod(x.shape) * size > _MOST_STEPS:
        raise Refusal(f"a cumulative sum of {size} elements, {math.prod(x.shape) // size} times")
    if size == 1:
        return x
    g, axis = site.g, site.axis(dim, x)
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    kept = g.reshape(causal_mask(site, size, size), [size, size, *[1] * len(behind)])
    each = g.where(kept, g.reshape(x, [*before, 1, size, *behind]), site.cast(0, x.type))
    return g.reduce("sum", each, [axis + 1])


def any_of(site: Site, x, dims=None, keepdim=False):
    return reduced(site, "max", site.cast(truth(site, x), "i32"), dims)


def all_of(site: Site, x, dims=None, keepdim=False):
    return reduced(site, "min", site.cast(truth(site, x), "i32"), dims)


def moments(site: Site, x, dims, correction, keepdim):
    """Variance and mean, in two passes."""
    g, x = site.g, site.cast(x, "f32")
    axes = site.axes(dims, x)
    count = math.prod(x.shape[axis] for axis in axes)
    correction = 1 if correction is None else correction
    if not axes:
        raise Refusal("a variance of one number")
    if count - correction <= 0:
        raise Refusal(f"a variance of {count} elements less {correction}")
    kept = [1 if i in axes else size for i, size in enumerate(x.shape)]
    mean = g.reshape(g.reduce("mean", x, axes), kept)
    centred = g.sub(x, mean)
    variance = g.mul(g.reduce("sum", g.mul(centred, centred), axes), g.constant(1 / (count - correction), "f32"))
    return [g.reshape(site.cast(value, site.type), site.shape) for value in (variance, mean)]


def variance(site: Site, x, dims=None, *, correction=None, keepdim=False):
    return moments(site, x, dims, correction, keepdim)[0]


def variance_and_mean(site: Site, x, dims=None, *, correction=None, keepdim=False):
    return tuple(moments(site, x, dims, correction, keepdim))


TABLE = {
    aten._softmax.default: softmax,
    aten._safe_softmax.default: safe_softmax,
    aten._log_softmax.default: log_softmax,
    aten.native_layer_norm.default: layer_norm,
    aten._fused_rms_norm.default: rms_norm,
    aten.sum.default: reduction("sum"),
    aten.sum.dim_IntList: reduction("sum"),
    aten.mean.default: reduction("mean"),
    aten.mean.dim: reduction("mean"),
    aten.amax.default: reduction("max"),
    aten.amin.default: reduction("min"),
    aten.cumsum.default: cumulative_sum,
    aten.any.default: any_of,
    aten.any.dim: any_of,
    aten.any.dims: any_of,
    aten.all.default: all_of,
    aten.all.dim: all_of,
    aten.var.correction: variance,
    aten.var_mean.correction: variance_and_mean,
}
