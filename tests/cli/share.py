#!/usr/bin/env python3
"""Eight processes tune one model with one store: each kernel is searched by one of them, all get all of them, and the work of one
that is killed is done by another. Usage: share.py KFUSE MODELS
"""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

kfuse, models = sys.argv[1], pathlib.Path(sys.argv[2])
os.environ.pop("KFUSE_STORE", None)


def start(store):
    return subprocess.Popen([kfuse, "tune", str(models / "gpt2_tiny.mlir"), "--target", "cpu", "--threads", "1", "--json",
                             "--store", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)["kernels"]


def searched(reports):
    """How many processes searched each kernel."""
    counts = collections.Counter()
    for kernels in reports:
        for number, kernel in enumerate(kernels):
            counts[number] += not kernel["from_cache"]
    return counts


def main(folder):
    begun = time.monotonic()
    reports = [finish(process) for process in [start(folder / "all.db") for _ in range(8)]]
    counts = searched(reports)
    assert all(count == 1 for count in counts.values()), counts
    configs = [[kernel["config"] for kernel in kernels] for kernels in reports]
    assert all(config == configs[0] for config in configs), configs
    takers = sum(any(not kernel["from_cache"] for kernel in kernels) for kernels in reports)
    print(f"{len(counts)} kernels, searched once each by {takers} of 8 processes in {time.monotonic() - begun:.1f} s")

    processes = [start(folder / "killed.db") for _ in range(8)]
    time.sleep((time.monotonic() - begun) / 3)
    for process in processes[:4]:
        process.send_signal(signal.SIGKILL)
    reports = [finish(process) for process in processes[4:]]
    assert all(count <= 1 for count in searched(reports).values()), searched(reports)
    for process in processes[:4]:
        process.communicate()
    verdict = subprocess.run([kfuse, "db", "verify", "--json", "--store", str(folder / "killed.db")], capture_output=True,
                             text=True)
    assert verdict.returncode == 0 and json.loads(verdict.stdout)["leases"] <= 1, verdict.stdout
    print("four killed half-way: the others did their work")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
