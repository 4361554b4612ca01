"""Matrix products, and attention as the products and the softmax that kfuse's passes find it in again."""

import math

import torch

from .rows import any_seen, causal_mask, softmax_or_zeros
from .site import Refusal, Site

aten = torch.ops.aten
# What moves a mask's elements, or pads it to a multiple that a kernel of torch wants.
_MOVED = (
    aten.expand.default, aten.slice.Tensor, aten.view.default, aten.unsqueeze.default, aten.constant_pad_nd.default,
)  # fmt: skip


def product(site: Site, a, b):
    """Of f32 true f32, or cut for tensor cores where torch was allowed to."""
    tf32 = site.type == "f32" and torch.get_float32_matmul_precision() != "highest"
    return site.g.matmul(a, b, tf32=tf32)


def product_and_sum(site: Site, bias, a, b, *, beta=1, alpha=1):
    y = product(site, a, b)
    if alpha != 1:
        y = site.g.mul(y, site.cast(alpha, site.type))
    if beta == 0:
        return y
    if beta != 1:
        bias = site.g.mul(bias, site.cast(beta, site.type))
    return site.g.add(y, bias)


def grouped(site: Site, query, key, value):
    """Query heads that share a key and a value head in a dimension of their own: [B, heads, group, rows, width]."""
    heads, shared = query.shape[-3], key.shape[-3]
    if heads == shared:
        return query, key, value
    g = site.g
    query = g.reshape(query, [*query.shape[:-3], shared, heads // shared, *query.shape[-2:]])
    key, value = (g.reshape(x, [*x.shape[:-3], shared, 1, *x.shape[-2:]]) for x in (key, value))
    return query, key, value


def masked(site: Site, scores, mask):
    """A mask of booleans hides where it is false, one of numbers is added."""
    if len(scores.shape) > 4 and len(mask.shape) == 4:  # A dimension of groups: [B, heads, rows, keys].
        batch, heads, *rows_and_keys = mask.shape
        shared, group = scores.shape[1:3]
        split = [1, 1] if heads == 1 else [shared, group]
        mask = site.g.reshape(mask, [batch, *split, *rows_and_keys])
    if mask.type == "bool":
        return site.g.where(mask, scores, site.cast(-math.inf, scores.type))
    return site.g.add(scores, site.cast(mask, scores.type))


def is_of_booleans(node):
    """Whether an added mask is what torch makes of one of booleans: 0 where a key is seen, -inf where it is hidden."""
    while node.target in _MOVED:
        node = node.args[0]
    return node.target == aten.where.self and [_number(x) for x in node.args[1:]] == [0, -math.inf]


def _number(node):
    """The one number that a tensor holds, None of any other."""
    place = {aten.scalar_tensor.default: 0, aten.full.default: 1}.get(node.target)
    return None if place is None else node.args[place]


def attention(site: Site, query, key, value, mask=None, hides=False, is_causal=False, scale=None):
    """hides: whether the mask hides keys and does nothing else."""
    if site.result.dim() != 4:
        raise Refusal(f"attention of {site.result.dim()} dimensions, not 4")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    query, key, value = grouped(site, query, key, value)
    scores = site.g.mul(site.g.matmul(query, key, transpose_b=True), site.cast(scale, query.type))
    if is_causal:
        scores = masked(site, scores, causal_mask(site, *scores.shape[-2:]))
    if mask is not None:
        scores = masked(site, scores, mask)
    weights = softmax_or_zeros(site, scores) if hides else site.g.softmax(scores)
    y = site.g.reshape(site.g.matmul(weights, value), site.shape)
    if mask is None or hides:
        return y
    return site.g.where(any_seen(site, site.cast(mask, "f32")), y, site.cast(0, y.type))


def attention_op(overload):
    """The form of attention that torch chose for a device: the arguments by the names of its schema."""
    names = [argument.name for argument in overload._schema.arguments]
    count = len(overload._schema.returns)

    def lower(site: Site, *args, **options):
        given = dict(zip(names, args)) | options
        if given.get("dropout_p", 0.0) != 0.0:
            raise Refusal("attention with dropout")
        nodes = dict(zip(names, site.node.args)) | site.node.kwargs
        name = "attn_bias" if "attn_bias" in names else "attn_mask"
        mask = given.get(name)
        hides = mask is not None and (mask.type == "bool" or is_of_booleans(nodes[name]))
        of_rows = given.get("is_causal", False), given.get("scale")
        y = attention(site, given["query"], given["key"], given["value"], mask, hides, *of_rows)
        return y if count == 1 else (y, *[None] * (count - 1))

    return lower


def _overloads(*names):
    """Those of them that this torch has."""
    return [getattr(aten, name).default for name in names if hasattr(aten, name)]


ATTENTION = _overloads(
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)

TABLE = {
    aten.mm.default: product,
    aten.bmm.default: product,
    aten.addmm.default: product_and_sum,
    aten.baddbmm.default: product_and_sum,
} | {overload: attention_op(overload) for overload in ATTENTION}
