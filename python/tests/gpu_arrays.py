#!/usr/bin/env python3
"""On a GPU, with torch, jax and cupy where they are installed: results are those of `kfuse run`, at the addresses given;
streams, stream capture, states and errors. Usage: gpu_arrays.py; the package is found by PYTHONPATH."""

import importlib.util
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import unittest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import ml_dtypes
import numpy as np

import kfuse
import support

torch = __import__("torch")
has_jax = importlib.util.find_spec("jax") is not None
has_cupy = importlib.util.find_spec("cupy") is not None
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

LOW_BIT = {"bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def on_gpu(array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


class Block:
    """A compiled feed-forward block with its weights on the GPU."""

    def __init__(self, type_name="bf16", **sizes):
        self.graph = support.feed_forward(type_name, **sizes)
        self.model = self.graph.build()
        self.data = support.random_data(self.model)
        self.program = kfuse.compile(self.model, progress=False)
        self.tensors = {name: on_gpu(array) for name, array in self.data.items()}
        self.x = self.tensors.pop("x")
        self.weights = self.program.prepare(self.tensors)
        self.run = self.program.session(self.weights)


class Bits(unittest.TestCase):
    """The same block through each framework gives the bits of `kfuse run`, without copies."""

    def setUp(self):
        self.block = Block("bf16")
        self.expected = support.run_by_command(self.block.graph, self.block.data)["y"]

    def check(self, given, to_host):
        run = self.block.run
        made = run(given)
        self.assertEqual(type(made), type(given))
        self.assertEqual(support.bits(to_host(made)), support.bits(self.expected))
        return made

    def test_torch(self):
        to_host = lambda tensor: tensor.float().cpu().numpy()
        self.check(self.block.x, to_host)
        out = torch.full_like(self.block.x, float("nan"))
        address = out.data_ptr()
        self.assertIs(self.block.run(self.block.x, out=[out]), out)
        self.assertEqual(out.data_ptr(), address)
        self.assertEqual(support.bits(to_host(out)), support.bits(self.expected))
        self.block.x.zero_()  # Read where it lies: the next run sees it.
        self.assertNotEqual(support.bits(to_host(self.block.run(self.block.x))), support.bits(self.expected))

    @unittest.skipUnless(has_cupy, "no cupy")
    def test_cupy(self):
        import cupy

        block = Block("f16")
        expected = support.run_by_command(block.graph, block.data)["y"]
        x = cupy.asarray(block.data["x"])
        out = cupy.full_like(x, float("nan"))
        block.run(x, out=[out])
        self.assertEqual(support.bits(cupy.asnumpy(out)), support.bits(expected))
        self.assertEqual(support.bits(cupy.asnumpy(block.run(x))), support.bits(expected))
        stream = cupy.cuda.Stream(non_blocking=True)
        out.fill(float("nan"))
        cupy.cuda.Device().synchronize()
        block.run(x, out=[out], stream=stream)
        stream.synchronize()
        self.assertEqual(support.bits(cupy.asnumpy(out)), support.bits(expected))

    @unittest.skipUnless(has_jax, "no jax")
    def test_jax(self):
        import jax

        if jax.default_backend() != "gpu":
            self.skipTest("jax sees no GPU")
        x = jax.numpy.asarray(self.block.data["x"])
        made = self.check(x, lambda array: np.asarray(array))
        with self.assertRaisesRegex(kfuse.errors.UsageError, "output 'y'.*immutable"):
            self.block.run(x, out=[made])

    def transposed(self, type_name):
        """A program whose output has the bytes of its input, moved: right or wrong, whatever the type."""
        g = kfuse.GraphBuilder()
        g.output("y", g.transpose(g.input("x", type_name, [33, 5]), [1, 0]))
        x = np.random.default_rng(1).standard_normal((33, 5), "f")
        return kfuse.compile(g.build(), progress=False).session(), x.astype(LOW_BIT[type_name])

    @unittest.skipUnless(has_jax, "no jax")
    def test_low_bit_of_jax(self):
        import jax

        if jax.default_backend() != "gpu":
            self.skipTest("jax sees no GPU")
        for type_name in LOW_BIT:
            run, x = self.transposed(type_name)
            made = run(jax.numpy.asarray(x))
            self.assertIsInstance(made, jax.Array)
            self.assertEqual((made.dtype, np.asarray(made).tobytes()), (x.dtype, x.T.tobytes()))

    @unittest.skipUnless(has_cupy, "no cupy")
    def test_low_bit_of_cupy(self):
        import cupy

        for type_name in LOW_BIT:
            with self.subTest(type_name):
                run, x = self.transposed(type_name)
                try:
                    given = cupy.asarray(x)
                except ValueError as error:  # cupy 14 has bf16 and no 8-bit floats.
                    self.skipTest(f"cupy {cupy.__version__} has no {type_name}: {error}")
                made = run(given)
                self.assertIsInstance(made, cupy.ndarray)
                self.assertEqual((made.dtype, cupy.asnumpy(made).tobytes()), (x.dtype, x.T.tobytes()))

    def test_f8(self):
        g = kfuse.GraphBuilder()
        a, b = g.input("a", "f8E4M3FN", [32, 64]), g.input("b", "f8E4M3FN", [48, 64])
        g.output("y", g.matmul(a, b, transpose_b=True))
        run = kfuse.compile(g.build(), progress=False).session()
        a, b = (torch.randn(rows, 64, device="cuda").to(torch.float8_e4m3fn) for rows in (32, 48))
        torch.testing.assert_close(run(a, b), a.float() @ b.float().T, rtol=1e-3, atol=1e-2)


class Imports(unittest.TestCase):
    def test_any_order(self):
        """Beside torch, triton, jax and cupy, with kfuse at each place among them: all work afterwards."""
        others = [name for name in ("torch", "triton", "jax", "cupy") if importlib.util.find_spec(name)]
        uses = [
            "g = kfuse.GraphBuilder()",
            "g.output('y', g.relu(g.input('x', 'f32', [4, 8])))",
            "y = kfuse.compile(g.build(), progress=False).session()(torch.ones(4, 8, device='cuda'))",
            "assert y.sum().item() == 32",
        ]
        if "jax" in others:
            uses += ["assert float(jax.numpy.ones(8).sum()) == 8"]
        if "cupy" in others:
            uses += ["assert float(cupy.ones(8).sum()) == 8"]
        running = {}
        for at in range(len(others) + 1):
            for names in (others, others[::-1]):
                order = [*names[:at], "kfuse", *names[at:]]
                text = "\n".join(["import " + ", ".join(order), *uses])
                running[tuple(order)] = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)
        for order, process in running.items():
            _, said = process.communicate()
            self.assertEqual(process.returncode, 0, f"import {', '.join(order)}: {said}")


