#!/usr/bin/env python3
"""torch.compile(backend="kfuse") beside eager, Inductor and max-autotune: the blocks of blocks_torch.py and architectures
of transformers at real sizes, each way plain and as a CUDA graph, with the error against f32 beside eager's.

Times are median milliseconds with the L2 flushed between runs. The last lines are a table of each way's better time, and
kfuse's geometric mean over the best other way. `--seconds` ends before a way that would begin later. A JSON file that is
there already gets more ways, and is the table.
"""
import argparse, json, math, pathlib, time
import torch
import blocks_torch as blocks
import kfuse.torch

WAYS = {
    "inductor": {"mode": "default"},
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


def measure(make, call, ways, row):
    """Adds to a row milliseconds by way, "+graph" those in a CUDA graph, and what else is known of each; yields after each."""
    model = make().to(blocks.DEV, blocks.DT).eval()
    with torch.no_grad():
        reference = call(model.float(), torch.float32)
        model.to(blocks.DT)
        for way in ways:
            torch._dynamo.reset()
            kfuse.torch.report().clear()
            start = time.time()
            compiled = torch.compile(model, dynamic=False, **WAYS[way]) if way != "eager" else model
            run = lambda: call(compiled, blocks.DT)
            made = run()
            torch.cuda.synchronize()
            one = {"compile_s": time.time() - start, "error": error(made, reference)}
            one |= {"ms": blocks.ms(run), "ms+graph": blocks.ms(blocks.as_graph(run))}
            if way.startswith("kfuse"):
                graphs = kfuse.torch.report().graphs
                one["flops"] = [sum(graph.flops_in_kfuse for graph in graphs), sum(graph.flops for graph in graphs)]
                one["report"] = str(kfuse.torch.report())
            row[way] = one
            yield way


def best(row, ways):
    """The least time of these ways, with and without a graph; nan where none was timed."""
    return min((min(row[way]["ms"], row[way]["ms+graph"]) for way in ways if way in row), default=math.nan)


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
        times = [f" {best(row, [way]):.4f} " for way in columns]
        print("|".join([f"| {name} ", *times, f" {ratio(row):.3f} ", f" {100 * inside / max(total, 1):.1f} % |"]))
    ratios = [ratio(row) for row in rows.values() if not math.isnan(ratio(row))]
    inside, total = (sum(flops(row)[i] for row in rows.values()) for i in (0, 1))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.3f}, least {min(ratios):.3f} of {len(ratios)}; "
              f"{100 * inside / max(total, 1):.1f} % of all FLOPs in kfuse")


def print_way(name, way, one):
    print(f"{name} {way}: {one['ms']:.4f} ms, {one['ms+graph']:.4f} in a graph, error {one['error']:.2e}, "
          f"compiled in {one['compile_s']:.1f} s")
    print(*(f"  {line}\n" for line in one.get("report", "").splitlines()), sep="", end="", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--only", default="", help="parts of names, with commas between them")
    ap.add_argument("--ways", default="eager,inductor,max-autotune,kfuse", help=f"of eager, {', '.join(WAYS)}")
    ap.add_argument("--layers", type=int, default=0, help="of an architecture, in place of all")
    ap.add_argument("--seconds", type=float, default=math.inf)
    ap.add_argument("--json", type=pathlib.Path)
    args = ap.parse_args()
    torch.manual_seed(0)
    start, rows = time.time(), json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for name, make, call in cases(args.layers):
        if not any(part in name for part in args.only.split(",")) or time.time() - start > args.seconds:
            continue
        row = rows.setdefault(name, {})
        try:
            for way in measure(make, call, args.ways.split(","), row):
                print_way(name, way, row[way])
                if args.json:  # After each way: a run that is cut short has what it has.
                    args.json.write_text(json.dumps(rows, indent=1))
                if time.time() - start > args.seconds:
                    break
        except Exception as failure:  # It ends one case, and the others go on.
            print(f"{name}: {type(failure).__name__}: {failure}", flush=True)
    print_table(rows)


if __name__ == "__main__":
    main()
