#!/usr/bin/env python3
"""What is shown works: doctests, the README's lines and docs/python.md's, the notebook, and the stubs are the module's.

Usage: test_docs.py REPOSITORY [unittest's arguments]
"""

import ast
import contextlib
import doctest
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kfuse

REPOSITORY = pathlib.Path(sys.argv.pop(1))


def blocks(page):
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.S)


def run_cell(source, names):
    """Runs a cell, and returns what its last line is, as a notebook does."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


class Shown(unittest.TestCase):
    def setUp(self):
        os.chdir(REPOSITORY)

    def test_doctests(self):
        failed, tried = doctest.testmod(kfuse)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 5)

    def test_readme(self):
        shown, _ = blocks("README.md")  # The second is torch's: test_torch_options.py.
        self.assertEqual(len([line for line in shown.splitlines() if line]), 8)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(shown, {})
        self.assertLess(float(printed.getvalue().split()[0]), 1e-4)

    def test_page(self):
        names = {}
        for shown in blocks("docs/python.md"):
            exec(shown, names)

    def test_notebook(self):
        names = {}
        cells = json.loads(pathlib.Path("examples/python.ipynb").read_text())["cells"]
        values = [run_cell("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
        pictures = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
        self.assertEqual(len(pictures), 1)
        self.assertIn("data:image/svg+xml", pictures[0])

    def test_stubs(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "_kfuse.pyi")
            command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "kfuse._kfuse", "-p", "python/stubs.pat", "-o", made]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            kept = REPOSITORY / "python/kfuse/_kfuse.pyi"
            self.assertEqual(made.read_text(), kept.read_text(), f"write {kept} anew: {' '.join(map(str, command))}")


if __name__ == "__main__":
    unittest.main()
