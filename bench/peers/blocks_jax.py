#!/usr/bin/env python3
"""Time the same model blocks as blocks_torch.py through JAX/XLA: bf16, mean of 50 back-to-back calls, median of 5.

`ms`: all calls on one set of arguments, so that small weights stay in the L2; `cold_ms`: sets in turn, 200 MB in all.
"""
import argparse, json, math, os, time
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax, jax.numpy as jnp

DT = jnp.bfloat16
_key = [jax.random.PRNGKey(0)]


def rnd(*shape, scale=1.0):
    _key[0], k = jax.random.split(_key[0])
    return jax.random.normal(k, shape, DT) * scale


def layer_norm(x, g, b):
    x = x.astype(jnp.float32)
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return ((x - m) * jax.lax.rsqrt(v + 1e-5) * g + b).astype(DT)


def rms_norm(x, g):
    x = x.astype(jnp.float32)
    return (x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g).astype(DT)


def linear_head(x, ws, bs, wo):
    for w, b in zip(ws, bs):
        x = jax.nn.relu(x @ w + b)
    return x @ wo


def stacked_heads(x, ws, bs, wo):
    x = jnp.broadcast_to(x, (5,) + x.shape)
    for w, b in zip(ws, bs):
        x = jax.nn.relu(jnp.matmul(x, w) + b)
    return jnp.matmul(x, wo)


def seqlen_head(x, ws, bs, gs, cs, wo):
    h = jnp.broadcast_to(x[:, None], (x.shape[0], 128, 1024))
    for w, b, g, c in zip(ws, bs, gs, cs):
        h = jax.nn.relu(layer_norm(h @ w + b, g, c))
    return h[:, 0] @ wo


def rope(x, cos, sin):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def llama_block(x, cos, sin, p, cache=None):
    b, s, d = x.shape
    y = rms_norm(x, p["n1"])
    q, k, v = ((y @ p[n]).reshape(b, s, -1, 128) for n in "qkv")
    q, k = rope(q, cos, sin), rope(k, cos, sin)
    if cache is None:
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
    else:
        kc = jax.lax.dynamic_update_slice(cache[0], k, (0, 4095, 0, 0))
        vc = jax.lax.dynamic_update_slice(cache[1], v, (0, 4095, 0, 0))
        a, cache = jax.nn.dot_product_attention(q, kc, vc), (kc, vc)
    x = x + a.reshape(b, s, d) @ p["o"]
    y = rms_norm(x, p["n2"])
    out = x + (jax.nn.silu(y @ p["g"]) * (y @ p["u"])) @ p["d"]
    return out if cache is None else (out, cache)


def cases():
    w = lambda *s: rnd(*s, scale=0.03)
    ws, bs, wo = [w(1024, 1024) for _ in range(20)], [rnd(1024, scale=0) for _ in range(20)], w(1024, 2)
    gs, cs = [rnd(1024) for _ in range(19)], [rnd(1024) for _ in range(19)]
    yield "LinearHead_B256", linear_head, (rnd(256, 1024), ws, bs, wo)
    yield "Stacked5_B256", stacked_heads, (rnd(256, 1024), [w(5, 1024, 1024) for _ in range(20)],
                                            [rnd(5, 1, 1024, scale=0) for _ in range(20)], w(5, 1024, 2))
    yield "SeqLen_B256", seqlen_head, (rnd(256, 1024), ws[:19], bs[:19], gs, cs, wo)
    g = rnd(4096)
    yield ("LnGelu_2048x4096", lambda x, a, b: layer_norm(jax.nn.gelu(x @ a + b), b, b), (rnd(2048, 4096), w(4096, 4096), g))
    yield ("FFN_2048x4096", lambda x, a, ba, b, bb: layer_norm(jax.nn.gelu(x @ a + ba) @ b + bb, bb, bb),
           (rnd(2048, 4096), w(4096, 16384), rnd(16384), w(16384, 4096), g))
    p = dict(n1=g, n2=g, q=w(4096, 4096), k=w(4096, 1024), v=w(4096, 1024), o=w(4096, 4096),
             g=w(4096, 14336), u=w(4096, 14336), d=w(14336, 4096))
    for s in (1024, 4096):
        yield f"LlamaBlock_prefill_S{s}", llama_block, (rnd(1, s, 4096), rnd(s, 1, 64), rnd(s, 1, 64), p)
    for b in (1, 32):
        cache = (rnd(b, 4096, 8, 128), rnd(b, 4096, 8, 128))
        yield f"LlamaBlock_decode_B{b}_kv4096", llama_block, (rnd(b, 1, 4096), rnd(1, 1, 64), rnd(1, 1, 64), p, cache)


def back_to_back(step, sets, decode):
    """Milliseconds of a call, each on the next of `sets`; a decode step gives its cache away and gets the new one."""
    def calls(n):
        for i in range(n):
            state = sets[i % len(sets)]
            r = step(*state)
            if decode:
                state[4] = r[1]
        jax.block_until_ready(r)

    calls(max(20, len(sets)))
    times = []
    for _ in range(5):
        start = time.time()
        calls(50)
        times.append((time.time() - start) / 50 * 1e3)
    return sorted(times)[2]


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--only", default="")
    ap.add_argument("--json")
    args = ap.parse_args()
    out = {}
    for name, fn, a in cases():
        if args.only not in name:
            continue
        decode = len(a) == 5 and isinstance(a[-1], tuple)
        start = time.time()
        step = jax.jit(fn, donate_argnums=(4,) if decode else ()).lower(*a).compile()
        compile_s = time.time() - start
        copies = max(2, math.ceil(200e6 / sum(x.nbytes for x in jax.tree.leaves(a))))
        sets = [list(jax.tree.map(jnp.copy, a)) for _ in range(copies)]  # Before a step gives its cache away.
        warm, cold = back_to_back(step, [list(a)], decode), back_to_back(step, sets, decode)
        out[name] = {"ms": warm, "cold_ms": cold, "compile_s": compile_s}
        print(name, {k: round(v, 4) for k, v in out[name].items()}, flush=True)
        if args.json:  # After each case: a run that is cut short has what it has.
            with open(args.json, "w") as file:
                json.dump(out, file, indent=1)


if __name__ == "__main__":
    main()
