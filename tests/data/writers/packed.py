"""ONNX Runtime's attention of packed (concatenated) sequences, which it has for GPUs alone, against NumPy, one sequence after
the other."""
import numpy as np
from onnx import TensorProto

from writers.cases import Cases
from writers.model import F32, info, node, noise, write


def packed_attention():
    cases = Cases(domains=["com.microsoft"])
    starts, heads = [0, 3, 4, 9], 4
    begin = [node("Cast", ["c.f"], ["c"], to=TensorProto.INT32), node("Cast", ["o.f"], ["o"], to=TensorProto.INT32)]
    given = {"c.f": np.float32(starts), "o.f": np.zeros((3, 5), np.float32)}

    def attended(q, k, v, scale=None):
        rows = []
        for first, end in zip(starts, starts[1:]):
            one = [x[first:end].reshape(end - first, heads, -1).transpose(1, 0, 2).astype(np.float64) for x in (q, k, v)]
            scores = one[0] @ one[1].transpose(0, 2, 1) * (scale or 1 / np.sqrt(one[0].shape[-1]))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            rows.append((weights / weights.sum(-1, keepdims=True) @ one[2]).transpose(1, 0, 2).reshape(end - first, -1))
        return np.concatenate(rows)

    def add(name, op, inputs, expected, operands, **attributes):
        cases.add(name, [*begin, node(op, inputs, ["y"], domain="com.microsoft", num_heads=heads, **attributes)], expected, **operands, **given)

    multi, merged = "PackedMultiHeadAttention", "PackedAttention"
    q, k, v, b = noise(9, 16), noise(9, 16), noise(9, 24), noise(56)
    add(multi, multi, ["q", "k", "v", "", "o", "c"], attended(q, k, v), dict(q=q, k=k, v=v))
    add(f"{multi}_bias", multi, ["q", "k", "v", "b", "o", "c"], attended(q + b[:16], k + b[16:32], v + b[32:], 0.3),
        dict(q=q, k=k, v=v, b=b), scale=0.3)
    packed = noise(9, heads, 3, 4)
    add(f"{multi}_packed", multi, ["q", "", "", "", "o", "c"], attended(*(packed[:, :, i] for i in range(3))), dict(q=packed))
    x, w, b = noise(9, 8), noise(8, 40), noise(40)
    parts = np.split(x @ w + b, [16, 32], -1)
    add(merged, merged, ["x", "w", "b", "o", "c"], attended(*parts), dict(x=x, w=w, b=b), qkv_hidden_sizes=[16, 16, 8])
    w, b = noise(8, 48), noise(48)
    add(f"{merged}_even", merged, ["x", "w", "b", "o", "c"], attended(*np.split(x @ w + b, 3, -1)), dict(x=x, w=w, b=b))
    cases.write("ops_packed_attention")

    for name, inputs, shape in (("bias", ["q", "k", "v", "", "o", "c", "a"], [9, 16]), ("ranks", ["q", "k", "v", "", "o", "c"], [1, 9, 16]),
                                ("starts", ["q", "k", "v", "", "o"], [9, 16])):
        values = [info(one, F32, shape) for one in "qkv"] + [info("o", TensorProto.INT32, [3, 5]), info("c", TensorProto.INT32, [4]), info("a", F32, [3, 4, 5, 5])]
        write(f"packed_{name}", [node(multi, inputs, ["y"], domain="com.microsoft", name="attend", num_heads=heads)],
              [one for one in values if one.name in inputs], [info("y", F32, shape)], domains=["com.microsoft"])
