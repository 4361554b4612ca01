"""Generators of ONNX Runtime's attention ops and what else its transformer optimiser writes."""

import numpy as np

from ..graph import CONTRIB, Reject
from ..values import F32, I32, I64, random_integers
from .registry import generator


def _sizes(b):
    batch, length = b.rng.choice((1, 2)), b.rng.choice((1, 1, 3, 8))
    return batch, length, b.rng.choice((1, 2, 4)), b.rng.choice((4, 8, 16))


def _integers(b, numbers, kind=None):
    return b.source(np.asarray(numbers, np.int32), I32, kind or b.rng.choice(("input", "initializer")))


def _small(*values):
    """Rejects what may make scores that f16 does not hold, which kernels store and the reference does not: of two rows
    of 16 elements of at most 50, bias and all, the product is 40,000."""
    largest = [np.max(np.abs(value.array), initial=0) for value in values if value and value.dtype == "f16"]
    if max(largest, default=0) > 25:
        raise Reject("scores overflow")


def _mask(b, batch, rows, keys):
    """One of the forms, or none. Every row sees something, so that -10000 is as good as -infinity."""
    form = b.rng.choice((None, "ends", "keys", "rows"))
    if form == "ends":
        return _integers(b, [b.rng.randint(1, keys) for _ in range(batch)])
    if form is None:
        return None
    shape = (batch, keys) if form == "keys" else (batch, rows, keys)
    array = random_integers(b.rng, I32, shape, 0, 1)
    array[..., 0] = 1
    return _integers(b, array)


@generator("com.microsoft.MultiHeadAttention")
def _multi_head_attention(b):
    batch, length, heads, size = _sizes(b)
    dtype = b.some_dtype(b.floats())
    if b.chance(0.15):
        b.node("MultiHeadAttention", [b.finite(dtype, (batch, length, heads, 3, size))], domain=CONTRIB, num_heads=heads)
        return
    keys, value_size = b.rng.choice((1, 4, 9)), b.rng.choice((size, 4))
    past = b.rng.choice((1, 5)) if b.chance(0.3) else 0
    q = b.finite(dtype, (batch, length, heads * size))
    k, v = b.finite(dtype, (batch, keys, heads * size)), b.finite(dtype, (batch, keys, heads * value_size))
    bias = b.finite(dtype, (heads * (2 * size + value_size),)) if b.chance(0.4) else None
    _small(q, k, v, bias)
    mask = _mask(b, batch, length, past + keys)
    added = b.finite(dtype, (b.rng.choice((1, batch)), b.rng.choice((1, heads)), length, past + keys)) if b.chance(0.3) else None
    inputs = [q, k, v, bias, mask, added]
    if past:
        inputs += [b.finite(dtype, (batch, heads, past, columns)) for columns in (size, value_size)]
    flags = {"scale": b.rng.choice((None, 0.3)), "unidirectional": 1 if past + keys >= length and b.chance(0.4) else None}
    b.node("MultiHeadAttention", inputs, dtype, outputs=3 if past else 1, domain=CONTRIB, num_heads=heads, **flags)


@generator("com.microsoft.Attention")
def _attention(b):
    batch, length, heads, size = _sizes(b)
    dtype = b.some_dtype(b.floats())
    width = b.rng.choice((4, 8))
    value_size = b.rng.choice((size, size, 4))
    past = b.rng.choice((1, 4)) if value_size == size and b.chance(0.3) else 0
    columns = heads * (2 * size + value_size)
    x = b.finite(dtype, (batch, length, width))
    weights = b.finite(dtype, (width, columns), b.rng.choice(("parameter", "initializer")))
    bias = b.finite(dtype, (columns,)) if b.chance(0.7) else None
    if dtype == "f16" and width * np.max(np.abs(x.array)) * np.max(np.abs(weights.array)) > 25:
        raise Reject("scores overflow")
    _small(bias)
    inputs = [x, weights, bias, _mask(b, batch, length, past + length)]
    inputs.append(b.finite(dtype, (2, batch, heads, past, size)) if past else None)
    inputs.append(b.finite(dtype, (1, heads, length, past + length)) if b.chance(0.3) else None)
    flags = {"unidirectional": b.rng.choice((None, 1)), "scale": b.rng.choice((None, 0.3))}
    if value_size != size:
        flags["qkv_hidden_sizes"] = [heads * size, heads * size, heads * value_size]
    outputs = 2 if past else 1
    b.node("Attention", inputs, dtype, outputs=outputs, domain=CONTRIB, num_heads=heads, **flags)


def _sequences(b, tokens):
    """Which tokens were padded, which nothing reads, and where sequences begin; one may be empty."""
    cuts = sorted(b.rng.randint(0, tokens) for _ in range(b.rng.choice((0, 1, 2))))
    return [_integers(b, np.zeros((len(cuts) + 1, tokens))), _integers(b, [0, *cuts, tokens])]


