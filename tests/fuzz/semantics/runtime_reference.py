"""What ONNX Runtime's attention ops and what else its transformer optimiser writes compute, in NumPy."""

import math

import numpy as np

from .reference import CONTRIB, Windows, at, convolve, gelu, gelu_tanh, matmul, own


def softmax(x):
    largest = np.max(x, axis=-1, keepdims=True)
    powers = np.exp(x - largest)
    return powers / np.sum(powers, axis=-1, keepdims=True)


def by_head(x, heads):
    return x if x.ndim == 4 else np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


def by_token(x):
    return np.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


def attend(q, k, v, between, scale, bias=0, softcap=0, sink=None):
    q, k, v = (between.stored(one) for one in (q, k, v))
    k, v = (np.repeat(one, q.shape[1] // one.shape[1], axis=1) for one in (k, v))
    scores = between.stored(np.einsum("bhqd,bhkd->bhqk", q, k) * (scale or 1 / math.sqrt(q.shape[-1])))
    if softcap:
        scores = between.stored(softcap * np.tanh(scores / softcap))
    scores = between.stored(scores + bias)
    if sink is not None:
        column = np.broadcast_to(sink.reshape(1, -1, 1, 1), (*scores.shape[:3], 1))
        return by_token(matmul(between.stored(softmax(np.concatenate([scores, column], -1)))[..., :-1], v))
    return by_token(matmul(between.stored(softmax(scores)), v))


def mask_bias(mask, batch, rows, keys, attributes):
    hidden = attributes.get("mask_filter_value", -10000.0)
    if mask.ndim == 1:
        column = np.arange(keys)
        counts = column < mask[:batch, None]
        if len(mask) == 2 * batch:
            counts &= column >= mask[batch:, None]
        mask = counts
    if mask.ndim == 4:
        mask = mask[:, 0, keys - rows : keys, :keys]
    mask = mask[:, None, None] if mask.ndim == 2 else mask[:, None]
    return np.where(mask, 0, hidden)


def causal(rows, keys):
    return np.where(np.arange(keys) <= np.arange(rows)[:, None] + keys - rows, 0, -np.inf)


def biases(q, k, mask, bias, attributes):
    rows, keys = q.shape[2], k.shape[2]
    total = 0 if bias is None else bias
    if mask is not None:
        total = total + mask_bias(mask, q.shape[0], rows, keys, attributes)
    return total + causal(rows, keys) if attributes.get("unidirectional") else total


@own("com.microsoft.MultiHeadAttention", CONTRIB)
def _multi_head_attention(arrays, attributes, between):
    heads = attributes["num_heads"]
    q, k, v, bias, mask, added, past_k, past_v = (at(arrays, i) for i in range(8))
    if q.ndim == 5:
        q, k, v = (np.swapaxes(q[:, :, :, i], 1, 2) for i in range(3))
    else:
        width = q.shape[2]
        shares = [0, 0, 0] if bias is None else [bias[:width], bias[width : 2 * width], bias[2 * width :]]
        q = q + shares[0]
        k, v = (one if one.ndim == 4 else one + share for one, share in zip((k, v), shares[1:]))
        q, k, v = (by_head(one, heads) for one in (q, k, v))
    if past_k is not None:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    return [attend(q, k, v, between, attributes.get("scale"), biases(q, k, mask, added, attributes)), k, v]


@own("com.microsoft.Attention", CONTRIB)
def _attention(arrays, attributes, between):
    x, weights, bias, mask, past, added = (at(arrays, i) for i in range(6))
    product = matmul(x, weights) + (0 if bias is None else bias)
    sizes = attributes.get("qkv_hidden_sizes", [product.shape[-1] // 3] * 3)
    q, k, v = (by_head(one, attributes["num_heads"]) for one in np.split(product, np.cumsum(sizes)[:2], -1))
    if past is not None:
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    present = np.stack([k, v]) if k.shape == v.shape else None
    return [attend(q, k, v, between, attributes.get("scale"), biases(q, k, mask, added, attributes)), present]


def attend_packed(q, k, v, starts, between, scale):
    """Of tokens [1, heads, T, D] that sequences share, each attends to its own sequence's."""
    number = np.searchsorted(starts, np.arange(q.shape[2]), side="right")
    apart = np.where(number[:, None] == number, 0, -np.inf)
    return [attend(q, k, v, between, scale, apart)[0]]


@own("com.microsoft.PackedMultiHeadAttention", CONTRIB)
def _packed_multi_head_attention(arrays, attributes, between):
    q, k, v, bias, _, starts = (at(arrays, i) for i in range(6))
    if q.ndim == 4:
        q, k, v = (np.swapaxes(q[None, :, :, i], 1, 2) for i in range(3))
    else:
        if bias is not None:
            shares = np.split(bias, [q.shape[1], q.shape[1] + k.shape[1]])
            q, k, v = (one + share for one, share in zip((q, k, v), shares))
        q, k, v = (by_head(one[None], attributes["num_heads"]) for one in (q, k, v))
    return attend_packed(q, k, v, starts, between, attributes.get("scale"))


@own("com.microsoft.PackedAttention", CONTRIB)
def _packed_attention(arrays, attributes, between):
    x, weights, bias, _, starts = (at(arrays, i) for i in range(5))
    product = (matmul(x, weights) + bias)[None]
    sizes = attributes.get("qkv_hidden_sizes", [product.shape[-1] // 3] * 3)
    q, k, v = (by_head(one, attributes["num_heads"]) for one in np.split(product, np.cumsum(sizes)[:2], -1))
    return attend_packed(q, k, v, starts, between, attributes.get("scale"))


def rotate(x, positions, cos, sin, interleaved):
    """Rotary embedding of x [B, heads, S, D] at positions [B, S]."""
    half = cos.shape[1]
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    head, rest = x[..., : 2 * half], x[..., 2 * half :]
    first, second = (head[..., 0::2], head[..., 1::2]) if interleaved else (head[..., :half], head[..., half:])
    turned = [first * cos - second * sin, first * sin + second * cos]
    turned = np.stack(turned, -1).reshape(head.shape) if interleaved else np.concatenate(turned, -1)
    return np.concatenate([turned, rest], -1)


@own("com.microsoft.GroupQueryAttention", CONTRIB)
def _group_query_attention(arrays, attributes, between):
    q, k, v, past_k, past_v, ends, total, cos, sin, positions, added, sink = (at(arrays, i) for i in range(12))
    heads, kv_heads = attributes["num_heads"], attributes["kv_num_heads"]
    if k is None:
        size = q.shape[2] // (heads + 2 * kv_heads)
        q, k, v = np.split(q, [heads * size, (heads + kv_heads) * size], -1)
    q, k, v = by_head(q, heads), by_head(k, kv_heads), by_head(v, kv_heads)
    batch, _, length, _ = q.shape
    total = int(np.reshape(total, ()))
    isnt_first = past_k is not None and total != length
    used = np.reshape(ends, -1).astype(np.int64) + 1 - length if isnt_first else np.zeros(batch, np.int64)
    rows = used[:, None] + np.arange(length)
    if attributes.get("do_rotary"):
        at_rows = rows if positions is None else positions
        q, k = (rotate(one, at_rows, cos, sin, attributes.get("rotary_interleaved")) for one in (q, k))

    def cached(past, fresh):
        result = np.zeros((*fresh.shape[:2], max(total, 0 if past is None else past.shape[2]), fresh.shape[3]), fresh.dtype)
        if past is not None:
            result[:, :, : past.shape[2]] = past
        for i in range(batch):
            result[i, :, rows[i]] = np.swapaxes(fresh[i], 0, 1)
        return result

    k, v = cached(past_k, k), cached(past_v, v)
    column = np.arange(k.shape[2])
    hidden = column > rows[:, None, :, None]
    if (window := attributes.get("local_window_size", -1)) > 0:
        hidden |= column <= rows[:, None, :, None] - window
    bias = np.where(hidden, -np.inf, 0)
    if added is not None:
        bias = bias + added
    if attributes.get("smooth_softmax"):
        sink = np.zeros(heads)
    # What is hidden is not looked at, whatever it holds.
    seen = ~np.all(hidden, axis=2)[:, 0, :, None]
    keys, values = (np.where(seen[:, None], one, 0) for one in (k, v))
    return [attend(q, keys, values, between, attributes.get("scale"), bias, attributes.get("softcap", 0), sink), k, v]


def layer_norm(x, gamma, beta, epsilon):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + epsilon) * gamma + beta


@own("com.microsoft.EmbedLayerNormalization", CONTRIB)
def _embed_layer_norm(arrays, attributes):
    ids, segments, words, places, kinds, gamma, beta, mask, positions = (at(arrays, i) for i in range(9))
    total = words[ids] + (places[: ids.shape[1]] if positions is None else places[positions])
    if segments is not None:
        total = total + kinds[segments]
    lengths = np.zeros(ids.shape[0], np.int32) if mask is None else np.sum(mask, axis=1).astype(np.int32)
    return [layer_norm(total, gamma, beta, attributes.get("epsilon", 1e-12)), lengths, total]


def group_norm(x, gamma, beta, attributes, between):
    is_last = attributes.get("channels_last", 1)
    x = x if is_last else np.moveaxis(x, 1, -1)
    groups = attributes["groups"]
    rows = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    # The mean is rounded: an error of all of a group at once.
    mean, largest = rows.mean((1, 3), keepdims=True), np.max(np.abs(rows), (1, 3), keepdims=True)
    centred = rows - (mean + (between.stored(largest) - largest))
    variance = np.mean(centred * centred, (1, 3), keepdims=True)
    y = (centred / np.sqrt(variance + attributes.get("epsilon", 1e-5))).reshape(x.shape) * gamma + beta
    if attributes.get("activation"):
        y = y / (1 + np.exp(-y))
    return y if is_last else np.moveaxis(y, -1, 1)


@own("com.microsoft.GroupNorm", CONTRIB)
def _group_norm(arrays, attributes, between):
    return [group_norm(*arrays, attributes, between)]


@own("com.microsoft.SkipGroupNorm", CONTRIB)
def _skip_group_norm(arrays, attributes, between):
    x, gamma, beta, skip, bias = (at(arrays, i) for i in range(5))
    total = x + (skip[:, None, None] if skip.ndim == 2 else skip) + (0 if bias is None else bias)
    total = between.stored(total)
    return [group_norm(total, gamma, beta, attributes, between), total]


@own("com.microsoft.NhwcConv", CONTRIB)
def _conv_channels_last(arrays, attributes):
    x, weights = (np.moveaxis(one, -1, 1) for one in arrays[:2])
    windows = Windows(x.shape[2:], weights.shape[2:], attributes)
    y = convolve(x, weights, at(arrays, 2), attributes.get("group", 1), windows)
    return [np.moveaxis(y, 1, -1)]


@own("com.microsoft.BiasAdd", CONTRIB)
def _bias_add(arrays, attributes):
    return [arrays[0] + arrays[1] + arrays[2]]


@own("com.microsoft.BiasSplitGelu", CONTRIB)
def _bias_split_gelu(arrays, attributes):
    left, right = np.split(arrays[0] + arrays[1], 2, -1)
    return [left * gelu(right)]


@own("com.microsoft.BiasSoftmax", CONTRIB)
def _bias_softmax(arrays, attributes):
    total = arrays[0] + arrays[1]
    axis = attributes.get("axis", 1) % total.ndim
    return [softmax(total.reshape(*total.shape[:axis], -1)).reshape(total.shape)]


@own("com.microsoft.GemmFastGelu", CONTRIB)
def _gemm_fast_gelu(arrays, attributes):
    bias = at(arrays, 2)
    return [gelu_tanh(matmul(arrays[0], arrays[1]) + (0 if bias is None else bias))]


@own("com.microsoft.FusedGemm", CONTRIB)
def _fused_gemm(arrays, attributes):
    a, b = (one.T if attributes.get(flag) else one for one, flag in zip(arrays, ("transA", "transB")))
    product = attributes.get("alpha", 1.0) * matmul(a, b)
    if at(arrays, 2) is not None and attributes.get("beta", 1.0) != 0:
        product = product + attributes.get("beta", 1.0) * arrays[2]
    activation = attributes.get("activation", b"").decode() if isinstance(attributes.get("activation", b""), bytes) else attributes["activation"]
    functions = {
        "": lambda x: x,
        "Relu": lambda x: np.maximum(x, 0),
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Tanh": np.tanh,
        "LeakyRelu": lambda x: np.where(x > 0, x, attributes.get("activation_alpha", 0.01) * x),
    }
    return [functions[activation](product)]


def bucket(distance, is_bidirectional, buckets, farthest):
    """T5's, of a key so far behind a query."""
    base, back = 0, -distance
    if is_bidirectional:
        buckets //= 2
        base, back = (buckets if back < 0 else 0), abs(back)
    back, exact = max(back, 0), buckets // 2
    if back < exact:
        return base + back
    part = np.log(np.float32(back) / np.float32(exact)) / np.log(np.float32(farthest) / np.float32(exact))
    return base + min(exact + int(part * np.float32(buckets - exact)), buckets - 1)


@own("com.microsoft.RelativePositionBias", CONTRIB)
def _relative_position_bias(arrays, attributes):
    table, queries, keys = arrays
    count, heads = table.shape
    which = [
        [bucket(key - query, attributes.get("is_bidirectional"), count, attributes["max_distance"]) for key in range(int(np.reshape(keys, ())))]
        for query in range(int(np.reshape(queries, ())))
    ]
    return [table.reshape(heads, count)[:, np.array(which)][None]]


@own("com.microsoft.GatedRelativePositionBias", CONTRIB)
def _gated_relative_position_bias(arrays, attributes):
    query, query_bias, relative, weight, bias, eco = arrays
    gates = matmul(by_head(query + query_bias, attributes["num_heads"]), weight) + bias
    gates = 1 / (1 + np.exp(-gates.reshape(*gates.shape[:3], 2, -1).sum(-1)))
    return [(gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * relative]
