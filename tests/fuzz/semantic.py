#!/usr/bin/env python3
"""Random ONNX graphs, run on the CPU as they are written and simplified, against the onnx package's reference evaluator;
some of them compiled for GPUs, too.

Usage: semantic.py --binaries build/bin [--seeds 0..300] [--jobs 2] [--gpu-every 10] [--out FOLDER]
A failing seed is made smaller and kept in FOLDER: the model, its arguments, and in a text its ops and what is wrong;
summary.txt there holds what is printed. `--seeds 17..18` runs seed 17 alone. With `--seconds` the summary says which seed
comes next. Exit status: 0, 1 for failures, 77 without the onnx package.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77
# Where tools/setup.sh puts it.
PACKAGES = pathlib.Path(os.environ.get("XDG_DATA_HOME", pathlib.Path.home() / ".local/share")) / "kfuse/python"

try:
    sys.path.append(str(PACKAGES))
    import ml_dtypes  # noqa: F401
    import onnx
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh fetches it from PyPI")
    sys.exit(SKIPPED)

from semantics.check import Failure, NoCompiler, Refusal, check, minimise
from semantics.draw import draw
from semantics.ops import GENERATORS
from semantics.oracle import Expectation, full_name
from semantics.runner import Runner

HOWS = ("simplified", "written")
MOST_REFUSED = 0.15  # A share of the seeds: if more are refused, the fuzzer tests little.


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", type=pathlib.Path, required=True, help="folder of kfuse_semantic_runner")
    parser.add_argument("--seeds", default="0..300", help="FIRST..END")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--gpu", default="sm_80,sm_90a", help="targets to compile for")
    parser.add_argument("--gpu-every", type=int, default=10, help="of so many seeds one is compiled for them; 0: none")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("semantic-failures"))
    parser.add_argument("--keep-whole", action="store_true", help="failing graphs are not made smaller")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no further seed is begun")
    return parser.parse_args()


def missing_generators(runner):
    listed = subprocess.run([runner, "--ops"], capture_output=True, text=True, check=True).stdout.split()
    return sorted(set(listed) - set(GENERATORS)), sorted(set(GENERATORS) - set(listed))


def save(folder, seed, graph, failure):
    onnx.save(graph.to_model(), folder / f"{seed}.onnx")
    (folder / f"{seed}.arguments").write_bytes(graph.argument_bytes())
    text = onnx.printer.to_text(graph.to_model())
    (folder / f"{seed}.txt").write_text(f"seed {seed}\nops: {' '.join(graph.ops())}\n{failure}\n\n{text}\n")


def seeds_work(seed, options, runner):
    """Counts of what came of a seed, and its failure if there is one."""
    counts = collections.Counter(seeds=1)
    graph = draw(seed)
    if not graph.outputs:
        return counts, None
    counts.update({f"op {name}": 1 for name in set(graph.ops())})
    expectation = Expectation(graph)
    targets = [("cpu", how) for how in HOWS]
    if options.gpu_every and seed % options.gpu_every == 0:
        targets += [(target, "simplified") for target in options.gpu.split(",")]
    for target, how in targets:
        result = check(graph, runner, how, target, expectation)
        if isinstance(result, NoCompiler):
            counts[f"no compiler for {target}"] += 1
            break
        if isinstance(result, Refusal):
            counts[f"refused {result.reason}"] += 1
            counts["refused"] += 1
            break
        if isinstance(result, Failure):
            if not options.keep_whole:
                graph, result = minimise(graph, result, runner)
            save(options.out, seed, graph, result)
            ops = "+".join(sorted(set(graph.ops())))
            return counts, (seed, result.kind, ops, str(result))
        counts[f"right {target}"] += 1
    return counts, None


def work(options, seeds, results):
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options.binaries / "kfuse_semantic_runner", folder)
        while (seed := seeds.get()) is not None:
            try:
                results.put(seeds_work(seed, options, runner))
            except Exception:
                results.put((collections.Counter(seeds=1), (seed, "fuzzer", "", traceback.format_exc())))
        runner.close()
    results.put(None)


def run_all(options, first, end, say):
    """Counts, failures, seconds, and the seed after the last that was begun."""
    seeds, results = multiprocessing.Queue(maxsize=2 * options.jobs), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(options, seeds, results)) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    started, counts, failures = time.time(), collections.Counter(), []
    following, working = first, options.jobs
    while working:
        while not seeds.full():
            if following == end or time.time() - started > options.seconds:
                seeds.put(None)
                break
            seeds.put(following)
            following += 1
        result = results.get()
        if result is None:
            working -= 1
            continue
        counts.update(result[0])
        if result[1]:
            failures.append(result[1])
            say(f"seed {result[1][0]}: [{result[1][2]}] {result[1][3]}")
    return counts, failures, time.time() - started, following


def report(counts, failures, seconds, say):
    say(f"{counts['seeds']} seeds in {seconds:.0f} s: {len(failures)} fail, {counts['refused']} are refused")
    for name in sorted(counts):
        if name.startswith(("right", "refused ", "no compiler")):
            say(f"  {name}: {counts[name]}")
    unseen = sorted(set(GENERATORS) - {name.removeprefix("op ") for name in counts if name.startswith("op ")})
    if unseen:
        say(f"  ops in no graph: {' '.join(unseen)}")
    for (kind, ops), count in collections.Counter((f[1], f[2]) for f in failures).most_common(60):
        say(f"  {count} x {kind}: {ops}")


def main():
    options = parse_arguments()
    options.out = options.out.resolve()
    unknown, stale = missing_generators(options.binaries / "kfuse_semantic_runner")
    if unknown or stale:
        print(f"ops without a generator in tests/fuzz/semantics/ops: {unknown}; generators without an op: {stale}")
        return 1
    first, end = map(int, options.seeds.split(".."))
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "summary.txt", "w") as summary:

        def say(line):
            print(line, flush=True)
            print(line, file=summary, flush=True)

        counts, failures, seconds, following = run_all(options, first, end, say)
        report(counts, failures, seconds, say)
        if following < end:
            say(f"  the time is over: go on with --seeds {following}..{end}")
        if counts["refused"] > MOST_REFUSED * counts["seeds"] + 3:
            say("too many models are refused for this to test much")
            return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
