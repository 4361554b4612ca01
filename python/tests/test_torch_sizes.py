#!/usr/bin/env python3
"""Sizes that change from run to run of torch.compile(backend="kfuse").

Usage: test_torch_sizes.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import unittest
import unittest.mock

import torch

from torch_support import Attention, compiled, layers, report, warnings


class AnySize(unittest.TestCase):
    """Sizes with a range are dimensions of kfuse: one graph, one program."""

    def check(self, model, shape, dim, sizes, lines=0, **options):
        torch.manual_seed(0)
        ours = compiled(model, **options)
        with warnings() as given, torch.no_grad():
            for size in sizes:
                x = torch.randn(*(size if one is None else one for one in shape))
                torch._dynamo.mark_dynamic(x, dim, min=2, max=max(sizes))
                torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
        self.assertEqual((len(given), len(report().graphs)), (lines, 1), (given, report()))

    def test_rows(self):
        model, _ = layers()
        self.check(model, (None, 48), 0, (5, 2, 33, 64))
        (graph,) = report().graphs
        self.assertEqual((len(graph.parts), graph.flops_in_kfuse), (1, graph.flops), report())

    def test_attention(self):
        self.check(Attention().eval(), (2, None, 48), 1, (7, 24, 2, 23))
        (graph,) = report().graphs
        self.assertEqual((len(graph.parts), graph.flops_in_kfuse), (1, graph.flops), report())

    def test_unsupported_op(self):
        model, _ = layers(lambda x: x.cumsum(-1) * 0.05)
        self.check(model, (None, 48), 0, (5, 9))
        self.assertEqual(len(report().graphs[0].parts), 2, report())

    def test_inductor(self):
        """It compiles what is left, once for all sizes."""
        from torch._inductor import compile_fx

        for model in (layers(lambda x: x.cumsum(-1) * 0.05)[0], layers(lambda x: x.cumsum(0) / x.shape[0])[0]):
            with unittest.mock.patch.object(compile_fx, "compile_fx_inner", wraps=compile_fx.compile_fx_inner) as inner:
                self.check(model, (None, 48), 0, (5, 9, 2), fallback="inductor")
            self.assertEqual((inner.call_count, len(report().graphs[0].parts)), (1, 2), report())

    def test_refused(self):
        """An input of kfuse's with a dimension that is no size alone."""
        model, _ = layers(lambda x: x)
        flat = torch.nn.Sequential(torch.nn.Flatten(0, 1), model)
        flat[0].forward = lambda x: x.view(-1, 48).cumsum(-1)
        self.check(flat, (None, 3, 48), 0, (5, 9), lines=1)
        self.assertIn("a dimension of", str(report()))
        counted = lambda x: torch.arange(x.shape[0], device=x.device)
        model, _ = layers(lambda x: x * (counted(x) * 2.0 + 1).cumsum(0)[:, None])
        self.check(model, (None, 48), 0, (5, 9))
        self.assertIn("sizes that no input of the part has", str(report()))


if __name__ == "__main__":
    unittest.main()
