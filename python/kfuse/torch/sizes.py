"""Sizes that change from run to run: torch's symbols as named dimensions of kfuse, with ranges."""

import torch
from torch.utils import _pytree as pytree

_NUMBERS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def is_symbolic(value) -> bool:
    return isinstance(value, tuple(_NUMBERS))


def symbolic_sizes(values) -> list:
    """Of tensors, and numbers that are sizes themselves."""
    return [
        size
        for value in values
        for size in (value.shape if isinstance(value, torch.Tensor) else [value])
        if is_symbolic(size)
    ]


class Sizes:
    """The symbols in the sizes of a graph's inputs, each with its range; none where all are fixed. An input that is a
    number, as the length of a cache, is none: what follows it is refused op by op."""

    def __init__(self, inputs):
        self.ranges = {}
        for size in symbolic_sizes(one for one in inputs if isinstance(one, torch.Tensor)):
            for symbol in sorted(size.node.expr.free_symbols, key=str):
                self.ranges[symbol] = size.node.shape_env.bound_sympy(symbol)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def reason_against(self) -> str:
        """Why they are no dimensions for kfuse; "" where they are."""
        endless = [symbol for symbol, range_ in self.ranges.items() if not range_.upper.is_Integer]
        return f"a size changes from run to run ({endless[0]}) and has no largest value" if endless else ""

    def dims(self, values) -> dict:
        """What Model.from_graphs() takes: those of these tensors' sizes, by name."""
        used = {str(symbol) for size in symbolic_sizes(values) for symbol in size.node.expr.free_symbols}
        return {name: ends for name, ends in self._ends().items() if name in used}

    def largest(self, graph: torch.fx.Graph) -> torch.fx.Graph:
        """The graph for the largest sizes; itself where all are fixed."""
        return self.at(graph, {name: high for name, (_, high) in self._ends().items()}) if self else graph

    def at(self, graph: torch.fx.Graph, lengths: dict) -> torch.fx.Graph:
        """A copy of the graph for these sizes, by name: what follows them alone is a number."""
        values = {symbol: lengths[str(symbol)] for symbol in self.ranges if str(symbol) in lengths}
        copy, made = torch.fx.Graph(), {}
        for node in graph.nodes:
            value = pytree.tree_map(lambda one: _fixed(one, values), node.meta.get("val"))
            if is_symbolic(node.meta.get("val")) and not is_symbolic(value) and node.op != "placeholder":
                made[node] = value
                continue
            made[node] = copy.node_copy(node, made.__getitem__)
            if "val" in node.meta:
                made[node].meta["val"] = value
            if is_symbolic(node.meta.get("val")) and not is_symbolic(value):
                made[node] = value
        return copy

    def _ends(self) -> dict:
        return {str(symbol): (max(int(range_.lower), 1), int(range_.upper)) for symbol, range_ in self.ranges.items()}


def _fixed(value, values: dict):
    """A number or a tensor with sizes that are numbers; itself where it follows other symbols."""
    if is_symbolic(value):
        number = value.node.expr.subs(values)
        return value if number.free_symbols else _NUMBERS[type(value)](number)
    if not isinstance(value, torch.Tensor) or not symbolic_sizes([value]):
        return value
    sizes, strides = ([_fixed(one, values) for one in ones] for ones in (value.shape, value.stride()))
    return value if any(map(is_symbolic, sizes)) else value.new_empty_strided(sizes, strides)
