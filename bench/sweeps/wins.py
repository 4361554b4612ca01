#!/usr/bin/env python3
"""What the values of config fields win of a sweep, for the rule of docs/architecture.md ("What stays").

Usage: wins.py SWEEP.csv...   A sweep is what kfuse_gpu_bench appends to $KFUSE_BENCH_CSV: "case;config;us;modelled us;...".
For each value: the cases that have configs with and without it, in how many the fastest has it, and how much faster these cases
are for it: the fastest config without it over the fastest of all, in the geometric mean and at most.
"""
import collections
import csv
import math
import pathlib
import sys


def timed(paths):
    """The times of each case's configs."""
    cases = collections.defaultdict(dict)
    for path in paths:
        lines = (line for line in pathlib.Path(path).read_text().splitlines() if line and not line.startswith("#"))
        for case, config, us, *_ in csv.reader(lines, delimiter=";"):
            fields = frozenset(config.split(","))
            cases[case][fields] = min(float(us), cases[case].get(fields, math.inf))
    return cases


def gains(cases, value):
    """For each case with configs of both kinds: the fastest without `value` over the fastest of all."""
    for times in cases.values():
        without = [us for config, us in times.items() if value not in config]
        if without and len(without) < len(times):
            yield min(without) / min(times.values())


cases = timed(sys.argv[1:])
values = {value for times in cases.values() for config in times for value in config}
print(f"{'value':24} {'cases':>5} {'won':>4} {'mean':>7} {'most':>7}")
for value in sorted(values, key=lambda value: (value.split("=")[0], int(value.split("=")[1]))):
    won = list(gains(cases, value))
    if won:
        mean = math.exp(sum(map(math.log, won)) / len(won))
        print(f"{value:24} {len(won):5} {sum(gain > 1 for gain in won):4} {mean - 1:7.2%} {max(won) - 1:7.2%}")
