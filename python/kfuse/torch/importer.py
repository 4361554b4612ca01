"""A graph of aten ops, or a part of one, as a model of kfuse."""

import torch
from torch.utils import _pytree as pytree

import kfuse

from .lowerings import TABLE, Refusal, Site, rows_written, type_of, written_in_place
from .sizes import symbolic_sizes


def memory_order(tensor) -> list:
    """The dimensions as they lie in memory, outermost first; empty where the tensor is not dense."""
    order = list(range(tensor.dim()))
    if tensor.is_contiguous():
        return order
    strides = tensor.stride()
    order.sort(key=lambda dim: -strides[dim])
    return order if tensor.permute(order).is_contiguous() else []


def check_size(tensor):
    """kfuse's tensors have fixed sizes of at least 1."""
    if any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride())):
        raise Refusal(f"sizes that change from run to run: {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        raise Refusal("a tensor without elements")


def is_tensor_with_elements(value) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() != 0


class Importer:
    """Writes nodes one after the other. What a node's operands are is known by then: arguments or other nodes."""

    def __init__(self):
        self.g = kfuse.GraphBuilder()
        self.values, self.updated = {}, {}  # Nodes' values; for states that were written, what they are now.

    def argument(self, node: torch.fx.Node, role: str, name: str) -> list:
        """The placeholder as an argument of the model, declared as it lies in memory; the order of its dimensions there.
        One that is not dense is declared row-major: a run copies it."""
        tensor = node.meta["val"]
        if not isinstance(tensor, torch.Tensor):
            raise Refusal(f"an argument that is a {type(tensor).__name__}")
        check_size(tensor)
        order = memory_order(tensor) or list(range(tensor.dim()))
        if role == "state" and not tensor.is_contiguous():
            raise Refusal("a tensor that is written in place and not row-major")
        value = self.declare(name, role, tensor, [tensor.shape[dim] for dim in order])
        inverse = sorted(order, key=order.__getitem__)
        self.values[node] = value if order == sorted(order) else self.g.transpose(value, inverse)
        return order

    def declare(self, name: str, role: str, tensor, shape):
        return getattr(self.g, role)(name, type_of(tensor.dtype), list(shape))

    def lower(self, node: torch.fx.Node):
        """The node in terms of its operands; a Refusal or an error of kfuse where that cannot be."""
        row = TABLE.get(node.target)
        if row is None:
            raise Refusal(f"kfuse has no {node.target}")
        result = row(
            Site(self.g, node, self.values),
            *torch.fx.map_arg(node.args, self.values.__getitem__),
            **torch.fx.map_arg(dict(node.kwargs), self.values.__getitem__),
        )
        self._check(node, result)
        self.values[node] = result
        if written_in_place(node) is not None:
            self.updated[written_in_place(node)] = result

    @staticmethod
    def _check(node, result):
        """A row that makes something else than torch would be a bug: it refuses rather than compute wrongly."""
        expected = node.meta["val"]
        pairs = zip(result, expected) if isinstance(result, tuple) else [(result, expected)]
        for made, tensor in pairs:
            if made is None:
                continue
            check_size(tensor)
            if list(made.shape) != list(tensor.shape) or made.type != type_of(tensor.dtype):
                raise Refusal(f"{node.target} became {made}, torch makes {tensor.dtype} of {tuple(tensor.shape)}")

    def output(self, name: str, node: torch.fx.Node) -> list:
        """Names an output, written as torch has it in memory; the order of its dimensions there."""
        order = memory_order(node.meta["val"])
        if not order and node.meta["val"].dim() > 0:
            raise Refusal("a view that is no dense tensor, made by torch")
        value = self.values[node]
        self.g.output(name, value if order == sorted(order) else self.g.transpose(value, order))
        return order

    def stand_in(self, node: torch.fx.Node, role: str = "input"):
        """What stands for an operand where a node is tried alone: an argument of whatever layout."""
        value = node.meta.get("val")
        if isinstance(value, (tuple, list)):  # Not all are tensors with elements: an attention's seed is none.
            self.values[node] = tuple(
                self._stand_in(f"{node.name}.{i}", role, one) if is_tensor_with_elements(one) else None
                for i, one in enumerate(value)
            )
        elif isinstance(value, torch.Tensor):
            self.values[node] = self._stand_in(node.name, role, value)
        else:
            raise Refusal(f"an operand that is a {type(value).__name__}")

    def _stand_in(self, name, role, tensor):
        check_size(tensor)
        return self.declare(name, role, tensor, tensor.shape)


def reason_against(node: torch.fx.Node) -> str:
    """Why kfuse does not take a node; "" where it does. It is tried in a graph of its own."""
    importer, state = Importer(), written_in_place(node)
    try:
        for operand in node.all_input_nodes:
            importer.stand_in(operand, "state" if operand is state else "input")
        for operand in rows_written(node):
            if operand not in importer.values:
                importer.stand_in(operand)
        importer.lower(node)
    except (Refusal, kfuse.Error) as refusal:
        return str(refusal)
    return ""


class Model:
    """A part as a model of kfuse: names and memory orders of its arguments and outputs.

    refused has the nodes that cannot be in the part, by their names, each with the reason.
    """

    def __init__(self, part, sizes):
        self.refused, self.graph = {}, None
        try:
            written = Written(sizes.largest(part.module.graph), part.roles)
            self.orders, self.output_orders, self.refused = written.orders, written.output_orders, written.refused
            if not self.refused:
                self.graph = _of_any_size(part, sizes, written) or written.importer.g.build()
        except (Refusal, kfuse.Error) as refusal:
            self.refused = dict.fromkeys(part.names, str(refusal))


class Written:
    """A part's graph, with sizes that are numbers, written to an importer: memory orders of its arguments and outputs.

    refused has the outputs that cannot be such, by their names, each with the reason.
    """

    def __init__(self, graph: torch.fx.Graph, roles):
        self.importer, self.refused = Importer(), {}
        self.orders = [
            self.importer.argument(node, role, node.name) if role != "size" else []
            for node, role in zip(graph.find_nodes(op="placeholder"), roles)
        ]
        for node in (node for node in graph.nodes if node.op == "call_function"):
            self.importer.lower(node)
        self.output_orders = [self._output(i, node) for i, node in enumerate(graph.output_node().args[0])]
        for state, value in self.importer.updated.items():  # As outputs, attention's kernel may write them itself.
            self.importer.g.output(f"{state.name}.updated", value)

    def _output(self, i, node) -> list:
        try:
            return self.importer.output(f"out{i}", node)
        except (Refusal, kfuse.Error) as refusal:
            self.refused[node.name] = str(refusal)
            return []


def _of_any_size(part, sizes, largest: Written):
    """The model of sizes that each run gives; None where all are fixed."""
    if not symbolic_sizes(pytree.tree_leaves([node.meta.get("val") for node in part.module.graph.nodes])):
        return None
    dims = sizes.dims(node.meta["val"] for node, role in zip(part.placeholders, part.roles) if role != "size")
    if not dims:
        raise Refusal("sizes that no input of the part has")

    def build(*lengths):
        written = Written(sizes.at(part.module.graph, dict(zip(dims, lengths))), part.roles)
        if (written.orders, written.output_orders) != (largest.orders, largest.output_orders):
            raise Refusal("a tensor whose dimensions change their order in memory with its sizes")
        return written.importer.g

    model = kfuse.Model.from_graphs(build, dims)
    for name in (name for desc in model.inputs for name in desc.dims if name and name not in dims):
        raise Refusal(f"an input with a dimension of {name}, not of one size alone")
    return model
