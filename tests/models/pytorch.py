#!/usr/bin/env python3
"""Runs models on the CPU target with the inputs in NAME.npz and compares their outputs with PyTorch's: y, or out:NAME each
beside inputs in:NAME.

Usage: pytorch.py KFUSE [--untuned] MODEL.onnx... With --untuned the cost model chooses every kernel, and the reference
evaluator is not asked. Needs nothing but Python: an .npz is a zip of .npy files.
"""

import array
import ast
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

TOLERANCE, TOLERANCE_F16 = 1e-4, 4e-3  # ||out - ref|| / ||ref||
TYPES = {"<f4": "f", "<f2": "e", "<i8": "q", "|b1": "?"}


def read_npy(data):
    """Shape, type and values of a little-endian array in C order."""
    major = data[6]
    size, start = (
        (struct.unpack_from("<H", data, 8)[0], 10) if major == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    )
    header = ast.literal_eval(data[start : start + size].decode())
    kind, shape = TYPES.get(header["descr"]), header["shape"]
    assert kind and not header["fortran_order"], header
    values = struct.unpack(f"<{math.prod(shape)}{kind}", data[start + size :])
    return shape, kind, array.array("d", values) if kind in "ef" else values


def difference(found, expected):
    """||found - expected|| / ||expected||; integers differ or do not."""
    (shape, _, values), (expected_shape, kind, expected_values) = found, expected
    assert shape == expected_shape, f"the output is {shape}, PyTorch's {expected_shape}"
    if kind in "q?":
        return 0 if values == expected_values else math.inf
    return math.dist(values, expected_values) / math.hypot(*expected_values)


def members_of(archive, prefix):
    """Members by the name behind their prefix. Without prefixes y is the output, all others are inputs."""
    members = [name.removesuffix(".npy") for name in archive.namelist()]
    if any(name.startswith("out:") for name in members):
        return {name.removeprefix(prefix): name for name in members if name.startswith(prefix)}
    return {name: name for name in members if (name == "y") == (prefix == "out:")}


def worst_error(kfuse, options, model):
    reference = zipfile.ZipFile(model.with_name(model.name.split(".")[0] + ".npz"))
    outputs = members_of(reference, "out:")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        command = [
            kfuse,
            "run",
            model,
            "--target",
            "cpu",
            "--store",
            work / "store.db",
            "--output",
            work / "out",
            *options,
        ]
        for number, (name, member) in enumerate(members_of(reference, "in:").items()):
            (work / f"{number}.npy").write_bytes(reference.read(f"{member}.npy"))
            command += ["--input", f"{name}={work / f'{number}.npy'}"]
        subprocess.run(command, check=True)
        files = list((work / "out").iterdir())
        assert len(files) == len(outputs), files
        worst = 0
        for name, member in outputs.items():
            file = files[0] if member == "y" else work / "out" / f"{name}.npy"
            found = read_npy(file.read_bytes())
            error = difference(found, read_npy(reference.read(f"{member}.npy")))
            limit = TOLERANCE_F16 if found[1] == "e" else TOLERANCE
            print(f"{model.name}: {name}: ||out - ref|| / ||ref|| = {error:.2e}, at most {limit:.0e}", flush=True)
            worst = max(worst, error / limit)
    return worst


def main(kfuse, *arguments):
    options = ["--no-benchmark"] if "--untuned" in arguments else ["--check"]
    errors = [worst_error(kfuse, options, pathlib.Path(argument)) for argument in arguments if argument != "--untuned"]
    return 0 if errors and max(errors) <= 1 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
