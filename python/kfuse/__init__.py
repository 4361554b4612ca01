"""kfuse: fuses a model block into few kernels, generates them at run time, tunes them against the roofline.

    model = kfuse.load("block.onnx")
    program = kfuse.compile(model)           # tunes what the store does not hold
    run = program.session(program.prepare()) # weights once; a session for each thread
    y = run(x)                               # tensors of torch, jax, cupy or NumPy, without copies
"""

import atexit as _atexit
import json as _json
import os as _os
import pathlib as _pathlib

from . import errors
from ._kfuse import GraphBuilder, Model, Progress, Program, Session, Tensor, TensorDesc, Weights, load, load_pack
from . import _kfuse
from .errors import Error, ErrorCode

__version__ = _kfuse.__version__
__all__ = [
    "Error", "ErrorCode", "GraphBuilder", "Model", "Program", "Progress", "Session", "Store", "Tensor", "TensorDesc",
    "Weights", "cmake_dir", "compile", "errors", "explain", "from_exported", "include_dir", "load", "load_pack", "targets",
]  # fmt: skip

_os.register_at_fork(after_in_child=_kfuse._forked)
_atexit.register(_kfuse._end_calls)


def compile(
    model: Model,
    *,
    target: str = "auto",
    effort: str = "quick",
    budget: float = 0.0,
    store: "str | _os.PathLike | None" = None,
    require_tuned: bool = False,
    trust_store: bool = False,
    simplify: bool = True,
    threads: int = 0,
    device: int = 0,
    progress=True,
) -> Program:
    """Fuses, plans, tunes what the store does not hold, and loads the kernels.

    target is "cpu", "sm_90a", ...; "auto" takes the first GPU, else the CPU. effort is "none", "quick" or "full";
    budget is in seconds for all kernels together, 0 for as many as the effort takes. require_tuned makes what the store
    lacks a NotTunedError. progress is True for a bar of tqdm where it is installed, or a function that gets a Progress
    and may return False to cancel. Ctrl-C ends the tuning within a second; what was tuned by then is in the store.

    >>> import kfuse
    >>> g = kfuse.GraphBuilder()
    >>> g.output("y", g.relu(g.input("x", "f32", [4, 8])))
    >>> kfuse.compile(g.build(), target="cpu", effort="none")
    <kfuse.Program for cpu: 1 inputs, 0 parameters, 0 states, 1 outputs>
    """
    from ._progress import bar

    shown = bar() if progress is True else None
    try:
        return _kfuse._compile(
            model, target, effort, budget, _os.fspath(store) if store else "", require_tuned, trust_store, simplify,
            threads, device, shown if progress is True else progress or None,
        )  # fmt: skip
    finally:
        if shown is not None:
            shown.close()


def explain(model: Model, target: str = "auto", *, simplify: bool = True) -> dict:
    """What `kfuse explain --json` prints: what fused, bounds, what was not fused and why. Needs no device.

    >>> import kfuse
    >>> g = kfuse.GraphBuilder()
    >>> x = g.input("x", "f32", [4, 8])
    >>> g.output("y", g.softmax(g.relu(x)))
    >>> [kernel["ops"] for kernel in kfuse.explain(g.build(), "sm_90a")["kernels"]]
    ['relu + softmax']
    """
    return _json.loads(_kfuse._explain(model, target, simplify))


def targets() -> dict:
    """What `kfuse targets --json` prints: the targets that kfuse knows and the devices found here.

    >>> import kfuse
    >>> "cpu" in [target["name"] for target in kfuse.targets()["targets"]]
    True
    """
    return _json.loads(_kfuse._targets())


def from_exported(program):
    """(model, parameters) of a torch.export.ExportedProgram: a Model, and the tensors for Program.prepare() by name.

    What kfuse does not take is a BadModelError that names each op and its line.
    """
    from .torch.export import from_exported as convert

    return convert(program)


class Store:
    """A tuning store to look at: by default the one that compile() uses. It is only read.

    Python's own sqlite3 must not open a store in the same process: two copies of SQLite undo each other's locks.
    """

    def __init__(self, path: "str | _os.PathLike | None" = None):
        self.path = _pathlib.Path(path if path is not None else _kfuse._default_store())

    def export(self) -> dict:
        """What `kfuse db export` writes: choices, measurements and peaks."""
        return _json.loads(_kfuse._export_store(str(self.path)))

    def list(self) -> list:
        """The kernels that were chosen, one dictionary each."""
        return self.export()["choices"]

    def verify(self) -> dict:
        """What `kfuse db verify --json` prints: whether it is whole, and what is damaged."""
        return _json.loads(_kfuse._verify_store(str(self.path)))

    def __repr__(self):
        return f"kfuse.Store({str(self.path)!r})"


def cmake_dir() -> str:
    """The folder of kfuseConfig.cmake, for find_package(kfuse)."""
    return str(_pathlib.Path(__file__).parent / "lib" / "cmake" / "kfuse")


def include_dir() -> str:
    """The folder of C++'s headers, <kfuse/kfuse.h>."""
    return str(_pathlib.Path(__file__).parent / "include")
