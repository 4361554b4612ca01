"""kfuse_semantic_runner as a process that is asked for one model after the other."""

import pathlib
import selectors
import signal
import subprocess
from dataclasses import dataclass

import numpy as np
import onnx

from .values import NUMPY_TYPE

SECONDS = 120  # For one model: none takes 5.


@dataclass
class Answer:
    status: int  # An error code of kfuse's; or the negative number of a signal, or HUNG.
    text: str = ""
    outputs: dict = None  # By name.

    HUNG = -999


class Runner:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, pathlib.Path(folder)
        self.process = None

    def _start(self):
        self.errors = open(self.folder / "stderr.txt", "wb")
        self.process = subprocess.Popen(
            [self.binary, self.folder / "store.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.selector.close()
            self.errors.close()
            self.process = None

    def ask(self, graph, how, target):
        if not self.process:
            self._start()
        model, arguments, results = (self.folder / name for name in ("model.onnx", "arguments", "results"))
        model.write_bytes(graph.to_model().SerializeToString())
        arguments.write_bytes(graph.argument_bytes())
        results.write_bytes(b"")
        try:
            parameters = "w*" if any(value.kind == "parameter" for value in graph.sources) else ""
            self.process.stdin.write(f"{how} {target} {model} {arguments} {results} {parameters}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        if not self.selector.select(SECONDS):
            self.close()
            return Answer(Answer.HUNG, f"no answer in {SECONDS} s")
        line = self.process.stdout.readline().decode(errors="replace")
        if not line:
            status = self.process.wait()
            last = (self.folder / "stderr.txt").read_text(errors="replace").strip().splitlines()[-1:]
            self.close()
            name = signal.Signals(-status).name if status < 0 else f"status {status}"
            return Answer(status if status < 0 else -1000, f"the process ended by {name} {' '.join(last)}".strip())
        status, _, text = line.rstrip("\n").partition(" ")
        if status != "0" or target != "cpu":
            return Answer(int(status), text)
        return self._read(graph, text, results.read_bytes())

    @staticmethod
    def _read(graph, text, data):
        """The outputs, if they are of the types and shapes that ONNX gives them."""
        found = [edge.split(":") for edge in text.split() if edge.startswith("output:")]
        expected = [
            ["output", v.name, v.dtype, "x".join(map(str, v.shape)) if v.rank else "scalar"] for v in graph.outputs
        ]
        if found != expected:
            wrong = next((f"{':'.join(a)} instead of {':'.join(b)}" for a, b in zip(found, expected) if a != b), "count")
            return Answer(-1001, f"makes {wrong}")
        outputs, used = {}, 0
        for value in graph.outputs:
            count = value.array.size
            dtype = NUMPY_TYPE[value.dtype]
            raw = np.frombuffer(data, np.uint8 if dtype == np.bool_ else dtype, count, used)
            used += count * dtype.itemsize
            outputs[value.name] = raw.reshape(value.shape)
        return Answer(0, "", outputs)
