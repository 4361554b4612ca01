#!/usr/bin/env python3
"""Attention of many query rows to time, as text: what bench/peers/attention_torch.py times through cuDNN and FlashAttention-2.

Usage: attention.py FOLDER, which gets NAME.mlir and regions/NAME.mlir for each shape; then, on the machine to measure,

  for model in FOLDER/*.mlir; do kfuse bench block $model --json; done

tunes and times them as models are, and `kfuse_gpu_bench FOLDER/regions/NAME.mlir` measures every config of the kernel.
"""
import pathlib
import sys

# Name: batch, query heads, key heads, queries, keys, head size of keys, of values, mask. A mask is "", "causal", "window N",
# "causal capped" (by 50 tanh(x / 50)), or "added": a tensor [batch, 1, queries, keys].
ATTENTIONS = {
    f"hd{d}_S{s}{'_causal' if c else ''}": (max(1, 16384 // s), 2048 // d, 2048 // d, s, s, d, d, "causal" if c else "")
    for d in (64, 128, 256)
    for s in (512, 1024, 2048, 4096, 8192, 16384)
    for c in (False, True)
}
ATTENTIONS |= {
    "llama8b_S1024_gqa_causal": (1, 32, 8, 1024, 1024, 128, 128, "causal"),
    "llama8b_S4096_gqa_causal": (1, 32, 8, 4096, 4096, 128, 128, "causal"),
    "llama70b_S8192_gqa_causal": (1, 64, 8, 8192, 8192, 128, 128, "causal"),
    "vit_l_B32_S257": (32, 16, 16, 257, 257, 64, 64, ""),
    "bert_l_B16_S512": (16, 16, 16, 512, 512, 64, 64, ""),
    "gpt2xl_S1024_causal": (1, 25, 25, 1024, 1024, 64, 64, "causal"),
    "phi_hd80_S2048_causal": (4, 32, 32, 2048, 2048, 80, 80, "causal"),
    "hd96_S2048_causal": (4, 32, 32, 2048, 2048, 96, 96, "causal"),
    "mla_hd192_128_S2048_causal": (1, 128, 128, 2048, 2048, 192, 128, "causal"),
    "whisper_cross_S448x1500": (8, 20, 20, 448, 1500, 64, 64, ""),
    "swin_B1024_S49": (1024, 16, 16, 49, 49, 32, 32, ""),
    "odd_S777_causal": (2, 32, 8, 777, 777, 128, 128, "causal"),
    "chunk_S256_keys4096": (4, 32, 8, 256, 4096, 128, 128, ""),
    "gemma2_S4096_causal_softcap": (1, 16, 8, 4096, 4096, 256, 256, "causal capped"),
    "window1024_S8192_hd128": (1, 32, 8, 8192, 8192, 128, 128, "window 1024"),
    "added_S2048_hd128": (1, 32, 32, 2048, 2048, 128, 128, "added"),
}


def tensor(*shape, type="bf16"):
    return "tensor<" + "x".join([*map(str, shape), type]) + ">"


class Text:
    """Ops one by one, each a line; the value of the last is %N."""

    def __init__(self):
        self.lines, self.number = [], 0

    def emit(self, op, operands, result, attributes=""):
        """`operands` are pairs of a value and its type, as is what comes back."""
        name = f"%{self.number}"
        self.number += 1
        values, types = (", ".join(part) for part in zip(*operands)) if operands else ("", "")
        signature = f"({types}) -> {result}" if operands else result
        self.lines.append(f"  {name} = kfuse.{op} {values} {attributes} : {signature}")
        return name, result

    def constant(self, value, type="bf16"):
        return self.emit("constant", [], f"tensor<{type}>", f"dense<{value}>")


def scores(text, q, k, added, heads, group, rows, keys, size, mask):
    """From operands over [batch, key heads, heads that share keys, rows, size]."""
    shape = (*heads, group, rows, keys)
    score = text.emit("matmul", [q, k], tensor(*shape), "{transpose_b}")
    scale = size**-0.5
    if "capped" in mask:
        score = text.emit("mul", [score, text.constant(scale / 50)], score[1])
        score = text.emit("tanh", [score], score[1])
        score = text.emit("mul", [score, text.constant(50.0)], score[1])
    else:
        score = text.emit("mul", [score, text.constant(scale)], score[1])
    if added:
        return text.emit("add", [score, added], score[1])
    if not mask:
        return score
    row = text.emit("iota", [], tensor(rows, 1, type="i32"), "{dim = 0 : i64}")
    key = text.emit("iota", [], tensor(1, keys, type="i32"), "{dim = 1 : i64}")
    pairs = tensor(rows, keys, type="i1")
    seen = text.emit("le", [key, row], pairs)
    if mask.startswith("window"):
        behind = text.emit("add", [key, text.constant(int(mask.split()[1]), "i32")], key[1])
        seen = text.emit("and", [seen, text.emit("gt", [behind, row], pairs)], pairs)
    return text.emit("where", [seen, score, text.constant("0xFF80")], score[1])


def attention(batch, query_heads, key_heads, rows, keys, size, value_size, mask, is_region):
    """A model's function, or a kernel's region."""
    group, heads = query_heads // key_heads, (batch, key_heads)
    types = [
        tensor(*heads, group, rows, size),
        tensor(*heads, 1, keys, size),
        tensor(*heads, 1, keys, value_size),
    ]
    if mask == "added":
        types.append(tensor(batch, 1, 1, rows, keys))
    result = tensor(*heads, group, rows, value_size)
    roles = [f'%arg{i}: {type} {{kfuse.name = "{"qkvm"[i]}", kfuse.role = "input"}}' for i, type in enumerate(types)]
    text = Text()
    prefix = "%in" if is_region else "%arg"
    given = [(f"{prefix}{i}", type) for i, type in enumerate(types)]
    score = scores(text, given[0], given[1], given[3] if mask == "added" else None, heads, group, rows, keys, size, mask)
    weights = text.emit("softmax", [score], score[1])
    y, _ = text.emit("matmul", [weights, given[2]], result)
    body = "\n".join(text.lines)
    if is_region:
        arguments = ", ".join(f"%arg{i}: {type}" for i, type in enumerate(types))
        inside = ", ".join(f"%in{i}: {type}" for i, type in enumerate(types))
        names = ", ".join(f"%arg{i}" for i in range(len(types)))
        return (
            f"func.func @f({arguments}) -> {result} {{\n%r = kfuse.attention {names} : ({', '.join(types)}) -> {result} {{\n"
            f"^bb0({inside}):\n{body}\n  kfuse.yield {y} : {result}\n}}\nreturn %r : {result}\n}}\n"
        )
    return (
        f'func.func @main({", ".join(roles)}) -> ({result} {{kfuse.name = "y"}}) {{\n{body}\n  return {y} : {result}\n}}\n'
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    (folder / "regions").mkdir(parents=True, exist_ok=True)
    for name, sizes in ATTENTIONS.items():
        (folder / f"{name}.mlir").write_text(attention(*sizes, is_region=False))
        (folder / "regions" / f"{name}.mlir").write_text(attention(*sizes, is_region=True))


if __name__ == "__main__":
    main()
