#!/usr/bin/env python3
"""Parameters that change between runs of torch.compile(backend="kfuse"), and buffers that a run changes.

Usage: test_torch_state.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import copy
import unittest
import unittest.mock

import torch

from torch_support import Rows, compiled, report, warnings


class CountedRows(Rows):
    """The same, and a counter, which is no row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, position):
        self.count.add_(1)
        return super().forward(x, position)


class Gated(torch.nn.Module):
    """Two products of the same tensor, whose weights kfuse prepares as one."""

    def __init__(self):
        super().__init__()
        self.up, self.gate, self.norm = torch.nn.Linear(48, 80), torch.nn.Linear(48, 80), torch.nn.LayerNorm(80)

    def forward(self, x):
        return self.norm(self.up(x) * torch.nn.functional.silu(self.gate(x)))


class Weights(unittest.TestCase):
    """What changes in place is noticed."""

    def setUp(self):
        torch.manual_seed(0)
        self.model, self.x = Gated().eval(), torch.randn(5, 48)
        self.ours = compiled(self.model)
        self.check()

    def check(self):
        with torch.no_grad():
            torch.testing.assert_close(self.ours(self.x), self.model(self.x), rtol=1e-5, atol=1e-5)
        self.assertEqual([len(graph.parts) for graph in report().graphs], [1], report())

    def test_optimizer(self):
        self.model(self.x).sum().backward()
        torch.optim.SGD(self.model.parameters(), lr=0.1).step()
        self.check()

    def test_state_dict(self):
        torch.manual_seed(7)
        self.model.load_state_dict(Gated().state_dict())
        self.check()

    def test_adapter(self):
        change = 0.1 * torch.randn(80, 48)
        before = self.model.up.weight.detach().clone()
        for sign in (1, -1):
            with torch.no_grad():
                self.model.up.weight.add_(change, alpha=sign)
            self.check()
        torch.testing.assert_close(self.model.up.weight.detach(), before)

    def test_adapter_beside(self):
        """Added as products beside a layer, and removed: another graph each time, of the weights of now."""

        class Adapted(torch.nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer, self.a, self.b = layer, torch.nn.Linear(48, 4, bias=False), torch.nn.Linear(4, 80, bias=False)

            def forward(self, x):
                return self.layer(x) + self.b(self.a(x))

        layer = self.model.up
        for up in (Adapted(layer), layer):
            self.model.up = up
            with torch.no_grad():
                layer.weight.mul_(1.5)
                torch.testing.assert_close(self.ours(self.x), self.model(self.x), rtol=1e-5, atol=1e-5)
        self.assertTrue(all(len(graph.parts) == 1 for graph in report().graphs), report())

    def test_data(self):
        """As PEFT merges adapters and takes them out again; torch counts no change of the weight."""
        change, version = 0.1 * torch.randn(80, 48), self.model.up.weight._version
        self.model.up.weight.data += change
        self.check()
        self.model.up.weight.data -= change
        self.check()
        self.model.up.weight.data.mul_(2)
        self.check()
        self.assertEqual(self.model.up.weight._version, version)
        self.model.up.weight.data = 2 * self.model.up.weight.detach()
        self.check()

    def test_data_in_another_order(self):
        """Of a weight that kfuse takes as it lies in memory, which is not the order of its dimensions."""
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU()).eval().to(memory_format=torch.channels_last)
        ours, x = compiled(model), torch.randn(2, 8, 12, 12).to(memory_format=torch.channels_last)
        with torch.no_grad():
            for change in (0.0, 0.5):
                model[0].weight.data += change
                torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
        self.assertEqual([len(graph.parts) for graph in report().graphs][-1:], [1], report())

    def test_prepared(self):
        """A weight that nobody changed is not prepared again."""
        with unittest.mock.patch("kfuse.torch.program.PartProgram.prepare") as prepare:
            self.check()
            self.check()
        prepare.assert_not_called()

    def test_frozen(self):
        ours = compiled(self.model, weights="frozen")
        with torch.no_grad():
            ours(self.x)
            self.model.up.weight.mul_(2)
            self.assertFalse(torch.allclose(ours(self.x), self.model(self.x)))

    def test_without_versions(self):
        """Parameters made under inference_mode: torch runs what cannot be checked, kfuse what is frozen."""
        with torch.inference_mode():
            model, x = Gated().eval(), torch.randn(5, 48)
            for weights, count in (("checked", 1), ("frozen", 0)):
                with warnings() as lines:
                    torch.testing.assert_close(compiled(model, weights=weights)(x), model(x), rtol=1e-5, atol=1e-5)
                self.assertEqual(len(lines), count, lines)
                self.assertTrue(all("inference_mode" in line for line in lines), lines)


class States(unittest.TestCase):
    def check(self, fallback):
        torch.manual_seed(0)
        model = CountedRows().eval()
        expected = copy.deepcopy(model)
        address, ours = model.rows.data_ptr(), compiled(model, fallback=fallback)
        with torch.no_grad():
            for step in range(4):
                x, position = torch.randn(3, 1, 48), torch.tensor([step])
                torch.testing.assert_close(ours(x, position), expected(x, position))
        torch.testing.assert_close(model.rows, expected.rows)
        self.assertEqual((model.count, model.rows.data_ptr()), (4, address))
        self.assertEqual(dict(report().graphs[0].reasons), {"kfuse has no aten.copy_.default": 1})  # The counter.

    def test_eager(self):
        self.check("eager")

    def test_inductor(self):
        self.check("inductor")

    def test_clone(self):
        """A result that is the cache after its update, or has its elements, has memory of its own."""

        class Cloned(Rows):
            def forward(self, x, position):
                super().forward(x, position)
                return self.rows.clone(), self.rows.transpose(0, 1) * 1

        for fallback in ("eager", "inductor"):
            torch.manual_seed(0)
            model = Cloned().eval()
            expected, ours = copy.deepcopy(model), compiled(model, fallback=fallback)
            with torch.no_grad(), warnings() as lines:
                results = []
                for step in range(3):
                    x, position = torch.randn(3, 1, 48), torch.tensor([step])
                    results.append((ours(x, position), expected(x, position)))
            for made, eager in results:
                torch.testing.assert_close(made, eager)
            self.assertEqual((lines, len(report().graphs[0].parts)), ([], 1), report())


if __name__ == "__main__":
    unittest.main()
