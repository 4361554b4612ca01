#!/usr/bin/env python3
"""torch.compile(model, backend="kfuse") on the CPU: results, weights that change, caches, fall-backs, options.

Usage: test_torch.py REPOSITORY [unittest's arguments], where torch and transformers are; torch.sh brings them.
"""

import contextlib
import copy
import io
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch

import architectures

torch.set_num_threads(2)
SLACK = float(os.environ.get("SLACK", "5"))  # How much longer times may be, for machines with other work beside.
REPOSITORY = pathlib.Path(sys.argv.pop(1))
# What a user would never choose: every part in kfuse, however small, and without a search.
EVERY = {"effort": "none", "min_benefit_us": -1000.0, "fallback": "eager"}


def report():
    import kfuse.torch

    return kfuse.torch.report()


def compiled(model, *, dynamic=None, **options):
    """The backend by its name, as a user writes it."""
    torch._dynamo.reset()
    report().clear()
    return torch.compile(model, backend="kfuse", dynamic=dynamic, options=EVERY | options)


def error(y, reference):
    return float((y.double() - reference).norm() / reference.norm())


@contextlib.contextmanager
def warnings():
    """The lines of the logger kfuse."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("kfuse").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("kfuse").removeHandler(handler)


class Layers(torch.nn.Module):
    """Two products, and between them an op that kfuse has not."""

    def __init__(self, middle=lambda x: x):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(48, 80), torch.nn.Linear(80, 48), torch.nn.LayerNorm(48)
        self.middle = middle

    def forward(self, x):
        return self.norm(self.down(self.middle(torch.nn.functional.gelu(self.up(x)))) + x)


class Rows(torch.nn.Module):
    """Rows of a cache, written at a position."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(48, 48)
        self.register_buffer("rows", torch.zeros(3, 8, 48))

    def forward(self, x, position):
        self.rows.index_copy_(1, position, self.up(x))
        return self.rows.sum(1)


class CountedRows(Rows):
    """The same, and a counter, which is no row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, position):
        self.count.add_(1)
        return super().forward(x, position)


def layers(*args):
    torch.manual_seed(0)
    return Layers(*args).eval(), torch.randn(5, 48)


class Architectures(unittest.TestCase):
    """The error against f64 is at most 1.25 times eager's."""


def _architecture_test(name, dtype):
    def test(self):
        model, inputs = architectures.make(name, dtype)
        with torch.no_grad():
            eager = architectures.first(model(**inputs))
            ours = architectures.first(compiled(model)(**inputs))
            reference = architectures.in_f64(name, model)
        self.assertEqual((ours.dtype, ours.shape, ours.stride()), (eager.dtype, eager.shape, eager.stride()))
        self.assertLessEqual(error(ours, reference), 1.25 * error(eager, reference))
        if name == "mixtral" and torch.__version__.startswith("2.9."):
            return  # Dynamo cuts its experts into graphs of an op or two.
        self.assertFalse(any(graph.refused_whole for graph in report().graphs), report())
        share = sum(graph.flops_in_kfuse for graph in report().graphs) / sum(graph.flops for graph in report().graphs)
        self.assertGreater(share, 0.8, report())

    return test


for _name in architectures.ARCHITECTURES:
    for _type, _dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        setattr(Architectures, f"test_{_name}_{_type}", _architecture_test(_name, _dtype))


class Generation(unittest.TestCase):
    """With a static cache: eager's tokens, the cache in place, two graphs."""

    def check(self, name):
        model, inputs = architectures.make(name)
        options = {"max_new_tokens": 12, "do_sample": False, "cache_implementation": "static"}
        expected = model.generate(inputs["input_ids"][:, :7], **options)
        model.forward = compiled(model.forward)
        prompt = inputs["input_ids"][:, :7]
        tokens = model.generate(prompt, disable_compile=True, **options)
        with torch.profiler.profile(record_shapes=True) as profile:
            again = model.generate(prompt, disable_compile=True, **options)
        self.assertTrue(tokens.equal(expected) and again.equal(expected))
        self.assertEqual(len(report().graphs), 2, report())  # The prompt's, and one for all other tokens.
        self.assertEqual(report().graphs[1].reasons.total(), 2, report())  # The counters of the two layers.
        # Keys and values of two layers: the prompt's graph makes them, the other tokens' moves none of them.
        moved = [event for event in profile.events() if [2, 2, 18, 16] in event.input_shapes and "copy_" in event.name]
        self.assertEqual(len(moved), 4, moved)

    def test_llama(self):
        self.check("llama")

    def test_qwen3(self):
        self.check("qwen3")


