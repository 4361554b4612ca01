"""What an op costs outside of kfuse: floating-point operations, bytes, launches."""

import math

import torch
from torch.utils.flop_counter import flop_registry

from .lowerings import ATTENTION, layout
from .sizes import symbolic_sizes

_LAUNCH_US = 2.0  # What a kernel costs behind another in eager mode, and what a fused one saves.
_CALL_US = 5.0  # A run of kfuse, whatever it computes.
_BYTES_PER_US = {"cuda": 2.0e6, "cpu": 1.0e4}


def tensors_of(node: torch.fx.Node) -> list:
    value = node.meta.get("val")
    return [one for one in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(one, torch.Tensor)]


def bytes_of(node: torch.fx.Node) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(node))


def is_free(node: torch.fx.Node) -> bool:
    """A view, or what makes a tensor of nothing: no kernel that reads."""
    return node.op != "call_function" or node.target in layout.TABLE and not _MOVES.get(node.target)


_MOVES = dict.fromkeys(
    (
        torch.ops.aten.clone.default, torch.ops.aten.cat.default, torch.ops.aten.constant_pad_nd.default,
        torch.ops.aten.repeat.default, torch.ops.aten.embedding.default, torch.ops.aten.index_select.default,
        torch.ops.aten.index.Tensor, torch.ops.aten.gather.default, torch.ops.aten.convolution.default,
    ),
    True,
)  # fmt: skip


def flops_of(node: torch.fx.Node) -> int:
    """Of products by torch's own count; of other ops one an element; of what has no fixed sizes none."""
    if symbolic_sizes(tensors_of(node)):
        return 0
    if node.op != "call_function" or is_free(node) and node.target is not torch.ops.aten.convolution.default:
        return 0
    if node.target in ATTENTION:
        return _flops_of_attention(*(operand.meta["val"].shape for operand in node.args[:3]))
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return sum(math.prod(tensor.shape) for tensor in tensors_of(node)[:1])
    args, options = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda operand: operand.meta["val"])
    return int(count(*args, **options, out_val=node.meta["val"]))


def _flops_of_attention(query, key, value) -> int:
    """Two products; torch's count takes no shared heads."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def benefit_us(nodes: list) -> float:
    """What one fused kernel for all of these would save: launches, and the bytes of what lies between them."""
    inside = set(nodes)
    work = [node for node in nodes if not is_free(node)]
    between = [node for node in work if node.users and all(user in inside for user in node.users)]
    device = next((tensor.device.type for node in nodes for tensor in tensors_of(node)), "cpu")
    moved = 2 * sum(map(bytes_of, between)) / _BYTES_PER_US.get(device, 1.0e6)
    return _LAUNCH_US * (len(work) - 1) + moved - _CALL_US
