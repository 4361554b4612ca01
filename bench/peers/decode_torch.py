#!/usr/bin/env python3
"""The Llama-8B block's decoding step by torch.compile(backend="kfuse"), called from Python with outputs that torch makes
for each call, beside `kfuse bench block` of the same block: microseconds, and their differences.

Cold: the L2 flushed before each run. Warm: runs back to back. Both are timed between events. Host: what a call takes the
host, without waiting for the GPU.
"""
import argparse, json, pathlib, statistics, subprocess, time
import torch
import blocks_torch as blocks
import kfuse.torch

BLOCK = pathlib.Path(__file__).parent.parent / "blocks/llama_block_decode_b1_kv4096.mlir"


def cold_us(fn, runs=200):
    """As `kfuse bench block` times a run: between events, behind a flush that is long enough for the host to be ahead."""
    flush = torch.empty(2**28, dtype=torch.int32, device=blocks.DEV)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, stop in events:
        flush.zero_()
        start.record()
        fn()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events) * 1e3


def host_us(fn, runs=100):
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--kfuse", default="kfuse", help="the program")
    ap.add_argument("--block", default=BLOCK, help="the block for it")
    ap.add_argument("--ways", default="checked,frozen", help="of the option weights")
    args = ap.parse_args()
    command = [args.kfuse, "bench", "block", str(args.block), "--input", "position=4095", "--effort", "quick", "--json"]
    native = lambda: json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print("kfuse bench block:", rounded(native()), flush=True)
    name, make, inputs = next(case for case in blocks.cases() if case[0] == "LlamaBlock_decode_B1_kv4096")
    model = make().to(blocks.DEV, blocks.DT).eval()
    for weights in args.ways.split(","):
        torch._dynamo.reset()
        kfuse.torch.report().clear()
        compiled = torch.compile(model, backend="kfuse", options={"weights": weights})
        run = lambda: compiled(*inputs)
        with torch.inference_mode():
            run()
            graph = blocks.as_graph(run)
            rows = {"cold_us": cold_us(run), "cold graph": cold_us(graph), "warm_us": 1e3 * blocks.warm_ms(run)}
            rows |= {"warm graph": 1e3 * blocks.warm_ms(graph), "host_us": host_us(run)}
        print(f"torch, weights {weights}:", rounded(rows), kfuse.torch.report().graphs[0], sep="\n", flush=True)
        beside = native()
        print("kfuse bench block:", rounded(beside))
        print("over it:", {key: round(rows[key] - beside[key], 1) for key in ("cold_us", "warm_us", "host_us")}, flush=True)


def rounded(row):
    return {key: round(value, 1) for key, value in row.items() if isinstance(value, float)}


if __name__ == "__main__":
    main()
