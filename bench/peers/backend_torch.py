#!/usr/bin/env python3
"""torch.compile(backend="kfuse") beside eager, Inductor, reduce-overhead and max-autotune: the blocks of blocks_torch.py
and architectures of transformers at real sizes, each way plain and as a CUDA graph, with the error against f32.

All ways of a case are compiled first and then timed interleaved: median milliseconds, the L2 flushed before each run. The
last lines are a table of both times of each way, and kfuse's geometric mean over the best other way. `--seconds` ends
before a way that would be compiled later. What a JSON file has already is not measured again, and is in the table.
"""
import argparse, functools, json, math, pathlib, statistics, time
import torch
import blocks_torch as blocks
import kfuse.torch

WAYS = {
    "inductor": {"mode": "default"},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
    "kfuse": {"backend": "kfuse"},
    "kfuse full": {"backend": "kfuse", "mode": "max-autotune"},
    "kfuse tuned": {"backend": "kfuse", "options": {"require_tuned": True}},
}


def architectures(layers):
    """Whole models, of so many layers; all where that is 0."""
    import transformers as hf

    tokens = lambda *shape: {"input_ids": torch.randint(1, 1000, shape, device=blocks.DEV)}

    def make(name, config, sizes, count, inputs):
        sizes = {**sizes, count: layers or sizes[count]}
        return lambda: getattr(hf, name)(getattr(hf, config)(**sizes)), inputs

    llama = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                 num_key_value_heads=8, vocab_size=128256, use_cache=False, tie_word_embeddings=True)
    qwen3 = dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                 num_key_value_heads=8, head_dim=128, vocab_size=151936, use_cache=False, tie_word_embeddings=True)
    encoder = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
    images = {"pixel_values": blocks.rnd(32, 3, 224, 224)}
    yield "Llama-3.2-1B_1x1024", *make("LlamaForCausalLM", "LlamaConfig", llama, "num_hidden_layers", tokens(1, 1024))
    yield "Qwen3-0.6B_4x512", *make("Qwen3ForCausalLM", "Qwen3Config", qwen3, "num_hidden_layers", tokens(4, 512))
    yield "BERT-large_16x512", *make("BertModel", "BertConfig", encoder, "num_hidden_layers", tokens(16, 512))
    padded = (torch.arange(512, device=blocks.DEV) < torch.randint(128, 513, (16, 1), device=blocks.DEV)).long()
    yield ("BERT-large_16x512_padded",
           *make("BertModel", "BertConfig", encoder, "num_hidden_layers", tokens(16, 512) | {"attention_mask": padded}))
    yield "ViT-L-16_32x224", *make("ViTModel", "ViTConfig", {**encoder, "patch_size": 16}, "num_hidden_layers", images)


def cases(layers):
    for name, make, inputs in blocks.cases():
        yield name, make, lambda model, dtype, inputs=inputs: model(*(as_type(x, dtype) for x in inputs))
    for name, make, inputs in architectures(layers):
        yield name, make, lambda model, dtype, inputs=inputs: first(
            model(**{key: as_type(x, dtype) for key, x in inputs.items()})
        )


def as_type(x, dtype):
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def first(outputs):
    return outputs.logits if hasattr(outputs, "logits") else outputs[0]


def error(y, reference):
    return float((y.float() - reference).norm() / reference.norm())


def compiled(model, call, ways, row, reference, end):
    """The ways as functions that run the model, by name, "+graph" in a CUDA graph; a row gets what else is known."""
    runs = {}
    for way in ways:
        if time.time() > end:
            break
        try:
            kfuse.torch.report().clear()
            start = time.time()
            function = torch.compile(model, dynamic=False, **WAYS[way]) if way != "eager" else model
            run = functools.partial(call, function, blocks.DT)
            made = run()
            torch.cuda.synchronize()
            row[way] = {"compile_s": time.time() - start, "error": error(made, reference)}
            if way.startswith("kfuse"):
                graphs = kfuse.torch.report().graphs
                row[way]["flops"] = [sum(graph.flops_in_kfuse for graph in graphs), sum(graph.flops for graph in graphs)]
                row[way]["report"] = str(kfuse.torch.report())
            runs[way] = run
            if way != "reduce-overhead":  # That one makes graphs itself.
                runs[f"{way}+graph"] = blocks.as_graph(run)
        except Exception as failure:  # It ends one way, and the others go on.
            print(f"  {way}: {type(failure).__name__}: {failure}", flush=True)
    return runs


