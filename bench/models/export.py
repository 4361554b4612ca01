"""Exports every case to ONNX beside its inputs and PyTorch's outputs, each architecture in a process of its own.

`FOLDER/export/NAME-VARIANT-TYPE.EXPORTER.onnx`, `FOLDER/export/NAME-VARIANT-TYPE.npz` (in:NAME, out:NAME) and
`FOLDER/export/NAME.json`, which says what became of each. An architecture that has its .json is not exported again.
"""

import copy
import importlib
import json
import os
import pathlib
import re
import signal
import sys
import time
import warnings

import numpy
import onnx
import torch

from cases import Refused

LIMIT_S = 240  # For all files of one architecture
MOST_BYTES = 24 << 20
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# These are exported in all types, others in f32.
ALL_TYPES = set(
    "bert roberta llama qwen3 gpt2 vit t5 bart whisper clip gemma3_text mixtral wav2vec2 dinov2 deberta-v2 modernbert swin "
    "convnext resnet phi3 mamba gpt_oss vit_tiny_patch16_224 resnet50 convnext_atto mlp_mixer.MlpMixer efficientnet_b0 "
    "ResnetBlock2D Attention UNet2DConditionModel AutoencoderKL DiTTransformer2DModel".split()
)


class Typed(torch.nn.Module):
    """A module in another type. bf16, which NumPy lacks, is inside only: tensors of f32 come and go."""

    def __init__(self, module, kind):
        super().__init__()
        self.module, self.kind = module.to(kind), kind

    def forward(self, *values):
        values = [value.to(self.kind) if value.is_floating_point() else value for value in values]
        found = self.module(*values)
        if self.kind is torch.bfloat16:
            found = tuple(value.float() if value.is_floating_point() else value for value in found)
        return found


def reference(case, kind):
    """The module in `kind`, its inputs, and what they give in f32 with weights and inputs rounded to `kind`."""
    case.module.eval()
    rounded = {
        name: value.to(kind).float() if value.is_floating_point() else value for name, value in case.inputs.items()
    }
    with torch.no_grad():
        exact = copy.deepcopy(case.module).to(kind).float()(*rounded.values())
        again = copy.deepcopy(case.module).to(kind).float()(*rounded.values())
    if not all(torch.equal(first.nan_to_num(), second.nan_to_num()) for first, second in zip(exact, again)):
        raise Refused("outputs differ from run to run")
    if kind is torch.float32:
        return case.module, case.inputs, exact
    module = Typed(copy.deepcopy(case.module), kind).eval()
    inputs = {
        name: value.half() if kind is torch.float16 and value.is_floating_point() else rounded[name]
        for name, value in case.inputs.items()
    }
    return module, inputs, exact


def without_debug_text(model):
    """The file without names of source files, stack traces and doc strings."""

    def clean(graph):
        for item in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            item.ClearField("doc_string")
            if item.DESCRIPTOR.fields_by_name.get("metadata_props"):
                item.ClearField("metadata_props")
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    clean(attribute.g)

    clean(model.graph)
    model.graph.ClearField("metadata_props")
    for function in model.functions:
        function.ClearField("metadata_props")
    model.ClearField("metadata_props")
    return model


def export(module, inputs, outputs, exporter, path):
    names = {"input_names": list(inputs), "output_names": list(outputs)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            torch.onnx.export(
                module, tuple(inputs.values()), str(path), dynamo=True, external_data=False, verbose=False, **names
            )
        else:
            torch.onnx.export(module, tuple(inputs.values()), str(path), dynamo=False, opset_version=17, **names)
    onnx.save(without_debug_text(onnx.load(path)), path)
    if path.stat().st_size > MOST_BYTES:
        path.unlink()
        raise Refused("the file is too large")


def one_line(error):
    text = f"{type(error).__name__}: {error}" if not isinstance(error, Refused) else str(error)
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    return " ".join(lines)[:300]


def export_architecture(library, name, folder):
    """All files of one architecture; what became of them goes to its .json as it happens."""
    stem = name.replace(".", "_").replace(" ", "_").replace("/", "_")
    record = {"library": library, "name": name, "files": []}

    def keep():
        path = folder / f"{library}-{stem}.json"
        path.with_suffix(".new").write_text(json.dumps(record, indent=1))
        path.with_suffix(".new").rename(path)

    record["reason"] = f"ended or took more than {LIMIT_S} s"
    keep()
    began = time.monotonic()
    try:
        cases = list(importlib.import_module(f"of_{library}").cases(name))
    except Exception as error:
        record["reason"] = one_line(error)
        keep()
        return
    record["reason"] = None
    for case in cases:
        kinds = list(TYPES) if name in ALL_TYPES and case.variant != "static" else ["f32"]
        for kind in kinds:
            base = f"{stem}-{case.variant}-{kind}"
            try:
                module, inputs, exact = reference(case, TYPES[kind])
            except Exception as error:
                record["files"].append(
                    {"variant": case.variant, "type": kind, "exporter": None, "reason": one_line(error)}
                )
                keep()
                continue
            outputs = case.outputs or tuple(f"y{place}" for place in range(len(exact)))
            arrays = {f"in:{key}": value.numpy() for key, value in inputs.items()}
            arrays |= {f"out:{key}": value.numpy() for key, value in zip(outputs, exact)}
            numpy.savez_compressed(folder / f"{base}.npz", **arrays)
            for exporter in ("legacy", "dynamo"):
                entry = {
                    "variant": case.variant,
                    "type": kind,
                    "exporter": exporter,
                    "file": f"{base}.{exporter}.onnx",
                    "reason": f"took more than {LIMIT_S} s",
                }
                record["files"].append(entry)
                keep()
                try:
                    export(module, inputs, outputs, exporter, folder / entry["file"])
                    entry["reason"] = None
                except Exception as error:
                    (folder / entry["file"]).unlink(missing_ok=True)
                    entry["reason"] = one_line(error)
                entry["seconds"] = round(time.monotonic() - began, 1)
                keep()


def in_a_child(work, log, limit_s):
    """Runs `work` in a forked process, which has what this one has imported."""
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        try:
            work()
        finally:
            os._exit(0)
    deadline = time.monotonic() + limit_s
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.05)


def warm_up():
    """Imports, before any fork, what both exporters import on their first use."""
    import transformers  # noqa: F401

    class Small(torch.nn.Module):
        def forward(self, x):
            return (torch.nn.functional.gelu(x @ x),)

    path = pathlib.Path(f"/tmp/warm_up_{os.getpid()}.onnx")
    for exporter in ("legacy", "dynamo"):
        export(Small(), {"x": torch.randn(4, 4)}, ("y",), exporter, path)
    path.unlink()


def export_all(architectures, folder, say):
    """`architectures`: pairs of library and name."""
    torch.set_num_threads(1)
    (folder / "log").mkdir(parents=True, exist_ok=True)
    left = [
        (library, name)
        for library, name in architectures
        if not (folder / f"{library}-{name.replace('.', '_').replace(' ', '_').replace('/', '_')}.json").exists()
    ]
    if not left:
        return
    sys.setrecursionlimit(20000)
    with open(os.devnull, "w") as nothing:
        kept = os.dup(1), os.dup(2)
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
        try:
            warm_up()
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
    for number, (library, name) in enumerate(left):
        say(f"export {number + 1} of {len(left)}: {library} {name}")
        log = folder / "log" / f"{library}-{name.replace('/', '_').replace(' ', '_')}.log"
        in_a_child(lambda: export_architecture(library, name, folder), log, LIMIT_S)
