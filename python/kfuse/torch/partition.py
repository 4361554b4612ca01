"""Which ops run in kfuse: those that it takes, in parts where fusing them is estimated to pay."""

import collections
import dataclasses
import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import cost
from .graph import change_last, is_view
from .importer import reason_against
from .lowerings import written_in_place
from .roles import parameters_of, states_of
from .sizes import Sizes, is_symbolic

_PREFIX = "kfuse_part_"


@dataclasses.dataclass
class Part:
    """A submodule that kfuse takes: the node that calls it, its ops, and what each of its arguments is for."""

    call: torch.fx.Node
    module: torch.fx.GraphModule
    roles: list  # "input", "parameter", "state", or "size" (a number), in the order of the submodule's placeholders.
    names: frozenset  # The names of its nodes in the whole graph.

    @property
    def placeholders(self) -> list:
        return [node for node in self.module.graph.nodes if node.op == "placeholder"]

    @property
    def ops(self) -> list:
        return [node for node in self.module.graph.nodes if node.op == "call_function"]

    @property
    def outputs(self) -> list:
        return list(self.module.graph.output_node().args[0])


class Support(OperatorSupportBase):
    """The reason against each node of a graph; "" where kfuse takes it."""

    def __init__(self, graph: torch.fx.Graph, banned: dict, sizes: Sizes):
        self.fixed = {node.name: node for node in sizes.largest(graph).nodes}  # By name, with sizes that are numbers.
        device = _device_of(self.fixed.values())
        self.reasons = {
            node: banned.get(node.name) or _reason(self.fixed[node.name], device)
            for node in graph.nodes
            if node.op == "call_function" and not is_symbolic(node.meta.get("val"))
        }
        for node in self.reasons:  # An op of several results is taken with all that are read.
            if isinstance(node.meta.get("val"), (tuple, list)):
                self.reasons[node] = next(filter(None, map(self.reasons.get, (node, *node.users))), "")

    def is_node_supported(self, submodules, node) -> bool:
        return self.reasons.get(node, "not an op") == ""


def _device_of(nodes):
    """What all parts run on: of a graph's devices the one of most ops, the CPU where there is no other."""
    counts = collections.Counter(
        tensor.device for node in nodes if node.op == "call_function" for tensor in cost.tensors_of(node)[:1]
    )
    return max(counts, key=lambda device: (device.type != "cpu", counts[device]), default=None)


def _reason(node, device) -> str:
    if "val" not in node.meta:
        return f"{node.target} has no known result"
    devices = {tensor.device for operand in (node, *node.all_input_nodes) for tensor in cost.tensors_of(operand)}
    if others := devices - {device}:
        return f"tensors on {' and '.join(sorted(map(str, others)))} in a graph of {device}"
    if devices and device.type not in ("cpu", "cuda"):
        return f"tensors on {device}"
    return reason_against(node)


def partition(module: torch.fx.GraphModule, support: Support, min_benefit_us: float) -> list:
    """Moves what pays into submodules of the graph, which the Parts describe."""
    parameters, states = parameters_of(module.graph), states_of(module.graph)
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    proposed = []
    for candidate in partitioner.propose_partitions():
        nodes = list(candidate.nodes)
        benefit = cost.benefit_us([support.fixed[node.name] for node in nodes])
        if benefit >= min_benefit_us and any(not cost.is_free(node) for node in nodes):
            proposed.append(candidate)
            continue
        for node in nodes:
            support.reasons[node] = f"a part of {len(nodes)} ops is estimated to save {benefit:.1f} us"
    names = [frozenset(node.name for node in candidate.nodes) for candidate in proposed]
    partitioner.fuse_partitions(proposed, prefix=_PREFIX)
    change_last(module.graph)
    return [_part(module, f"{_PREFIX}{i}", parameters, states, inside) for i, inside in enumerate(names)]


def _part(module, name, parameters, states, inside) -> Part:
    (call,) = module.graph.find_nodes(op="call_module", target=name)
    roles = [_role(node, parameters, states) for node in call.args]
    part = Part(call, module.get_submodule(name), roles, inside)
    _return_tuple(module.graph, part)
    _drop_states(module.graph, part)
    _drop_views(module.graph, part)
    return part


def _role(node, parameters, states) -> str:
    if is_symbolic(node.meta.get("val")):
        return "size"
    return "state" if node.name in states else "parameter" if node.name in parameters else "input"


def _return_tuple(graph, part):
    """One output is a tuple of one, as several are."""
    output = part.module.graph.output_node()
    if isinstance(output.args[0], (tuple, list)):
        return
    output.args = ((output.args[0],),)
    part.module.recompile()
    users = list(part.call.users)
    with graph.inserting_after(part.call):
        item = graph.call_function(operator.getitem, (part.call, 0))
    item.meta = dict(part.call.meta)
    for user in users:
        user.replace_input_with(part.call, item)


def _drop_states(graph, part):
    """A state that the part updated is no output: its readers behind the part read the state itself."""
    kept = [i for i, node in enumerate(part.outputs) if written_in_place(node) is None]
    if len(kept) == len(part.outputs):
        return
    arguments = dict(zip(part.placeholders, part.call.args))
    for item in list(part.call.users):
        index = item.args[1]
        if index in kept:
            item.args = (part.call, kept.index(index))
        else:
            item.replace_all_uses_with(arguments[part.outputs[index].args[0]])
            graph.erase_node(item)
    output = part.module.graph.output_node()
    output.args = (tuple(part.outputs[i] for i in kept),)
    part.module.recompile()


def _drop_views(graph, part):
    """A view of an argument, or of another output, is no output: torch makes it of that one, since they share memory. Of
    views of one tensor that is neither, that tensor is the output."""
    outputs = part.outputs
    for base, count in collections.Counter(_base_of(node) for node in outputs).items():
        if count > 1 and base.op == "call_function" and base not in outputs and written_in_place(base) is None:
            outputs.append(base)
    bases = {*outputs, *part.placeholders}
    views = {i: views for i, node in enumerate(outputs) if (views := _views_up_to(node, bases))}
    if not views:
        return
    kept = [i for i in range(len(outputs)) if i not in views]
    arguments = dict(zip(part.placeholders, part.call.args))
    for item in list(part.call.users):
        index = item.args[1]
        if index in kept:
            item.args = (part.call, kept.index(index))
            continue
        base = views[index][0].args[0]
        with graph.inserting_before(item):
            made = arguments.get(base)
            if made is None:
                made = graph.call_function(operator.getitem, (part.call, kept.index(outputs.index(base))))
            for view in views[index]:
                made = graph.node_copy(view, lambda _, made=made: made)
        item.replace_all_uses_with(made)
        graph.erase_node(item)
    part.module.graph.output_node().args = (tuple(outputs[i] for i in kept),)
    part.module.recompile()


def _views_up_to(node, bases) -> list:
    """The views that make a node of the farthest of these, first to last; empty where it is a view of none."""
    path, found = [], []
    while _is_repeatable(node):
        path.insert(0, node)
        node = node.args[0]
        if node in bases:
            found = list(path)
    return found


def _base_of(node):
    """What repeatable views make a node of; the node itself where none does."""
    while _is_repeatable(node):
        node = node.args[0]
    return node


def _is_repeatable(node) -> bool:
    """A view that can be made outside of the part, which alone has the nodes of its sizes."""
    return is_view(node) and node.all_input_nodes == [node.args[0]]
