"""What differs between the frameworks whose tensors kfuse takes: how one is exported, made, and told of streams.

The extension asks framework_of() once for each type of tensor. None of the frameworks is imported before a tensor of it
was given.
"""

import sys

# DLPack's codes of the types that have no letter in the buffer protocol, with their bits.
_CODES = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}
# kfuse's names of types as NumPy, ml_dtypes and torch spell them.
_NAMES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "i64": "int64",
    "bool": "bool",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "i8": "int8",
    "u8": "uint8",
    "i4": "uint8",  # The bytes of which each is half of one.
    "u4": "uint8",
}
_CUDA = 2  # kDLCUDA


def _numpy_dtype(type_name: str):
    import numpy

    name = _NAMES[type_name]
    if name not in _CODES:
        return numpy.dtype(name)
    import ml_dtypes

    return numpy.dtype(getattr(ml_dtypes, name))


class Framework:
    """Any that has DLPack; outputs are arrays of kfuse's own, which torch.from_dlpack and its like take."""

    has_buffer = False
    immutable_because = ""
    must_wait = False
    ordered = False  # Whether its work is on the stream that kfuse asks it for, so that nothing has to wait.

    def export(self, tensor, stream):
        """A DLPack capsule, or (bits, (code, bits of an element))."""
        options = {}
        if tensor.__dlpack_device__()[0] == _CUDA:
            options["stream"] = -1 if self.ordered else stream or 1  # 1 is the legacy default stream.
        try:
            return tensor.__dlpack__(max_version=(1, 1), **options)
        except TypeError:  # From before DLPack 1.0.
            return tensor.__dlpack__(**options)

    def empty(self, shape, type_name, device, program):
        return program._array(shape, type_name)

    def finish(self, tensor):
        return tensor

    def current_stream(self, device):
        return 0

    def record_stream(self, tensor, device, stream):
        """Tells the allocator that the stream works with the tensor."""


class Numpy(Framework):
    has_buffer = True

    def export(self, tensor, stream):
        import numpy

        code = _CODES.get(tensor.dtype.name)
        if code is None:
            return tensor.__dlpack__()
        return tensor.view(numpy.uint16 if code[1] == 16 else numpy.uint8), code

    def empty(self, shape, type_name, device, program):
        import numpy

        if device >= 0:
            return program._array(shape, type_name)
        return numpy.empty(shape, _numpy_dtype(type_name))


class Torch(Framework):
    ordered = True

    def export(self, tensor, stream):
        import torch

        code = _CODES.get(str(tensor.dtype).removeprefix("torch."))
        if code is not None and code[1] == 8:
            return tensor.detach().view(torch.uint8), code
        return super().export(tensor.detach(), stream)

    def empty(self, shape, type_name, device, program):
        import torch

        return torch.empty(shape, dtype=getattr(torch, _NAMES[type_name]), device="cpu" if device < 0 else device)

    def current_stream(self, device):
        import torch

        return torch.cuda.current_stream(device).cuda_stream

    def record_stream(self, tensor, device, stream):
        import torch

        if tensor.is_cuda and torch.cuda.current_stream(device).cuda_stream != stream:
            tensor.record_stream(torch.cuda.ExternalStream(stream, device=device))


class Cupy(Framework):
    ordered = True

    def empty(self, shape, type_name, device, program):
        import cupy

        with cupy.cuda.Device(device):
            return cupy.empty(shape, _numpy_dtype(type_name))

    def current_stream(self, device):
        import cupy

        with cupy.cuda.Device(device):
            return cupy.cuda.get_current_stream().ptr


class Jax(Framework):
    """Its streams are its own: it waits for nobody and nobody can tell it, so that a run on a GPU ends before it returns."""

    immutable_because = "arrays of jax are immutable; give a tensor of torch, cupy or NumPy"
    must_wait = True

    def finish(self, tensor):
        import jax

        return jax.dlpack.from_dlpack(tensor) if not isinstance(tensor, jax.Array) else tensor


class CudaArray(Framework):
    """What has only __cuda_array_interface__ (numba, PyCUDA)."""

    ordered = True

    def export(self, tensor, stream):
        import cupy  # It reads the protocol; nothing is copied.

        return cupy.asarray(tensor).__dlpack__(stream=-1)


DEFAULT = Framework()


def framework_of(cls: type):
    """The framework of a type of tensors; None where it is none."""
    if "numpy" in sys.modules and issubclass(cls, sys.modules["numpy"].ndarray):
        return Numpy()
    if hasattr(cls, "__dlpack__"):
        modules = {base.__module__.partition(".")[0] for base in cls.__mro__}
        for name, framework in (("torch", Torch), ("jax", Jax), ("jaxlib", Jax), ("cupy", Cupy)):
            if name in modules:
                return framework()
        return DEFAULT
    return CudaArray() if hasattr(cls, "__cuda_array_interface__") else None


def stream_pointer(stream) -> int:
    """The CUstream of a stream of torch, cupy, or any that has __cuda_stream__."""
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    from .errors import UsageError

    raise UsageError(
        f"stream is given as {type(stream).__qualname__}, expected an int, a stream of torch or cupy, "
        "or one with __cuda_stream__"
    )
