#!/usr/bin/env python3
"""Runs a model on the CPU target with the inputs in NAME.npz and compares its outputs with PyTorch's: y, or out:NAME each
beside inputs in:NAME.

Usage: pytorch.py KFUSE MODEL.onnx. Needs nothing but Python: an .npz is a zip of .npy files.
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

TOLERANCE = 1e-4  # ||out - ref|| / ||ref||
TYPES = {"<f4": "f", "<i8": "q"}


def read_npy(data):
    """Shape and values of little-endian f4 or i8 in C order."""
    major = data[6]
    size, start = (struct.unpack_from("<H", data, 8)[0], 10) if major == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    header = ast.literal_eval(data[start : start + size].decode())
    assert header["descr"] in TYPES and not header["fortran_order"], header
    values = array.array(TYPES[header["descr"]], data[start + size :])
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], values


def difference(found, expected):
    """||found - expected|| / ||expected||; integers differ or do not."""
    (shape, values), (expected_shape, expected_values) = found, expected
    assert shape == expected_shape, f"the output is {shape}, PyTorch's {expected_shape}"
    if expected_values.typecode == "q":
        return 0 if values == expected_values else math.inf
    return math.dist(values, expected_values) / math.hypot(*expected_values)


def main(kfuse, model):
    reference = zipfile.ZipFile(model.with_name(model.name.split(".")[0] + ".npz"))
    members = [name.removesuffix(".npy") for name in reference.namelist()]
    is_named = any(name.startswith("out:") for name in members)
    outputs = {name.removeprefix("out:"): name for name in members if name.startswith("out:") or (not is_named and name == "y")}
    inputs = {name.removeprefix("in:"): name for name in members if name.startswith("in:") or (not is_named and name != "y")}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        command = [kfuse, "run", model, "--target", "cpu", "--store", work / "store.db", "--check", "--output", work / "out"]
        for number, (name, member) in enumerate(inputs.items()):
            (work / f"{number}.npy").write_bytes(reference.read(f"{member}.npy"))
            command += ["--input", f"{name}={work / f'{number}.npy'}"]
        subprocess.run(command, check=True)
        files = list((work / "out").iterdir())
        assert len(files) == len(outputs), files
        worst = 0
        for name, member in outputs.items():
            file = files[0] if not is_named else work / "out" / f"{name}.npy"
            error = difference(read_npy(file.read_bytes()), read_npy(reference.read(f"{member}.npy")))
            print(f"{model.name}: {name}: ||out - ref|| / ||ref|| = {error:.2e}, at most {TOLERANCE:.0e}")
            worst = max(worst, error)
    return 0 if worst <= TOLERANCE else 1


sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
