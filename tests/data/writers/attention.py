"""Attention, and the ops that ONNX Runtime writes for what surrounds it."""
import numpy as np
from onnx import TensorProto

from writers.cases import Cases
from writers.model import info, node, noise, rng, write


def decode():
    """Attention of one token with 40 keys, whose queries are normalised: in f16, as exporters of Qwen3 write it."""
    f16 = TensorProto.FLOAT16
    nodes = [node("RMSNormalization", ["q", "w"], ["qn"], axis=-1, epsilon=1e-6),
             node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
             node("MatMul", ["qn", "kt"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
             node("MatMul", ["p", "v"], ["y"])]
    keys = [1, 1, 40, 16]
    write("decode_q_norm", nodes, [info("q", f16, [1, 1, 1, 16]), info("w", f16, [16]), info("k", f16, keys),
                                   info("v", f16, keys)], [info("y", f16, [1, 1, 1, 16])], opset=23)


def transformer():
    cases = Cases()
    q, k, v = noise(2, 4, 3, 8), noise(2, 2, 5, 8), noise(2, 2, 5, 6)
    qkv = dict(q=q, k=k, v=v)
    cases.add("Attention", [node("Attention", ["q", "k", "v"], ["y"])], **qkv)
    cases.add("Attention_softcap", [node("Attention", ["q", "k", "v"], ["y"], softcap=1.5, scale=0.7)], **qkv)
    cases.add("Attention_mask", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=noise(3, 5))
    hidden = np.ones((3, 5), bool)
    hidden[1], hidden[2, 3:] = False, False
    cases.add("Attention_hidden_row", [node("Attention", ["q", "k", "v", "m"], ["y"])], **qkv, m=hidden)
    past = dict(p=noise(2, 2, 3, 8), s=noise(2, 2, 3, 6))
    cases.add("Attention_past", [node("Attention", ["q", "k", "v", "", "p", "s"], ["y", "key", "value"], is_causal=1)], **qkv, **past)
    cases.add("Attention_present", [node("Attention", ["q", "k", "v", "", "p", "s"], ["o", "y", "value"])],
              np.concatenate([past["p"], k], axis=2), **qkv, **past)
    cases.add("Attention_packed", [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1)],
              q=noise(2, 3, 32), k=noise(2, 5, 16), v=noise(2, 5, 12))
    cos, sin, positions = noise(10, 4), noise(10, 4), rng.integers(0, 10, (2, 3))
    tables = dict(c=cos, s=sin, p=positions)
    for interleaved in (0, 1):
        flags = dict(interleaved=interleaved)
        cases.add(f"Rotary_{interleaved}", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], **flags)], x=q, **tables)
        cases.add(f"Rotary_packed_{interleaved}", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], num_heads=4, **flags)],
                  x=noise(2, 3, 32), **tables)
    cases.add("Rotary_partial", [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], rotary_embedding_dim=4)], x=q,
              c=cos[:, :2], s=sin[:, :2], p=positions)
    cases.add("Rotary_tables", [node("RotaryEmbedding", ["x", "c", "s"], ["y"])], x=q, c=noise(2, 3, 4), s=noise(2, 3, 4))
    cases.write("ops_transformer")


def microsoft():
    """ONNX Runtime's ops, against their definitions in NumPy."""
    cases = Cases(domains=["com.microsoft"])

    def ms(op, inputs, outputs=("y",), **attributes):
        return [node(op, inputs, list(outputs), domain="com.microsoft", **attributes)]

    def layer_norm(x, w, b):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b

    def rms_norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w

    def tanh_gelu(x):
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x, skip, w, b = noise(2, 3, 8), noise(2, 3, 8), noise(8), noise(8)
    everything = dict(x=x, s=skip, w=w, b=b)
    cases.add("FastGelu", ms("FastGelu", ["x", "b"]), tanh_gelu(x + b), x=x, b=b)
    cases.add("QuickGelu", ms("QuickGelu", ["x"]), x / (1 + np.exp(-1.702 * x)), x=x)
    cases.add("FusedMatMul", ms("FusedMatMul", ["x", "s"], transB=1, alpha=0.5), 0.5 * x @ skip.transpose(0, 2, 1), x=x, s=skip)
    cases.add("SkipLayerNormalization", ms("SkipLayerNormalization", ["x", "s", "w", "b"], epsilon=1e-5), layer_norm(x + skip, w, b),
              **everything)
    cases.add("SkipLayerNormalization_sum", ms("SkipLayerNormalization", ["x", "s", "w", "b"], ["n", "", "", "y"], epsilon=1e-5),
              x + skip, **everything)
    cases.add("SkipSimplifiedLayerNormalization", ms("SkipSimplifiedLayerNormalization", ["x", "s", "w"], epsilon=1e-5),
              rms_norm(x + skip, w), x=x, s=skip, w=w)
    cases.add("SimplifiedLayerNormalization", [node("SimplifiedLayerNormalization", ["x", "w"], ["y"], epsilon=1e-5)], rms_norm(x, w),
              x=x, w=w)
    cos, sin = noise(6, 4), noise(6, 4)
    first, second = x[..., :4], x[..., 4:]
    c, s = cos[None, 2:5], sin[None, 2:5]
    turned = np.concatenate([first * c - second * s, second * c + first * s], -1)
    cases.add("RotaryEmbedding", ms("RotaryEmbedding", ["x", "p", "c", "s"]), turned, x=x, p=np.array([2]), c=cos, s=sin)
    cases.write("ops_microsoft")