class Weights(unittest.TestCase):
    """What changes in place is noticed."""

    def setUp(self):
        self.model, self.x = layers()
        self.ours = compiled(self.model)
        self.check()

    def check(self):
        with torch.no_grad():
            torch.testing.assert_close(self.ours(self.x), self.model(self.x), rtol=1e-5, atol=1e-5)
        self.assertEqual(len(report().graphs), 1, report())

    def test_optimizer(self):
        self.model(self.x).sum().backward()
        torch.optim.SGD(self.model.parameters(), lr=0.1).step()
        self.check()

    def test_state_dict(self):
        torch.manual_seed(7)
        self.model.load_state_dict(Layers().state_dict())
        self.check()

    def test_adapter(self):
        change = 0.1 * torch.randn(80, 48)
        before = self.model.up.weight.detach().clone()
        for sign in (1, -1):
            with torch.no_grad():
                self.model.up.weight.add_(change, alpha=sign)
            self.check()
        torch.testing.assert_close(self.model.up.weight.detach(), before)

    def test_data(self):
        self.model.up.weight.data = 2 * self.model.up.weight.detach()
        self.check()

    def test_frozen(self):
        ours = compiled(self.model, weights="frozen")
        with torch.no_grad():
            before = ours(self.x)
            self.model.norm.bias.add_(1)
            self.model.up.weight.mul_(2)
            self.assertFalse(torch.allclose(ours(self.x), self.model(self.x)))
            self.assertEqual(before.shape, self.x.shape)


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


class Fallbacks(unittest.TestCase):
    """Right results, whatever goes wrong, and one line."""

    def check(self, model, x, lines, **options):
        ours = compiled(model, **options)
        with warnings() as given, torch.no_grad():
            torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
        self.assertEqual(len(given), lines, given)
        self.assertTrue(all("\n" not in line for line in given), given)
        return given

    def test_unsupported_op(self):
        model, x = layers(lambda x: x.cumsum(-1) * 0.05)
        for fallback in ("eager", "inductor"):
            self.check(model, x, 0, fallback=fallback)
            self.assertEqual(len(report().graphs[0].parts), 2)
            self.assertIn("a cumulative sum of f32", str(report()))

    def test_part_without_inputs(self):
        model, x = layers(lambda x: x * (torch.arange(80.0) * 0.01 + 1).cumsum(0))
        for fallback in ("eager", "inductor"):
            self.check(model, x, 0, fallback=fallback)
            self.assertEqual(len(report().graphs[0].parts), 2, report())

    def test_error(self):
        model, x = layers(lambda x: x.cumsum(-1))
        with (
            self.assertRaisesRegex(Exception, r"1 ops are not for kfuse:\s+cumsum .*test_torch.py.*line \d+"),
            torch.no_grad(),
        ):
            compiled(model, fallback="error")(x)

    def test_importer(self):
        model, x = layers()
        with unittest.mock.patch("kfuse.torch.dynamo.Model", side_effect=LookupError("mine")):
            (line,) = self.check(model, x, 1)
        self.assertIn("mine", line)

    def test_compiler(self):
        import kfuse

        model, x = layers()
        with unittest.mock.patch("kfuse.compile", side_effect=kfuse.errors.NoDeviceError("no NVRTC")):
            (line,) = self.check(model, x, 1)
        self.assertIn("no NVRTC", line)

    def test_run(self):
        model, x = layers()
        for fallback in ("eager", "inductor"):
            with unittest.mock.patch("kfuse.torch.program.PartProgram.session", side_effect=MemoryError("full")):
                (line,) = self.check(model, x, 1, fallback=fallback)
            self.assertIn("full", line)

    def test_store(self):
        model, x = layers()
        self.check(model, x, 1, store="/proc/no/store.db")

    def test_training(self):
        model, x = layers()
        ours = compiled(model)
        with warnings() as given:
            ours(x).sum().backward()
            ours(x).sum().backward()
        self.assertEqual(len(given), 1, given)
        self.assertIn("inference_mode", given[0])
        gradients = [parameter.grad / 2 for parameter in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        torch.testing.assert_close(gradients, [parameter.grad for parameter in model.parameters()])

    def test_sizes(self):
        model, _ = layers()
        ours = compiled(model)
        with warnings() as given, torch.no_grad():
            for rows in (5, 6, 7):
                x = torch.randn(rows, 48)
                torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
        self.assertEqual(len(given), 1, given)
        self.assertIn("a size changes from run to run", given[0])
        self.assertIn("mark_dynamic", given[0])
        self.assertEqual(report().recompiles, 1)

    def test_views(self):
        """Inputs that are not dense, not aligned, or laid out otherwise."""
        model, _ = layers()
        ours, wide = compiled(model, dynamic=False), torch.randn(7, 97)
        with torch.no_grad():
            for x in (wide[:5, :48], wide[1:6, 1:49], torch.randn(48, 5).t(), torch.randn(241)[1:].view(5, 48)):
                torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)
        self.assertTrue(all(len(graph.parts) == 1 for graph in report().graphs), report())


