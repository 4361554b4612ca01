#!/usr/bin/env python3
"""Writes checkpoints/, folders that the importer's tests read: layers quantised and packed by the library whose format they
are in, and in expected.safetensors what that library makes of them when it runs. The files are committed.

Needs torch, transformers, safetensors, auto-gptq 0.7.1, gptqmodel 7.7, autoawq 0.2.9, compressed-tensors 0.20 and hqq 0.2.8.
Of AutoGPTQ and AutoAWQ, which no longer import beside a transformers of today, the modules are loaded that quantise and
pack; the rest of these packages is left out.

Usage: write_checkpoints.py [FOLDER]
"""
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save, save_file

SITE = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent
torch.manual_seed(33)


def without_init(*packages):
    """Makes packages importable whose own __init__ would import what is not there."""
    for name in packages:
        module = types.ModuleType(name)
        module.__path__ = [str(SITE / name.replace(".", "/"))]
        sys.modules[name] = module


without_init("awq", "awq.modules", "awq.modules.linear", "awq.utils", "awq.quantize")
without_init("auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear", "auto_gptq.quantization")
transformers.Conv1D = transformers.pytorch_utils.Conv1D
torch.cuda.synchronize = lambda *_: None


def linear(n, k, bias=False, dtype=torch.float16):
    layer = torch.nn.Linear(k, n, bias=bias)
    layer.weight.data = torch.randn(n, k) * torch.rand(n, 1) * 0.1
    layer.weight.data[0] = layer.weight.data[0].abs() + 0.01  # Zeros at an end of their range.
    return layer.to(dtype)


class Folder:
    """A checkpoint, and what its layers' weights are."""

    def __init__(self, root, name, quantisation):
        self.path, self.tensors, self.expected = root / name, {}, {}
        self.config = {"architectures": ["LlamaForCausalLM"], "quantization_config": quantisation}

    def add(self, layer, tensors, expected):
        self.tensors.update({f"{layer}.{name}": value.contiguous() for name, value in tensors.items() if value is not None})
        self.expected[f"{layer}.weight"] = expected.contiguous()

    def write(self):
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.json").write_text(json.dumps(self.config, indent=1, sort_keys=True) + "\n")
        save_file(self.tensors, self.path / "model.safetensors", metadata={"format": "pt"})
        save_file(self.expected, self.path / "expected.safetensors")


# GPTQ ------------------------------------------------------------------------------------------------------------------


def quantised_by_gptq(layer, bits, group, act_order, sym):
    """What AutoGPTQ's algorithm makes of a layer for random activations: scales, zeros and g_idx; the layer is rounded."""
    from auto_gptq.quantization.gptq import GPTQ

    layer.float()
    gptq = GPTQ(layer)
    gptq.quantizer.configure(bits, perchannel=True, sym=sym, mse=False)
    x = torch.randn(256, layer.in_features) * torch.rand(layer.in_features)
    gptq.add_batch(x, layer(x))
    found = gptq.fasterquant(group_size=group, actorder=act_order)
    layer.half()
    return [found[0].half(), found[1].half(), found[2]]


def gptq_v1(root):
    from auto_gptq.nn_modules.qlinear.qlinear_cuda import QuantLinear

    folder = Folder(root, "gptq", {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq",
                                   "dynamic": {"+:.*8bit": {"bits": 8}, "+:.*3bit": {"bits": 3}, "+:.*2bit": {"bits": 2}}})
    for name, n, k, bits, group, act_order, sym in (("plain", 64, 96, 4, 32, False, True), ("zeros", 64, 96, 4, 32, False, False),
                                                    ("ordered", 32, 128, 4, 32, True, False), ("row", 32, 64, 4, -1, False, False),
                                                    ("ordered8bit", 32, 64, 8, 32, True, True), ("of3bit", 32, 96, 3, 32, False, True),
                                                    ("of2bit", 32, 64, 2, 32, False, True)):
        layer = linear(n, k, bias=name == "plain")
        if not sym:
            layer.weight.data[0] = -layer.weight.data[0].abs()  # A zero of 15; one of 0 is written over its neighbours.
            layer.weight.data[1:] -= 0.001
            layer.weight.data[:, ::group if group > 0 else k] = -0.01
        scales, zeros, g_idx = quantised_by_gptq(layer, bits, group, act_order, sym)
        packed = QuantLinear(bits, group, k, n, layer.bias is not None)
        packed.pack(layer, scales, zeros, g_idx)
        if layer.bias is not None:
            packed.bias.data.normal_()
        bias, packed.bias = packed.bias, None
        expected = packed(torch.eye(k, dtype=torch.float16)).t()
        folder.add(name, dict(qweight=packed.qweight, qzeros=packed.qzeros, scales=packed.scales, g_idx=packed.g_idx, bias=bias), expected)
    folder.write()


