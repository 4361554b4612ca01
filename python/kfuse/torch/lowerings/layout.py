"""Ops that move, repeat, cut and join elements, and those that make tensors of nothing."""

import math
import operator

import torch

from .site import Refusal, Site

aten = torch.ops.aten


def same(site: Site, x, *_, **options):
    return x


def reshape(site: Site, x, *_):
    return site.g.reshape(x, site.shape)


def permute(site: Site, x, dims):
    return site.g.transpose(x, [site.axis(dim, x) for dim in dims])


def transpose(site: Site, x, first=0, second=1):
    dims = list(range(len(x.shape)))
    if dims:
        first, second = site.axis(first, x), site.axis(second, x)
        dims[first], dims[second] = dims[second], dims[first]
    return site.g.transpose(x, dims)


def expand(site: Site, x, sizes, implicit=False):
    return site.g.broadcast(x, site.shape)


def repeat(site: Site, x, counts):
    """Each dimension as its copies and itself, then as one."""
    sizes = [1] * (len(counts) - len(x.shape)) + list(x.shape)
    apart = [size for pair in zip(counts, sizes) for size in pair]
    ones = [size for each in sizes for size in (1, each)]
    return site.g.reshape(site.g.broadcast(site.g.reshape(x, ones), apart), site.shape)


def cut(site: Site, x, dim, start, size, step=1):
    offsets, sizes, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    offsets[dim], sizes[dim], strides[dim] = start, size, step
    return site.g.slice(x, offsets, sizes, strides)


def slice_of(site: Site, x, dim=0, start=None, end=None, step=1):
    dim = site.axis(dim, x)
    begin, _, _ = slice(start, end, step).indices(x.shape[dim])
    return cut(site, x, dim, begin, site.shape[dim], step)


def select(site: Site, x, dim, index):
    dim = site.axis(dim, x)
    return site.g.reshape(cut(site, x, dim, index % x.shape[dim], 1), site.shape)


