#!/usr/bin/env python3
"""Compiling from Python on the CPU: progress, Ctrl-C, warnings, errors, plans, stores; the package's own edges.

The second within which Ctrl-C ends is 2.5 here, of the faster of two tries, for machines with other work beside; SLACK=1 tests it as
it is.
"""

import importlib.metadata
import importlib.util
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import kfuse
import numpy as np
import support

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SLACK = float(os.environ.get("SLACK", "2.5"))


def folder():
    return tempfile.TemporaryDirectory()


class Tuning(unittest.TestCase):
    def test_progress_and_plan(self):
        seen = []
        with folder() as place:
            store = pathlib.Path(place, "store.db")
            model = support.feed_forward().build()
            program = kfuse.compile(model, target="cpu", store=store, progress=seen.append)
            plan = program.plan
            self.assertEqual({row["name"] for row in kfuse.Store(store).list()}, {row["name"] for row in plan})
            self.assertTrue(kfuse.Store(store).verify()["whole"])
            self.assertGreater(len(kfuse.Store(store).export()["measurements"]), 0)
        self.assertTrue(seen and seen[-1].kernels == len(plan) and seen[-1].kernel)
        self.assertGreater(plan.to_dict()["total_us"], 0)
        self.assertEqual(plan[0]["roofline_percent"], 100 * plan[0]["bound_us"] / plan[0]["measured_us"])
        shown = program._repr_html_()
        self.assertIn("data:image/svg+xml;base64,", shown)
        self.assertNotIn("<script", shown + plan.svg)
        self.assertIn("gelu", shown)

    def test_cancelled(self):
        with folder() as place, self.assertRaises(kfuse.errors.CancelledError) as caught:
            kfuse.compile(
                support.feed_forward().build(), target="cpu", effort="full", store=f"{place}/store.db",
                progress=lambda at: False,
            )  # fmt: skip
        self.assertEqual(caught.exception.code, kfuse.ErrorCode.CANCELLED)

    def test_what_progress_throws(self):
        def throw(at):
            raise LookupError("mine")

        with folder() as place, self.assertRaisesRegex(LookupError, "mine"):
            kfuse.compile(
                support.feed_forward().build(), target="cpu", effort="full", store=f"{place}/store.db", progress=throw
            )

    def test_interrupt(self):
        """Ctrl-C ends a tuning within a second, keeps what was tuned and leaves no worker."""
        model = support.feed_forward(rows=256, width=512, hidden=1024).build()

        def seconds():
            sent = []

            def interrupt(at):
                if not sent and at.kernels_done > 0:
                    sent.append(time.perf_counter())
                    os.kill(os.getpid(), signal.SIGINT)

            with folder() as place:
                store = pathlib.Path(place, "store.db")
                with self.assertRaises(KeyboardInterrupt):
                    kfuse.compile(model, target="cpu", effort="full", store=store, progress=interrupt)
                took = time.perf_counter() - sent[0]
                self.assertTrue(kfuse.Store(store).verify()["whole"])
                self.assertGreater(len(kfuse.Store(store).list()), 0)
            print(f"Ctrl-C ended a tuning in {took:.2f} s")
            return took

        self.assertTrue(any(seconds() < SLACK for _ in range(2)))
        children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        names = [pathlib.Path(f"/proc/{child}/comm").read_text().strip() for child in children]
        self.assertNotIn("kfuse-worker", names)

    def test_warnings_are_logged(self):
        with folder() as place:
            os.chmod(place, 0o777)  # Others may write there: its machine code is not trusted.
            store = pathlib.Path(place, "store.db")
            model = support.feed_forward().build()
            kfuse.compile(model, target="cpu", effort="none", store=store, progress=False)
            os.chmod(store, 0o666)
            with self.assertLogs("kfuse", logging.WARNING) as logged:
                kfuse.compile(model, target="cpu", effort="none", store=store, progress=False)
        self.assertIn("not trusted", logged.output[0])


    def test_exit_while_tuning(self):
        """A thread that tunes when the interpreter ends is stopped."""
        code = (
            "import support, kfuse, threading, time; model = support.feed_forward(rows=256, width=512).build();"
            "tune = lambda: kfuse.compile(model, target='cpu', effort='full', store='STORE', progress=seen.append);"
            "seen = []; threading.Thread(target=tune, daemon=True).start()\nwhile not seen: time.sleep(0.05)"
        )
        with folder() as place:
            done = subprocess.run(
                [sys.executable, "-c", code.replace("STORE", f"{place}/store.db")], cwd=pathlib.Path(__file__).parent,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(kfuse.Store(f"{place}/store.db").verify()["whole"])


class AnyLength(unittest.TestCase):
    """Models of sizes that each run gives."""

    def build(self, tokens):
        return support.feed_forward(rows=tokens)

    def test_runs(self):
        model = kfuse.Model.from_graphs(self.build, {"tokens": (1, 40)})
        self.assertEqual((model.dims, model.inputs[0].dims), ({"tokens": (1, 40)}, ("tokens", "")))
        program = kfuse.compile(model, target="cpu", effort="none")
        self.assertEqual((program.dims, program.outputs[0].shape), (model.dims, (40, 64)))
        data = support.random_data(model)
        run = program.session(program.prepare({name: data[name] for name in ("up", "up_bias", "down")}))
        for tokens in (7, 1, 40, 7):
            x = data["x"][:tokens].copy()
            expected = support.run_by_command(self.build(tokens), data | {"x": x}, "--target", "cpu")
            np.testing.assert_allclose(run(x), expected["y"], rtol=1e-4, atol=1e-5)
        for x, line in (
            (np.zeros((41, 64), "float32"), "'tokens' is 41; the model is compiled for tokens=1..40"),
            (np.zeros((7, 65), "float32"), r"the shape \(7, 65\), expected \(7, 64\)"),
            (np.zeros(64, "float32"), r"the shape \(64,\), expected 2 dimensions"),
        ):
            with self.assertRaisesRegex(kfuse.errors.UsageError, line):
                run(x)
        with self.assertRaisesRegex(kfuse.errors.UsageError, r"the shape \(6, 64\), expected \(7, 64\)"):
            run(data["x"][:7].copy(), out=np.zeros((6, 64), "float32"))

    def test_two_inputs(self):
        def build(tokens):
            g = kfuse.GraphBuilder()
            g.output("y", g.add(g.input("a", "f32", [tokens, 8]), g.input("b", "f32", [tokens, 8])))
            return g

        run = kfuse.compile(kfuse.Model.from_graphs(build, {"tokens": (1, 9)}), target="cpu", effort="none").session()
        a, b = np.ones((3, 8), "float32"), np.ones((4, 8), "float32")
        np.testing.assert_array_equal(run(a, b[:3].copy()), 2 * a)
        with self.assertRaisesRegex(kfuse.errors.UsageError, r"input 'b' has the shape \(4, 8\), expected \(3, 8\)"):
            run(a, b)

    def test_refused(self):
        def fails(tokens):
            raise LookupError("no graph today")

        def flat(tokens):
            g = kfuse.GraphBuilder()
            g.output("y", g.relu(g.input("x", "f32", [2 * tokens])))
            return g

        for build, dims, line in (
            (fails, {"tokens": (1, 8)}, "no graph today"),
            (lambda tokens: tokens, {"tokens": (1, 8)}, "build returned int, expected a GraphBuilder"),
            (self.build, {"tokens": 8}, r"given as 8, expected the lowest and the highest size"),
            (self.build, {"tokens": (8, 1)}, "8..1"),
            (lambda tokens: support.feed_forward(), {"tokens": (1, 8)}, "no input has a dimension that follows 'tokens'"),
        ):
            with self.assertRaisesRegex(kfuse.Error, line):
                kfuse.Model.from_graphs(build, dims)
        program = kfuse.compile(kfuse.Model.from_graphs(flat, {"tokens": (1, 8)}), target="cpu", effort="none")
        with self.assertRaisesRegex(kfuse.errors.UsageError, r"a dimension of '2 \* tokens'"):
            program.session()

    def test_file(self):
        import onnx
        from onnx import helper

        value = lambda name, rows: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, 8])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", "rows")], [value("y", None)])
        with folder() as place:
            path = pathlib.Path(place, "relu.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
            model = kfuse.load(path, dims={"rows": (1, 9)})
            named = kfuse.load(path, dims={"tokens": (1, 9)}, axes={"x": ["tokens", "8"]})
            with self.assertRaisesRegex(kfuse.Error, "rows"):
                kfuse.load(path)
        self.assertEqual((model.inputs[0].dims, named.inputs[0].dims), (("rows", ""), ("tokens", "")))


class Errors(unittest.TestCase):
    def test_classes(self):
        for code in kfuse.ErrorCode:
            error = kfuse.errors.of_code(int(code), "one line")
            self.assertEqual((error.code, str(error)), (code, "one line"))
            self.assertIsInstance(error, kfuse.Error)

    def test_from_compile(self):
        model = support.feed_forward().build()
        with folder() as place:
            store = pathlib.Path(place, "store.db")
            for options, error, message in (
                ({"target": "sm_1"}, kfuse.errors.UsageError, "sm_1"),
                ({"effort": "much"}, ValueError, "'much' is none of none, quick, full"),
                ({"budget": -1}, ValueError, "seconds"),
                ({"require_tuned": True}, kfuse.errors.NotTunedError, "gelu"),
            ):
                with self.assertRaisesRegex(error, message):
                    kfuse.compile(model, **{"target": "cpu", "store": store, "progress": False} | options)
        with self.assertRaises(OSError):
            kfuse.load("/no/such/model.onnx")
        with self.assertRaises(kfuse.errors.UsageError):
            kfuse.explain(model, "sm_1")


class Packs(unittest.TestCase):
    def test_saved_and_loaded(self):
        """A pack gives the same bits: one without weights, which are given, and the command's, which holds them."""
        with folder() as place:
            path = pathlib.Path(place, "block.kfp")
            source = REPOSITORY / "examples/models/einsum_attention.legacy.onnx"
            model = kfuse.load(source)
            x = np.load(REPOSITORY / "examples/models/einsum_attention.npz")["x"]
            program = kfuse.compile(model, target="cpu", effort="none", store=f"{place}/store.db")
            program.save(path)
            loaded = kfuse.load_pack(path, threads=1)
            self.assertEqual((loaded.target, loaded.inputs), ("cpu", program.inputs))
            expected = program.session()(x)
            given = {desc.name: np.frombuffer(model.parameter_data(desc.name), "float32").reshape(desc.shape).copy()
                     for desc in loaded.parameters}  # fmt: skip
            np.testing.assert_array_equal(loaded.session(loaded.prepare(given))(x), expected)
            with self.assertRaisesRegex(kfuse.errors.UsageError, "the pack does not hold it"):
                loaded.session()
            command = ["kfuse", "pack", source, "-o", path, "--weights", "embed", "--target", "cpu", "--store", f"{place}/store.db"]
            subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
            np.testing.assert_array_equal(kfuse.load_pack(path).session()(x), expected)
            path.write_bytes(path.read_bytes()[:1000])
            with self.assertRaisesRegex(kfuse.errors.BadModelError, "block.kfp"):
                kfuse.load_pack(path)
            with self.assertRaises(kfuse.errors.IoError):
                kfuse.load_pack(f"{place}/none.kfp")


class Checkpoints(unittest.TestCase):
    data = REPOSITORY / "tests" / "data"

    def stored(self):
        """Tensors of f32 by their names, of one input and what ONNX Runtime computes of it."""
        file = (self.data / "llama_expected.safetensors").read_bytes()
        start = 8 + int.from_bytes(file[:8], "little")
        tensors = json.loads(file[8:start])
        return {
            name: np.frombuffer(file[start + tensor["data_offsets"][0] : start + tensor["data_offsets"][1]], "<f4")
            .reshape(tensor["shape"]).copy()
            for name, tensor in tensors.items() if name != "__metadata__"
        }  # fmt: skip

    def test_weights(self):
        """A block with GPTQ's weights, which stay codes of 4 bits, computes what ONNX Runtime does."""
        model = kfuse.load(
            self.data / "llama_block.onnx", checkpoint=self.data / "checkpoints" / "llama_gptq",
            checkpoint_prefix="model.layers.0.",
        )  # fmt: skip
        codes = {each.name: each for each in model.parameters}["self_attn.k_proj.qweight"]
        self.assertEqual(codes.type, "u4")
        self.assertEqual(len(model.parameter_data(codes.name)), codes.bytes)
        expected = self.stored()
        with folder() as place:
            program = kfuse.compile(model, target="cpu", effort="none", store=f"{place}/store.db")
        y = program.session(program.prepare())(expected["x"])
        self.assertLess(np.linalg.norm(y - expected["y"]), 1e-5 * np.linalg.norm(expected["y"]))

    def test_refused(self):
        block = self.data / "llama_block.onnx"
        with self.assertRaisesRegex(kfuse.errors.UsageError, "checkpoint"):
            kfuse.load(block, checkpoint_prefix="model.layers.0.")
        with self.assertRaisesRegex(kfuse.errors.IoError, "no folder"):
            kfuse.load(block, checkpoint=block)
        with self.assertRaises(TypeError):
            kfuse.load(block, checkpoint=7)


class Package(unittest.TestCase):
    def test_version(self):
        self.assertEqual(kfuse.__version__, importlib.metadata.version("kfuse"))

    def test_import(self):
        """Silent, and no longer than asyncio takes, of the processor; torch and jax may come before or after it."""

        def milliseconds(module):
            code = f"import time; t = time.process_time(); import {module}; print(1e3 * (time.process_time() - t))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "")
            return float(done.stdout)

        took = [(milliseconds("kfuse"), milliseconds("asyncio")) for _ in range(5)]
        own, other = (min(each) for each in zip(*took))
        print(f"import kfuse takes {own:.0f} ms, import asyncio {other:.0f} ms")
        self.assertLess(own, other)

    def test_beside_others(self):
        """Imported before and after torch, triton, jax and cupy, it compiles and runs, and they do."""
        others = [name for name in ("torch", "triton", "jax", "cupy") if importlib.util.find_spec(name)]
        if not others:
            self.skipTest("skipped: none of torch, triton, jax, cupy is installed")
        use = (
            "import kfuse, numpy as np; g = kfuse.GraphBuilder(); g.output('y', g.relu(g.input('x', 'f32', [8])));"
            "run = kfuse.compile(g.build(), target='cpu', effort='none').session();"
            "assert run(-np.ones(8, 'float32')).sum() == 0;"
        )
        if "jax" in others:
            use += "import jax; assert jax.jit(lambda x: x + 1)(jax.numpy.ones(3)).sum() == 6;"
        for order in (["kfuse", *others], [*others, "kfuse"]):
            code = "".join(f"import {name};" for name in order) + use
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_command_and_folders(self):
        command = [sys.executable, "-m", "kfuse"]
        run = lambda *words: subprocess.run([*command, *words], capture_output=True, text=True, check=True).stdout
        self.assertEqual(run("--cmake-dir").strip(), kfuse.cmake_dir())
        self.assertEqual(run("--include-dir").strip(), kfuse.include_dir())
        self.assertIn("cpu", run("targets"))

    def test_loads_what_it_writes(self):
        with folder() as place:
            path = pathlib.Path(place, "block.mlir")
            path.write_text(support.feed_forward().text())
            model = kfuse.load(path)
        self.assertEqual([desc.name for desc in model.parameters], ["up", "up_bias", "down"])
        self.assertEqual(model.inputs, support.feed_forward().build().inputs)
        self.assertIsNone(model.parameter_data("up"))


if __name__ == "__main__":
    unittest.main()
