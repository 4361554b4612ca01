#!/usr/bin/env python3
"""Runs a model on the CPU target with the inputs in NAME.npz and compares its output with PyTorch's, y.

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


def read_npy(data):
    """Shape and values of little-endian f4 in C order."""
    major = data[6]
    size, start = (struct.unpack_from("<H", data, 8)[0], 10) if major == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    header = ast.literal_eval(data[start : start + size].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    values = array.array("f", data[start + size :])
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], values


def main(kfuse, model):
    reference = zipfile.ZipFile(model.with_name(model.name.split(".")[0] + ".npz"))
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        command = [kfuse, "run", model, "--target", "cpu", "--store", work / "store.db", "--check", "--output", work / "out"]
        for member in reference.namelist():
            if member != "y.npy":
                reference.extract(member, work)
                command += ["--input", f"{member.removesuffix('.npy')}={work / member}"]
        subprocess.run(command, check=True)
        outputs = list((work / "out").iterdir())
        assert len(outputs) == 1, outputs
        shape, found = read_npy(outputs[0].read_bytes())
    expected_shape, expected = read_npy(reference.read("y.npy"))
    assert shape == expected_shape, f"the output is {shape}, PyTorch's {expected_shape}"
    error = math.dist(found, expected) / math.hypot(*expected)
    print(f"{model.name}: ||out - ref|| / ||ref|| = {error:.2e}, at most {TOLERANCE:.0e}")
    return 0 if error <= TOLERANCE else 1


sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
