"""What is exported: a module with its inputs, by name."""

import dataclasses

import torch


@dataclasses.dataclass
class Case:
    """A module whose `forward` takes the tensors of `inputs` in order and returns tensors."""

    variant: str  # "plain", "past" or "static"
    module: torch.nn.Module
    inputs: dict
    outputs: tuple = ()  # Names; y0, y1, ... else


class Refused(Exception):
    """An architecture that cannot be built from a small configuration, or run."""


def seed_weights(model, seed=0):
    """Weights that keep values near 1 through the layers, and norms that do something."""
    generator = torch.Generator().manual_seed(seed)

    def noise(tensor, scale):
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float32).to(tensor.dtype) * scale

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.is_floating_point():
                continue
            if parameter.ndim >= 2 and name.endswith(("weight", "proj", "kernel")):
                is_table = "embed" in name and parameter.ndim == 2
                fan_in = parameter.shape[-1] if is_table or parameter.ndim == 2 else max(1, parameter[0].numel())
                parameter.copy_(noise(parameter, fan_in**-0.5 if not is_table else 0.7))
            else:
                parameter.add_(noise(parameter, 0.1))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(noise(buffer, 0.1))
            elif name.endswith("running_var"):
                buffer.mul_(1 + 0.3 * torch.rand(buffer.shape, generator=generator))
    return model.eval()


def tensors(value, limit=6):
    """The tensors in a model's output, in order, without caches."""
    found = []

    def walk(item):
        if isinstance(item, torch.Tensor):
            if item.numel() and not any(item is other for other in found):
                found.append(item)
        elif isinstance(item, dict) or hasattr(item, "items") and hasattr(item, "keys"):
            for name, part in item.items():
                if name not in ("past_key_values", "cache", "cache_params", "mems", "state", "encoder_outputs"):
                    walk(part)
        elif isinstance(item, (list, tuple)):
            for part in item:
                walk(part)

    walk(value)
    return tuple(found[:limit])
