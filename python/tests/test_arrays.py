#!/usr/bin/env python3
"""Tensors in and out on the CPU: bits, addresses, types, states, and what is refused. torch and jax where they are."""

import importlib.util
import os
import threading
import unittest

import ml_dtypes
import numpy as np

import kfuse
import support
from kfuse.errors import UsageError

has_torch = importlib.util.find_spec("torch") is not None
has_jax = importlib.util.find_spec("jax") is not None
for name, there in (("torch", has_torch), ("jax", has_jax)):
    if not there:
        print(f"skipped: arrays of {name}, which is not installed")


UNTIMED = ("--target", "cpu", "--no-benchmark")


def compile(graph):
    return kfuse.compile(graph.build(), target="cpu", effort="none", progress=False)


def on_cpu_of_jax(array):
    """On a machine with a GPU jax would put it there."""
    import jax

    return jax.device_put(array, jax.devices("cpu")[0])


def relu(type_name="f32", shape=(4, 8)):
    g = kfuse.GraphBuilder()
    g.output("y", g.relu(g.input("x", type_name, list(shape))))
    return compile(g).session()


class Bits(unittest.TestCase):
    def test_those_of_the_command(self):
        for type_name in ("f32", "f16", "bf16"):
            graph = support.feed_forward(type_name)
            data = support.random_data(graph.build())
            expected = support.run_by_command(graph, data, *UNTIMED)["y"]
            program = compile(graph)
            x = data.pop("x")
            run = program.session(program.prepare(data))
            made = run(x)
            self.assertEqual(made.dtype, support.DTYPES[type_name])
            self.assertEqual(support.bits(made), support.bits(expected))
            out = np.full_like(x, np.nan)
            self.assertIs(run(x, out=[out]), out)
            self.assertEqual(support.bits(out), support.bits(expected))
            self.assertEqual(support.bits(run(x=x, out={"y": out})), support.bits(expected))

    @unittest.skipUnless(has_torch, "no torch")
    def test_torch(self):
        import torch

        graph = support.feed_forward("bf16")
        data = support.random_data(graph.build())
        expected = support.run_by_command(graph, data, *UNTIMED)["y"]
        program = compile(graph)
        tensors = {name: torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) for name, a in data.items()}
        x = tensors.pop("x")
        parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()}
        run = program.session(program.prepare(parameters))
        out = torch.full_like(x, float("nan"))
        self.assertIs(run(x, out=[out]), out)
        made = run(x)
        self.assertIs(type(made), torch.Tensor)
        for tensor in (made, out):
            self.assertEqual(support.bits(tensor.float().numpy()), support.bits(expected))

    @unittest.skipUnless(has_jax, "no jax")
    def test_jax(self):
        import jax

        graph = support.feed_forward("bf16")
        data = support.random_data(graph.build())
        expected = support.run_by_command(graph, data, *UNTIMED)["y"]
        program = compile(graph)
        tensors = {name: on_cpu_of_jax(array) for name, array in data.items()}
        x = tensors.pop("x")
        made = program.session(program.prepare(tensors))(x)
        self.assertIsInstance(made, jax.Array)
        self.assertEqual(support.bits(np.asarray(made)), support.bits(expected))

    def test_every_type(self):
        for name, dtype in (
            ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
            ("f8E5M2", ml_dtypes.float8_e5m2),
            ("i32", np.int32),
            ("i64", np.int64),
            ("bool", np.bool_),
        ):
            g = kfuse.GraphBuilder()
            g.output("y", g.transpose(g.input("x", name, [3, 5]), [1, 0]))
            x = (np.arange(15).reshape(3, 5) % 2).astype(dtype)
            y = compile(g).session()(x)
            self.assertEqual((y.dtype, y.tobytes()), (x.dtype, x.T.tobytes()))

    @unittest.skipUnless(has_torch, "no torch")
    def test_f8_of_torch(self):
        import torch

        g = kfuse.GraphBuilder()
        g.output("y", g.transpose(g.input("x", "f8E4M3FN", [3, 5]), [1, 0]))
        x = torch.arange(15.0).reshape(3, 5).to(torch.float8_e4m3fn)
        self.assertTrue(torch.equal(compile(g).session()(x).float(), x.float().T))

    @unittest.skipUnless(has_jax, "no jax")
    def test_f8_of_jax(self):
        import jax

        for name, dtype in (("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)):
            g = kfuse.GraphBuilder()
            g.output("y", g.transpose(g.input("x", name, [3, 5]), [1, 0]))
            x = np.arange(15, dtype="f").reshape(3, 5).astype(dtype)
            y = compile(g).session()(on_cpu_of_jax(x))
            self.assertIsInstance(y, jax.Array)
            self.assertEqual((y.dtype, np.asarray(y).tobytes()), (dtype, x.T.tobytes()))

    def test_scalar(self):
        self.assertEqual(relu(shape=())(np.array(3, "float32")), 3)

    def test_read_only_inputs_are_fine(self):
        x = np.ones((4, 8), "float32")
        x.flags.writeable = False
        self.assertTrue((relu()(x) == x).all())

    def test_what_has_only_dlpack(self):
        class Other:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = np.arange(-16, 16, dtype="float32").reshape(4, 8)
        self.assertTrue((np.from_dlpack(relu()(Other(x))) == np.maximum(x, 0)).all())


class Refusals(unittest.TestCase):
    def setUp(self):
        self.run_, self.x = relu(), np.ones((4, 8), "float32")

    def refused(self, message, *args, **options):
        with self.assertRaisesRegex(UsageError, message) as caught:
            self.run_(*args, **options)
        self.assertEqual(caught.exception.code, kfuse.ErrorCode.USAGE)

    def test_tensors(self):
        x = self.x
        self.refused(r"input 'x' has the shape \(8, 4\), expected \(4, 8\)", np.ones((8, 4), "float32"))
        self.refused("input 'x' has the type f64, expected f32", x.astype("float64"))
        self.refused("input 'x' has the type bf16, expected f32", x.astype(ml_dtypes.bfloat16))
        self.refused(r"input 'x' has the strides \(1, 4\), expected a dense", np.asfortranarray(x))
        self.refused("input 'x' begins 4 bytes behind", np.zeros(4 * 8 + 8, "float32")[self.offset() :][:32].reshape(4, 8))
        self.refused("input 'x' is given as list", [[1.0]])
        self.refused("input 'x' is given as NoneType", None)

    def offset(self):
        """The elements to one that lies 4 bytes behind a multiple of 16, where arrays begin at one."""
        return 1

    def test_lists(self):
        x = self.x
        self.refused("input 'x' is not given, expected a f32 of shape 4x8")
        self.refused("got 2 inputs, expected 1", x, x)
        self.refused("'z' is no input of the program", z=x)
        self.refused("input 'x' is given twice", x, x=x)
        self.refused("out is list of 2, expected a list of 1", x, out=[x, x])
        self.refused("'k' is no state of the program", x, states={"k": x})
        self.refused("states is given as list", x, states=[x])

    def test_outputs(self):
        x = self.x
        self.refused("output 'y' overlaps input 'x'", x, out=[x])
        self.refused(r"output 'y' has the shape \(4, 4\)", x, out=[np.ones((4, 4), "float32")])
        fixed = np.ones((4, 8), "float32")
        fixed.flags.writeable = False
        self.refused("output 'y' is written in place, and the given ndarray is read-only", x, out=[fixed])

    @unittest.skipUnless(has_jax, "no jax")
    def test_immutable(self):
        self.refused("output 'y' .*arrays of jax are immutable", self.x, out=[on_cpu_of_jax(np.ones((4, 8)))])
        program = compile(support.cache())
        with self.assertRaisesRegex(UsageError, "state 'cache' .*arrays of jax are immutable"):
            run = program.session(states={"cache": on_cpu_of_jax(np.zeros((32, 16)))})
            run(np.ones((1, 16), "float32"), np.array(0, "int32"))

    def test_parameters(self):
        program = compile(support.feed_forward())
        with self.assertRaisesRegex(UsageError, "'q' is no parameter"):
            program.prepare({"q": self.x})
        with self.assertRaisesRegex(UsageError, "parameter 'up' is not given, and did not come with the model"):
            program.prepare()
        with self.assertRaisesRegex(UsageError, "weights are given as int"):
            program.session(3)
        data = support.random_data(support.feed_forward().build())
        data.pop("x")
        with self.assertRaisesRegex(UsageError, r"parameter 'down' has the shape"):
            program.prepare(data | {"down": self.x})

    def test_builder(self):
        g = kfuse.GraphBuilder()
        x = g.input("x", "f32", [4, 8])
        with self.assertRaisesRegex(UsageError, "K differs"):
            g.matmul(x, x)
        with self.assertRaisesRegex(UsageError, "type 'f33' is none of f32"):
            g.input("z", "f33", [1])


class States(unittest.TestCase):
    def test_in_place(self):
        program = compile(support.cache())
        state = np.zeros((32, 16), "float32")
        run = program.session(states={"cache": state})
        for step in range(3):
            updated, total = run(np.full((1, 16), step + 1, "float32"), np.array(step, "int32"))
            self.assertIs(updated, state)
        self.assertEqual(state.sum(), 16 * 6)
        self.assertTrue((total == 6).all())
        other = np.zeros_like(state)
        self.assertIs(run(np.ones((1, 16), "float32"), np.array(0, "int32"), states={"cache": other})[0], other)
        with self.assertRaisesRegex(UsageError, "output 'updated' is the state 'cache' after its update"):
            run(np.ones((1, 16), "float32"), np.array(0, "int32"), out=[other, None])
        with self.assertRaisesRegex(UsageError, "state 'cache' is not given"):
            program.session()(np.ones((1, 16), "float32"), np.array(0, "int32"))


class Processes(unittest.TestCase):
    def test_threads(self):
        graph = support.feed_forward()
        data = support.random_data(graph.build())
        x = data.pop("x")
        program = compile(graph)
        weights = program.prepare(data)
        expected = program.session(weights)(x)
        wrong = []

        def work():
            run = program.session(weights)
            wrong.extend(1 for _ in range(200) if not (run(x) == expected).all())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_fork(self):
        run, x = relu(), np.ones((4, 8), "float32")
        run(x)
        child = os.fork()
        if child == 0:
            try:
                run(x)
            except UsageError as error:
                os._exit(0 if "before fork()" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_weights_hold_their_tensors(self):
        graph = support.feed_forward()
        data = support.random_data(graph.build())
        x = data.pop("x")
        program = compile(graph)
        run = program.session(program.prepare(data))
        expected = run(x)
        data.clear()
        junk = [np.full((160, 64), np.nan, "float32") for _ in range(50)]
        self.assertTrue((run(x) == expected).all() and len(junk) == 50)


if __name__ == "__main__":
    unittest.main()
