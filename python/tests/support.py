"""What the tests of the Python package share: a block, its data, and what `kfuse run` makes of them."""

import pathlib
import subprocess
import tempfile

import ml_dtypes
import numpy as np

import kfuse

DTYPES = {"f32": np.dtype("float32"), "f16": np.dtype("float16"), "bf16": np.dtype(ml_dtypes.bfloat16)}


def feed_forward(type_name="f32", rows=24, width=64, hidden=160):
    """rms_norm(gelu(x up + up_bias) down + x), as a GraphBuilder: sizes that tiles do not divide."""
    g = kfuse.GraphBuilder()
    x = g.input("x", type_name, [rows, width])
    up = g.parameter("up", type_name, [width, hidden])
    bias = g.parameter("up_bias", type_name, [hidden])
    down = g.parameter("down", type_name, [hidden, width])
    h = g.gelu(g.add(g.matmul(x, up), bias))
    g.output("y", g.rms_norm(g.add(g.matmul(h, down), x)))
    return g


def cache(type_name="f32", rows=32, width=16):
    """Writes a row into a cache at a position, and sums the cache: a state."""
    g = kfuse.GraphBuilder()
    state = g.state("cache", type_name, [rows, width])
    row = g.input("row", type_name, [1, width])
    position = g.input("position", "i32", [])
    updated = g.update_state(state, row, position, 0)
    g.output("updated", updated)
    g.output("sum", g.reduce("sum", updated, [0]))
    return g


def random_data(model, seed=0):
    """An array for each input and parameter, of values that every float type holds."""
    generator = np.random.default_rng(seed)
    return {
        desc.name: (generator.integers(-32, 33, desc.shape) / 64).astype(DTYPES[desc.type])
        for desc in [*model.inputs, *model.parameters]
    }


def command(*words):
    """What the kfuse command of the package prints."""
    program = pathlib.Path(kfuse.__file__).parent / "bin" / "kfuse"
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"kfuse {words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def run_by_command(graph, data, *options):
    """The outputs of `kfuse run` with these options, by name; floats of 16 bits as f32, which holds them."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "model.mlir")
        model.write_text(graph.text())
        given = []
        for name, array in data.items():
            wide = array.astype("float32") if array.dtype.kind in "fV" else array
            np.save(pathlib.Path(folder, f"{name}.npy"), wide)
            given += ["--input", f"{name}={folder}/{name}.npy"]
        command("run", model, "--output", folder, *options, *given)
        return {desc.name: np.load(pathlib.Path(folder, f"{desc.name}.npy")) for desc in graph.build().outputs}


def bits(array):
    """An array's bytes, to compare NaN and -0 too."""
    return np.ascontiguousarray(array).astype("float32").tobytes()
