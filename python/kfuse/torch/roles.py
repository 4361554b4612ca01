"""What each argument of AOTAutograd's graph is for, from its metadata."""

import torch

from .lowerings import written_in_place


def parameters_of(graph: torch.fx.Graph) -> set:
    """Names of the placeholders that are the same tensors in every run and that no run writes: parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if metadata is None:
        return set()
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    fixed = {placeholders[i] for i in metadata.static_input_indices if i < len(placeholders)}
    written = {
        placeholders[i] for i, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata
    }
    return {node.name for node in fixed - written} - {
        node.args[0].name for node in graph.nodes if is_copy_to_argument(node)
    }


def states_of(graph: torch.fx.Graph) -> set:
    """Names of the nodes that a node of the graph writes in place."""
    return {written_in_place(node).name for node in graph.nodes if written_in_place(node) is not None}


def is_copy_to_argument(node) -> bool:
    """How AOTAutograd keeps that an argument was changed."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"
