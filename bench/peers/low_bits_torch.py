#!/usr/bin/env python3
"""Time products with weights of 4 and 8 bits: kfuse, its own product of bf16 weights, and PyTorch's tinygemm.

Each side multiplies by as many copies of the weights as the L2 cannot hold, one after the other in one CUDA graph, and
`us` is the graph's time by their number. "Act order" are products of what the one before computed, its columns in an
order that is constant, as GPTQ's desc_act has it, or as they are. The Llama-3.1-8B block is timed with its weights cold,
as `kfuse bench block` has them, in bf16 and with INT4 weights in groups of 128, also in act order. --json writes the
configs that were chosen, too: one call, of 200 s on an H100, tells whether the tables hold for the kernels of today.
"""
import argparse, json, os, random, re, subprocess, tempfile
import torch

ROTATED_BYTES = 220 << 20
INT4, INT8 = "ui4", "i8"
SHAPES = [(1, 4096, 4096), (1, 8192, 8192), (1, 28672, 8192), (4, 8192, 8192), (16, 8192, 8192), (64, 8192, 8192),
          (256, 8192, 8192), (1024, 8192, 8192), (4096, 8192, 8192)]


def order_of(k):
    return f"kfuse.constant dense<{random.Random(k).sample(range(k), k)}> : tensor<{k}xi64>"


def product_text(m, n, k, weights, copies, chained=False, ordered=False):
    """A function of `copies` products, each with weights of its own, and an input, or what the one before computed."""
    x, y, w, groups = f"tensor<{m}x{k}xbf16>", f"tensor<{m}x{n}xbf16>", f"tensor<{n}x{k}xbf16>", k // 128
    q, s, z = f"tensor<{n}x{k}x{weights}>", f"tensor<{n}x{groups}xbf16>", f"tensor<{n}x{groups}x{weights}>"
    parameters, body = [], []
    fixed = '{kfuse.role = "parameter"}'
    if ordered:
        body.append(f"  %order = {order_of(k)}")
    for i in range(copies):
        left = f"%y{i - 1}" if chained and i > 0 else f"%x{i}"
        if left == f"%x{i}":
            parameters.append(f"%x{i}: {x}")
        if ordered:
            body.append(f"  %o{i} = kfuse.gather {left}, %order {{axis = 1}} : ({x}, tensor<{k}xi64>) -> {x}")
            left = f"%o{i}"
        if weights == "bf16":
            parameters.append(f"%w{i}: {w} {fixed}")
        else:
            parameters += [f"%q{i}: {q} {fixed}", f"%s{i}: {s} {fixed}"]
            zero = f", %z{i}" if weights == INT4 else ""
            if zero:
                body.append(f"  %z{i} = kfuse.constant dense<8> : {z}")
            body.append(f"  %w{i} = kfuse.dequantize %q{i}, %s{i}{zero} {{blocks = array<i64: 1, 128>}} : "
                        f"({q}, {s}{', ' + z if zero else ''}) -> {w}")
        body.append(f"  %y{i} = kfuse.matmul {left}, %w{i} {{transpose_b}} : ({x}, {w}) -> {y}")
    results, types = ", ".join(f"%y{i}" for i in range(copies)), ", ".join([y] * copies)
    return f"func.func @main({', '.join(parameters)}) -> ({types}) {{\n" + "\n".join(body) + \
        f"\n  return {results} : {types}\n}}\n"


def quantised_block(text, ordered=False):
    """A block in which every product with a parameter [N, K] in bf16 has it in INT4 instead, also in act order."""
    taken = {}
    for name, n, k in re.findall(r"kfuse\.matmul %\w+, (%arg\d+) \{transpose_b\} : \([^,]+, tensor<(\d+)x(\d+)xbf16>\)", text):
        taken[name] = (int(n), int(k))
    for name, (n, k) in taken.items():
        s = f"tensor<{n}x{k // 128}xbf16>"
        text = re.sub(name + rf": tensor<{n}x{k}xbf16> (\{{[^}}]*\}})",
                      lambda found: f"{name}: tensor<{n}x{k}xui4> {found[1]}, {name}s: {s} " +
                      re.sub(r'name = "', 'name = "scales_', found[1]), text)
        z = f"tensor<{n}x{k // 128}xui4>"
        dequantised = (f"    {name}z = kfuse.constant dense<8> : {z}\n    {name}w = kfuse.dequantize {name}, {name}s, {name}z "
                       f"{{blocks = array<i64: 1, 128>}} : (tensor<{n}x{k}xui4>, {s}, {z}) -> tensor<{n}x{k}xbf16>\n")
        text = re.sub(rf"( *%\w+ = kfuse\.matmul %\w+, ){name} ", lambda found: dequantised + found[1] + name + "w ", text)
        if ordered:
            x = f"tensor<1x1x{k}xbf16>"
            text = re.sub(rf"( *%\w+ = kfuse\.matmul )(%\w+), {name}w ",
                          lambda found: f"    {name}p = {order_of(k)}\n    {name}x = kfuse.gather {found[2]}, {name}p {{axis = 2}} : "
                          f"({x}, tensor<{k}xi64>) -> {x}\n{found[1]}{name}x, {name}w ", text)
    return text.replace("%arg", "%a")


