#!/usr/bin/env python3
"""How torch.compile(backend="kfuse") is called: options, modes, the store, and what the pages show.

Usage: test_torch_options.py [unittest's arguments], where torch is; torch.sh brings it.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

from torch_support import REPOSITORY, compiled, layers, report, warnings

SLACK = float(os.environ.get("SLACK", "5"))  # How much longer times may be, for machines with other work beside.


class Settings(unittest.TestCase):
    def test_unknown(self):
        model, x = layers()
        for given, line in (
            ({"options": {"efort": "full"}}, "did you mean 'effort'"),
            ({"options": {"fallback": "none"}}, "inductor, eager, error"),
            ({"mode": "fastest"}, "default, reduce-overhead, max-autotune"),
        ):
            with self.assertRaisesRegex(Exception, line), torch.no_grad():
                torch._dynamo.reset()
                torch.compile(model, backend="kfuse", **given)(x)

    def test_modes(self):
        from kfuse.torch.options import Options

        self.assertEqual(Options.of(None, None).effort, "quick")
        self.assertEqual(Options.of("reduce-overhead", None).effort, "quick")
        self.assertEqual(Options.of("max-autotune", None).effort, "full")
        self.assertEqual(Options.of("max-autotune", {"effort": "none"}).effort, "none")

    def test_lazy(self):
        """Neither the package nor the backend imports what it may not need."""
        code = "import sys"
        for module, unwanted in (("kfuse", "torch"), ("kfuse.torch", "torch._inductor.compile_fx")):
            code += f"; import {module}; assert {unwanted!r} not in sys.modules, {module!r}"
        subprocess.run([sys.executable, "-c", code], check=True)


SECOND = """
from torch_support import compiled, layers, report, torch
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
            command = [sys.executable, "-c", SECOND.format(store=store)]
            done = subprocess.run(command, cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=True)
        parts, seconds = done.stdout.split()
        self.assertEqual(parts, "1", done.stderr)
        self.assertLess(float(seconds), 0.3 * SLACK)


class Shown(unittest.TestCase):
    """What the README and docs/torch.md show runs as it is."""

    def run_blocks(self, blocks):
        torch._dynamo.reset()
        report().clear()
        names = {}
        with warnings() as given, contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks:
                exec(block, names)
        self.assertEqual([line for line in given if line.startswith("kfuse.torch")], [])
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
