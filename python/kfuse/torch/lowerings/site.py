"""The place in a graph where one aten op is written as calls of a GraphBuilder."""

import torch

import kfuse

# kfuse's names of torch's types. What is not here has no kernels: f64, complex, 8- and 16-bit integers.
TYPES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}
HALVES = ("f16", "bf16")


class Refusal(Exception):
    """Why kfuse does not take an op: one line that ends up in the report."""


def type_of(dtype: torch.dtype) -> str:
    if dtype not in TYPES:
        raise Refusal(f"kfuse has no tensors of {dtype}")
    return TYPES[dtype]


def is_tensor(value) -> bool:
    return isinstance(value, kfuse.Tensor)


class Site:
    """What a row of the tables sees of its node: the builder, the node, and the result that torch found for it."""

    def __init__(self, builder, node: torch.fx.Node, values: dict):
        self.g, self.node, self._values = builder, node, values

    def value_of(self, node: torch.fx.Node):
        """What another node was lowered to; None where it lies outside."""
        return self._values.get(node)

    @property
    def result(self):
        """The (first) result as a fake tensor."""
        value = self.node.meta["val"]
        return value[0] if isinstance(value, (tuple, list)) else value

    @property
    def shape(self) -> list:
        return list(self.result.shape)

    @property
    def type(self) -> str:
        return type_of(self.result.dtype)

    def given(self, index: int):
        """An argument as torch sees it: a fake tensor or a number."""
        value = self.node.args[index]
        return value.meta["val"] if isinstance(value, torch.fx.Node) else value

    def cast(self, value, type_name: str):
        """A tensor of this type, of a tensor or of a number."""
        if not is_tensor(value):
            return self.filled(value, type_name, [])
        return value if value.type == type_name else self.g.cast(value, type_name)

    def filled(self, value, type_name: str, shape):
        """A tensor of one value; an integer beyond 2^53, too."""
        whole = type_name in ("i32", "i64")
        return self.g.constant([int(value)] if whole else float(value), type_name, list(shape))

    def axis(self, dim: int, x) -> int:
        return dim + len(x.shape) if dim < 0 else dim

    def axes(self, dims, x) -> list:
        """Axes of x from dims; None and an empty list are all. One number has none, though torch lets it have a dim."""
        dims = [dims] if isinstance(dims, int) else dims
        return sorted(self.axis(dim, x) for dim in dims) if dims and x.shape else list(range(len(x.shape)))

    def compute_type(self, *operands) -> str:
        """The type in which an elementwise op of these operands is exact enough: the result's, and f32 where a half
        would round an operand that torch does not round."""
        name = self.type
        if name in HALVES and any(not self._holds(name, x) for x in operands):
            return "f32"
        return name

    def _holds(self, half: str, operand) -> bool:
        if is_tensor(operand):
            return operand.type in (half, "bool")
        number = torch.tensor(operand, dtype=torch.float64)
        return bool(number.to(self.result.dtype).to(torch.float64) == number)
