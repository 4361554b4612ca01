#!/usr/bin/env python3
"""Time convolutions through PyTorch: cuDNN in bf16 with its fastest algorithm, images as NCHW and with channels last, beside
the product of a patch embedding and the copy that a depthwise convolution is measured by.

`ms` is the median with the L2 flushed between runs, `ms_graph` inside one CUDA graph without a flush. The shapes are those of
bench/blocks/convolutions.py, which writes the same for kfuse.
"""
import argparse
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from triton.testing import do_bench, do_bench_cudagraph

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "blocks"))
from convolutions import CONVOLUTIONS

BF16 = torch.bfloat16
CONV = {1: F.conv1d, 2: F.conv2d}


def rnd(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16)


def timed(call):
    return {
        "ms": do_bench(call, warmup=50, rep=200, return_mode="median"),
        "ms_graph": do_bench_cudagraph(call, rep=100, return_mode="median"),
    }


def convolution(images, channels, sizes, results, kernel, stride, pad, groups):
    """Figures by layout."""
    rank = len(sizes)
    x, weight = rnd(images, channels, *sizes), rnd(results, channels // groups, *[kernel] * rank)
    bias = rnd(results)
    figures = {"nchw": timed(lambda: CONV[rank](x, weight, bias, stride, pad, 1, groups))}
    wide = (x, weight) if rank == 2 else (x.unsqueeze(2), weight.unsqueeze(2))
    x_last, weight_last = (t.to(memory_format=torch.channels_last) for t in wide)
    strides, pads = (stride, pad) if rank == 2 else ((1, stride), (0, pad))
    figures["nhwc"] = timed(lambda: F.conv2d(x_last, weight_last, bias, strides, pads, 1, groups))
    positions = 1
    for size in sizes:
        positions *= (size + 2 * pad - kernel) // stride + 1
    flops = 2 * images * positions * results * channels // groups * kernel**rank
    for row in figures.values():
        row["TF"] = flops / row["ms_graph"] / 1e9
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    found = {}
    with torch.inference_mode():
        for name, sizes in CONVOLUTIONS.items():
            if args.only not in name:
                continue
            found[name] = convolution(*sizes)
            if name.startswith("patches"):
                patch = sizes[4]
                x, w, b = rnd(32 * (224 // patch) ** 2, 3 * patch * patch), rnd(3 * patch * patch, 1024), rnd(1024)
                found[name]["product"] = timed(lambda: torch.addmm(b, x, w))
            if "depthwise" in name:
                x = rnd(32 * 96 * 56 * 56)
                y = torch.empty_like(x)
                found[name]["copy"] = timed(lambda: y.copy_(x))
            for layout, row in found[name].items():
                print(f"{name:24} {layout:8}", {key: round(value, 4) for key, value in row.items()}, flush=True)
    if args.json:
        json.dump(found, open(args.json, "w"), indent=1)


if __name__ == "__main__":
    main()
