"""What tells that a parameter has changed since the last run.

Its address and torch's count of its changes do, but for `parameter.data += change`, by which PEFT merges adapters: neither
sees it. So each access to Parameter.data counts as a change. What could be seen of one parameter alone would be worse: a
class of its own, which Dynamo's guards and type(parameter) tell from Parameter, or a checksum before each run.
"""

import operator

import torch

_ACCESSES = {}  # How often a parameter's data was read or set, by its id.
_DATA = torch.Tensor.data
_VERSION = operator.attrgetter("_version")


def watch():
    """From now on accesses are counted."""
    torch.nn.Parameter.data = property(_read, _set)


def _read(parameter):
    _count(parameter)
    return _DATA.__get__(parameter)


def _set(parameter, value):
    _count(parameter)
    _DATA.__set__(parameter, value)


def _count(parameter):
    _ACCESSES[id(parameter)] = _ACCESSES.get(id(parameter), 0) + 1


def versions(tensors) -> list:
    """Equal to earlier ones where they are the same tensors and torch has seen no change."""
    try:
        return [*map(torch.Tensor.data_ptr, tensors), *map(_VERSION, tensors)]
    except RuntimeError:
        raise RuntimeError(
            "torch counts no changes of parameters that were made under torch.inference_mode(); make them elsewhere, or "
            'compile with weights="frozen" where none changes'
        ) from None


def accesses(tensors) -> list:
    """Equal to earlier ones where nobody has asked the same parameters for their data."""
    return [*map(_ACCESSES.get, map(id, tensors))]
