#!/usr/bin/env python3
"""Safetensors files of a pack's parameters: all.safetensors, missing.safetensors (without `up.weight`) and shape.safetensors
(`down.weight` the other way round). Usage: weights.py KFUSE PACK FOLDER
"""
import json
import pathlib
import random
import struct
import subprocess
import sys

kfuse, pack, folder = sys.argv[1:]
described = json.loads(subprocess.run([kfuse, "pack", "--inspect", "--json", pack], capture_output=True, check=True).stdout)
random.seed(1)


def write(name, tensors):
    header, data = {}, b""
    for tensor in tensors:
        count = 1
        for size in tensor["shape"]:
            count *= size
        bytes_ = struct.pack(f"<{count}f", *(random.gauss(0, 0.1) for _ in range(count)))
        header[tensor["name"]] = {"dtype": "F32", "shape": tensor["shape"], "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    (pathlib.Path(folder) / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


parameters = described["parameters"]
write("all.safetensors", parameters)
write("missing.safetensors", [tensor for tensor in parameters if tensor["name"] != "up.weight"])
write("shape.safetensors", [{**tensor, "shape": tensor["shape"][::-1]} if tensor["name"] == "down.weight" else tensor for tensor in parameters])
