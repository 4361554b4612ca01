#!/usr/bin/env python3
"""Time attention of many query rows through PyTorch: SDPA by cuDNN and by FlashAttention-2, FlexAttention (compiled) for what
these do not take.

Medians in microseconds with the L2 flushed between runs. The shapes are those of bench/blocks/attention.py, which writes
the same for kfuse; with --kfuse the program times each right behind its peers, and the table has both. With --gpu-bench
kfuse_gpu_bench times the form for mma.sync, too, beside FlashAttention-2: the best of the search's first 12 configs without
wgmma.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "blocks"))
from attention import ATTENTIONS, LENGTHS, attention


def rnd(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def us(call):
    return do_bench(call, warmup=30, rep=100, return_mode="median") * 1e3


def pairs_of(rows, keys, mask):
    """Pairs of a query and a key that count."""
    if mask.startswith("window"):
        window = int(mask.split()[1])
        return sum(min(row + 1, keys, window) for row in range(rows))
    if mask.startswith("causal from"):
        first = int(mask.split()[2])
        return sum(min(first + row + 1, keys) for row in range(rows))
    if mask == "causal lengths":  # The mean of the sequences; rows past a length see all of its keys.
        return sum(n * (n + 1) / 2 + (rows - n) * n for n in LENGTHS) / len(LENGTHS)
    if mask == "causal packed":
        return sum(n * (n + 1) / 2 for n in LENGTHS)
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

    def add_sdpa(bias, names, **options):
        backends = {
            "cudnn": SDPBackend.CUDNN_ATTENTION,
            "flash2": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION,
        }
        for name in names:
            with sdpa_kernel(backends[name]):
                add(name, lambda: F.scaled_dot_product_attention(q, k, v, bias, enable_gqa=shared, **options))

    def add_flex(seen, change=None):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        flex = torch.compile(flex_attention, dynamic=False)
        block_mask = create_block_mask(seen, batch if "lengths" in mask else None, None, rows, keys)
        add("flex", lambda: flex(q, k, v, score_mod=change, block_mask=block_mask, enable_gqa=shared))

    def is_causal(b, h, i, j):
        return i >= j

    if mask in ("", "causal"):
        add_sdpa(None, ["cudnn", "flash2"], is_causal=mask == "causal")
    elif mask in ("added", "chosen", "bias"):
        shape = (1, heads, rows, keys) if mask == "bias" else (batch, 1, rows, keys)
        add_sdpa(rnd(*shape) > 0 if mask == "chosen" else rnd(*shape), ["cudnn", "flash2", "efficient"])
    elif mask.startswith("window"):
        window = int(mask.split()[1])
        add_flex(lambda b, h, i, j: (i >= j) & (i - j < window))
    elif mask == "causal capped":
        add_flex(is_causal, lambda x, b, h, i, j: torch.tanh(x / 50) * 50)
    elif mask == "causal alibi":
        slopes = torch.randn(heads, device="cuda")
        add_flex(is_causal, lambda x, b, h, i, j: x + slopes[h] * (j - i))
    elif mask == "causal sink":  # What the sink takes is divided out behind it, by one more kernel.
        sinks = torch.randn(heads, device="cuda")[None, :, None]
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        block_mask = create_block_mask(is_causal, None, None, rows, keys)

        def with_sinks():
            y, lse = flex_attention(q, k, v, block_mask=block_mask, enable_gqa=shared, return_lse=True)
            return y * torch.sigmoid(lse - sinks)[..., None].to(y.dtype)

        add("flex", torch.compile(with_sinks, dynamic=False))
    elif mask == "causal lengths":
        lengths = torch.tensor(LENGTHS, device="cuda")
        add_sdpa(None, ["cudnn", "flash2"], is_causal=True)  # All rows, also those that pad.
        add_flex(lambda b, h, i, j: (i >= j) & (j < lengths[b]))
    elif mask == "causal packed":
        from torch.nn.attention.varlen import varlen_attn

        tokens = [x[0].transpose(0, 1).contiguous() for x in (q, k, v)]
        starts = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], device="cuda", dtype=torch.int32)
        add("varlen", lambda: varlen_attn(*tokens, starts, starts, max(LENGTHS), max(LENGTHS), window_size=(-1, 0)))
    else:
        from torch.nn.attention.bias import causal_lower_right

        end = int(mask.split()[2]) + rows
        q_, k_, v_ = q, k[:, :, :end], v[:, :, :end]
        for name, backend in {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}.items():
            with sdpa_kernel(backend):
                add(
                    name,
                    lambda: F.scaled_dot_product_attention(q_, k_, v_, causal_lower_right(rows, end), enable_gqa=shared),
                )
    return found


MMA_SYNC = [f"hd{d}_S{s}{mask}" for d in (64, 128) for s in (1024, 4096, 8192) for mask in ("", "_causal")]


def mma_sync_us(bench, region):
    done = subprocess.run([bench, "--without", "wgmma", "--most", "12", str(region)], capture_output=True, text=True)
    best = re.search(r"([\d.]+) us \(modelled", done.stdout)  # The fastest comes first.
    if not best:
        print(f"{region}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return float(best[1]) if best else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of the names to time, between commas")
    parser.add_argument("--kfuse", help="the program, to be timed beside them")
    parser.add_argument("--gpu-bench", help="kfuse_gpu_bench, to time the form for mma.sync")
    parser.add_argument("--store", default="", help="its tuning store")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--models", default="/tmp/attention", help="folder for the text that it is given")
    parser.add_argument("--json", help="file for all figures")
    args = parser.parse_args()
    torch.manual_seed(0)
    models = pathlib.Path(args.models)
    models.mkdir(parents=True, exist_ok=True)
    rows = {}
    print(f"{'attention':30} {'kfuse us':>9} {'TF':>5} {'peer us':>9} {'TF':>5} {'ratio':>6} {'search s':>8}  best peer")
    for name, sizes in ATTENTIONS.items():
        if not any(part in name for part in args.only.split(",")):
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
            f" {row.get('compile_s', float('nan')):8.1f}  {best[0]}",
            flush=True,
        )
        if args.gpu_bench and name in MMA_SYNC:
            region = models / f"{name}.region.mlir"
            region.write_text(attention(*sizes, is_region=True))
            row["mma_sync_us"] = mma_sync_us(args.gpu_bench, region)
            ours, flash2 = row["mma_sync_us"], found.get("flash2", float("nan"))
            print(f"{'  for mma.sync':30} {ours:9.1f} {'':5} {flash2:9.1f} {'':5} {flash2 / ours:6.2f}", flush=True)
    if args.json:
        json.dump(rows, open(args.json, "w"), indent=1)


if __name__ == "__main__":
    main()
