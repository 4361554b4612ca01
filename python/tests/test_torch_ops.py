#!/usr/bin/env python3
"""Rows of the torch backend's tables against eager: values, types, strides; each group is one graph, in kfuse alone.

Usage: test_torch_ops.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import unittest

import torch
import torch.nn.functional as F

from torch_support import DEVICE, compiled, report, warnings

X, I = torch.randn(5, 48, generator=torch.Generator(DEVICE).manual_seed(0)), torch.arange(10)
MIXED = [X] if DEVICE == "cpu" else []  # Beside halves: norms of torch take them there alone.
HALF, ONE = X.bfloat16(), torch.tensor(0.3).half()
Q, K, V = (torch.randn(2, 4, 6, 16, generator=torch.Generator(DEVICE).manual_seed(seed)) for seed in range(3))
SEEN = torch.rand(2, 1, 6, 6, generator=torch.Generator(DEVICE).manual_seed(3)) > 0.5
SEEN[:, :, 2], SEEN[0, :, 0] = False, False  # Rows that see nothing.
ADDED = torch.zeros(2, 1, 6, 6).masked_fill(~SEEN, float("-inf"))
BROKEN = Q.masked_fill(torch.arange(6)[:, None] == 4, float("nan"))  # A row whose scores are no numbers.
ROWS_FIRST = Q.transpose(1, 2).contiguous().transpose(1, 2)
attend = F.scaled_dot_product_attention

GROUPS = {
    "attention": lambda: (
        attend(Q, K, V), attend(Q, K, V, is_causal=True), attend(Q[:, :, :4], K, V, is_causal=True),
        attend(Q, K[:, :2], V[:, :2], enable_gqa=True), attend(Q, K, V, scale=0.3), attend(Q[0], K[0], V[0]),
    ),
    "masked_attention": lambda: (
        attend(Q, K, V, attn_mask=SEEN), attend(Q, K, V, attn_mask=ADDED),
        attend(Q, K[:, :2], V[:, :2], attn_mask=ADDED, enable_gqa=True), attend(Q, K, V, attn_mask=ADDED[0, 0]),
        attend(BROKEN, K, V, attn_mask=SEEN), attend(BROKEN, K, V, attn_mask=ADDED),
    ),
    "safe_softmax": lambda: (
        torch.ops.aten._safe_softmax(ADDED + 1, -1), torch.ops.aten._safe_softmax(BROKEN + ADDED[..., :1], -2),
        *[attend(query, K, V, attn_mask=SEEN.expand(2, 4, 6, 6).transpose(-1, -2)) for query in (Q, ROWS_FIRST)],
    ),
    "norms": lambda: (
        *[F.layer_norm(HALF, (48,), x[0], x[1]) for x in MIXED],
        F.layer_norm(HALF, (48,), HALF[0], HALF[1]), F.rms_norm(HALF * 1e-4, (48,)),
        F.rms_norm(X[None], (5, 48), X, 1e-6), F.layer_norm(X[None], (5, 48), X), X.softmax(0), X.log_softmax(1),
        HALF.softmax(-1, dtype=torch.float32),
    ),
    "reductions": lambda: (
        X.sum(), X.mean(0), X.amax(1, keepdim=True), X.amin(), X.var(1), X.std(0), X.var(1, unbiased=False),
        (X > 0).sum(1), (X > 5).any(), (X > -9).all(1), X.norm(dim=1), X.logsumexp(1), I.sum(),
        (X[0, 0] * 2).sum(0), (X[0, 0] * 3).mean(-1),
    ),
    "cumulative": lambda: (
        I.cumsum(0), (X > 0).cumsum(-1), (X > 0).cumsum(0), (X > 0).view(5, 6, 8).cumsum(1) - 1, (I * 2**40).cumsum(0),
        I.int().cumsum(0, dtype=torch.int32), I[:1].cumsum(0), I[3].cumsum(0),
    ),
    "integers": lambda: (
        I + 9007199254740993, I * 2**40, I // 3, I % 3, (I - 5) // 3, (I - 5) % 3, I / 3, I > 2.5, -I, I**2,
        torch.div(I - 5, 3, rounding_mode="trunc"),
    ),
    "halves": lambda: (
        HALF * 0.1, HALF + 0.3, HALF / 3, HALF**2, HALF.abs() ** 0.5, HALF.abs() ** 1.5, 1 - HALF, 2 / HALF,
        HALF.clamp(-0.3, 0.7), HALF[:, :10] * I,
        torch.where(ONE > 0, ONE, torch.zeros_like(ONE)), torch.where(ONE < 0, ONE, torch.zeros_like(ONE)),
    ),
    "activations": lambda: (
        F.gelu(X), F.gelu(X, approximate="tanh"), F.silu(X), F.relu6(X), F.leaky_relu(X), F.elu(X), F.softplus(X),
        F.hardswish(X), F.mish(X), F.sigmoid(X), F.celu(X), F.hardsigmoid(X), F.selu(X), F.softsign(X), F.tanhshrink(X),
    ),
    "logic": lambda: (
        (X > 0) & (X < 1), (X > 0) | (X < -1), ~(X > 0), torch.logical_xor(X > 0, X > 1), X.isnan(), (X / 0).isinf(),
        (X > 0) == (X > 1), torch.where(X > 0, X, 0.5), X.masked_fill(X > 0, -1e9), X.tril(), X.maximum(X * 2),
    ),
    "rounding": lambda: (
        torch.fmod(X, 0.3), torch.remainder(X, 0.3), torch.div(X, 0.3, rounding_mode="floor"),
        torch.div(X, 0.3, rounding_mode="trunc"), X.trunc(), X.ceil(), X.frac(), X.floor(), X.round(),
    ),
    "not_finite": lambda: (
        X.log(), X.sqrt(), X / 0, (X / 0).amax(1), (X * 0).log().softmax(-1), X // 0, I.isinf(), X // float("inf"), X // -float("inf"),
    ),
    "types": lambda: (
        X.to(torch.bfloat16), HALF.float(), I.float(), X.long(), X.bool(), (X > 0).float(), X.int(), I.int(),
        I.to(torch.float16),
    ),
    "layout": lambda: (
        X.repeat(2, 3), F.pad(X, (1, 2, 3, 0), value=0.5), torch.stack([X, X + 1], 1), X[1:4:2, ::3] + 1, X.roll(2, 1),
        X.expand(3, 5, 48) * 1.5, torch.cat([X, HALF], 0), F.pad(X, (-1, -2)) * 2, X.unbind(0)[2].exp(),
        X.chunk(3, 1)[1].exp(), (X * 2).view(5, 6, 8).permute(2, 0, 1), X.t().contiguous().relu(), X.clone(),
    ),
    "indices": lambda: (
        X[I % 5], X[:, I], X[I % 5, I], X.index_select(1, I), torch.gather(X, 1, (I % 5)[:, None].expand(10, 48)[:5] * 3),
        F.embedding(I % 5, X), X[-1 - (I % 5)],
    ),
    "products": lambda: (
        X @ X.t(), torch.addmm(X[:, :5], X, X.t(), beta=0.5, alpha=2), torch.einsum("ij,kj->ik", X, X), X @ X[0],
        torch.baddbmm(X[None, :, :5], X[None], X.t()[None]), F.linear(X, X, X[:, 0]),
        F.conv2d(X.view(1, 3, 8, 10)[..., :8], X.view(5, 3, 4, 4), X[:, 0], stride=4),
        F.conv1d(X.view(1, 3, 80), X[:2, :12].reshape(2, 3, 4), stride=4),
    ),
    "factories": lambda: (
        torch.zeros_like(X) + 1, torch.ones(3, 4), torch.full((2,), 7), torch.arange(3, 30, 4), X.new_zeros(2, 2),
        torch.arange(4.0),
    ),
}  # fmt: skip


class Ops(unittest.TestCase):
    def check(self, function):
        with torch.no_grad():
            expected = function()
            made = compiled(function)()
        for i, (ours, eager) in enumerate(zip(made, expected, strict=True)):
            with self.subTest(result=i):
                self.assertEqual(ours.stride(), eager.stride())
                close = {"rtol": 1e-2, "atol": 1e-2} if eager.dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
                torch.testing.assert_close(ours, eager, equal_nan=True, **close)
        (graph,) = report().graphs
        views = {"a view that is no dense tensor, made by torch"}
        self.assertTrue(len(graph.parts) >= 1 and set(graph.reasons) <= views, graph)


class Attention(unittest.TestCase):
    def test_results(self):
        """Of attention as it is on a GPU, with results that are no tensors or have no elements, the first is taken."""
        import operator

        from kfuse.torch.cost import flops_of
        from kfuse.torch.importer import reason_against

        graph = torch.fx.Graph()
        query, key, value = (graph.placeholder(name) for name in ("query", "key", "value"))
        query.meta["val"] = torch.empty(1, 8, 6, 16)
        key.meta["val"] = value.meta["val"] = torch.empty(1, 2, 6, 16)
        flash = torch.ops.aten._scaled_dot_product_flash_attention.default
        call = graph.call_function(flash, (query, key, value, 0.0, True, False), {"scale": 0.25})
        call.meta["val"] = (
            Q.new_empty(1, 8, 6, 16),
            Q.new_empty(1, 8, 6),
            None,
            None,
            6,
            6,
            I[:2],
            I[0],
            Q.new_empty(0),
        )
        first, last = (graph.call_function(operator.getitem, (call, i)) for i in (0, 8))
        first.meta["val"], last.meta["val"] = call.meta["val"][0], call.meta["val"][8]
        self.assertEqual([reason_against(node) for node in (call, first)], ["", ""])
        self.assertNotEqual(reason_against(last), "")
        self.assertEqual(flops_of(call), 4 * 8 * 6 * 6 * 16)


class Masks(unittest.TestCase):
    def test_expanded(self):
        """Attention whose mask is the same for all keys stays whole; rows that see nothing are zeros."""
        query, mask = torch.randn(2, 4, 32, 16), (torch.arange(32) >= 3)[:, None].expand(2, 1, 32, 32)
        with torch.no_grad():
            ours = compiled(lambda query, mask: attend(query, query, query, attn_mask=mask))(query, mask)
            torch.testing.assert_close(ours, attend(query, query, query, attn_mask=mask))
        self.assertEqual([kernels for _, kernels in report().graphs[0].parts], [1], report())

    def test_one_number(self):
        """A mask without dimensions, the same for all scores."""
        query, mask = torch.randn(4, 32, 16), torch.tensor(0.5)
        with torch.no_grad(), warnings() as given:
            ours = compiled(lambda query, mask: attend(query, query, query, attn_mask=mask))(query, mask)
            torch.testing.assert_close(ours, attend(query, query, query, attn_mask=mask))
        self.assertEqual((given, len(report().graphs[0].parts)), ([], 1), report())


for _name, _function in GROUPS.items():
    setattr(Ops, f"test_{_name}", lambda self, function=_function: self.check(function))


if __name__ == "__main__":
    unittest.main()
