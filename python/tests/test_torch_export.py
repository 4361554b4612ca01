#!/usr/bin/env python3
"""kfuse.from_exported(): what torch.export made.

Usage: test_torch_export.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import unittest

import torch

from torch_support import Attention, Rows, layers


class CachedAttention(Attention):
    """One query a sequence, whose keys and values are written to caches."""

    def __init__(self):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(2, 2, 64, 16))

    def forward(self, x, position):
        q, kv = self.q(x).view(2, 1, 4, 16).transpose(1, 2), self.kv(x).view(2, 1, 4, 16).transpose(1, 2)
        self.keys.index_copy_(2, position, kv[:, :2])
        self.values.index_copy_(2, position, kv[:, 2:])
        y = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, enable_gqa=True)
        return x + self.o(y.transpose(1, 2).reshape(2, 1, 64))


class Exported(unittest.TestCase):
    """from_exported() gives the model's results, and takes a graph whole or not."""

    def test_states(self):
        import kfuse

        torch.manual_seed(0)
        model, inputs = Rows().eval(), (torch.randn(3, 1, 48), torch.tensor([2]))
        exported, parameters = kfuse.from_exported(torch.export.export(model, inputs))
        self.assertEqual([state.name for state in exported.states], ["rows"])
        program = kfuse.compile(exported, target="cpu", effort="none")
        rows = torch.zeros(3, 8, 48)
        made = program.session(program.prepare(parameters), states={"rows": rows})(*inputs)
        torch.testing.assert_close(made, model(*inputs))
        torch.testing.assert_close(rows, model.rows)

    def test_cache(self):
        """An attention writes the new rows of its caches itself, though nothing returns them."""
        import kfuse

        model = CachedAttention().bfloat16().eval()
        with torch.no_grad():
            program = torch.export.export(model, (torch.randn(2, 1, 48).bfloat16(), torch.tensor([2])))
        exported, _ = kfuse.from_exported(program)
        kernels = [kernel["ops"] for kernel in kfuse.explain(exported, "sm_90a")["kernels"]]
        self.assertTrue(any(name.endswith("state_update + state_update + attention") for name in kernels), kernels)

    def test_any_size(self):
        import kfuse

        torch.manual_seed(0)
        model, tokens = Attention().eval(), torch.export.Dim("tokens", min=2, max=24)
        program = torch.export.export(model, (torch.randn(2, 7, 48),), dynamic_shapes=({1: tokens},))
        exported, parameters = kfuse.from_exported(program)
        self.assertEqual(list(exported.dims.values()), [(2, 24)])
        compiled_model = kfuse.compile(exported, target="cpu", effort="none")
        run = compiled_model.session(compiled_model.prepare(parameters))
        with torch.no_grad():
            for size in (7, 24, 2):
                x = torch.randn(2, size, 48)
                torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
        endless = torch.export.export(model, (torch.randn(2, 7, 48),), dynamic_shapes=({1: torch.export.Dim("tokens")},))
        with self.assertRaisesRegex(kfuse.errors.BadModelError, "no largest value.*max="):
            kfuse.from_exported(endless)

    def test_refused(self):
        import kfuse

        model, x = layers(lambda x: x.cumsum(-1))
        with self.assertRaisesRegex(kfuse.errors.BadModelError, r"cumsum .*torch_support.py.*line \d+"):
            kfuse.from_exported(torch.export.export(model, (x,)))


if __name__ == "__main__":
    unittest.main()
