#!/usr/bin/env python3
"""What a call from Python costs over C++'s Session::run, with ten tensors of NumPy or torch on the CPU: nine inputs, whose
first elements the model adds, and an output. The two alternate, in rounds of 1000; of their medians the least, which other
processes lengthen least. On an AMD EPYC of 2.6 GHz it is 2.6 us for NumPy; 3 us there are the goal.

--most RATIO fails where it costs more than RATIO times what Python takes, in the same rounds, to look into those ten arrays
by `memoryview`: 1.6 times on that machine, on a busy one as on a quiet one. ctest allows 2.4, for other processors.

Usage: overhead.py [--most RATIO]
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


def median(call):
    """Microseconds that `call` takes."""
    took = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        call()
        took.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(took)


def overhead(run, arrays, tensors, out):
    """Least medians in microseconds: C++, Python, views of the arrays."""

    def call():
        run(*tensors, out=out)

    def view():
        for array in arrays:
            memoryview(array)

    rounds = [
        (statistics.median(run._time_native(RUNS, *tensors, out=out)), median(call), median(view)) for _ in range(ROUNDS)
    ]
    return (min(medians) for medians in zip(*rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, help="times the views of ten arrays that are too many")
    most = parser.parse_args().most
    run = small_program().session()
    arrays = [np.ones(8, "float32") for _ in range(10)]
    rows = {"numpy": arrays}
    if importlib.util.find_spec("torch"):
        import torch

        rows["torch"] = [torch.from_numpy(array) for array in arrays]
    failed = False
    for name, tensors in rows.items():
        native, python, views = overhead(run, arrays, tensors[:9], tensors[9:])
        over = python - native
        print(
            f"{name}: {python:.2f} us a call, C++'s run {native:.2f} us, over it {over:.2f} us, "
            f"{over / views:.2f} times the {views:.2f} us of ten views"
        )
        failed |= most is not None and over > most * views
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
