#!/usr/bin/env python3
"""Writes the small ONNX files beside it, which the importer's tests read. Needs onnx, numpy and onnxruntime; the files are
committed, so that nothing that builds or tests kfuse does.

Usage: write_models.py [FOLDER]
"""
from writers import (arithmetic, attention, caches, control_flow, file, images, layout, malformed, packed, quantised,
                     runtime)
from writers.model import restart_numbers

WRITERS = [
    file.external, file.dynamic, file.opsets, file.functions, file.empty, file.typed, malformed.malformed,
    arithmetic.activations, arithmetic.integers, arithmetic.pointwise, arithmetic.rows, arithmetic.rare, arithmetic.einsum,
    layout.layout, layout.indexing, images.windows, images.sampling,
    attention.decode, attention.transformer, attention.microsoft,
    runtime.attention, runtime.group_query, runtime.others, packed.packed_attention, quantised.ops, quantised.along_n,
    quantised.halves, quantised.single_products,
    caches.rows_by_position, caches.grown, caches.buffers, caches.genai, control_flow.control_flow,
]

for write in WRITERS:
    restart_numbers()
    write()
