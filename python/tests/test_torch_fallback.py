#!/usr/bin/env python3
"""What torch.compile(backend="kfuse") gives where something is not for kfuse, or fails.

Usage: test_torch_fallback.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import contextlib
import importlib
import inspect
import os
import pathlib
import pkgutil
import subprocess
import sys
import unittest
import unittest.mock

import torch

from torch_support import DEVICE, EVERY, compiled, layers, report, warnings


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
        model, x = layers(lambda x: x * (torch.arange(80.0, device=x.device) * 0.01 + 1).cumsum(0))
        for fallback in ("eager", "inductor"):
            self.check(model, x, 0, fallback=fallback)
            self.assertEqual(len(report().graphs[0].parts), 2, report())

    def test_devices(self):
        """Ops of a graph that are on the CPU, beside a GPU, are in no part, though nothing joins them with one."""
        counted = torch.arange(48, device="cpu")
        self.check(lambda x: (x.exp() * 2, (counted * 2 + 1).float()), torch.randn(5, 48), 0)
        self.assertEqual("tensors on cpu in a graph of cuda" in str(report()), DEVICE == "cuda", report())

    def test_devices_of_support(self):
        """The same without a GPU."""
        from kfuse.torch.partition import Support
        from kfuse.torch.sizes import Sizes

        graph, reasons = torch.fx.Graph(), {}
        with torch._subclasses.FakeTensorMode():
            for device in ("cuda:0", "cpu"):
                x = graph.placeholder(f"x_{device[:3]}")
                y = graph.call_function(torch.ops.aten.exp.default, (x,))
                x.meta["val"] = y.meta["val"] = torch.empty(5, 48, device=device)
                reasons[y] = "" if device == "cuda:0" else "tensors on cpu in a graph of cuda:0"
        self.assertEqual(Support(graph, {}, Sizes([])).reasons, reasons)

    def test_eight_bits(self):
        """A cast to 8 bits and back is for its rounding; 8 bits that were given, or are a result, are cast in kfuse."""
        eight, x = torch.float8_e4m3fn, torch.randn(5, 48)
        given = (x * 2).to(eight)
        for function, parts in (
            (lambda x: (x * 2).to(eight).view(48, 5).float() * 1.5, 2),
            (lambda x: (x * given.float() * 2).to(eight).view(torch.uint8), 1),
        ):
            self.check(function, x, 0)
            self.assertEqual(len(report().graphs[0].parts), parts, report())

    def test_error(self):
        model, x = layers(lambda x: x.cumsum(-1))
        with (
            self.assertRaisesRegex(Exception, r"1 ops are not for kfuse:\s+cumsum .*test_torch_fallback.py.*line \d+"),
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
        """A search whose results cannot be stored."""
        model, x = layers()
        (line,) = self.check(model, x, 1, effort="quick", budget=1, store="/proc/no/store.db")
        self.assertIn("in memory only", line)
        self.assertEqual(len(report().graphs[0].parts), 1, report())

    def test_unprofitable(self):
        """What is not estimated to save enough: a part, or all of a graph."""
        model, x = layers(lambda x: x.cumsum(-1) * 0.05)
        self.check(model, x, 0, min_benefit_us=1)
        self.assertEqual(len(report().graphs[0].parts), 1, report())
        self.assertIn("is estimated to save", str(report()))
        (line,) = self.check(model, x, 1, min_benefit_us=1e6)
        self.assertIn("is estimated to save", line)

    def test_untouched(self):
        """The fall-back gets the graph that Dynamo traced, whatever became of copies of it before."""
        import kfuse.torch

        def watched(module, inputs):
            before = str(module.graph)
            run = kfuse.torch.backend(module, inputs, options=EVERY | {"min_benefit_us": 1e6})
            self.assertEqual((run, str(module.graph)), (module.forward, before))
            return run

        model, x = layers()
        torch._dynamo.reset()
        with warnings() as given, torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend=watched)(x), model(x))
        self.assertEqual(len(given), 1, given)

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

    def test_copies(self):
        """Of inputs that are not aligned, beside one that lies column by column, and beside a size."""
        x, y = torch.randn(48, 5).t(), torch.randn(241)[1:].view(5, 48)
        self.check(lambda x: (x + y).exp() * 2, x, 0)
        torch._dynamo.mark_dynamic(y, 0, min=2, max=64)
        self.check(lambda y: (y.view(-1, 6, 8) + 1).exp() * y.shape[0], y, 0)
        self.assertEqual(len(report().graphs[0].parts), 1, report())


class Memory(unittest.TestCase):
    """What shares memory in eager shares it here, and nothing else does."""

    def check(self, function, *args):
        for fallback in ("eager", "inductor"):
            ours = compiled(function, fallback=fallback)
            with torch.no_grad(), warnings() as given:
                made, expected = ours(*args), function(*args)
            torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-5)
            self.assertEqual([y.stride() for y in made], [y.stride() for y in expected])
            self.assertEqual(shared(*made, *args), shared(*expected, *args))
            self.assertEqual((given, len(report().graphs[0].parts)), ([], 1), report())

    def test_views_of_outputs(self):
        def function(x):
            y = x * 2
            return y.t(), y, y.t()[1:].unsqueeze(0), y.view(-1).exp(), x.t(), x + 1

        self.check(function, torch.randn(5, 48))

    def test_views_of_one(self):
        """Of a tensor that is no output, and pieces of one that is."""

        def function(x):
            y, z = x * 2, x + 1
            return y.t(), y.view(-1), z, z.chunk(2, 1)[0]

        self.check(function, torch.randn(5, 48))

    def test_views_between(self):
        """Of a tensor that torch makes for the part."""

        def function(x):
            y = x.flip(0)
            return y, y.t(), y.t().exp(), y.t()[3:]

        self.check(function, torch.randn(5, 48))

    def check_changes(self, function, *args, dynamic=range(0)):
        """With these as the numbers of rows that all arguments may have."""
        for fallback in ("eager", "inductor"):
            ours, eager = ([x.clone() for x in args] for _ in range(2))
            for x in ours if dynamic else ():
                torch._dynamo.mark_dynamic(x, 0, min=dynamic[0], max=dynamic[-1])
            with torch.no_grad():
                torch.testing.assert_close(compiled(function, fallback=fallback)(*ours), function(*eager))
            torch.testing.assert_close(ours, eager)

    def test_copied_before_change(self):
        def function(x, y):
            before = x * 2
            y.copy_(x)
            x.add_(1)
            return (y.exp() * before,)

        self.check_changes(function, torch.randn(5, 48), torch.randn(5, 48))

    def test_piece_copied_before_change(self):
        def function(x, y):
            y.copy_(x.chunk(2, 1)[1])
            x.add_(1)
            return (y.exp() * x.chunk(2, 1)[1],)

        self.check_changes(function, torch.randn(5, 48), torch.randn(5, 24))

    def test_view_copied_before_change(self):
        """Of a size that is an operand of the view; x, the first argument, is the first to change."""

        def function(x, y):
            piece = x.view(x.shape[0], 2, 24)[:, 1]
            y.copy_(piece)
            x.add_(1)
            return (y.exp() * x[:, 24:],)

        x, y = torch.randn(5, 48), torch.randn(5, 24)
        self.check_changes(function, x, y, dynamic=range(2, 65))

    def test_swapped(self):
        def function(x, y):
            before = x.clone()
            x.copy_(y)
            y.copy_(before)
            return (x.exp() * 2,)

        self.check_changes(function, torch.randn(5, 48), torch.randn(5, 48))

    def test_transposed_in_place(self):
        def function(x, y):
            x.copy_(x.t().clone())
            return (x.exp() * y.flip(0),)

        self.check_changes(function, torch.randn(48, 48), torch.randn(48, 48))

    def test_read_before_change(self):
        """Of two arguments that share memory, which are views for the backend, made once more behind the change."""

        def change(x, y):
            before = torch.maximum(y, y * 0.5)
            x.mul_(0.5)
            return before, x.view(-1)

        for fallback in ("eager", "inductor"):
            ours, eager = torch.ones(5, 48), torch.ones(5, 48)
            with torch.no_grad():
                made = compiled(change, fallback=fallback)(ours, ours[:])
                torch.testing.assert_close(made, change(eager, eager[:]))
            torch.testing.assert_close(ours, eager)

    def test_constant(self):
        """A tensor that the graph holds, beside an op for Inductor."""
        self.check(lambda x: (x.flip(0)[torch.tensor([0, -1, 0])].exp(),), torch.randn(5, 48))


def shared(*tensors):
    return [[x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for y in tensors] for x in tensors]


WITHOUT_NVRTC = """
from torch_support import compiled, layers, torch, warnings
model, x = layers()
with torch.no_grad(), warnings() as given:
    torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-5, atol=1e-5)