def interleaved_times(runs, rounds=6, round_ms=25.0):
    """The median time of each in milliseconds. In a round each runs for a while, every other round the last one first."""
    flush = torch.empty(2**26, dtype=torch.int32, device=blocks.DEV)

    def run_times(run, count):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for start, stop in events:
            flush.zero_()
            start.record()
            run()
            stop.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in events]

    counts = {name: max(3, min(100, int(round_ms / min(run_times(run, 4))))) for name, run in runs.items()}
    found = {name: [] for name in runs}
    for i in range(rounds):
        for name in list(runs)[:: -1 if i % 2 else 1]:
            found[name] += run_times(runs[name], counts[name])
    return {name: statistics.median(one) for name, one in found.items()}


def measure(make, call, ways, row, end):
    """Adds to a row what is known of each way: milliseconds, "ms+graph" those in a CUDA graph, how long it compiled."""
    torch._dynamo.reset()
    with torch.device(blocks.DEV):
        model = make().to(blocks.DT).eval()
    with torch.no_grad():
        reference = call(model.float(), torch.float32)
        model.to(blocks.DT)
        for name, ms in interleaved_times(compiled(model, call, ways, row, reference, end)).items():
            way, _, graph = name.partition("+")
            row[way]["ms+graph" if graph else "ms"] = ms


def best(row, ways):
    """The least time of these ways, with and without a graph; nan where none was timed."""
    return min((one for way in ways if way in row for one in times(row[way])), default=math.nan)


def times(one):
    return [one[key] for key in ("ms", "ms+graph") if key in one]


def ratio(row):
    """The best other way's time over kfuse's best."""
    ours = {way for way in row if way.startswith("kfuse")}
    return best(row, row.keys() - ours) / best(row, ours)


def flops(row):
    """In kfuse, in all."""
    return next((row[way]["flops"] for way in row if way.startswith("kfuse")), (0, 0))


def print_table(rows):
    columns = [way for way in ("eager", *WAYS) if any(way in row for row in rows.values())]
    print("|".join(["| case ", *(f" {way} " for way in columns), " best other over kfuse ", " FLOPs in kfuse |"]))
    print("|---" * (len(columns) + 3) + "|")
    for name, row in rows.items():
        inside, total = flops(row)
        cells = [f" {', '.join(f'{ms:.4g}' for ms in times(row.get(way, {})))} " for way in columns]
        print("|".join([f"| {name} ", *cells, f" {ratio(row):.3f} ", f" {100 * inside / max(total, 1):.1f} % |"]))
    ratios = [ratio(row) for row in rows.values() if not math.isnan(ratio(row))]
    inside, total = (sum(flops(row)[i] for row in rows.values()) for i in (0, 1))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.3f}, least {min(ratios):.3f} of {len(ratios)}; "
              f"{100 * inside / max(total, 1):.1f} % of all FLOPs in kfuse")


def print_row(name, row):
    for way, one in row.items():
        print(f"{name} {way}: {', '.join(f'{ms:.4f}' for ms in times(one))} ms, error {one['error']:.2e}, "
              f"compiled in {one['compile_s']:.1f} s")
        print(*(f"  {line}\n" for line in one.get("report", "").splitlines()), sep="", end="", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--only", default="", help="parts of names, with commas between them")
    ways = "eager,inductor,kfuse,reduce-overhead,max-autotune"
    ap.add_argument("--ways", default=ways, help=f"of eager, {', '.join(WAYS)}")
    ap.add_argument("--layers", type=int, default=0, help="of an architecture, in place of all")
    ap.add_argument("--seconds", type=float, default=math.inf)
    ap.add_argument("--json", type=pathlib.Path)
    args = ap.parse_args()
    torch.manual_seed(0)
    end, rows = time.time() + args.seconds, json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    torch._dynamo.config.recompile_limit = 64  # Each way compiles the same code object once more.
    for name, make, call in cases(args.layers):
        ways = [way for way in args.ways.split(",") if way not in rows.get(name, {})]
        if not ways or not any(part in name for part in args.only.split(",")) or time.time() > end:
            continue
        try:
            row = {}
            measure(make, call, ways, row, end)
            rows[name] = rows.get(name, {}) | row
            print_row(name, row)
        except Exception as failure:  # It ends one case, and the others go on.
            print(f"{name}: {type(failure).__name__}: {failure}", flush=True)
        if args.json:  # After each case: a run that is cut short has what it has.
            args.json.write_text(json.dumps(rows, indent=1))
    print_table(rows)


if __name__ == "__main__":
    main()
