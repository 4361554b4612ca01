"""What kfuse.torch did with the graphs that it was given."""

import collections
import dataclasses
import logging
import os

import torch

_LOG = logging.getLogger("kfuse")
_TORCH = os.path.dirname(torch.__file__) + os.sep


def warn(line: str):
    _LOG.warning("kfuse.torch: %s", line.splitlines()[0] if line else "")


def debug(error: Exception):
    """Where an error came from, for those who set the logger's level."""
    _LOG.debug("kfuse.torch:", exc_info=error)


def place_of(node) -> str:
    """File and line of the call that made a node, outside of torch where it came from there."""
    frames = [line.strip() for line in node.meta.get("stack_trace", "").splitlines() if line.strip().startswith("File")]
    frames = [frame for frame in frames if _TORCH not in frame] or frames
    return frames[-1].removeprefix("File ").rpartition(", in")[0] if frames else "no line known"


@dataclasses.dataclass
class GraphRecord:
    """One graph: how much of it runs in kfuse, and why not more."""

    name: str  # Dynamo's: number of the function, and of its compilation.
    fallback: str
    parts: list = dataclasses.field(default_factory=list)  # Ops and kernels of each part.
    ops: int = 0
    flops: int = 0
    flops_in_kfuse: int = 0
    seconds: float = 0.0  # That kfuse took to compile it: choosing parts, planning, tuning.
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    refused_whole: str = ""

    @property
    def is_recompile(self) -> bool:
        return not self.name.endswith("/0")

    def __str__(self):
        if self.refused_whole:
            return f"graph {self.name}: runs in {self.fallback}: {self.refused_whole}"
        share = 100 * self.flops_in_kfuse / self.flops if self.flops else 0.0
        inside = sum(ops for ops, _ in self.parts)
        lines = [
            f"graph {self.name}: {len(self.parts)} parts in kfuse: {inside} of {self.ops} ops, {share:.0f} % of the FLOPs, "
            f"compiled in {self.seconds:.2f} s"
        ]
        lines += [f"  part {i}: {ops} ops in {kernels} kernels" for i, (ops, kernels) in enumerate(self.parts)]
        lines += [f"  {count} x in {self.fallback}: {reason}" for reason, count in self.reasons.most_common()]
        return "\n".join(lines)


class Report:
    """The graphs compiled so far; str() is a table."""

    def __init__(self):
        self.graphs = []

    def begin(self, fallback: str) -> GraphRecord:
        context = torch._guards.CompileContext.current_compile_id()
        self.graphs.append(GraphRecord(str(context) if context else f"{len(self.graphs)}/0", fallback))
        return self.graphs[-1]

    @property
    def recompiles(self) -> int:
        return sum(graph.is_recompile for graph in self.graphs)

    def clear(self):
        self.graphs.clear()

    def __str__(self):
        head = f"{len(self.graphs)} graphs, {self.recompiles} of them recompiles"
        return "\n".join([head, *map(str, self.graphs)])


_REPORT = Report()


def report() -> Report:
    """What became of each graph since the process began: parts, share of FLOPs, reasons, recompiles."""
    return _REPORT
