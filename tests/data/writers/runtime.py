"""ONNX Runtime's attention and what else its optimiser writes, against its own kernels for CPUs, or NumPy where it has
none."""
import math

import numpy as np
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from writers.cases import Cases, by_runtime
from writers.model import F32, info, model, node, noise, rng, tensor


class RuntimeCases(Cases):
    def __init__(self):
        super().__init__(domains=["com.microsoft"])

    def run(self, name, op, inputs, outputs=("y",), before=(), expected=None, *, operands, **attributes):
        nodes = [*before, node(op, inputs, list(outputs), domain="com.microsoft", **attributes)]
        if expected is None:
            expected = by_runtime(nodes, "y", [tensor(key, value) for key, value in operands.items()])
        self.add(name, nodes, expected, **operands)


def later(*names):
    """Integers that are known only when the model runs: floats are parameters."""
    return [node("Cast", [f"{name}.f"], [name], to=TensorProto.INT32) for name in names]


def numbers(values):
    return np.array(values, np.int32)


def plain_attention(q, k, v, mask=0):
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def attention():
    cases = RuntimeCases()
    add = cases.run
    # MultiHeadAttention.
    q, k, v = noise(2, 3, 16), noise(2, 5, 16), noise(2, 5, 16)
    qkv, heads = dict(q=q, k=k, v=v), dict(num_heads=4)
    multi = "MultiHeadAttention"
    add(multi, multi, ["q", "k", "v"], operands=qkv, **heads)
    add(f"{multi}_bias", multi, ["q", "k", "v", "b"], operands=dict(**qkv, b=noise(48)), scale=0.3, **heads)
    keys_mask = numbers([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
    add(f"{multi}_mask", multi, ["q", "k", "v", "", "m"], operands=dict(**qkv, m=keys_mask), **heads)
    add(f"{multi}_lengths", multi, ["q", "k", "v", "", "m"], before=later("m"), operands={**qkv, "m.f": np.float32([2, 4])}, **heads)
    add(f"{multi}_rows_mask", multi, ["q", "k", "v", "", "m"], operands=dict(**qkv, m=numbers(rng.integers(0, 2, (2, 3, 5)))), **heads)
    add(f"{multi}_attention_bias", multi, ["q", "k", "v", "", "", "a"], operands=dict(**qkv, a=noise(1, 4, 3, 5)), **heads)
    past = dict(p=noise(2, 4, 2, 4), r=noise(2, 4, 2, 4))
    square = dict(q=q, k=k[:, :3], v=v[:, :3])
    for which, outputs in (("", ("y", "key", "value")), ("_key", ("o", "y", "value"))):
        add(f"{multi}_past{which}", multi, ["q", "k", "v", "b", "", "", "p", "r"], outputs, operands=dict(**square, **past, b=noise(48)),
            unidirectional=1, **heads)
    add(f"{multi}_cross", multi, ["q", "k", "v"], operands=dict(q=q, k=noise(2, 4, 5, 4), v=noise(2, 4, 5, 4)), **heads)
    packed = noise(2, 5, 4, 3, 4)
    add(f"{multi}_packed", multi, ["q"], operands=dict(q=packed), expected=plain_attention(*(packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))),
        **heads)

    # Attention.
    x, w, b = noise(2, 3, 8), noise(8, 48), noise(48)
    merged, operands = "Attention", dict(x=x, w=w, b=b)
    add(f"{merged}_ms", merged, ["x", "w", "b"], operands=operands, **heads)
    add(f"{merged}_ms_causal", merged, ["x", "w", "b"], operands=operands, unidirectional=1, **heads)
    add(f"{merged}_ms_sizes", merged, ["x", "w", "b"], operands=dict(x=x, w=noise(8, 40), b=noise(40)), qkv_hidden_sizes=[16, 16, 8], **heads)
    masks = {"mask": numbers([[1, 1, 0], [1, 0, 0]]), "rows": numbers(rng.integers(0, 2, (2, 3, 3)))}
    for name, mask in masks.items():
        add(f"{merged}_ms_{name}", merged, ["x", "w", "b", "m"], operands=dict(**operands, m=mask), **heads)
    for name, bounds in {"ends": [2, 3], "starts": [2, 3, 0, 1]}.items():
        add(f"{merged}_ms_{name}", merged, ["x", "w", "b", "m"], before=later("m"), operands={**operands, "m.f": np.float32(bounds)}, **heads)
    for which, outputs in (("", ("y", "present")), ("_present", ("o", "y"))):
        add(f"{merged}_ms_past{which}", merged, ["x", "w", "b", "m", "p"], outputs,
            operands=dict(**operands, m=numbers([[1] * 5, [0, 1, 1, 1, 1]]), p=noise(2, 2, 4, 2, 4)), unidirectional=1, **heads)
    add(f"{merged}_ms_bias", merged, ["x", "w", "b", "m", "", "a"], operands=dict(**operands, m=masks["mask"], a=noise(2, 1, 3, 3)), **heads)
    most = rng.integers(0, 2, (2, 1, 6, 6))
    by_head = [part.reshape(2, 3, 4, 4).transpose(0, 2, 1, 3) for part in np.split(x @ w + b, 3, -1)]
    add(f"{merged}_ms_most", merged, ["x", "w", "b", "m"], operands=dict(**operands, m=numbers(most)),
        expected=plain_attention(*by_head, np.where(most[:, :, :3, :3], 0, -10000)), **heads)

    cases.write("ops_runtime_attention")


def group_query():
    """Prompts, steps, buffers that are shared; with numbers that are known and not."""
    cases = RuntimeCases()
    add = cases.run
    group, counts = "GroupQueryAttention", dict(num_heads=4, kv_num_heads=2)
    tables = dict(c=noise(16, 8), s=noise(16, 8))
    result_of = {"": ("y", "key", "value"), "_key": ("o", "y", "value"), "_value": ("o", "key", "y")}
    gqa = ["q", "k", "v", "p", "r", "n", "t", "c", "s"]

    def projected(length):
        return dict(q=noise(2, length, 64), k=noise(2, length, 32), v=noise(2, length, 32), **tables)

    def cache(rows):
        return dict(p=noise(2, 2, rows, 16), r=noise(2, 2, rows, 16))

    prompt = dict(**projected(3), n=numbers([2, 2]), t=numbers([3]))
    for flags in (dict(), dict(do_rotary=1), dict(do_rotary=1, rotary_interleaved=1), dict(softcap=0.7, scale=0.5), dict(smooth_softmax=1),
                  dict(local_window_size=2)):
        label = "_".join(f"{key}{value}" for key, value in flags.items())
        add(f"{group}_prompt_{label}", group, ["q", "k", "v", "", "", *gqa[5:]], result_of[""], operands=prompt, **flags, **counts)
    packed = dict(q=noise(2, 3, 128), n=prompt["n"], t=prompt["t"], **tables)
    add(f"{group}_packed", group, ["q", "", "", "", "", *gqa[5:]], result_of[""], operands=packed, do_rotary=1, **counts)
    for which, outputs in result_of.items():
        step = {**projected(1), **cache(4), "n.f": np.float32([4, 2]), "t": numbers([5])}
        for one in "pr":
            step[one][1, :, 2:] = 0  # Rows that do not count: ONNX Runtime leaves them open.
        add(f"{group}_step{which}", group, gqa, outputs, before=later("n"), operands=step, do_rotary=1, **counts)
        shared = {**projected(1), **cache(7), "n.f": np.float32([3, 6]), "t": numbers([7])}
        for one in "pr":
            shared[one][0, :, 3:] = 0
        add(f"{group}_shared{which}", group, gqa, outputs, before=later("n"), operands=shared, do_rotary=1, local_window_size=3, **counts)
        # ONNX Runtime takes several rows after a past for one batch element at a time.
        rows = {**projected(2), **cache(4), "n.f": np.float32([4, 3]), "t": numbers([5])}
        before, operation = later("n"), node(group, gqa, list(outputs), domain="com.microsoft", do_rotary=1, **counts)
        each = [by_runtime([*before, operation], "y", [tensor(key, value[i : i + 1] if key in "qkvpr" else value[i : i + 1] if key == "n.f" else
                                                                 numbers([n]) if key == "t" else value) for key, value in
                                                          {**rows, **{one: rows[one][:, :, : n - 2] for one in "pr"}}.items()])
                for i, n in enumerate((5, 4))]
        if which:  # The second element's fifth row is not its own.
            each[1] = np.concatenate([each[1], np.zeros((1, 2, 1, 16), np.float32)], 2)
            for one in "pr":
                rows[one][1, :, 3:] = 0
        add(f"{group}_rows{which}", group, gqa, outputs, before=before, operands=rows, do_rotary=1, expected=np.concatenate(each), **counts)
    one = {key: value[:1] if key in "qkvpr" else value for key, value in {**projected(2), **cache(3)}.items()}
    add(f"{group}_rows_later", group, gqa, result_of[""], before=later("n", "t"),
        operands={**one, "n.f": np.float32([4]), "t.f": np.float32([5])}, do_rotary=1, **counts)
    biased = {**projected(1), **cache(4), "n": numbers([4, 4]), "t": numbers([5]), "a": noise(1, 4, 1, 5), "h": noise(4)}
    add(f"{group}_bias", group, [*gqa, "", "a"], result_of[""], operands={k: v for k, v in biased.items() if k != "h"}, do_rotary=1, **counts)
    add(f"{group}_sink", group, [*gqa, "", "", "h"], result_of[""], operands={k: v for k, v in biased.items() if k != "a"}, do_rotary=1, **counts)

    cases.write("ops_group_query")


def group_norm(x, gamma, beta, groups):
    n, h, w, c = x.shape
    rows = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
    centred = rows - rows.mean((1, 3), keepdims=True)
    return (centred / np.sqrt(rows.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta


def silu(x):
    return x / (1 + np.exp(-x))


def bucket(distance, both):
    """As T5's code has it, for 8 buckets and 20 positions."""
    count, base, back = 8, 0, -distance
    if both:
        count, base, back = 4, 4 * (distance > 0), abs(distance)
    back = max(back, 0)
    if back < count // 2:
        return base + back
    return base + min(count // 2 + int(np.log(back / (count // 2)) / np.log(20 / (count // 2)) * (count - count // 2)), count - 1)


def others():
    cases = RuntimeCases()
    add = cases.run
    ids = numbers([[1, 4, 2], [0, 3, 3]])
    embedding = dict(i=ids, g=numbers([[0, 0, 1], [1, 0, 0]]), w=noise(6, 8), p=noise(5, 8), s=noise(2, 8), a=noise(8), b=noise(8))
    embed = "EmbedLayerNormalization"
    add(embed, embed, ["i", "g", "w", "p", "s", "a", "b"], ("y", "lengths"), operands=embedding, epsilon=1e-3)
    add(f"{embed}_sum", embed, ["i", "", "w", "p", "", "a", "b"], ("o", "", "y"),
        operands={key: value for key, value in embedding.items() if key not in "gs"})
    add(f"{embed}_positions", embed, ["i", "g", "w", "p", "s", "a", "b", "", "o"], ("y", "lengths"), operands=dict(**embedding, o=numbers([[2, 0, 1]])))
    image = dict(x=noise(2, 3, 5, 6), g=noise(6), b=noise(6))
    add("GroupNorm", "GroupNorm", ["x", "g", "b"], expected=group_norm(*image.values(), 3), operands=image, groups=3, activation=0)
    add("GroupNorm_silu", "GroupNorm", ["x", "g", "b"], expected=silu(group_norm(*image.values(), 2)), operands=image, groups=2, activation=1)
    first = {**image, "x": image["x"].transpose(0, 3, 1, 2)}
    add("GroupNorm_first", "GroupNorm", ["x", "g", "b"], expected=group_norm(*image.values(), 3).transpose(0, 3, 1, 2), operands=first, groups=3,
        activation=0, channels_last=0)
    skipped = dict(**image, s=noise(2, 6), o=noise(6))
    total = image["x"] + skipped["s"][:, None, None] + skipped["o"]
    add("SkipGroupNorm", "SkipGroupNorm", ["x", "g", "b", "s", "o"], expected=group_norm(total, image["g"], image["b"], 3), operands=skipped, groups=3,
        activation=0)
    add("SkipGroupNorm_sum", "SkipGroupNorm", ["x", "g", "b", "s", "o"], ("n", "y"), expected=total, operands=skipped, groups=3, activation=0)
    others = np.random.default_rng(11)
    def conv(name, *shapes, **attributes):
        operands = {key: others.uniform(-1, 1, shape).astype(np.float32) for key, shape in zip("xwb", (*shapes, shapes[1][:1]))}
        single = model([node("Conv", ["x", "w", "b"], ["y"], **attributes)], [], [info("y", F32, None)], [tensor(key, value) for key, value in operands.items()])
        last = {key: np.moveaxis(value, 1, -1) if value.ndim > 1 else value for key, value in operands.items()}
        add(f"NhwcConv_{name}", "NhwcConv", ["x", "w", "b"], expected=np.moveaxis(ReferenceEvaluator(single).run(None, {})[0], 1, -1),
            operands=last, **attributes)
    conv("image", (2, 6, 5, 4), (8, 6, 3, 2), pads=[1, 0, 1, 1], strides=[2, 1])
    conv("groups", (2, 6, 7, 4), (4, 3, 3, 3), group=2, dilations=[2, 1])
    conv("depthwise", (1, 6, 5, 4), (6, 1, 3, 3), group=6, auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    conv("line", (2, 3, 9), (5, 3, 4), pads=[2, 1])
    x, bias = noise(2, 3, 8), noise(8)
    add("BiasAdd", "BiasAdd", ["x", "b", "s"], expected=2 * x + bias, operands=dict(x=x, b=bias, s=x))
    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    erf = np.vectorize(math.erf)
    add("BiasSplitGelu", "BiasSplitGelu", ["x", "b"], expected=left * right / 2 * (1 + erf(right / np.sqrt(2))), operands=dict(x=x, b=bias))
    rows = np.exp(x + bias) / np.exp(x + bias).sum(-1, keepdims=True)
    add("BiasSoftmax", "BiasSoftmax", ["x", "b"], expected=rows, operands=dict(x=x, b=bias), axis=2, is_inner_broadcast=1)
    gemm = dict(a=noise(3, 4), b=noise(4, 5), c=noise(5))
    for activation in ("Relu", "LeakyRelu", "Tanh", "Sigmoid"):
        add(f"FusedGemm_{activation}", "FusedGemm", ["a", "b", "c"], operands=gemm, activation=activation, activation_alpha=0.2)
    product = noise(3, 8) @ (weights := noise(8, 4))
    factor = noise(3, 8)
    product = factor.astype(np.float64) @ weights
    add("GemmFastGelu", "GemmFastGelu", ["x", "w"], expected=product / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (product + 0.044715 * product**3))),
        operands=dict(x=factor, w=weights))
    table = noise(8, 3)

    for both in (0, 1):
        buckets = np.array([[bucket(key - query, both) for key in range(31)] for query in range(31)])
        expected = table.reshape(3, 8)[:, buckets][None]  # In memory it is [heads, buckets].
        add(f"RelativePositionBias_{both}", "RelativePositionBias", ["t", "q", "k"], expected=expected,
            operands=dict(t=table, q=np.int64(31), k=np.int64(31)), is_bidirectional=both, max_distance=20)
    gated = dict(q=noise(2, 3, 8), b=noise(8), r=noise(1, 2, 3, 3), w=noise(4, 6), g=noise(6), e=noise(1, 2, 1, 1))
    query = (gated["q"] + gated["b"]).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(query @ gated["w"] + gated["g"]).reshape(2, 2, 3, 2, 3).sum(-1)))
    add("GatedRelativePositionBias", "GatedRelativePositionBias", ["q", "b", "r", "w", "g", "e"],
        expected=(gates[..., :1] * (gates[..., 1:] * gated["e"] - 1) + 2) * gated["r"], operands=gated, num_heads=2)
    cases.write("ops_runtime")
