"""torch.compile(model, backend="kfuse")."""

import functools
import time

import torch

import kfuse

from . import cost, fallback
from .decompositions import decompositions
from .graph import prepared_copy
from .importer import Model
from .options import Options
from .partition import Support, partition
from .program import PartProgram
from .records import debug, place_of, report, warn
from .sizes import Sizes


class Declined(Exception):
    """Nothing of the graph is for kfuse."""


def backend(module: torch.fx.GraphModule, inputs, *, mode=None, options=None):
    """Compiles what Dynamo traced: parts that kfuse takes and where it pays, the rest by the fall-back.

    Whatever goes wrong, the untouched graph is compiled by the fall-back instead, with one line to the logger "kfuse".
    """
    chosen = Options.of(mode, options)
    record = report().begin(chosen.fallback)
    try:
        record.refused_whole = _reason_against(inputs)
        if not record.refused_whole:
            return _by_aot_autograd(module, inputs, functools.partial(compile_graph, chosen=chosen, record=record))
    except Declined as declined:
        record.refused_whole = str(declined)
    except Exception as error:
        record.refused_whole = f"{type(error).__name__}: {error}"
        debug(error)
    if chosen.fallback == "error":
        raise kfuse.errors.UsageError(f"kfuse.torch: {record.refused_whole}")
    warn(f"graph {record.name} runs in {chosen.fallback}: {record.refused_whole}")
    return fallback.whole(module, inputs, chosen)


def _reason_against(inputs) -> str:
    """Why a graph is none for kfuse, whatever its ops are; "" where it may be."""
    if torch.is_grad_enabled() and any(one.requires_grad for one in inputs if isinstance(one, torch.Tensor)):
        return "it computes gradients; under torch.inference_mode() or torch.no_grad() it runs in kfuse"
    return ""


class _DenseMasks(torch.overrides.TorchFunctionMode):
    """Attention whose mask is expanded along the keys is taken apart by torch, into products in f32; with a dense mask,
    which costs kfuse nothing, it stays whole. Its result lies in memory as torch's, which is traced for that alone."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        made, mask = function(*args, **kwargs), kwargs.get("attn_mask")
        is_attention = function is torch.nn.functional.scaled_dot_product_attention and not kwargs.get("dropout_p")
        if not is_attention or mask is None or mask.dim() == 0 or mask.stride(-1) == 1:
            return made
        whole = function(*args, **kwargs | {"attn_mask": mask.contiguous()})
        if whole.stride() == made.stride():
            return whole
        return whole.contiguous() if made.is_contiguous() else made


def _by_aot_autograd(module, inputs, compiler):
    from torch._dynamo.backends.common import aot_autograd

    def training(*_):
        raise Declined("it computes gradients")

    with _DenseMasks():
        return aot_autograd(
            fw_compiler=training,
            bw_compiler=training,
            inference_compiler=compiler,
            decompositions=decompositions(),
            keep_inference_input_mutations=True,
        )(module, inputs)  # Which traces the module, and leaves it as it is.


def compile_graph(module, inputs, *, chosen: Options, record):
    """The graph of an inference as a function of a list of arguments."""
    start, banned, sizes = time.monotonic(), {}, Sizes(inputs)
    if reason := sizes.reason_against():
        raise Declined(
            f"{reason}; give it one with torch._dynamo.mark_dynamic(x, dim, min=2, max=4096), or compile with dynamic=False"
        )
    while True:
        copy, unwritten = prepared_copy(module)
        support = Support(copy.graph, unwritten | banned, sizes)
        flops = {name: cost.flops_of(node) for name, node in support.fixed.items()}
        parts = partition(copy, support, chosen.min_benefit_us)
        programs, refused = _programs_of(parts, sizes, chosen)
        if not refused:
            break
        banned |= refused
    record.seconds = time.monotonic() - start
    record.ops, record.flops = len(support.reasons), sum(flops.values())
    record.reasons.update(reason for reason in support.reasons.values() if reason)
    record.flops_in_kfuse = sum(flops[name] for part in parts for name in part.names)
    record.parts = [(len(part.ops), len(programs[part.call.target].program.plan)) for part in parts]
    if chosen.fallback == "error" and record.reasons:
        raise Declined(_list_of(support))
    if not parts:
        raise Declined(
            "no part of it is for kfuse: " + "; ".join(reason for reason, _ in record.reasons.most_common(3))
        )
    return fallback.around(copy, programs, inputs, chosen)


def _programs_of(parts, sizes, chosen):
    """Programs by the names of the parts; else the nodes that are to be left out, each with the reason."""
    models = [Model(part, sizes) for part in parts]
    refused = {name: reason for model in models for name, reason in model.refused.items()}
    programs = {}
    for part, model in zip(parts, models) if not refused else ():
        try:
            programs[part.call.target] = PartProgram(part, model, chosen)
        except kfuse.Error as error:
            return programs, dict.fromkeys(part.names, str(error))
    return programs, refused


def _list_of(support) -> str:
    """Every op that is refused, where it stands in the user's code, and why."""
    lines = []
    for node, reason in support.reasons.items():
        if reason:
            lines.append(f"{node.name} ({place_of(node)}): {reason}")
    return f"{len(lines)} ops are not for kfuse:\n" + "\n".join(lines)
