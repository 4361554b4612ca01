#!/usr/bin/env python3
"""Fits the coefficients of an estimate to sweeps: what the code has, what fits best, and how far both are from what was measured.

Usage: fit.py MODEL SWEEP.csv...   A sweep is what kfuse_gpu_bench appends to $KFUSE_BENCH_CSV: a line for each config,
"case;config;us;modelled us;us in a chain", with comments that say of which card, driver and commit. MODEL is one of those below;
each repeats the formula of its function in the code, with coefficients for each kind of config. What is fitted is the logarithm of
the time, so that short kernels count as long ones do. Needs NumPy.
"""
import csv
import math
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "blocks"))
from attention import ATTENTIONS

# ir/Target.cpp: multiprocessors, dense f16 FLOP/us, clocks/us, us of a launch.
CARDS = {"H100": (132, 989e6, 67e6 / (2 * 128 * 132), 1.3)}


class FlashWgmma:
    """FlashShape::estimateWgmmaUs and wgmmaTerms (codegen/cuda/attention/FlashShape.cpp), for causal masks and none: the part of
    the shorter of products and weights that shows, and the us of a tile's barriers and of a block's start."""

    names = ("shown", "tileUs", "startUs")
    code = {
        "resident": (0.46, 0.067, 0.62),
        "three warpgroups, turns": (0.29, 0.139, 1.73),
        "three warpgroups": (0.67, 0.193, 0.59),
        "turns": (0.50, 0.116, 1.45),
        "": (0.53, 0.098, 1.44),
    }
    math_share, shared_share = 0.8, 0.74

    @staticmethod
    def kind(shape, config):
        """The config's key in `code`, or none where the model is not its."""
        if config.get("wgmma") != 1 or config.get("persistent") != 1:
            return None
        if config.get("resident", 1) > 1:
            registers = shape[6] / 2 + config["keys"] * 3 / 4 + 36
            return "resident" if registers <= 104 else None  # Others are measured here, and no longer offered.
        return ", ".join(["three warpgroups"] * (config["warps"] > 8) + ["turns"] * (config["turns"] == 1))

    @classmethod
    def us(cls, shape, config, coefficients, card):
        batch, heads, _, queries, keys, key_size, value_size, mask = shape
        sms, rate, clocks, launch = card
        shown, barriers, start = coefficients
        rows, width, resident = config["rows"], config["keys"], config.get("resident", 1)
        pairs, padded = rows * width, math.ceil(key_size / 16) * 16
        read = rows / 64 * (64 + width) * 2 * padded / 128 / (clocks * cls.shared_share)
        products = [2 * pairs * size / (rate / sms * cls.math_share) for size in (padded, value_size)]
        math_us = max(products[0], read) + products[1]
        weights = pairs * (1 / 16 + (3 + value_size / width) / 128) / clocks
        tile = max(math_us, weights) + shown * min(math_us, weights) + barriers
        firsts = range(0, queries, rows)
        tiles = [math.ceil((min(first + rows, queries) if mask else keys) / width) for first in firsts]
        blocks = batch * heads * len(firsts)
        of_sm, longest = math.ceil(blocks / sms), max(tiles)
        walked = max(sum(tiles) * batch * heads / sms, longest * min(of_sm, resident)) if mask else of_sm * longest
        return launch + walked * tile + (blocks / sms if mask else of_sm) * start


MODELS = {"flash_wgmma": FlashWgmma}


def read(model, paths):
    """The rows of each kind: (shape, config, measured us)."""
    kinds = {}
    for path in paths:
        with open(path) as file:
            for case, config, us, *_ in csv.reader((line for line in file if line[0] != "#"), delimiter=";"):
                fields = {name: int(value) for name, value in (field.split("=") for field in config.split(","))}
                shape = ATTENTIONS[case]
                kind = model.kind(shape, fields)
                if kind is not None and shape[-1] in ("", "causal"):
                    kinds.setdefault(kind, []).append((shape, fields, float(us)))
    return kinds


def errors_of(model, rows, coefficients, card):
    return numpy.log([model.us(shape, config, coefficients, card) / us for shape, config, us in rows])


def fit(model, rows, begin, card):
    """Gauss and Newton, with steps as small as it takes to come nearer. Coefficients stay above 0: their logarithms are fitted."""
    logs = numpy.log(begin)
    for _ in range(50):
        now, step = errors_of(model, rows, numpy.exp(logs), card), 1e-5
        ahead = [errors_of(model, rows, numpy.exp(logs + step * unit), card) for unit in numpy.eye(len(logs))]
        slopes = (numpy.array(ahead) - now).T / step
        # Ridged: what a sweep says nothing about stays as it is.
        move = numpy.linalg.solve(slopes.T @ slopes + 1e-6 * numpy.eye(len(logs)), -slopes.T @ now)
        factor = 1.0
        while factor > 1e-3 and (errors_of(model, rows, numpy.exp(logs + factor * move), card) ** 2).sum() >= (now**2).sum():
            factor /= 2
        if factor <= 1e-3:
            break
        logs = logs + factor * move
    return numpy.exp(logs)


def percent(errors):
    return f"{100 * math.sqrt((errors**2).mean()):.1f} %"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in MODELS:
        sys.exit(f"{__doc__}\nmodels: {', '.join(MODELS)}")
    model, card = MODELS[sys.argv[1]], CARDS["H100"]
    for kind, rows in sorted(read(model, sys.argv[2:]).items()):
        coefficients = model.code[kind]
        if len(rows) <= len(coefficients):
            print(f"{kind or 'plain'}: {len(rows)} configs are too few for {len(coefficients)} coefficients")
            continue
        fitted = fit(model, rows, coefficients, card)
        print(f"{kind or 'plain'}: {len(rows)} configs; root mean square of the error "
              f"{percent(errors_of(model, rows, coefficients, card))} with the code's coefficients, "
              f"{percent(errors_of(model, rows, fitted, card))} fitted")
        for name, value, better in zip(model.names, coefficients, fitted):
            print(f"  {name:10} {value:8.3f}  fitted {better:8.3f}")


main()
