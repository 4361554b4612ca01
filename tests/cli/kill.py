#!/usr/bin/env python3
"""Kills short tuning runs with SIGKILL, half of them inside a write of the store, and looks at the store after each.

Inside a write: the process is stopped while it holds SQLite's write lock, which is looked up with F_GETLK, and killed there.
Whatever the store held is still there, every row is whole, and in the end a run goes on from there to its end.
Usage: kill.py KFUSE MODELS [KILLS]   (30 unless said)
"""
import fcntl
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

kfuse, models = sys.argv[1], pathlib.Path(sys.argv[2])
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 30

WRITE_LOCK_BYTE = 120  # In the -shm file: https://sqlite.org/walformat.html#locks
LOCK = "hhqqi4x"  # struct flock of Linux on 64 bits.

os.environ.pop("KFUSE_STORE", None)


def writer_of(store: pathlib.Path):
    """The process that holds the write lock, or 0."""
    try:
        with open(f"{store}-shm", "rb+") as shared:
            asked = struct.pack(LOCK, fcntl.F_WRLCK, os.SEEK_SET, WRITE_LOCK_BYTE, 1, 0)
            kind, _, _, _, pid = struct.unpack(LOCK, fcntl.fcntl(shared, fcntl.F_GETLK, asked))
            return pid if kind != fcntl.F_UNLCK else 0
    except FileNotFoundError:
        return 0


def command(model, store, *more):
    return [kfuse, *more, str(models / model), "--target", "cpu", "--threads", "1", "--store", str(store), "--json"]


def rows(store):
    """The keys of all that is stored."""
    exported = subprocess.run([kfuse, "db", "export", "--store", str(store)], capture_output=True, text=True)
    assert exported.returncode == 0, exported.stderr
    found = json.loads(exported.stdout)
    crashes = [m for m in found["measurements"] if m["failure"] and m["failure"]["kind"] == "crash"]
    assert not crashes, f"a kill is no crash of the candidate: {crashes}"
    return {("choice", c["region"]) for c in found["choices"]} | {("measured", m["kernel"]) for m in found["measurements"]}


def kill_inside_write(process, store):
    """True when it was killed with the write lock in its hands; False when it came to its end before."""
    while process.poll() is None:
        if writer_of(store) != process.pid:
            continue
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if writer_of(store) == process.pid:
            process.kill()
            process.wait()
            return True
        process.send_signal(signal.SIGCONT)
    return False


def look_at(store, known):
    verdict = subprocess.run([kfuse, "db", "verify", "--store", str(store), "--json"], capture_output=True, text=True)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    now = rows(store)
    assert known <= now, f"lost {known - now}"
    return now


def main(folder):
    names = ["ffn_tiny.mlir", "linear_head_tiny.mlir", "ln_gelu_tiny.mlir", "seqlen_head_tiny.mlir"]
    inside = outside = completed = number = 0
    seconds = 3.0  # What one run takes; learnt from those that come to their end.
    model, store, known = names[0], folder / "0.db", set()
    while inside + outside < kills:
        begun = time.monotonic()
        process = subprocess.Popen(command(model, store, "tune"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wants_inside = inside <= outside
        time.sleep(random.uniform(0, seconds))
        if wants_inside:
            inside += kill_inside_write(process, store)
        elif process.poll() is None:
            process.kill()
            outside += 1
        _, said = process.communicate()
        if store.exists():
            known = look_at(store, known)
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, said.decode()
            seconds = time.monotonic() - begun
            completed += 1
            number += 1
            model, store, known = names[number % len(names)], folder / f"{number}.db", set()
    finished = subprocess.run(command(model, store, "tune"), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    look_at(store, known)
    strict = subprocess.run(command(model, store, "tune") + ["--require-tuned"], capture_output=True, text=True)
    assert strict.returncode == 0, strict.stderr
    damaged = list(folder.glob("*.corrupt-*"))
    assert not damaged, damaged
    print(f"{inside + outside} kills, {inside} of them inside a write; {completed} runs came to their end between them; "
          f"nothing was lost")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