def gptq_v2(root):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear

    folder = Folder(root, "gptq_v2", {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq_v2"})
    for name, n, k, act_order in (("zeros", 64, 96, False), ("ordered", 32, 128, True)):
        layer = linear(n, k)  # Its first row has zeros of 0.
        scales, zeros, g_idx = quantised_by_gptq(layer, 4, 32, act_order, False)
        packed = TorchLinear(bits=4, group_size=32, sym=False, desc_act=act_order, in_features=k, out_features=n, bias=False, pack_dtype=torch.int32, register_buffers=True)
        packed.pack_original(layer, scales, zeros, g_idx) if hasattr(packed, "pack_original") else packed.pack(layer, scales, zeros, g_idx)
        packed.post_init()
        expected = packed.dequantize_weight().t().to(torch.float16)
        folder.add(name, dict(qweight=packed.qweight, qzeros=packed.qzeros, scales=packed.scales, g_idx=packed.g_idx), expected)
    folder.write()


# AWQ -------------------------------------------------------------------------------------------------------------------


def awq(root):
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    folder = Folder(root, "awq", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"})
    for name, n, k, group in (("up", 64, 96, 32), ("down", 32, 64, 32)):
        layer = linear(n, k)
        # AwqQuantizer.pseudo_quantize_tensor, whose module imports calibration data.
        w = layer.weight.data.float().reshape(-1, group)
        low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
        scales = (high - low).clamp(min=1e-5) / 15
        zeros = (-torch.round(low / scales)).clamp(0, 15)
        packed = WQLinear_GEMM.from_linear(layer, 4, group, scales=scales.reshape(n, -1).t().contiguous().half(), zeros=zeros.reshape(n, -1).t().contiguous().half())
        codes = torch.clamp(torch.round(w / scales) + zeros, 0, 15)
        assert codes.max() == 15
        folder.add(name, dict(qweight=packed.qweight, qzeros=packed.qzeros, scales=packed.scales), dequantize_gemm(packed.qweight, packed.qzeros, packed.scales, 4, group).t())
    folder.write()


# compressed-tensors ----------------------------------------------------------------------------------------------------


def compressed_tensors(root):
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    groups = {}
    folder = Folder(root, "compressed_tensors", {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "config_groups": groups})
    for name, n, k, bits, group, symmetric, dtype in (("sym", 24, 96, 4, 32, True, torch.bfloat16), ("zeros", 20, 64, 4, 32, False, torch.float16),
                                                      ("row", 12, 100, 8, None, True, torch.bfloat16), ("rowzeros", 20, 72, 4, None, False, torch.float16),
                                                      ("of3bit", 10, 96, 3, 32, False, torch.float16)):
        args = QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, strategy="group" if group else "channel", group_size=group)
        scheme = QuantizationScheme(targets=[f"re:.*{name}$"], weights=args)
        weight = linear(n, k, dtype=dtype).weight.data
        parts = weight.reshape(n, -1, group or k)
        scale, zero = calculate_qparams(parts.amin(-1), parts.amax(-1), args)
        state = dict(weight=weight, weight_scale=scale.to(dtype), weight_zero_point=zero.to(torch.int8))
        compressed = PackedQuantizationCompressor.compress(state, scheme)
        restored = PackedQuantizationCompressor.decompress(dict(compressed), scheme)["weight"]
        groups[name] = {"targets": scheme.targets, "weights": json.loads(args.model_dump_json()), "input_activations": None, "output_activations": None}
        folder.add(name, compressed, restored)
    folder.write()


# HQQ -------------------------------------------------------------------------------------------------------------------


def hqq(root):
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

    folder = Folder(root, "hqq", {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 32, "axis": 1}}, "skip_modules": ["lm_head"]})
    for name, n, k, bits, group, axis, whole in (("whole4", 24, 64, 4, 32, 1, True), ("whole8", 12, 96, 8, 32, 1, True), ("whole3", 20, 64, 3, 32, 1, True),
                                                 ("columns4", 24, 40, 4, 8, 0, True), ("columns2", 32, 20, 2, 16, 0, True), ("columns3", 16, 24, 3, 16, 0, True),
                                                 ("across", 12, 40, 4, 16, 1, True), ("of1", 16, 32, 1, 32, 1, True), ("floats", 24, 64, 4, 32, 1, False)):
        config = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis)
        config["weight_quant_params"]["round_zero"] = whole
        config["weight_quant_params"]["optimize"] = False
        layer = HQQLinear.from_weights(linear(n, k).weight.data, None, config, compute_dtype=torch.float16, device="cpu")
        folder.add(name, layer.state_dict(), layer.dequantize())
    folder.write()


def fuzzing_seeds(root, corpus):
    """A file for each small layer, as checkpoint_fuzzer.cpp reads it."""
    corpus.mkdir(parents=True, exist_ok=True)
    for folder in sorted(root.iterdir()):
        config = (folder / "config.json").read_bytes()
        tensors, expected = load_file(folder / "model.safetensors"), load_file(folder / "expected.safetensors")
        for name, weight in expected.items():
            if tuple(weight.shape) in ((32, 64), (24, 64), (20, 64), (32, 20)):
                layer = name.removesuffix("weight")
                file = save({key: value for key, value in tensors.items() if key.startswith(layer)})
                (corpus / f"{folder.name}_{layer}bin").write_bytes(len(config).to_bytes(4, "little") + config + file)


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "checkpoints")
    for write in (gptq_v1, gptq_v2, awq, compressed_tensors, hqq):
        write(root)
    fuzzing_seeds(root, root.parents[1] / "fuzz/corpus/checkpoint")