class Attention(torch.nn.Module):
    """Of heads that share keys, causal, with a part of each row's positions."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = torch.nn.Linear(48, 64), torch.nn.Linear(48, 64), torch.nn.Linear(64, 48)

    def forward(self, x):
        batch, rows, _ = x.shape
        heads = lambda t, count: t.view(batch, rows, count, 16).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        y = torch.nn.functional.scaled_dot_product_attention(
            heads(self.q(x), 4), heads(k, 2), heads(v, 2), is_causal=True, enable_gqa=True
        )
        return x + self.o(y.transpose(1, 2).reshape(batch, rows, 64))


class Masks(unittest.TestCase):
    def test_expanded(self):
        """Attention whose mask is the same for all keys stays whole; rows that see nothing are zeros."""
        attend = torch.nn.functional.scaled_dot_product_attention
        query, mask = torch.randn(2, 4, 32, 16), (torch.arange(32) >= 3)[:, None].expand(2, 1, 32, 32)
        with torch.no_grad():
            ours = compiled(lambda query, mask: attend(query, query, query, attn_mask=mask))(query, mask)
            torch.testing.assert_close(ours, attend(query, query, query, attn_mask=mask))
        self.assertEqual([kernels for _, kernels in report().graphs[0].parts], [1], report())


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
        model, _ = layers(lambda x: x * (torch.arange(x.shape[0]) * 2.0 + 1).cumsum(0)[:, None])
        self.check(model, (None, 48), 0, (5, 9))
        self.assertIn("sizes that no input of the part has", str(report()))


class Settings(unittest.TestCase):
    def test_unknown(self):
        model, x = layers()
        for options, line in (
            ({"efort": "full"}, "did you mean 'effort'"),
            ({"fallback": "none"}, "inductor, eager, error"),
        ):
            with self.assertRaisesRegex(Exception, line), torch.no_grad():
                torch._dynamo.reset()
                torch.compile(model, backend="kfuse", options=options)(x)

    def test_modes(self):
        from kfuse.torch.options import Options

        self.assertEqual(Options.of(None, None).effort, "quick")
        self.assertEqual(Options.of("reduce-overhead", None).effort, "quick")
        self.assertEqual(Options.of("max-autotune", None).effort, "full")
        self.assertEqual(Options.of("max-autotune", {"effort": "none"}).effort, "none")
        with self.assertRaisesRegex(ValueError, "max-autotune"):
            Options.of("fastest", None)

    def test_lazy(self):
        """Neither the package nor the backend imports what it may not need."""
        for module, unwanted in (("kfuse", "torch"), ("kfuse.torch", "torch._inductor.compile_fx")):
            code = f"import sys, {module}; assert {unwanted!r} not in sys.modules"
            subprocess.run([sys.executable, "-c", code], check=True)


SECOND = """
from test_torch import compiled, layers, report, torch
model, x = layers()
with torch.no_grad():
    compiled(model, effort="quick", store={store!r}, require_tuned=True)(x)
(graph,) = report().graphs
print(len(graph.parts), graph.seconds)
"""


class Stored(unittest.TestCase):
    """What one process tuned another one takes from the store."""

    def test_second_process(self):
        model, x = layers()
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            store = str(pathlib.Path(folder, "store.db"))
            compiled(model, effort="quick", budget=2, store=store)(x)
            command = [sys.executable, "-c", SECOND.format(store=store), REPOSITORY]
            done = subprocess.run(command, cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=True)
        parts, seconds = done.stdout.split()
        self.assertEqual(parts, "1", done.stderr)
        self.assertLess(float(seconds), 0.3 * SLACK)


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
        self.assertIn("state_update + state_update + attention", kernels)

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
        with self.assertRaisesRegex(kfuse.errors.BadModelError, r"cumsum .*test_torch.py.*line \d+"):
            kfuse.from_exported(torch.export.export(model, (x,)))


class Shown(unittest.TestCase):
    """What the README and docs/torch.md show runs as it is."""

    def run_blocks(self, blocks):
        torch._dynamo.reset()
        report().clear()
        names = {}
        with warnings() as given, contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks:
                exec(block, names)
        self.assertEqual(given, [])
        return printed.getvalue()

    def test_readme(self):
        _, shown = documented("README.md")
        self.assertEqual(len([line for line in shown.splitlines() if line]), 5)
        self.assertIn("tensor(", self.run_blocks([shown]))
        self.assertEqual(len(report().graphs[0].parts), 1, report())

    def test_page(self):
        self.assertIn("1 parts in kfuse", self.run_blocks(documented("docs/torch.md")))


def documented(page):
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.S)


if __name__ == "__main__":
    unittest.main()
