"""Writes to a tensor of the caller's: rows of a cache, in place."""

import torch

from .layout import affine, from_front
from .site import Refusal, Site

aten = torch.ops.aten


def write_slice(state, value, dim=0, start=None, end=None, step=1):
    """state[start:end:step] = value along dim; the state. What slice_scatter is in place."""
    aten.slice.Tensor(state, dim, start, end, step).copy_(value)
    return state


def write_rows(site: Site, state, value, indices, axis, node):
    """value at the indices, which node makes, along axis."""
    count = indices.shape[0] if indices.shape else 1
    shape = [*state.shape[:axis], count, *state.shape[axis + 1 :]]
    value = site.g.broadcast(site.cast(value, state.type), shape)
    if count == 1:
        return site.g.update_state(state, value, site.g.reshape(indices, []), axis)
    start = block_start(site, node)
    if start is not None:
        return site.g.update_state(state, value, start, axis)
    raise Refusal(f"{count} rows at positions that are not known to follow each other")


def block_start(site: Site, node):
    """The first of indices that the graph makes as arange(n) + start: they follow each other."""
    if is_count(node):
        return site.g.constant(node.args[0], "i64")
    if node.target is not aten.add.Tensor or node.kwargs.get("alpha", 1) != 1:
        return None
    for count, start in (node.args, node.args[::-1]):
        if is_count(count) and isinstance(start, torch.fx.Node) and start.meta["val"].dim() == 0:
            first = site.value_of(start)
            return None if first is None else affine(site, first, count.args[0], 1)
    return None


def is_count(node):
    """arange(start, end)."""
    return (
        isinstance(node, torch.fx.Node)
        and node.target is aten.arange.start_step
        and (len(node.args) < 3 or node.args[2] == 1)
    )


def index_put(site: Site, state, indices, value, accumulate=False):
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    if accumulate:
        raise Refusal("index_put that adds")
    if len(axes) != 1 or len(indices[axes[0]].shape) > 1 or indices[axes[0]].type == "bool":
        raise Refusal("index_put of more than rows along one dimension")
    (axis,) = axes
    positions = from_front(site, indices[axis], state.shape[axis])
    return write_rows(site, state, value, positions, axis, site.node.args[1][axis])


def index_copy(site: Site, state, dim, indices, value):
    return write_rows(site, state, value, indices, site.axis(dim, state), site.node.args[2])


def slice_write(site: Site, state, value, dim=0, start=None, end=None, step=1):
    axis = site.axis(dim, state)
    begin, stop, step = slice(start, end, step).indices(state.shape[axis])
    if step != 1:
        raise Refusal("a write of rows that are apart")
    shape = [*state.shape[:axis], stop - begin, *state.shape[axis + 1 :]]
    value = site.g.broadcast(site.cast(value, state.type), shape)
    return site.g.update_state(state, value, site.g.constant(begin, "i64"), axis)


# What writes in place instead of making a changed copy.
IN_PLACE = {
    aten.index_put.default: aten.index_put_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.slice_scatter.default: write_slice,
}


def written_in_place(node):
    """The tensor that a node writes in place; None where it writes none."""
    return node.args[0] if node.target in IN_PLACE.values() else None


def rows_written(node):
    """What the indices of a node that writes rows in place are made of."""
    return (
        [inner for operand in node.all_input_nodes[1:] for inner in operand.all_input_nodes]
        if written_in_place(node)
        else []
    )


TABLE = {
    aten.index_put_.default: index_put,
    aten.index_copy_.default: index_copy,
    write_slice: slice_write,
}