@generator("com.microsoft.PackedMultiHeadAttention")
def _packed_multi_head_attention(b):
    _, tokens, heads, size = _sizes(b)
    dtype, scale = b.some_dtype(b.floats()), b.rng.choice((None, 0.3))
    if b.chance(0.2):
        inputs = [b.finite(dtype, (tokens, heads, 3, size)), None, None, None]
    else:
        widths = [heads * size, heads * size, heads * b.rng.choice((size, 4))]
        inputs = [b.finite(dtype, (tokens, width)) for width in widths]
        inputs.append(b.finite(dtype, (sum(widths),)) if b.chance(0.4) else None)
    _small(*inputs)
    inputs += _sequences(b, tokens)
    b.node("PackedMultiHeadAttention", inputs, dtype, domain=CONTRIB, num_heads=heads, scale=scale)


@generator("com.microsoft.PackedAttention")
def _packed_attention(b):
    _, tokens, heads, size = _sizes(b)
    dtype, width, value_size = b.some_dtype(b.floats()), b.rng.choice((4, 8)), b.rng.choice((size, size, 4))
    columns = heads * (2 * size + value_size)
    x, weights = b.finite(dtype, (tokens, width)), b.finite(dtype, (width, columns), b.rng.choice(("parameter", "initializer")))
    if dtype == "f16" and width * np.max(np.abs(x.array)) * np.max(np.abs(weights.array)) > 25:
        raise Reject("scores overflow")
    bias = b.finite(dtype, (columns,))
    _small(bias)
    sizes = [heads * size, heads * size, heads * value_size] if value_size != size else None
    inputs = [x, weights, bias, *_sequences(b, tokens)]
    b.node("PackedAttention", inputs, dtype, domain=CONTRIB, num_heads=heads, qkv_hidden_sizes=sizes, scale=b.rng.choice((None, 0.3)))