class Streams(unittest.TestCase):
    def setUp(self):
        self.block = Block("bf16")

    def test_between_torch_kernels_on_a_side_stream(self):
        """torch - kfuse - torch behind a kernel of 1 ms, 1000 times, outputs poisoned before: never a stale value."""
        run, stream = self.block.run, torch.cuda.Stream()
        base = self.block.x.clone()
        wanted = []
        for sign in (1, -1):
            wanted.append(run((base * sign)).clone() + 1)
        out, seen = torch.empty_like(base), []
        x = torch.empty_like(base)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for i in range(1000):
                torch.cuda._sleep(1_500_000)  # About 1 ms of clocks.
                x.fill_(float("nan"))
                out.fill_(float("nan"))
                torch.mul(base, 1 if i % 2 == 0 else -1, out=x)
                run(x, out=[out])
                seen.append((out + 1 == wanted[i % 2]).all())
        stream.synchronize()
        self.assertEqual(int(torch.stack(seen).sum()), 1000)

    def test_fresh_outputs_on_a_given_stream(self):
        """Outputs and inputs dropped at once while a given stream still works: their memory is not reused early."""
        run, stream = self.block.run, torch.cuda.Stream()
        base = self.block.x.clone()
        expected = run(base).clone()
        results = []
        torch.cuda.synchronize()
        for _ in range(200):
            x = base.clone()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1_000_000)
            y = run(x, stream=stream)
            del x
            junk = [torch.full_like(base, float("nan")) for _ in range(4)]  # Would take x's memory.
            with torch.cuda.stream(stream):
                results.append((y == expected).all())
            del y, junk
        stream.synchronize()
        self.assertEqual(int(torch.stack(results).sum()), 200)

    def test_capture(self):
        run, x = self.block.run, self.block.x.clone()
        expected = run(x).clone()
        out = torch.empty_like(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            doubled = x * 2 - x
            run(doubled, out=[out])
            total = out + 1
            made = run(doubled)
        for _ in range(50):
            out.fill_(float("nan"))
            made.fill_(float("nan"))
            total.zero_()
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue((total == expected + 1).all().item())
            self.assertTrue((made == expected).all().item())
        x.zero_()
        graph.replay()
        torch.cuda.synchronize()
        self.assertFalse((total == expected + 1).all().item())

    def test_threads(self):
        expected = self.block.run(self.block.x).clone()
        torch.cuda.synchronize()
        wrong = []

        def work():
            stream, run = torch.cuda.Stream(), self.block.program.session(self.block.weights)
            with torch.cuda.stream(stream):
                for _ in range(200):
                    if not (run(self.block.x) == expected).all().item():
                        wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Edges(unittest.TestCase):
    def test_state_in_place(self):
        program = kfuse.compile(support.cache().build(), progress=False)
        state = torch.zeros(32, 16, device="cuda")
        run = program.session(states={"cache": state})
        row = torch.ones(1, 16, device="cuda")
        for step in range(3):
            outputs = run(row, torch.tensor(step, dtype=torch.int32, device="cuda"))
        self.assertTrue(any(tensor is state for tensor in outputs))
        self.assertEqual(state.sum().item(), 48)
        if has_jax:
            import jax

            with self.assertRaisesRegex(kfuse.errors.UsageError, "state 'cache'.*immutable"):
                run(row, torch.tensor(0, dtype=torch.int32, device="cuda"), states={"cache": jax.numpy.zeros((32, 16))})

    def test_errors(self):
        block = Block("f16")
        with self.assertRaisesRegex(kfuse.errors.UsageError, "input 'x' is on cpu, expected cuda:0"):
            block.run(block.x.cpu())
        with self.assertRaisesRegex(kfuse.errors.UsageError, "parameter 'up' is on cpu"):
            block.program.prepare({name: tensor.cpu() for name, tensor in block.tensors.items()})
        copied = block.program.prepare({name: tensor.cpu() for name, tensor in block.tensors.items()}, copy=True)
        again = block.program.session(copied)(block.x)
        self.assertTrue((again == block.run(block.x)).all().item())

    def test_interrupt(self):
        """Ctrl-C ends a tuning within a second and keeps what was tuned."""
        model = support.feed_forward("bf16", rows=2048, width=1024, hidden=4096).build()
        sent = []

        def interrupt(at):
            if not sent and at.candidates_done > 2:
                sent.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            kfuse.compile(model, effort="full", progress=interrupt)
        took = time.perf_counter() - sent[0]
        print(f"Ctrl-C ended a tuning in {took:.2f} s")
        self.assertLess(took, 1)
        self.assertTrue(kfuse.Store().verify()["whole"])


class Overhead(unittest.TestCase):
    def test_ten_tensors(self):
        """A call with nine inputs and an output over C++'s Session::run."""
        g = kfuse.GraphBuilder()
        total = g.input("x0", "f32", [32, 32])
        for i in range(1, 9):
            total = g.add(total, g.input(f"x{i}", "f32", [32, 32]))
        g.output("y", total)
        run = kfuse.compile(g.build(), progress=False).session()
        tensors = [torch.ones(32, 32, device="cuda") for _ in range(9)]
        out = [torch.empty(32, 32, device="cuda")]
        native, python = [], []
        for _ in range(20):
            native += run._time_native(1000, *tensors, out=out)
            torch.cuda.synchronize()
            for _ in range(1000):
                start = time.perf_counter_ns()
                run(*tensors, out=out)
                python.append((time.perf_counter_ns() - start) / 1e3)
            torch.cuda.synchronize()
        native, python = statistics.median(native), statistics.median(python)
        print(f"a call with ten tensors: {python:.2f} us, C++'s run {native:.2f} us, over it {python - native:.2f} us")
        self.assertLess(python - native, 3)


if __name__ == "__main__":
    print(f"kfuse {kfuse.__version__} on {torch.cuda.get_device_name()}, torch {torch.__version__}")
    unittest.main(verbosity=2)
