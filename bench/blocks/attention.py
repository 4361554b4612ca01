#!/usr/bin/env python3
"""Attention of many query rows to time, as text: what bench/peers/attention_torch.py times through cuDNN and FlashAttention-2.

Usage: attention.py FOLDER, which gets NAME.mlir and regions/NAME.mlir for each shape; then, on the machine to measure,

  for model in FOLDER/*.mlir; do kfuse bench block $model --json; done

tunes and times them as models are, and `kfuse_gpu_bench FOLDER/regions/NAME.mlir` measures every config of the kernel.
"""
import pathlib
import sys

# Name: batch, query heads, key heads, queries, keys, head size of keys, of values, mask. A mask is "", "causal", "window N",
# "causal capped" (by 50 tanh(x / 50)), or of what is read at run time:
#   "added"            a tensor [batch, 1, queries, keys]; "chosen" the same of booleans
#   "bias"             a tensor [1, query heads, queries, keys]
#   "causal alibi"     slope of the head * (key - query)
#   "causal sink"      a score of each head beside those of its keys
#   "causal lengths"   of each sequence (LENGTHS)
#   "causal from N"    the first query's position in a cache
#   "causal packed"    sequences of LENGTHS one behind the other
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
    "added_S2048_hd64": (1, 32, 32, 2048, 2048, 64, 64, "added"),
    "chosen_S2048_hd128": (1, 32, 32, 2048, 2048, 128, 128, "chosen"),
    "swin_B1024_S49_bias": (1024, 16, 16, 49, 49, 32, 32, "bias"),
    "alibi_S2048_hd128": (1, 32, 32, 2048, 2048, 128, 128, "causal alibi"),
    "sink_S4096_hd64": (1, 64, 8, 4096, 4096, 64, 64, "causal sink"),
    "lengths_B16_S2048": (16, 16, 16, 2048, 2048, 128, 128, "causal lengths"),
    "packed_T17149_hd128": (1, 16, 16, 17149, 17149, 128, 128, "causal packed"),
    "chunk_S512_at7680": (1, 32, 8, 512, 8192, 128, 128, "causal from 7680"),
    "speculated_B8_S8_at4087": (8, 32, 8, 8, 4096, 128, 128, "causal from 4087"),
    "decoded_B8_at4094": (8, 32, 8, 1, 4096, 128, 128, "causal from 4094"),  # Whose TB/s the row above is to reach.
}

# The lengths of 16 sequences, drawn evenly from 64 to 2048.
LENGTHS = [1543, 1182, 336, 1961, 207, 825, 1420, 1874, 98, 1295, 667, 1733, 1046, 489, 2048, 425]


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


def scores(text, q, k, given, heads, group, rows, keys, size, mask):
    """From operands over [batch, key heads, heads that share keys, rows, size]; `given` is what the mask reads."""
    shape = (*heads, group, rows, keys)
    score = text.emit("matmul", [q, k], tensor(*shape), "{transpose_b}")
    scale = size**-0.5
    if "capped" in mask:
        score = text.emit("mul", [score, text.constant(scale / 50)], score[1])
        score = text.emit("tanh", [score], score[1])
        score = text.emit("mul", [score, text.constant(50.0)], score[1])
    else:
        score = text.emit("mul", [score, text.constant(scale)], score[1])
    if mask in ("added", "bias"):
        return text.emit("add", [score, given], score[1])
    if not mask:
        return score
    hidden = text.constant("0xFF80")
    if mask in ("chosen", "causal packed"):
        return text.emit("where", [given, score, hidden], score[1])
    row = text.emit("iota", [], tensor(rows, 1, type="i32"), "{dim = 0 : i64}")
    key = text.emit("iota", [], tensor(1, keys, type="i32"), "{dim = 1 : i64}")
    pairs = tensor(rows, keys, type="i1")
    if mask.startswith("causal from"):
        row = text.emit("add", [row, given], row[1])
    seen = text.emit("le", [key, row], pairs)
    if mask.startswith("window"):
        behind = text.emit("add", [key, text.constant(int(mask.split()[1]), "i32")], key[1])
        seen = text.emit("and", [seen, text.emit("gt", [behind, row], pairs)], pairs)
    if mask == "causal lengths":
        all_pairs = tensor(heads[0], 1, 1, rows, keys, type="i1")
        exists = text.emit("lt", [key, given], tensor(heads[0], 1, 1, 1, keys, type="i1"))
        seen = text.emit("and", [seen, exists], all_pairs)
    if mask == "causal alibi":
        behind = text.emit("cast", [text.emit("sub", [key, row], tensor(rows, keys, type="i32"))], tensor(rows, keys))
        bias = text.emit("mul", [given, behind], tensor(*heads[1:], group, rows, keys))
        score = text.emit("add", [score, bias], score[1])
    return text.emit("where", [seen, score, hidden], score[1])