@generator("com.microsoft.GroupQueryAttention")
def _group_query_attention(b):
    batch, length, kv_heads, size = _sizes(b)
    heads = kv_heads * b.rng.choice((1, 2, 3))
    dtype = b.some_dtype(b.floats())
    past = b.rng.choice((1, 5, 9)) if b.chance(0.7) else 0
    shared = past >= length and b.chance(0.4)  # The rows are written into the past's buffer.
    total = past if shared else past + length
    ends = [b.rng.randint(length - 1, total - 1) if past else length - 1 for _ in range(batch)]
    if past and total == length:
        raise Reject("a prompt in a buffer")
    widths = [heads * size, kv_heads * size, kv_heads * size]
    if b.chance(0.3):
        inputs = [b.finite(dtype, (batch, length, sum(widths))), None, None]
    else:
        inputs = [b.finite(dtype, (batch, length, width)) for width in widths]
    inputs += [b.finite(dtype, (batch, kv_heads, past, size)) if past else None for _ in "kv"]
    _small(*inputs)
    known = b.chance(0.3)
    inputs += [_integers(b, ends, "initializer" if known else "input"), _integers(b, total, "initializer")]
    flags = {"num_heads": heads, "kv_num_heads": kv_heads, "softcap": b.rng.choice((None, None, 2.0)), "scale": b.rng.choice((None, 0.3))}
    flags["local_window_size"] = b.rng.choice((None, None, 1, 3))
    flags["smooth_softmax"] = 1 if b.chance(0.1) else None
    if b.chance(0.6):
        half = b.rng.choice((size // 2, size // 2, size // 4))
        inputs += [b.finite(dtype, (16, half)) for _ in "cs"]
        flags.update(do_rotary=1, rotary_interleaved=b.rng.choice((None, 1)))
    elif b.chance(0.3):
        inputs += [None, None]
    if len(inputs) == 9 and b.chance(0.3):
        positions = b.source(random_integers(b.rng, I64, (batch, length), 0, 15), I64, "input") if b.chance(0.4) else None
        added = b.finite(dtype, (b.rng.choice((1, batch)), b.rng.choice((1, heads)), length, total)) if b.chance(0.5) else None
        inputs += [positions, added, b.finite(dtype, (heads,)) if b.chance(0.3) and not flags["smooth_softmax"] else None]
    b.node("GroupQueryAttention", inputs, dtype, outputs=3, domain=CONTRIB, **flags)


@generator("com.microsoft.EmbedLayerNormalization")
def _embed_layer_norm(b):
    batch, length, width = b.rng.choice((1, 2)), b.rng.choice((1, 3, 5)), b.rng.choice((4, 8, 16))
    dtype = b.some_dtype(b.floats())
    ids = _integers(b, random_integers(b.rng, I32, (batch, length), 0, 8), "input")
    segments = _integers(b, random_integers(b.rng, I32, (batch, length), 0, 1), "input") if b.chance(0.6) else None
    tables = [b.finite(dtype, (rows, width), "parameter") for rows in (9, 6, 2)]
    norm = [b.finite(dtype, (width,), "parameter") for _ in "gb"]
    mask = _integers(b, random_integers(b.rng, I32, (batch, length), 0, 1), "input") if b.chance(0.4) else None
    positions = _integers(b, random_integers(b.rng, I32, (batch, length), 0, 5), "input") if b.chance(0.3) else None
    inputs = [ids, segments, tables[0], tables[1], tables[2] if segments else None, *norm, mask, positions]
    b.node("EmbedLayerNormalization", inputs, [dtype, I32, dtype], outputs=3, domain=CONTRIB, epsilon=1e-3)


@generator("com.microsoft.GroupNorm", "com.microsoft.SkipGroupNorm")
def _group_norm(b):
    dtype = b.some_dtype(b.floats())
    groups = b.rng.choice((1, 2, 3))
    batch, channels = b.rng.choice((1, 2)), groups * b.rng.choice((1, 2, 4))
    places = [b.rng.choice((1, 3, 5)) for _ in "hw"]
    is_last = b.op.endswith("SkipGroupNorm") or b.chance(0.7)
    shape = (batch, *places, channels) if is_last else (batch, channels, *places)
    x = b.finite(dtype, shape)
    inputs = [x, *(b.finite(F32, (channels,)) for _ in "gb")]
    flags = {"groups": groups, "activation": b.rng.choice((0, 1)), "epsilon": 1e-2, "channels_last": int(is_last)}
    if b.op.endswith("SkipGroupNorm"):
        inputs.append(b.finite(dtype, b.rng.choice((shape, (batch, channels), (batch, 1, 1, channels)))))
        inputs.append(b.finite(dtype, (channels,)) if b.chance(0.5) else None)
    outputs = 2 if "Skip" in b.op else 1
    b.node(b.op.split(".")[-1], inputs, dtype, outputs=outputs, domain=CONTRIB, **flags)


@generator("com.microsoft.BiasAdd", "com.microsoft.BiasSplitGelu", "com.microsoft.BiasSoftmax")
def _biased(b):
    dtype = b.some_dtype(b.floats())
    x = b.finite(dtype, (b.rng.choice((1, 2)), b.rng.choice((1, 3)), b.rng.choice((2, 8, 16))))
    op = b.op.split(".")[-1]
    if op == "BiasSoftmax":
        bias = b.finite(dtype, b.rng.choice((x.shape, (1, 1, x.shape[2]))))
        b.node(op, [x, bias], domain=CONTRIB, axis=b.rng.choice((1, 2)), is_inner_broadcast=1)
        return
    bias = b.finite(dtype, x.shape[-1:])
    b.node(op, [x, bias, b.finite(dtype, x.shape)] if op == "BiasAdd" else [x, bias], domain=CONTRIB)


@generator("com.microsoft.GemmFastGelu", "com.microsoft.FusedGemm")
def _products(b):
    dtype = b.some_dtype(b.floats())
    rows, inner, columns = (b.rng.choice((1, 3, 8)) for _ in "ric")
    inputs = [b.finite(dtype, (rows, inner)), b.finite(dtype, (inner, columns))]
    inputs.append(b.finite(dtype, (columns,)) if b.chance(0.6) else None)
    if b.op.endswith("GemmFastGelu"):
        b.node("GemmFastGelu", inputs, domain=CONTRIB)
        return
    activation = b.rng.choice((None, "Relu", "LeakyRelu", "Sigmoid", "Tanh"))
    flags = {"activation_alpha": 0.25 if activation == "LeakyRelu" else None, "alpha": b.rng.choice((None, 0.5)), "beta": b.rng.choice((None, 2.0))}
    b.node("FusedGemm", inputs, domain=CONTRIB, activation=activation, **flags)


@generator("com.microsoft.RelativePositionBias")
def _relative_position_bias(b):
    dtype = b.some_dtype(b.floats())
    table = b.finite(dtype, (b.rng.choice((8, 32)), b.rng.choice((1, 3))))
    lengths = [b.known(np.asarray(b.rng.choice((1, 5, 24)))) for _ in "qk"]
    b.node("RelativePositionBias", [table, *lengths], domain=CONTRIB, max_distance=b.rng.choice((20, 128)), is_bidirectional=b.rng.choice((0, 1)))


@generator("com.microsoft.GatedRelativePositionBias")
def _gated_relative_position_bias(b):
    batch, length, heads, size = _sizes(b)
    dtype = b.some_dtype(b.floats())
    columns = b.rng.choice((2, 6, 8))
    shapes = [(batch, length, heads * size), (heads * size,), (1, heads, length, length), (size, columns), (columns,), (1, heads, 1, 1)]
    b.node("GatedRelativePositionBias", [b.finite(dtype, shape) for shape in shapes], domain=CONTRIB, num_heads=heads)
