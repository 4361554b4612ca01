#!/usr/bin/env python3
"""Whole blocks through kfuse beside what torch and XLA took for them: a table, and JSON of all figures.

kfuse and torch: median of runs behind a flush of the L2, in one CUDA graph where torch is faster so. XLA: back to back, its
arguments that rotate past the L2. The peers' JSON comes from bench/peers/blocks_torch.py and blocks_jax.py (--json), run on
the same machine right before or after.
"""
import argparse, json, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent.parent / "examples" / "models"
FIXED = ["--params", "*weight*", "--params", "*bias*"]
LAST = ["--input", "position=4095"]
# Name of the peers' case, our model, its options, the ratio that is wanted (none: reported only).
BLOCKS = [
    ("LinearHead_B256", MODELS / "linear_head_b256.onnx", FIXED, 1.75),
    ("Stacked5_B256", MODELS / "stacked_heads_b256.onnx", ["--params", "w_*", "--params", "b_*", "--params", "out"], 1.75),
    ("SeqLen_B256", MODELS / "seqlen_head_b256.onnx", FIXED + ["--no-simplify"], 1.17),
    ("SeqLen_B256", MODELS / "seqlen_head_b256.onnx", FIXED, 20),
    ("LnGelu_2048x4096", MODELS / "ln_gelu_2048x4096.onnx", FIXED, 1.04),
    ("FFN_2048x4096", MODELS / "ffn_2048x4096.onnx", FIXED, 1.03),
    ("LlamaBlock_decode_B1_kv4096", HERE / "llama_block_decode_b1_kv4096.mlir", LAST, 1.22),
    ("LlamaBlock_decode_B32_kv4096", HERE / "llama_block_decode_b32_kv4096.mlir", LAST, 1.08),
    ("LlamaBlock_prefill_S1024", MODELS / "llama_block_prefill_s1024.onnx", ["--params", "*weight*"], None),
    ("LlamaBlock_prefill_S4096", HERE / "llama_block_prefill_s4096.mlir", [], None),
]
ENCODERS = [("BertLayer_B16_S512", "bert_layer"), ("ViTLayer_B32_S257", "vit_layer")]


def peer_times(torch_file, jax_file):
    """Microseconds by block, then by mode; of graphs back to back, too ("... warm")."""
    times = {}
    for name, row in (json.load(open(torch_file)) if torch_file else {}).items():
        for mode, ms in row.items():
            if not mode.endswith("compile_s"):
                times.setdefault(name, {})["torch " + mode] = ms * 1e3
    for name, row in (json.load(open(jax_file)) if jax_file else {}).items():
        times.setdefault(name, {})["XLA"] = row["cold_ms"] * 1e3
    return times


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--kfuse", default="kfuse", help="the program")
    ap.add_argument("--store", default="", help="its tuning store")
    ap.add_argument("--effort", default="quick")
    ap.add_argument("--torch", help="JSON of blocks_torch.py")
    ap.add_argument("--jax", help="JSON of blocks_jax.py")
    ap.add_argument("--only", default="")
    ap.add_argument("--json", help="file for all figures")
    ap.add_argument("--encoders", type=pathlib.Path, help="folder of what encoders.py wrote")
    args = ap.parse_args()
    blocks = BLOCKS + [(case, args.encoders / f"{name}.onnx", FIXED, 1.10) for case, name in ENCODERS if args.encoders]
    peers = peer_times(args.torch, args.jax)
    store = ["--store", args.store] if args.store else []
    rows, failed = [], False
    print(f"{'block':42} {'cold us':>8} {'warm us':>8} {'floor':>7} {'peer us':>8} {'ratio':>6} {'wanted':>6}  best peer")
    for case, model, options, wanted in blocks:
        if args.only not in model.name:
            continue
        command = [args.kfuse, "bench", "block", str(model), "--json", "--effort", args.effort, *store, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{model.stem:42} failed: {done.stderr.strip().splitlines()[-1:]}")
            failed = True
            continue
        row = json.loads(done.stdout) | {"case": case, "options": options, "wanted": wanted, "peers": peers.get(case, {})}
        rows.append(row)
        name = row["block"] + (" as written" if "--no-simplify" in options else "")
        cold = {mode: us for mode, us in row["peers"].items() if not mode.endswith(" warm")}
        best = min(cold.items(), key=lambda item: item[1], default=None)
        ratio = f"{best[1]:8.1f} {best[1] / row['cold_us']:6.2f}" if best else f"{'-':>8} {'-':>6}"
        print(f"{name:42} {row['cold_us']:8.1f} {row['warm_us']:8.1f} {row['floor_us']:7.1f} {ratio} {wanted or '-':>6}"
              f"  {best[0] if best else ''}", flush=True)
    if args.json:
        json.dump(rows, open(args.json, "w"), indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