print(*given, sep="\\n")
"""


@unittest.skipUnless(DEVICE == "cuda", "kernels of the CPU need no NVRTC")
class Nvrtc(unittest.TestCase):
    def test_missing(self):
        """In a process of its own, which has loaded none."""
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_NVRTC], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True,
            env=os.environ | {"KFUSE_NVRTC": "/nowhere/libnvrtc.so"},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = done.stdout.splitlines()
        self.assertIn("NVRTC", line)


# What a user calls, what guards the others and says that something went wrong, and what torch calls of a parameter.
GUARDS = (
    "backend report of begin clear __call__ run_into _guarded _guarded_copies _fail warn debug whole _patches "
    "_read _set _count"
).split()


def functions_of_the_backend():
    """All functions and methods of kfuse.torch but those."""
    import kfuse.torch

    for info in pkgutil.walk_packages(kfuse.torch.__path__, "kfuse.torch."):
        module = importlib.import_module(info.name)
        classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == info.name]
        for function in (one for owner in (module, *classes) for one in vars(owner).values()):
            if inspect.isfunction(function) and function.__module__ == info.name and not function.__closure__:
                if function.__name__ not in GUARDS:
                    yield function


@contextlib.contextmanager
def planted(function, fault=lambda *args, **options: 1 // 0):
    """An error as all that a function does, wherever it is called from."""
    code = function.__code__
    function.__code__ = fault.__code__
    try:
        yield
    finally:
        function.__code__ = code


def codes_of(run):
    """What a call runs."""
    codes = set()
    sys.setprofile(lambda frame, event, arg: codes.add(frame.f_code))
    try:
        run()
    finally:
        sys.setprofile(None)
    return codes


class Faults(unittest.TestCase):
    """An error in whichever function of the backend: right results, and a line for the graph, or for each of its parts."""

    def test_everywhere(self):
        model, x = layers(lambda x: x.cumsum(-1) * 0.05)
        with torch.no_grad():
            expected, ours = model(x), compiled(model)
            codes, planted_in = codes_of(lambda: ours(x)), 0
            for function in (one for one in functions_of_the_backend() if one.__code__ in codes):
                with self.subTest(function.__qualname__), warnings() as given:
                    ours, planted_in = compiled(model), planted_in + 1
                    with planted(function):
                        torch.testing.assert_close(ours(x), expected, rtol=1e-5, atol=1e-5)
                    self.assertTrue(1 <= len(given) <= 2, given)
        self.assertGreater(planted_in, 50)


if __name__ == "__main__":
    unittest.main()
