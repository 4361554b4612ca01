#!/usr/bin/env python3
"""What a call from Python costs over C++'s Session::run, with ten tensors of NumPy or torch on the CPU: nine inputs, whose
first elements the model adds, and an output. The two alternate, in rounds of 1000; medians.

Usage: overhead.py [--most MICROSECONDS]
"""

import argparse
import importlib.util
import statistics
import time

import numpy as np

import kfuse

ROUNDS, RUNS = 40, 1000


def small_program():
    g = kfuse.GraphBuilder()
    total = g.input("x0", "f32", [8])
    for i in range(1, 9):
        total = g.add(total, g.input(f"x{i}", "f32", [8]))
    g.output("y", total)
    return kfuse.compile(g.build(), target="cpu", effort="none", threads=1, progress=False)


def overhead(run, tensors, out):
    """Medians in microseconds: C++, Python."""
    native, python = [], []
    for _ in range(ROUNDS):
        native += run._time_native(RUNS, *tensors, out=out)
        for _ in range(RUNS):
            start = time.perf_counter_ns()
            run(*tensors, out=out)
            python.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(native), statistics.median(python)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, help="microseconds over C++'s run that are too many")
    most = parser.parse_args().most
    run = small_program().session()
    arrays = [np.ones(8, "float32") for _ in range(10)]
    rows = {"numpy": arrays}
    if importlib.util.find_spec("torch"):
        import torch

        rows["torch"] = [torch.from_numpy(array) for array in arrays]
    failed = False
    for name, tensors in rows.items():
        native, python = overhead(run, tensors[:9], tensors[9:])
        print(f"{name}: {python:.2f} us a call, C++'s run {native:.2f} us, over it {python - native:.2f} us")
        failed |= most is not None and python - native > most
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
