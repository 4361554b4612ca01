from collections.abc import Callable, Mapping, Sequence
import os
from typing import Any

import kfuse._plan


class TensorDesc:
    """Name, element type and shape of a tensor at the edge of a model."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dims(self) -> tuple[str, ...]:
        """
        The size that each dimension follows, '' where it is fixed; empty where all are. shape has the largest.
        """

    @property
    def bytes(self) -> int: ...

    def __eq__(self, arg: TensorDesc, /) -> bool: ...

    def __repr__(self) -> str: ...

class Model:
    """A model's graph, and the weights that came with it. Immutable."""

    @property
    def inputs(self) -> list[TensorDesc]:
        """New data each run, in order."""

    @property
    def parameters(self) -> list[TensorDesc]:
        """Fixed between runs, in order."""

    @property
    def states(self) -> list[TensorDesc]:
        """Updated in place by a run, in order."""

    @property
    def outputs(self) -> list[TensorDesc]: ...

    @property
    def dims(self) -> dict[str, tuple[int, int]]:
        """Sizes that each run gives, with their ranges."""

    def parameter_data(self, name: str) -> bytes | None:
        """
        The bytes of a parameter that is stored in the model's file, row-major; None when the caller gives them.
        """

    def __repr__(self) -> str: ...

    @staticmethod
    def from_graphs(build: Callable[..., GraphBuilder], dims: dict[str, tuple[int, int]]) -> Model:
        """
        A model of sizes that each run gives, {'tokens': (1, 8192)}: build(tokens) makes its graph for any of
        them, now and in compile(), on any thread.
        """

def load(path: str | os.PathLike[str], *, params: Sequence[str] = [], shapes: Mapping[str, Sequence[int]] = {}, states: Sequence[str] = [], tf32: bool = False, dims: dict[str, tuple[int, int]] = {}, axes: Mapping[str, Sequence[str]] = {}, checkpoint: str | os.PathLike[str] | None = None, checkpoint_prefix: str = '') -> Model:
    """
    Reads an ONNX file or the dialect's text.

    params are globs naming inputs that are fixed between runs, shapes gives those of inputs that are dynamic
    in the file, states names inputs that become an output's memory ('past*=present*'), tf32 allows products
    of f32 to cut their operands for tensor cores. dims are sizes that each run gives, by the file's names of
    dimensions, {'tokens': (1, 8192)}; axes names those that have none in the file, {'x': ['1', 'tokens', '64']}.

    checkpoint is a folder as transformers saves a model, config.json and safetensors: weights of the parameters,
    and of inputs, that have the names of its tensors behind checkpoint_prefix ('model.layers.0.'). Those that it
    holds quantised (GPTQ, AWQ, compressed-tensors, HQQ) stay so, and the graph dequantises them.
    """

