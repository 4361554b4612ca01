"""Which ops of aten are taken apart before kfuse sees them."""

import functools

import torch

from .lowerings import ATTENTION

# Ops that have kernels of kfuse or of Inductor whole.
_WHOLE = (
    "mm", "addmm", "bmm", "baddbmm", "_softmax", "_safe_softmax", "_log_softmax", "native_layer_norm",
    "_fused_rms_norm", "gelu", "silu", "relu", "sigmoid", "tanh", "embedding", "index_copy", "index_put",
    "slice_scatter",
    *(overload.overloadpacket.__name__ for overload in ATTENTION),
)  # fmt: skip


@functools.cache
def decompositions() -> dict:
    """torch's core ones and norms of vectors, less what stays whole."""
    core = torch._decomp.core_aten_decompositions()
    norms = torch._decomp.get_decompositions([torch.ops.aten.linalg_vector_norm])
    return norms | {op: function for op, function in core.items() if op.overloadpacket.__name__ not in _WHOLE}