def split(site: Site, x, sizes, dim=0):
    dim = site.axis(dim, x)
    if isinstance(sizes, int):
        sizes = [min(sizes, x.shape[dim] - start) for start in range(0, x.shape[dim], sizes)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(cut(site, x, dim, start, size) for start, size in zip(starts, sizes))


def unbind(site: Site, x, dim=0):
    dim = site.axis(dim, x)
    return tuple(site.g.reshape(cut(site, x, dim, i, 1), site.shape) for i in range(x.shape[dim]))


def concat(site: Site, pieces, dim=0):
    pieces = [site.cast(piece, site.type) for piece in pieces]
    return pieces[0] if len(pieces) == 1 else site.g.concat(pieces, site.axis(dim, pieces[0]))


def pad(site: Site, x, padding, value=0):
    """Constants before and behind; pairs from the last dimension on."""
    for back, (before, behind) in enumerate(zip(padding[::2], padding[1::2])):
        axis = len(x.shape) - 1 - back
        if before < 0 or behind < 0:
            start, end = max(-before, 0), x.shape[axis] - max(-behind, 0)
            x = cut(site, x, axis, start, end - start)
        sides = [[*x.shape[:axis], size, *x.shape[axis + 1 :]] if size > 0 else None for size in (before, behind)]
        first, last = (side and site.filled(value, x.type, side) for side in sides)
        pieces = [piece for piece in (first, x, last) if piece]
        x = site.g.concat(pieces, axis) if len(pieces) > 1 else x
    return x


def item(site: Site, values, index):
    if values[index] is None:
        raise Refusal(f"result {index} of an op of which kfuse computes the first")
    return values[index]


def full(site: Site, *args, **options):
    return site.filled(args[1] if len(args) > 1 else options["fill_value"], site.type, site.shape)


def filled_with(value):
    def lower(site: Site, *_, **options):
        return site.filled(value, site.type, site.shape)

    return lower


def scalar(site: Site, value, **options):
    return site.filled(value, site.type, [])


def arange(site: Site, start, end, step=1, **options):
    """start + i step, exact in i64; of floats in f32."""
    if site.type in ("i32", "i64"):
        index = site.g.iota(site.type, site.shape, 0)
        return affine(site, index, start, step)
    if not all(float(value).is_integer() and abs(value) < 2**24 for value in (start, end, step)):
        raise Refusal("arange of fractions")
    return site.cast(affine(site, site.g.iota("i64", site.shape, 0), int(start), int(step)), site.type)


def affine(site: Site, index, start, step):
    if step != 1:
        index = site.g.mul(index, site.cast(step, index.type))
    return index if start == 0 else site.g.add(index, site.cast(start, index.type))


def embedding(site: Site, table, indices, *_):
    return site.g.gather(table, indices, 0)


def index_select(site: Site, x, dim, indices):
    return site.g.gather(x, indices, site.axis(dim, x))


def index(site: Site, x, indices):
    """By index tensors on neighbouring dimensions: of their linear index, in the dimensions as one."""
    dims = [dim for dim, one in enumerate(indices) if one is not None]
    given = [indices[dim] for dim in dims]
    if any(one.type not in ("i32", "i64") for one in given):
        raise Refusal("an index of booleans, whose result has a size that depends on data")
    first, last = dims[0], dims[-1]
    if dims != list(range(first, last + 1)):
        raise Refusal("indices of dimensions that are no neighbours")
    if len(dims) == 1:
        return site.g.gather(x, given[0], first)
    sizes = x.shape[first : last + 1]
    linear = None
    for one, size in zip(given, sizes):
        one = from_front(site, site.cast(one, "i64"), size)
        linear = one if linear is None else site.g.add(site.g.mul(linear, site.cast(size, "i64")), one)
    flat = site.g.reshape(x, [*x.shape[:first], math.prod(sizes), *x.shape[last + 1 :]])
    return site.g.gather(flat, linear, first)


def from_front(site: Site, indices, size):
    """Indices that may count from the end."""
    negative = site.g.pointwise("lt", indices, site.cast(0, indices.type))
    return site.g.where(negative, site.g.add(indices, site.cast(size, indices.type)), indices)


def gather(site: Site, x, dim, indices, *, sparse_grad=False):
    """Element by element: of the linear index in x."""
    g, dim = site.g, site.axis(dim, x)
    linear = g.constant(0, "i64")
    for axis, size in enumerate(x.shape):
        place = site.cast(indices, "i64") if axis == dim else g.iota("i64", list(indices.shape), axis)
        linear = g.add(g.mul(linear, g.constant(size, "i64")), place)
    return g.gather(g.reshape(x, [-1]), linear, 0)


def convolution(site: Site, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Of patches that lie side by side: a product of the patches as rows (what embeds the patches of an image)."""
    kernel = list(weight.shape[2:])
    apart = list(stride) == kernel and not any(padding) and all(step == 1 for step in dilation)
    divides = all(size % step == 0 for size, step in zip(x.shape[2:], kernel))
    if transposed or groups != 1 or not apart or not divides:
        raise Refusal("a convolution whose windows overlap")
    g, rank = site.g, len(kernel)
    batch, channels = x.shape[:2]
    counts = [size // step for size, step in zip(x.shape[2:], kernel)]
    patches = g.reshape(x, [batch, channels, *(size for pair in zip(counts, kernel) for size in pair)])
    outer, inner = [2 + 2 * i for i in range(rank)], [3 + 2 * i for i in range(rank)]
    rows = g.reshape(g.transpose(patches, [0, *outer, 1, *inner]), [batch * math.prod(counts), -1])
    y = g.matmul(rows, g.reshape(weight, [weight.shape[0], -1]), transpose_b=True)
    y = y if bias is None else g.add(y, bias)
    return g.transpose(g.reshape(y, [batch, *counts, -1]), [0, rank + 1, *range(1, rank + 1)])


TABLE = {
    operator.getitem: item,
    aten.clone.default: same,
    aten.alias.default: same,
    aten.detach.default: same,
    aten.lift_fresh_copy.default: same,
    aten.view.default: reshape,
    aten._unsafe_view.default: reshape,
    aten.reshape.default: reshape,
    aten.unsqueeze.default: reshape,
    aten.squeeze.default: reshape,
    aten.squeeze.dim: reshape,
    aten.squeeze.dims: reshape,
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.t.default: transpose,
    aten.expand.default: expand,
    aten.repeat.default: repeat,
    aten.slice.Tensor: slice_of,
    aten.select.int: select,
    aten.split.Tensor: split,
    aten.split_with_sizes.default: split,
    aten.unbind.int: unbind,
    aten.cat.default: concat,
    aten.constant_pad_nd.default: pad,
    aten.full.default: full,
    aten.full_like.default: full,
    aten.new_full.default: lambda site, x, size, value, **options: site.filled(value, site.type, site.shape),
    aten.zeros.default: filled_with(0),
    aten.ones.default: filled_with(1),
    aten.zeros_like.default: filled_with(0),
    aten.ones_like.default: filled_with(1),
    aten.new_zeros.default: filled_with(0),
    aten.new_ones.default: filled_with(1),
    aten.scalar_tensor.default: scalar,
    aten.arange.default: lambda site, end, **options: arange(site, 0, end),
    aten.arange.start: arange,
    aten.arange.start_step: arange,
    aten.embedding.default: embedding,
    aten.index_select.default: index_select,
    aten.index.Tensor: index,
    aten.gather.default: gather,
    aten.convolution.default: convolution,
}
