#!/usr/bin/env python3
"""Fits the coefficients of an estimate to sweeps: what the code has, what fits best, and how far both are from what was measured.

Usage: fit.py MODEL SWEEP.csv...   A sweep is what kfuse_gpu_bench appends to $KFUSE_BENCH_CSV: a line for each config,
"case;config;us;modelled us;us in a chain", with comments that say of which card, driver and commit. MODEL is one of those below;
each repeats the formula of its function in the code, and is checked against the sweep's modelled times, so that it cannot go stale
unseen. What is fitted is the logarithm of the time, so that short kernels count as long ones do. Needs NumPy.
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
    """FlashShape::estimateWgmmaUs and totalUs (codegen/cuda/attention/FlashShape.cpp), for causal masks and none."""

    # The shares reached of the tensor cores' rate and of shared memory's. Then for each schedule (two blocks on an SM; two or
    # three warpgroups, ping-pong or not): the share of the shorter of products and softmax that is not overlapped, the us that
    # a tile of keys takes beside them, and the us that a tile of rows takes to start. Last, the us of launching a block.
    code = {"mathShare": 0.8, "sharedShare": 0.74} | {
        f"{term} {kind}": value
        for kind, values in {
            "resident 2": (0.46, 0.067, 0.62),
            "8 warps, ping-pong": (0.50, 0.116, 1.45),
            "8 warps": (0.53, 0.098, 1.44),
            "12 warps, ping-pong": (0.29, 0.139, 1.73),
            "12 warps": (0.67, 0.193, 0.59),
        }.items()
        for term, value in zip(("shown", "tileUs", "startUs"), values)
    } | {"launchedUs": 1.5}

    @staticmethod
    def takes(config):
        return config.get("wgmma") == 1

    @classmethod
    def us(cls, shape, config, coefficients, card):
        batch, heads, _, queries, keys, key_size, value_size, mask = shape
        sms, rate, clocks, launch = card
        values = dict(zip(cls.code, coefficients))
        resident = config.get("resident", 1)
        kind = "resident 2" if resident > 1 else f"{config['warps']} warps" + (", ping-pong" if config["pingpong"] else "")
        shown, fixed, start = (values[f"{term} {kind}"] for term in ("shown", "tileUs", "startUs"))
        start += 0 if config["persistent"] else values["launchedUs"]
        rows, width = config["rows"], config["keys"]
        pairs, key_size = rows * width, math.ceil(key_size / 16) * 16
        multiply_us = 2 * pairs / (rate / sms * values["mathShare"])
        read_us = rows / 64 * (64 + width) * 2 * key_size / 128 / (clocks * values["sharedShare"])
        math_us = max(multiply_us * key_size, read_us) + multiply_us * value_size
        weights_us = pairs * (1 / 16 + (3 + value_size / width) / 128) / clocks
        tile = max(math_us, weights_us) + shown * min(math_us, weights_us) + fixed
        tile = max(tile, width * (shape[5] + value_size) * 2 / (20 * clocks))
        firsts = range(0, queries, rows)
        tiles = [math.ceil((min(first + rows, queries) if mask else keys) / width) for first in firsts]
        blocks, longest = batch * heads * len(firsts), max(tiles)
        of_sm = blocks / sms if mask else math.ceil(blocks / sms)
        most = longest * min(math.ceil(blocks / sms), resident)
        walked = max(sum(tiles) * batch * heads / sms, most) if mask else of_sm * longest
        return launch + walked * tile + of_sm * start


class FlashMma:
    """FlashShape::estimateUs and totalUs of mma.sync's kernels, whose keys are not split, for causal masks and none."""

    # The share reached of the tensor cores' rate. Of the shorter of products and softmax so much is behind the longer one, all of
    # it from two warps and so many more on. What a ring of two stages waits for copies. Then the us of a tile of keys beside all
    # that, of its copies alone, and of a tile of rows.
    code = {"mathShare": 0.62, "hidden": 0.4, "hiddenWarps": 12, "waits": 0.02, "tileUs": 0.25, "loadUs": 0.8, "startUs": 1.5}

    @staticmethod
    def takes(config):
        return "wgmma" not in config and "splits" not in config and "batches" not in config

    @staticmethod
    def resident(shape, config):
        """FlashShape::blocksPerSm and whether a warp holds its queries; of heads of a multiple of 16."""
        size, value_size, rows, warps, keys, stages = *shape[5:7], *(config[key] for key in ("rows", "warps", "keys", "stages"))
        row_bytes = lambda of: (of // 8 | 1) * 16
        shared = rows * row_bytes(size) + stages * keys * row_bytes(max(size, value_size))
        fragments = rows // warps // 16
        registers, queries = fragments * (value_size // 2 + keys * 9 // 16) + 54, fragments * size // 4
        holds = registers + queries <= 232
        registers += queries if holds else 0
        of_thread = math.ceil(min(registers, 255) / 8) * 8
        return min((232448 + 1024) // (shared + 1024), min(2048, 65536 // of_thread) // (warps * 32)), holds

    @classmethod
    def us(cls, shape, config, coefficients, card):
        batch, heads, _, queries, keys, key_size, value_size, mask = shape
        sms, rate, clocks, launch = card
        of = dict(zip(cls.code, coefficients))
        rows, width, warps = config["rows"], config["keys"], config["warps"]
        fits, holds = cls.resident(shape, config)
        firsts = range(0, queries, rows)
        blocks = batch * heads * len(firsts)
        resident = min(fits, math.ceil(blocks / sms))
        pairs, elements = rows * width, key_size + value_size
        math_us = 2 * pairs * elements / (rate / sms * of["mathShare"])
        fragment_us = 2 * (warps * width * elements + (0 if holds else rows * key_size)) / 128 / clocks
        vector_us = pairs * (1 / 16 + (5 + value_size / width) / 128) / clocks + width * elements / 8 * 6 / 128 / clocks
        products = max(math_us, fragment_us)
        hidden = max(0.0, min(1.0, (resident * warps - 2) / of["hiddenWarps"]))
        tile = max(products, vector_us) + (1 - of["hidden"] * hidden) * min(products, vector_us)
        tile = tile / min(1.0, resident * warps / 8) * (1 + of["waits"] / (config["stages"] - 1)) + of["tileUs"] / resident
        tile = max(tile, 0 if keys <= width else 2 * of["loadUs"] / ((config["stages"] - 1) * resident))
        tile = max(tile, width * elements * 2 / (20 * clocks))
        tiles = [math.ceil((min(first + rows, queries) if mask else keys) / width) for first in firsts]
        of_sm, longest = math.ceil(blocks / sms), max(tiles)
        walked = max(sum(tiles) * batch * heads / sms, longest * min(of_sm, resident)) if mask else of_sm * longest
        us = walked * tile + math.ceil(of_sm / resident) * of["startUs"]
        memory_us = 2 * batch * elements * (heads * queries + shape[2] * keys) / (0.85 * 4.8e6)
        return launch + max(us, memory_us) + 0.1 * min(us, memory_us)


MODELS = {"flash_wgmma": FlashWgmma, "flash_mma": FlashMma}


def read(model, paths):
    """(shape, config, measured, modelled) of each line that the model is of."""
    for path in paths:
        with open(path) as file:
            for case, config, us, modelled, _ in csv.reader((line for line in file if line[0] != "#"), delimiter=";"):
                fields = {name: int(value) for name, value in (field.split("=") for field in config.split(","))}
                shape = ATTENTIONS[pathlib.Path(case).stem]
                if model.takes(fields) and shape[-1] in ("", "causal"):
                    yield shape, fields, float(us), float(modelled)


def fit(model, rows, card):
    """Gauss and Newton, with steps as small as it takes to come nearer. Coefficients stay above 0: their logarithms are fitted."""
    measured = numpy.log([us for _, _, us, _ in rows])

    def errors(logs):
        values = numpy.exp(logs)
        return numpy.log([model.us(shape, config, values, card) for shape, config, *_ in rows]) - measured

    logs = numpy.log(list(model.code.values()))
    for _ in range(50):
        now, step = errors(logs), 1e-5
        slopes = numpy.array([(errors(logs + step * unit) - now) / step for unit in numpy.eye(len(logs))]).T
        # Ridged: what a sweep says nothing about stays as it is.
        move = numpy.linalg.solve(slopes.T @ slopes + 1e-6 * numpy.eye(len(logs)), -slopes.T @ now)
        factor = 1.0
        while factor > 1e-3 and numpy.square(errors(logs + factor * move)).sum() >= numpy.square(now).sum():
            factor /= 2
        if factor <= 1e-3:
            break
        logs = logs + factor * move
    return numpy.exp(logs), errors(logs)


def picks(rows, estimates):
    """Of each shape, the share of the best config's speed that the estimate's first reaches, and the best of its first eight:
    geometric means, and the worst of the former."""
    shapes = {}
    for (shape, _, us, _), estimate in zip(rows, estimates):
        shapes.setdefault(shape, []).append((estimate, us))
    first, eight = (
        numpy.array([min(us for _, us in of) / min(us for _, us in sorted(of)[:count]) for of in shapes.values()]) for count in (1, 8)
    )
    mean = lambda shares: 100 * math.exp(numpy.log(shares).mean())
    return f"first {mean(first):.1f} % ({100 * first.min():.1f} % the worst), best of 8 {mean(eight):.1f} %"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in MODELS:
        sys.exit(f"{__doc__}\nmodels: {', '.join(MODELS)}")
    model, card = MODELS[sys.argv[1]], CARDS["H100"]
    rows = list(read(model, sys.argv[2:]))
    assert len(rows) > len(model.code), f"{len(rows)} configs of the model; {len(model.code)} coefficients need more"
    in_code = [model.us(shape, config, list(model.code.values()), card) for shape, config, *_ in rows]
    apart = max(abs(ours / modelled - 1) for ours, (*_, modelled) in zip(in_code, rows))
    assert apart < 1e-3, f"the code's estimate is another than this script's, by up to {100 * apart:.1f} %"
    fitted, left = fit(model, rows, card)
    before = numpy.log(in_code) - numpy.log([us for _, _, us, _ in rows])
    print(f"{len(rows)} configs; root mean square of the error: {100 * math.sqrt(numpy.square(before).mean()):.1f} % with the "
          f"code's coefficients, {100 * math.sqrt(numpy.square(left).mean()):.1f} % fitted")
    print(f"  what the code's reach: {picks(rows, in_code)}")
    print(f"  what the fitted reach: {picks(rows, numpy.exp(left) * [us for _, _, us, _ in rows])}")
    for (name, value), better in zip(model.code.items(), fitted):
        print(f"  {name:14} {value:8.4f}  fitted {better:8.4f}")


main()