def bench(kfuse, text, effort):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "block.mlir")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([kfuse, "bench", "block", path, "--json", *effort], capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    return json.loads(done.stdout)


def kfuse_us(kfuse, m, n, k, weights, effort, chosen, **form):
    bytes_each = n * k * {INT4: 1, INT8: 2, "bf16": 4}[weights] // 2
    copies = max(2, -(-ROTATED_BYTES // bytes_each))
    measured = bench(kfuse, product_text(m, n, k, weights, copies, **form), effort)
    chosen += measured.get("kernels", [])
    return measured["warm_us"] / copies if "warm_us" in measured else measured["error"]


def tinygemm_us(m, n, k):
    copies = max(2, -(-ROTATED_BYTES // (n * k // 2)))
    packed = [torch._convert_weight_to_int4pack(torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8), 8)
              for _ in range(copies)]
    scales = torch.randn(k // 128, n, 2, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    run = lambda: [torch._weight_int4pack_mm(x, weights, 128, scales) for weights in packed]
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    times = []
    for _ in range(12):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(); graph.replay(); graph.replay(); stop.record(); stop.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / 2 / copies)
    return sorted(times)[len(times) // 2]


def blocks(options, row):
    with open(os.path.join(options.blocks, "llama_block_decode_b1_kv4096.mlir")) as file:
        block = file.read()
    for name, body in ("int4", quantised_block(block)), ("int4 in act order", quantised_block(block, True)), ("bf16", block):
        measured = bench(options.kfuse, body, ["--input", "position=4095", "--effort", "full", "--budget", "16s"])
        row(f"Llama-8B block, {name}", measured.pop("kernels", []),
            **({key: measured[key] for key in ("cold_us", "warm_us")} if "cold_us" in measured else measured))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kfuse", default="build/bin/kfuse")
    parser.add_argument("--blocks", default=os.path.join(os.path.dirname(__file__), "..", "blocks"))
    parser.add_argument("--budget", default="4s", help="time to tune each product")
    parser.add_argument("--rows", type=int, nargs="*", help="only INT4 products of so many rows")
    parser.add_argument("--parts", nargs="*", default=["int4", "int8", "order", "block"],
                        help="int4, int8, order and block, or some of them")
    parser.add_argument("--json")
    options = parser.parse_args()
    effort = ["--effort", "full", "--budget", options.budget]
    out = {"device": torch.cuda.get_device_name()}
    text = lambda value: f"{value:9.2f}" if isinstance(value, float) else f"{'-':>9}"

    def row(name, chosen, **figures):
        out[name] = {**figures, "kernels": chosen}
        print(f"{name:28}" + " ".join(f"{key} {text(value)}" for key, value in figures.items()), flush=True)
        for value in figures.values():
            if isinstance(value, str):
                print("   ", value)

    for m, n, k in SHAPES:
        if "int4" not in options.parts or (options.rows and m not in options.rows):
            continue
        chosen = []
        figures = {"int4": kfuse_us(options.kfuse, m, n, k, INT4, effort, chosen), "tinygemm": tinygemm_us(m, n, k)}
        if m >= 64:
            figures["bf16"] = kfuse_us(options.kfuse, m, n, k, "bf16", effort, chosen)
            if isinstance(figures["int4"], float) and isinstance(figures["bf16"], float):
                figures["speed"] = figures["bf16"] / figures["int4"]
        row(f"INT4 {m} x {n} x {k}", chosen, **figures)
    if "int8" in options.parts:
        chosen = []
        row("INT8 1 x 8192 x 8192", chosen, int8=kfuse_us(options.kfuse, 1, 8192, 8192, INT8, effort, chosen))
    for m in (1, 64) if "order" in options.parts else ():
        chosen = []
        plain, ordered = (kfuse_us(options.kfuse, m, 8192, 8192, INT4, effort, chosen, chained=True, ordered=is_ordered)
                          for is_ordered in (False, True))
        row(f"act order, {m} x 8192 x 8192", chosen, plain=plain, ordered=ordered)
    if "block" in options.parts:
        blocks(options, row)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    main()