class Tensor:
    """A value in the graph of the builder that gave it."""

    @property
    def type(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __repr__(self) -> str: ...

class GraphBuilder:
    """Builds a model op by op; a mistake is an error at once."""

    def __init__(self) -> None: ...

    def input(self, name: str, type: str, shape: Sequence[int]) -> Tensor:
        """New data each run."""

    def parameter(self, name: str, type: str, shape: Sequence[int]) -> Tensor:
        """Fixed between runs."""

    def state(self, name: str, type: str, shape: Sequence[int]) -> Tensor:
        """Lives in the caller's memory and is updated in place."""

    def output(self, name: str, value: Tensor) -> None: ...

    def constant(self, value: float | Sequence[float], type: str, shape: Sequence[int] = []) -> Tensor:
        """A tensor of one value, or of values in row-major order."""

    def iota(self, type: str, shape: Sequence[int], axis: int) -> Tensor:
        """Each element is its own index along axis."""

    def pointwise(self, op: str, *operands: Tensor) -> Tensor:
        """
        Any elementwise op of the dialect by its name; operands broadcast as in NumPy.
        """

    def add(self, a: Tensor, b: Tensor) -> Tensor: ...

    def sub(self, a: Tensor, b: Tensor) -> Tensor: ...

    def mul(self, a: Tensor, b: Tensor) -> Tensor: ...

    def div(self, a: Tensor, b: Tensor) -> Tensor: ...

    def relu(self, x: Tensor) -> Tensor: ...

    def gelu(self, x: Tensor) -> Tensor: ...

    def silu(self, x: Tensor) -> Tensor: ...

    def tanh(self, x: Tensor) -> Tensor: ...

    def sigmoid(self, x: Tensor) -> Tensor: ...

    def where(self, condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor: ...

    def cast(self, x: Tensor, type: str) -> Tensor: ...

    def matmul(self, a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False, tf32: bool = False) -> Tensor:
        """
        [batch..., M, K] times [batch..., K, N]; transposed ones are [..., K, M] and [..., N, K].
        """

    def softmax(self, x: Tensor) -> Tensor:
        """Over the last dimension."""

    def layer_norm(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, epsilon: float = 1e-05) -> Tensor: ...

    def rms_norm(self, x: Tensor, weight: Tensor | None = None, epsilon: float = 1e-06) -> Tensor: ...

    def dequantize(self, quantized: Tensor, scales: Tensor, blocks: Sequence[int], zeros: Tensor | None = None) -> Tensor:
        """
        (quantized - zeros) scales; `blocks` elements along each dimension share a scale.
        """

    def rotary(self, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
        """
        Rotates pairs of x by angles whose cosines and sines are given, [..., D] or [..., D / 2].
        """

    def reduce(self, function: str, x: Tensor, axes: Sequence[int]) -> Tensor:
        """'sum', 'max', 'min' or 'mean' over axes, which it drops."""

    def same_sequence(self, row_starts: Tensor, key_starts: Tensor, rows: int, keys: int, causal: bool = False) -> Tensor:
        """
        Which rows and keys belong to one of several sequences that are packed behind each other (cu_seqlens).
        """

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """One size may be -1: what is left."""

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor: ...

    def broadcast(self, x: Tensor, shape: Sequence[int]) -> Tensor: ...

    def slice(self, x: Tensor, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] = []) -> Tensor: ...

    def concat(self, pieces: Sequence[Tensor], axis: int) -> Tensor: ...

    def gather(self, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor: ...

    def update_state(self, state: Tensor, value: Tensor, position: Tensor, axis: int) -> Tensor:
        """
        Writes value at position along axis of a state, in place; the updated state is an output.
        """

    def text(self) -> str:
        """The dialect's text, which load() reads."""

    def build(self) -> Model:
        """The model."""

class Progress:
    """How far tuning has come."""

    @property
    def kernel(self) -> str:
        """The kernel that is being tuned."""

    @property
    def kernels_done(self) -> int: ...

    @property
    def kernels(self) -> int: ...

    @property
    def candidates_done(self) -> int: ...

    @property
    def candidates(self) -> int: ...

    @property
    def best_us(self) -> float:
        """The fastest so far, in microseconds; 0 until one was measured."""

class Program:
    """A compiled model. Immutable; threads may share it."""

    @property
    def inputs(self) -> list[TensorDesc]: ...

    @property
    def parameters(self) -> list[TensorDesc]: ...

    @property
    def states(self) -> list[TensorDesc]: ...

    @property
    def outputs(self) -> list[TensorDesc]: ...

    @property
    def dims(self) -> dict[str, tuple[int, int]]:
        """Sizes that each run gives, with their ranges."""

    @property
    def target(self) -> str:
        """What it was compiled for: 'cpu', 'sm_90a', ..."""

    @property
    def device(self) -> int:
        """The CUDA ordinal of its device, -1 on the CPU."""

    @property
    def updated_states(self) -> list[int]:
        """Per output: the state that it is, or -1."""

    @property
    def plan(self) -> kfuse._plan.Plan:
        """Its kernels, their configs, bounds and times: rows, for pandas too."""

    def prepare(self, params: dict[str, object] | None = None, *, copy: bool = False) -> Weights:
        """
        Folds, merges and packs parameters given by name; what is not given came with the model. What needs no
        preparation is used in place. copy allows host memory to be copied to the program's device.
        """

    def session(self, weights: Weights | None = None, *, states: dict[str, object] | None = None) -> Session:
        """
        A Session with these weights, by default those that came with the model. states, tensors by name, are
        updated in place by every run that is not given others.
        """

    def synchronize(self, stream: object | None = None) -> None:
        """Waits for the work of a stream; of the default stream without one."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Writes a pack: its kernels as machine code, without the parameters, which prepare() takes. load_pack() and C
        read it without compiling anything; `kfuse pack` makes packs for several targets, and with weights.
        """

    def __repr__(self) -> str: ...

def load_pack(path: str | os.PathLike[str], *, target: str = 'auto', device: int = 0, threads: int = 0, variant: str = '') -> Program:
    """
    The program of a pack that fits the device best, compiled by `kfuse pack` or saved by Program.save(). A pack
    is code: load those that you would run as programs. target is "auto", "gpu" or "cpu"; variant is the
    target or SKU of the program to take.
    """

class Weights:
    """
    Parameters folded, merged and packed for one program. Holds the tensors that they were given as: what needs no preparation is used in place.
    """

    @property
    def tensors(self) -> list: ...

class Session:
    """
    One stream's running state. Make one per thread and stream.

    A call enqueues one run: inputs in order or by name. It returns the outputs, a tuple where there are several; of
    an updated state the state's own tensor.

    out is a list of tensors to write (None: made by the first input's framework), or a dictionary by name. stream
    is a CUDA stream: its pointer, a torch or cupy stream, or what has __cuda_stream__; else the current stream of
    the first input's framework. states gives states by name, over those of Program.session().
    """

    def __call__(self, *args: object, out: object | None = None, stream: object | None = None, states: dict[str, object] | None = None, **inputs: object) -> Any: ...
