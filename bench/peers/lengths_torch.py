#!/usr/bin/env python3
"""Time a Llama-3.1-8B decoder block in PyTorch at some numbers of tokens, by the ways that take any: eager, and
torch.compile with dynamic shapes. bf16; median milliseconds with the L2 flushed between runs.

What `kfuse bench lengths` times of bench/blocks/llama_any_length.py's file.
"""
import argparse
import json

import torch
from triton.testing import do_bench

from blocks_torch import DEV, DT, LlamaBlock, rnd

LENGTHS = [7, 33, 100, 200, 333, 777, 1111, 1500, 2050, 3001, 4000]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--at", type=int, nargs="*", default=LENGTHS)
    ap.add_argument("--json", help="file for all figures")
    args = ap.parse_args()
    torch.manual_seed(0)
    block = LlamaBlock().to(DEV, DT).eval()
    ways = {"eager": block, "compile": torch.compile(block, dynamic=True)}
    rows = []
    with torch.inference_mode():
        for tokens in args.at:
            x, cos, sin = rnd(1, tokens, 4096), rnd(tokens, 64), rnd(tokens, 64)
            ms = {}
            for name, run in ways.items():
                torch._dynamo.mark_dynamic(x, 1), torch._dynamo.mark_dynamic(cos, 0), torch._dynamo.mark_dynamic(sin, 0)
                run(x, cos, sin)
                ms[name] = do_bench(lambda: run(x, cos, sin), warmup=15, rep=60, return_mode="median")
            rows.append({"tokens": tokens, **ms})
            print(f"{tokens:6}", *(f"{name} {one:8.4f}" for name, one in ms.items()), flush=True)
    if args.json:
        json.dump(rows, open(args.json, "w"))


if __name__ == "__main__":
    main()
