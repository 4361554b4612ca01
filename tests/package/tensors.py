#!/usr/bin/env python3
"""Tensors of a pack as files, for examples/deploy.c (raw bytes) and for kfuse run (.npy).

Usage: tensors.py make PACK KFUSE FOLDER [NAME=NUMBER]...: NAME.bin and NAME.npy of all that the pack's model takes,
           random but for integers that are given, and a file `inputs` with kfuse run's options for them.
       tensors.py compare PACK KFUSE FOLDER: whether each NAME.out has the values of expected/NAME.npy.
"""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

# Types of .npy files: NumPy has no bf16, whose values f4 holds.
NPY = {"f32": "<f4", "bf16": "<f4", "f16": "<f2", "i32": "<i4", "i64": "<i8", "bool": "|b1"}
CODES = {"f32": "f", "f16": "e", "i32": "i", "i64": "q", "bool": "?"}


def widen(raw):
    """The f32 that bf16 are the upper halves of."""
    wide = bytearray(2 * len(raw))
    wide[2::4], wide[3::4] = raw[0::2], raw[1::2]
    return bytes(wide)


def draw_bf16(count, scale):
    """Bits at once, of either sign and near `scale`: models have hundreds of millions of weights."""
    exponent = (127 + math.floor(math.log2(scale))) // 2  # All but its last bit, which is random, too.
    signed = bytes(byte & 0x80 | exponent for byte in range(256))
    raw = bytearray(2 * count)
    raw[0::2], raw[1::2] = random.randbytes(count), random.randbytes(count).translate(signed)
    return bytes(raw)


def draw(tensor, count, given):
    scale = max(1, tensor["shape"][0] if len(tensor["shape"]) > 1 else 1) ** -0.5
    if tensor["type"] == "bf16":
        return draw_bf16(count, scale)
    if tensor["type"] in ("f32", "f16"):
        values = (struct.unpack("<f", b"\0\0" + struct.pack("<f", random.gauss(0, scale))[2:])[0] for _ in range(count))
    else:
        values = (int(given.get(tensor["name"], random.randrange(2))) for _ in range(count))
    return struct.pack(f"<{count}{CODES[tensor['type']]}", *values)


def npy(tensor, body):
    shape = "".join(f"{size}, " for size in tensor["shape"])
    header = f"{{'descr': '{NPY[tensor['type']]}', 'fortran_order': False, 'shape': ({shape}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def make(pack, folder, given):
    random.seed(1)
    options = []
    for tensor in pack["inputs"] + pack["parameters"] + pack["states"]:
        count = 1
        for size in tensor["shape"]:
            count *= size
        raw = draw(tensor, count, given)
        body = widen(raw) if tensor["type"] == "bf16" else raw
        (folder / f"{tensor['name']}.bin").write_bytes(raw)
        (folder / f"{tensor['name']}.npy").write_bytes(npy(tensor, body))
        options.append(f"--input {tensor['name']}={folder / tensor['name']}.npy")
    (folder / "inputs").write_text("\n".join(options))


def compare(pack, folder):
    compared, different = 0, 0
    for tensor in pack["outputs"]:
        found = folder / f"{tensor['name']}.out"
        if not found.exists():
            continue  # A state, updated in place.
        raw = found.read_bytes()
        expected = (folder / "expected" / f"{tensor['name']}.npy").read_bytes()
        body = widen(raw) if tensor["type"] == "bf16" else raw
        compared += 1
        if not body or not expected.endswith(body) or len(set(raw)) < 2:
            different += 1
            print(f"'{tensor['name']}' differs")
    print(f"{compared} outputs compared, {different} differ")
    return compared == 0 or different > 0


command, path, kfuse, folder, *given = sys.argv[1:]
described = json.loads(subprocess.run([kfuse, "pack", "--inspect", "--json", path], capture_output=True, check=True).stdout)
if command == "make":
    make(described, pathlib.Path(folder), dict(pair.split("=") for pair in given))
else:
    sys.exit(compare(described, pathlib.Path(folder)))
