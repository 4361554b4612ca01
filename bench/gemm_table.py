#!/usr/bin/env python3
"""The tables of docs/performance.md from what `kfuse bench gemm --json` printed, in any number of files.

Usage: bench/gemm_table.py FILE...
Each cell: kfuse's microseconds and the ratio, cuBLASLt's time over kfuse's. Of a product in several files the last counts.
"""
import json
import math
import sys

GROUPS = {
    "M >= 2048": lambda p: p["m"] >= 2048,
    "4096 x 4096 x 4096": lambda p: p["m"] == p["n"] == p["k"] == 4096,
    "8192 x 8192 x 8192": lambda p: p["m"] == p["n"] == p["k"] == 8192,
    "128 <= M <= 1024": lambda p: 128 <= p["m"] <= 1024,
    "M = 1": lambda p: p["m"] == 1,
    "1 < M <= 64, weights up to 60 MB": lambda p: 1 < p["m"] <= 64 and weight_bytes(p) <= 60e6,
    "1 < M <= 64, larger weights": lambda p: 1 < p["m"] <= 64 and weight_bytes(p) > 60e6,
}
COLUMNS = 6  # A table's: more do not fit a page.


def weight_bytes(product):
    return 2 * product["n"] * product["k"]


def name(product):
    sizes = [product[key] for key in ("batches", "m", "n", "k")]
    return " x ".join(map(str, sizes if sizes[0] > 1 else sizes[1:]))


def microseconds(us):
    return f"{us:.4g}" if us < 10000 else f"{us:.0f}"


def print_table(products, rows):
    print("| N x K | M = " + " | ".join(map(str, rows)) + " |")
    print("|---" * (len(rows) + 1) + "|")
    found = {(p["m"], p["n"], p["k"]): f"{microseconds(p['kfuse_us'])}, {p['ratio']:.3f}" for p in products}
    for n, k in dict.fromkeys((p["n"], p["k"]) for p in products):
        print(f"| {n} x {k} | " + " | ".join(found.get((m, n, k), "") for m in rows) + " |")
    print()


def main(paths):
    products = {}
    for path in paths:
        with open(path) as file:
            for product in json.load(file)["products"]:
                if product["ratio"] is not None:  # cuBLASLt has an algorithm for it.
                    products[name(product)] = product
    alone = [p for p in products.values() if p["batches"] == 1]
    rows = sorted({p["m"] for p in alone})
    for start in range(0, len(rows), COLUMNS):
        print_table(alone, rows[start:start + COLUMNS])
    print("| group | geometric mean | products | worst |\n|---|---|---|---|")
    for group, holds in GROUPS.items():
        members = [p for p in alone if holds(p)]
        if members:
            mean = math.exp(sum(math.log(p["ratio"]) for p in members) / len(members))
            worst = min(members, key=lambda p: p["ratio"])
            print(f"| {group} | {mean:.3f} | {len(members)} | {worst['ratio']:.3f}, {name(worst)} |")
    for product in products.values():
        if product["batches"] > 1:
            print(f"{name(product)}: {product['kfuse_us']:.4g} us, {product['tflops']:.0f} TFLOP/s, "
                  f"{product['ratio']:.3f} ({product['ratio_p10']:.2f} to {product['ratio_p90']:.2f})")


if __name__ == "__main__":
    main(sys.argv[1:])
