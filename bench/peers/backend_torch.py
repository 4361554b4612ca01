#!/usr/bin/env python3
"""torch.compile(backend="kfuse") beside eager, Inductor and max-autotune: the blocks of blocks_torch.py, each way plain
and as a CUDA graph, with the error against f32 beside eager's.

Times are median milliseconds with the L2 flushed between runs. The last line is kfuse's geometric mean over the best other
way. `--seconds` ends before a case that would begin later.
"""
import argparse, json, math, time
import torch
import blocks_torch as blocks
import kfuse.torch

WAYS = {
    "inductor": {"mode": "default"},
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
    "kfuse": {"backend": "kfuse"},
    "kfuse full": {"backend": "kfuse", "mode": "max-autotune"},
}


def wide(inputs):
    return [x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]


def error(y, reference):
    return float((y.float() - reference).norm() / reference.norm())


def measure(name, make, inputs, ways):
    model = make().to(blocks.DEV, blocks.DT).eval()
    row = {"errors": {}}
    with torch.inference_mode(False), torch.no_grad():
        reference = model.float()(*wide(inputs))
        model.to(blocks.DT)
        for way in ways:
            torch._dynamo.reset()
            kfuse.torch.report().clear()
            start = time.time()
            compiled = torch.compile(model, dynamic=False, **WAYS[way]) if way != "eager" else model
            run = lambda: compiled(*inputs)
            row["errors"][way] = error(run(), reference)
            torch.cuda.synchronize()
            row[way + " compile_s"] = time.time() - start
            row[way], row[way + "+graph"] = blocks.ms(run), blocks.ms(blocks.as_graph(run))
            if way.startswith("kfuse"):
                row["report"] = str(kfuse.torch.report())
    return row


def ratio(row):
    """The best other way's time over kfuse's best."""
    times = {way: ms for way, ms in row.items() if isinstance(ms, float) and not way.endswith("_s")}
    ours = min(ms for way, ms in times.items() if way.startswith("kfuse"))
    return min((ms for way, ms in times.items() if not way.startswith("kfuse")), default=math.nan) / ours


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--only", default="")
    ap.add_argument("--ways", default="eager,inductor,max-autotune,kfuse")
    ap.add_argument("--seconds", type=float, default=math.inf)
    ap.add_argument("--json")
    args = ap.parse_args()
    torch.manual_seed(0)
    start, out = time.time(), {}
    for name, make, inputs in blocks.cases():
        if not any(part in name for part in args.only.split(",")) or time.time() - start > args.seconds:
            continue
        row = out[name] = measure(name, make, inputs, args.ways.split(","))
        print(name, f"{ratio(row):.3f}", {k: round(v, 4) for k, v in row.items() if isinstance(v, float)}, flush=True)
        print("  errors", {way: f"{e:.2e}" for way, e in row["errors"].items()}, flush=True)
        print("  " + row.get("report", "").replace("\n", "\n  "), flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump(out, file, indent=1)
    ratios = [ratio(row) for row in out.values()]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.3f}, least {min(ratios):.3f} of {len(ratios)} blocks")


if __name__ == "__main__":
    main()
