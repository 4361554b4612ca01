#!/usr/bin/env python3
"""Time attention of many query rows through PyTorch: SDPA by cuDNN and by FlashAttention-2, FlexAttention (compiled) for what
these do not take.

Medians in microseconds with the L2 flushed between runs. The shapes are those of bench/blocks/attention.py, which writes
the same for kfuse; with --kfuse the program times each right behind its peers, and the table has both.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "blocks"))
from attention import ATTENTIONS, attention


def rnd(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def us(call):
    return do_bench(call, warmup=30, rep=100, return_mode="median") * 1e3


def pairs_of(rows, keys, mask):
    """Pairs of a query and a key that count."""
    if mask.startswith("window"):
        window = int(mask.split()[1])
        return sum(min(row + 1, keys, window) for row in range(rows))
    if mask.startswith("causal"):
        return sum(min(row + 1, keys) for row in range(rows))
    return rows * keys


def peers(batch, heads, key_heads, rows, keys, size, value_size, mask):
    """Microseconds by backend; one that refuses is left out."""
    q, k, v = rnd(batch, heads, rows, size), rnd(batch, key_heads, keys, size), rnd(batch, key_heads, keys, value_size)
    shared = heads != key_heads
    found = {}

    def add(name, call):
        try:
            found[name] = us(call)
        except Exception as error:
            print(f"  {name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)

    if mask in ("", "causal", "added"):
        bias = rnd(batch, 1, rows, keys) if mask == "added" else None
        backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}
        if mask == "added":
            backends["efficient"] = SDPBackend.EFFICIENT_ATTENTION
        for name, backend in backends.items():
            with sdpa_kernel(backend):
                add(name, lambda: F.scaled_dot_product_attention(q, k, v, bias, is_causal=mask == "causal", enable_gqa=shared))
    else:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        flex = torch.compile(flex_attention, dynamic=False)
        if mask.startswith("window"):
            window = int(mask.split()[1])
            block_mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < window), None, None, rows, keys)
            change = None
        else:
            block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, rows, keys)
            change = lambda x, b, h, i, j: torch.tanh(x / 50) * 50
        add("flex", lambda: flex(q, k, v, score_mod=change, block_mask=block_mask, enable_gqa=shared))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names to time")
    parser.add_argument("--kfuse", help="the program, to be timed beside them")
    parser.add_argument("--store", default="", help="its tuning store")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--models", default="/tmp/attention", help="folder for the text that it is given")
    parser.add_argument("--json", help="file for all figures")
    args = parser.parse_args()
    torch.manual_seed(0)
    models = pathlib.Path(args.models)
    models.mkdir(parents=True, exist_ok=True)
    rows = {}
    print(f"{'attention':30} {'kfuse us':>9} {'TF':>5} {'peer us':>9} {'TF':>5} {'ratio':>6}  best peer")
    for name, sizes in ATTENTIONS.items():
        if args.only not in name:
            continue
        batch, heads, _, queries, keys, size, value_size, mask = sizes
        with torch.inference_mode():
            found = peers(*sizes)
        torch.cuda.empty_cache()
        flops = 2 * batch * heads * pairs_of(queries, keys, mask) * (size + value_size)
        row = {"flops": flops, "peers": found}
        if args.kfuse:
            model = models / f"{name}.mlir"
            model.write_text(attention(*sizes, is_region=False))
            store = ["--store", args.store] if args.store else []
            command = [args.kfuse, "bench", "block", str(model), "--json", "--effort", args.effort, *store]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                row |= json.loads(done.stdout)
            else:
                print(f"{name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        rows[name] = row
        best = min(found.items(), key=lambda item: item[1], default=("-", float("nan")))
        ours = row.get("cold_us", float("nan"))
        print(
            f"{name:30} {ours:9.1f} {flops / ours / 1e6:5.0f} {best[1]:9.1f} {flops / best[1] / 1e6:5.0f} {best[1] / ours:6.2f}"
            f"  {best[0]}",
            flush=True,
        )
    if args.json:
        json.dump(rows, open(args.json, "w"), indent=1)


if __name__ == "__main__":
    main()