def weights(text, score, sink):
    """The softmax; of scores with a sink beside them what is left without it."""
    if not sink:
        return text.emit("softmax", [score], score[1])
    *shape, keys = map(int, score[1][len("tensor<") :].split("x")[:-1])
    column = text.emit("broadcast", [sink], tensor(*shape, 1))
    longer = text.emit("concat", [score, column], tensor(*shape, keys + 1), "{axis = 4 : i64}")
    longer = text.emit("softmax", [longer], longer[1])
    return text.emit("slice", [longer], score[1], "{offsets = array<i64: 0, 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1, 1>}")


def read_by(mask, heads, group, rows, keys):
    """Type of the argument that a mask reads; None where it reads none."""
    if mask in ("added", "chosen"):
        return tensor(heads[0], 1, 1, rows, keys, type="bf16" if mask == "added" else "i1")
    if mask == "bias":
        return tensor(1, heads[1], group, rows, keys)
    if mask == "causal alibi":
        return tensor(heads[1], group, 1, 1)
    if mask == "causal sink":
        return tensor(1, heads[1], group, 1, 1)
    if mask.startswith("causal from"):
        return tensor(1, type="i32")
    return None


def made_of(text, given, mask, heads, rows, keys):
    """What a mask reads, of the argument or of numbers that are known here, which kernels read at run time all the same."""
    if mask == "causal lengths":
        return text.emit("constant", [], tensor(heads[0], 1, 1, 1, 1, type="i32"), nested(LENGTHS, 4))
    if mask == "causal packed":
        starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1)]
        ends = text.emit("constant", [], tensor(len(starts), type="i32"), nested(starts, 0))
        return text.emit("same_sequence", [ends, ends], tensor(rows, keys, type="i1"), "{causal}")
    if mask.startswith("causal from"):  # Always this number, but known at run time.
        position = text.constant(int(mask.split()[2]), "i32")
        lower = text.emit("min", [given, position], given[1])
        return text.emit("max", [lower, position], given[1])
    return given


def nested(numbers, depth):
    return "dense<[" + ", ".join("[" * depth + str(number) + "]" * depth for number in numbers) + "]>"


def attention(batch, query_heads, key_heads, rows, keys, size, value_size, mask, is_region):
    """A model's function, or a kernel's region."""
    group, heads = query_heads // key_heads, (batch, key_heads)
    types = [
        tensor(*heads, group, rows, size),
        tensor(*heads, 1, keys, size),
        tensor(*heads, 1, keys, value_size),
    ]
    read = read_by(mask, heads, group, rows, keys)
    if read:
        types.append(read)
    result = tensor(*heads, group, rows, value_size)
    roles = [f'%arg{i}: {type} {{kfuse.name = "{"qkvm"[i]}", kfuse.role = "input"}}' for i, type in enumerate(types)]
    text = Text()
    prefix = "%in" if is_region else "%arg"
    given = [(f"{prefix}{i}", type) for i, type in enumerate(types)]
    made = made_of(text, given[3] if read else None, mask, heads, rows, keys)
    score = scores(text, given[0], given[1], made, heads, group, rows, keys, size, mask)
    y, _ = text.emit("matmul", [weights(text, score, made if "sink" in mask else None), given[2]], result)
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
        if "packed" not in sizes[-1]:  # A pass makes kernels of it.
            (folder / "regions" / f"{name}.mlir").write_text(attention(*sizes, is_region=True))


if __name__ == "__main__":
    main()
