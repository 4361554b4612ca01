#!/usr/bin/env python3
"""Writes tests/models/data: a small file of each idiom that exporters write, with inputs and PyTorch's outputs.

Usage: bench/models/idioms.py FOLDER [NAME...]
"""

import importlib
import pathlib
import sys

import numpy
import torch

import small_config

small_config.WIDTH, small_config.INNER, small_config.HEAD_WIDTH, small_config.DEPTH = 16, 24, 4, 1

import of_diffusers  # noqa: E402
import of_transformers  # noqa: E402
from cases import Case, seed_weights  # noqa: E402
from export import TYPES, export, reference  # noqa: E402

MOST_BYTES = 60_000


def of_configuration(name, form="plain", **options):
    """A case of transformers; `options` are values of its configuration."""
    usual = of_transformers.special
    of_transformers.special = lambda name, kind: usual(name, kind) | options
    try:
        return next(case for case in of_transformers.cases(name) if case.variant == form)
    finally:
        of_transformers.special = usual


def of_module(module, **shapes):
    """A case of a module and shapes of its inputs."""
    torch.manual_seed(0)
    inputs = {name: torch.randn(shape) for name, shape in shapes.items()}
    return Case("plain", of_diffusers.Called(seed_weights(module), list(inputs)), inputs)


def timm_model(name, **options):
    import timm

    return timm.create_model(name, num_classes=5, **options)


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(embedding_size=4, hidden_sizes=[4, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic")
    )


def block_of_diffusers(module, name, *sizes, **options):
    return getattr(importlib.import_module(f"diffusers.models.{module}"), name)(*sizes, **options)


class Sampled(torch.nn.Module):
    """What deformable attention reads, and what position embeddings of images of any size are made of."""

    def forward(self, image, offsets):
        sample, grid = torch.nn.functional.grid_sample, torch.tanh(offsets)
        outside = sample(image, 1.5 * offsets, mode="bilinear", padding_mode="zeros", align_corners=False)
        mirrored = sample(image, 1.5 * offsets, mode="bilinear", padding_mode="reflection", align_corners=True)
        return outside + mirrored, sample(image, grid, mode="bicubic", padding_mode="border", align_corners=False)


# File: its case, type, exporter; what the file shows.
IDIOMS = {
    "bert_mask": (lambda: of_configuration("bert"), "f32", "dynamo"),  # Masks by GatherND
    "bert_classifier": (lambda: of_configuration("bert", "head"), "f32", "legacy"),  # One row of the last layer
    "t5": (lambda: of_configuration("t5"), "f32", "dynamo"),  # Relative positions, attention to another sequence
    "deberta": (lambda: of_configuration("deberta-v2"), "f32", "legacy"),  # GatherElements of relative positions
    "clip_text": (lambda: of_configuration("clip_text_model"), "f32", "legacy"),  # ArgMax picks a token
    "vit_f16": (lambda: of_configuration("vit"), "f16", "dynamo"),  # Patches by Conv
    "beit": (lambda: of_configuration("beit"), "f32", "dynamo"),  # Layer scale, biases of windows
    "swin": (
        lambda: of_configuration(
            "swin", image_size=32, embed_dim=8, depths=[2, 1], num_heads=[2, 2], out_features=["stage2"]
        ),
        "f16",
        "dynamo",
    ),  # Shifted windows
    "wav2vec2": (
        lambda: of_configuration("wav2vec2", num_conv_pos_embeddings=6),
        "f32",
        "dynamo",
    ),  # Conv of one dimension: strides, groups
    "segformer": (
        lambda: of_configuration("segformer", image_size=32),
        "f16",
        "dynamo",
    ),  # Resize, depthwise Conv in the FFN
    "mixtral": (lambda: of_configuration("mixtral"), "f32", "dynamo"),  # Experts by TopK, weights gathered
    "deepseek": (lambda: of_configuration("deepseek_v3"), "f32", "dynamo"),  # Latent attention, groups of experts
    "gpt_oss_past": (
        lambda: of_configuration("gpt_oss", "past"),
        "f16",
        "dynamo",
    ),  # Sinks, sliding windows, a growing cache
    "llama_static": (lambda: of_configuration("llama", "static"), "f32", "dynamo"),  # Rows of a cache by ScatterND
    "qwen3_static": (lambda: of_configuration("qwen3", "static"), "f16", "legacy"),  # The same by the other exporter
    "mamba": (lambda: of_configuration("mamba"), "f32", "dynamo"),  # A state space, step by step
    "fnet": (lambda: of_configuration("fnet"), "f32", "dynamo"),  # DFT in the place of attention
    "sampled": (lambda: of_module(Sampled(), image=(2, 3, 5, 7), offsets=(2, 4, 6, 2)), "f32", "dynamo"),  # GridSample
    "convnext": (
        lambda: of_module(timm_model("convnext_atto", depths=(1, 1, 1, 1), dims=(4, 8, 8, 16)), x=(1, 3, 32, 32)),
        "f32",
        "dynamo",
    ),
    "resnet": (
        lambda: of_module(resnet(), pixel_values=(1, 3, 33, 33)),
        "f32",
        "legacy",
    ),  # MaxPool, GlobalAveragePool, folded norms
    "unet_middle": (
        lambda: of_module(
            block_of_diffusers(
                "unets.unet_2d_blocks",
                "UNetMidBlock2D",
                in_channels=16,
                temb_channels=24,
                attention_head_dim=8,
                resnet_groups=4,
            ),
            hidden_states=(1, 16, 5, 7),
            temb=(1, 24),
        ),
        "f32",
        "dynamo",
    ),  # GroupNorm over pixels
    "upsample": (
        lambda: of_module(block_of_diffusers("resnet", "Upsample2D", 16, use_conv=True), hidden_states=(1, 16, 5, 7)),
        "f32",
        "dynamo",
    ),  # Resize to nearest
    "geglu": (
        lambda: of_module(
            block_of_diffusers("attention", "BasicTransformerBlock", 16, 2, 8, cross_attention_dim=12),
            hidden_states=(2, 13, 16),
            encoder_hidden_states=(2, 7, 12),
        ),
        "f32",
        "dynamo",
    ),  # A gated FFN
}


def main(folder, only):
    for name, (make, kind, exporter) in IDIOMS.items():
        if only and name not in only:
            continue
        case = make()
        module, inputs, exact = reference(case, TYPES[kind])
        outputs = case.outputs or tuple(f"y{place}" for place in range(len(exact)))
        path = folder / f"{name}.{exporter}.onnx"
        export(module, inputs, outputs, exporter, path)
        arrays = {f"in:{key}": value.numpy() for key, value in inputs.items()}
        arrays |= {f"out:{key}": value.numpy() for key, value in zip(outputs, exact)}
        numpy.savez_compressed(folder / f"{name}.npz", **arrays)
        sizes = path.stat().st_size, (folder / f"{name}.npz").stat().st_size
        print(
            f"{path.name}: {sizes[0]} and {sizes[1]} bytes{'' if max(sizes) <= MOST_BYTES else ', too large'}",
            file=sys.stderr,
        )


main(pathlib.Path(sys.argv[1]), sys.argv[2:])
