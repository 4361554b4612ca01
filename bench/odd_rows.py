#!/usr/bin/env python3
"""Products whose numbers of rows are those of requests: 60 draws, M log-uniform in 2 to 1024, N x K of ten public models.

Usage: kfuse bench gemm --shapes $(bench/odd_rows.py) --json >odd.json; bench/odd_rows.py odd.json
The first prints MxNxK of seeds 0 and 1, thirty each; the second the geometric mean and the worst of what was measured.
"""
import json
import math
import random
import sys

# Model: hidden size, columns of queries, keys and values together, feed-forward size, vocabulary.
MODELS = {
    "Phi-3-mini": (3072, 9216, 8192, 32064),
    "Qwen2.5-7B": (3584, 4608, 18944, 152064),
    "Qwen2.5-32B": (5120, 7168, 27648, 152064),
    "Gemma-2-9B": (3584, 8192, 14336, 256000),
    "Gemma-3-4B": (2560, 4096, 10240, 262144),
    "Llama-2-13B": (5120, 15360, 13824, 32000),
    "Falcon-7B": (4544, 4672, 18176, 65024),
    "SmolLM2-1.7B": (2048, 6144, 8192, 49152),
    "Yi-34B": (7168, 9216, 20480, 64000),
    "Granite-3-8B": (4096, 6144, 12800, 49155),
}


def products():
    """(N, K) of each model's layers and its head; attention's result counts as wide as the model, as it is in most."""
    for hidden, qkv, wide, words in MODELS.values():
        yield from [(qkv, hidden), (hidden, hidden), (2 * wide, hidden), (hidden, wide), (words, hidden)]


def draws(seed, count=30):
    random.seed(seed)
    known = list(products())
    for _ in range(count):
        n, k = random.choice(known)
        yield round(math.exp(random.uniform(math.log(2), math.log(1024)))), n, k


def main():
    if len(sys.argv) == 1:
        print(*(f"{m}x{n}x{k}" for seed in (0, 1) for m, n, k in draws(seed)))
        return
    ratios = []
    for file in sys.argv[1:]:
        for p in json.load(open(file))["products"]:
            ratios.append(p["ratio"])
            print(f"{p['m']:5} x {p['n']:6} x {p['k']:5}  {p['kfuse_us']:8.2f} us  {p['ratio']:.3f}")
    print(f"{len(ratios)} products: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, worst {min(ratios):.3f}")


if __name__ == "__main__":
    main()
