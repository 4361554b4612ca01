"""Generators of attention and rotary embedding."""

import numpy as np

from ..graph import CONTRIB, Reject
from ..values import BOOL, I64, random_integers
from .registry import generator


@generator("RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def _rotary(b):
    is_contrib = b.op.startswith(CONTRIB)
    if not is_contrib:
        b.dtypes(b.op)
    batch, length, heads = b.rng.choice((1, 2)), b.rng.choice((1, 3, 8)), b.rng.choice((1, 2, 4))
    size = b.rng.choice((2, 4, 8, 16))
    packed = b.chance(0.5)
    dtype = b.some_dtype(b.floats())
    x = b.fresh(dtype, (batch, length, heads * size) if packed else (batch, heads, length, size), "input")
    rotated = size if is_contrib or b.chance(0.7) else b.rng.choice(range(2, size + 1, 2))
    flags = {"interleaved": b.rng.choice((None, 1)), "num_heads": heads if packed else None}
    if rotated != size:
        flags["rotary_embedding_dim"] = rotated
    most = 12
    positions = b.rng.choice(("each", "first")) if is_contrib else b.rng.choice(("each", "none"))
    tables = [b.fresh(dtype, (most, rotated // 2) if positions != "none" else (batch, length, rotated // 2)) for _ in "cs"]
    at = None
    if positions == "each":
        at = b.source(random_integers(b.rng, I64, (batch, length), 0, most - 1), I64, "input")
    elif positions == "first":
        at = b.source(random_integers(b.rng, I64, (1,), 0, most - length), I64, "input")
    if is_contrib:
        b.node("RotaryEmbedding", [x, at, *tables], domain=CONTRIB, **flags)
    else:
        b.node("RotaryEmbedding", [x, *tables, at], **flags)


@generator("Attention")
def _attention(b):
    b.dtypes("Attention")
    batch, kv_heads, repeats = b.rng.choice((1, 2)), b.rng.choice((1, 2)), b.rng.choice((1, 1, 2, 3))
    heads = kv_heads * repeats
    length, keys, size, value_size = (b.rng.choice(sizes) for sizes in ((1, 1, 3, 8), (1, 4, 9, 16), (1, 4, 8, 16), (1, 4, 8)))
    dtype = b.some_dtype(b.floats())
    packed = b.chance(0.4)

    def operand(count, rows, columns):
        shape = (batch, rows, count * columns) if packed else (batch, count, rows, columns)
        same = [v for v in b.graph.values[-12:] if v.dtype == dtype and v.shape == shape and v.kind == "made"]
        return b.rng.choice(same) if same else b.finite(dtype, shape, b.rng.choice(("input", "input", "parameter")))

    inputs = [operand(heads, length, size), operand(kv_heads, keys, size), operand(kv_heads, keys, value_size)]
    if not all(np.isfinite(value.array).all() for value in inputs):
        raise Reject("ONNX adds a mask to the scores, so that NaN shows through where kernels do not look")
    past = b.rng.choice((1, 5)) if b.chance(0.3) else 0
    mask = None
    if b.chance(0.5):
        leading = b.rng.choice(((), (1, 1), (batch, 1), (batch, heads), (heads,)))
        mask_type = b.rng.choice((BOOL, dtype))
        mask = b.finite(mask_type, (*leading, length, past + keys))
    inputs.append(mask)
    if past:
        inputs += [b.finite(dtype, (batch, kv_heads, past, columns)) for columns in (size, value_size)]
    attributes = {"q_num_heads": heads, "kv_num_heads": kv_heads} if packed else {}
    attributes["is_causal"] = b.rng.choice((None, 1))
    attributes["scale"] = b.rng.choice((None, 0.25))
    attributes["softcap"] = b.rng.choice((None, None, 2.0))
    outputs = 1
    if past or b.chance(0.2):
        outputs = 3
    if b.chance(0.15):
        outputs = 4
        attributes["qk_matmul_output_mode"] = b.rng.choice((0, 3))
        if attributes["qk_matmul_output_mode"] == 0:
            attributes["softcap"] = None  # The evaluator gives the scores behind it, ONNX those before it.
    b.node("Attention", inputs, dtype, outputs=outputs, **attributes)
