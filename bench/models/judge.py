"""Runs kfuse on exported files: whether each target accepts them, and how far the CPU's results are from PyTorch's.

`FOLDER/result/FILE.json` keeps what was found and of which kfuse.
"""

import fnmatch
import functools
import hashlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile

import numpy
import onnx

TARGETS = ("sm_90a", "sm_80", "cpu")
EXPLAIN_S, RUN_S, COMPILE_S = 40, 60, 120
LIMITS = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}  # What the error may be, relative to an output's largest value.
STATUSES = {3: "refused", 5: "wrong", 70: "bug"}


def run_kfuse(arguments, limit_s):
    """What became of it ("ok", "refused", "bug", "crashed", "hung" or a status), its last line of errors, its output.
    The limit is of its own processor time, which others on the machine do not take."""
    environment = os.environ | {"MALLOC_PERTURB_": "170"}
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    try:
        done = subprocess.run(arguments, capture_output=True, timeout=20 * limit_s, env=environment, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return "hung", f"waits for more than {20 * limit_s} s", ""
    if done.returncode == -signal.SIGXCPU:
        return "hung", f"more than {limit_s} s of the processor", ""
    lines = [
        line for line in done.stderr.decode(errors="replace").splitlines() if line.strip() and "warning:" not in line
    ]
    line = next((line for line in lines if "error" in line), lines[-1] if lines else "")
    if done.returncode == 0:
        return "ok", "", done.stdout.decode(errors="replace")
    if done.returncode < 0:
        return "crashed", f"signal {-done.returncode}: {line}", ""
    return STATUSES.get(done.returncode, f"status {done.returncode}"), line, ""


def error_of(found, expected):
    """The largest difference, relative to the largest value; infinite where infinities or shapes differ."""
    if found.shape != expected.shape:
        return numpy.inf
    if expected.dtype.kind in "iub":
        return 0.0 if numpy.array_equal(found, expected) else numpy.inf
    found, expected = found.astype(numpy.float64), expected.astype(numpy.float64)
    finite = numpy.isfinite(expected)
    low = expected <= numpy.finfo(numpy.float32).min / 2  # A mask's lowest value is -inf in a narrower type.
    if not numpy.all(numpy.where(finite & ~low, numpy.isfinite(found), True)):
        return numpy.inf
    if not numpy.array_equal(found[~finite & ~low], expected[~finite & ~low], equal_nan=True):
        return numpy.inf
    finite &= ~low
    if not finite.any():
        return 0.0
    return float(numpy.abs(found - expected)[finite].max() / max(numpy.abs(expected[finite]).max(), 1e-30))


def arrays_of(path):
    with numpy.load(path) as file:
        return (
            {name[3:]: file[name] for name in file if name.startswith("in:")},
            {name[4:]: file[name] for name in file if name.startswith("out:")},
        )


def judge(path, kfuse, store):
    """One file's result."""
    base, kind = path.name.split(".")[0], path.name.split(".")[0].rsplit("-", 1)[1]
    result = {"file": path.name, "targets": {}}
    for target in TARGETS:
        status, line, _ = run_kfuse([kfuse, "explain", path, "--target", target], EXPLAIN_S)
        result["targets"][target] = [status, line]
    inputs, outputs = arrays_of(path.with_name(f"{base}.npz"))
    kept = {item.name for item in onnx.load(path).graph.input}  # Exporters drop what no output needs.
    inputs = {name: value for name, value in inputs.items() if name in kept}
    if result["targets"]["cpu"][0] != "ok":
        other, result["onnxruntime"] = run_onnxruntime(path, inputs, outputs)
        if other:
            result["onnxruntime"] = largest_error(other, outputs)[0]
        return result
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        command = [
            kfuse,
            "run",
            path,
            "--target",
            "cpu",
            "--no-benchmark",
            "--threads",
            "1",
            "--store",
            store,
            "--json",
            "--output",
            work / "out",
        ]
        for number, (name, value) in enumerate(inputs.items()):
            numpy.save(work / f"{number}.npy", value)
            command += ["--input", f"{name}={work / f'{number}.npy'}"]
        status, line, text = run_kfuse(command, RUN_S)
        result["run"] = [status, line]
        if status != "ok":
            return result
        files = {output["name"]: output["file"] for output in json.loads(text)["outputs"]}
        missing = [name for name in outputs if name not in files]
        if missing:
            result["run"] = ["wrong", f"no output {missing[0]}"]
            return result
        found = {name: numpy.load(work / "out" / files[name]) for name in outputs}
    result["error"], worst = largest_error(found, outputs)
    if result["error"] > LIMITS[kind]:
        result["run"] = ["wrong", f"{worst}: {result['error']:.1e}"]
        compare_with_onnxruntime(result, path, inputs, found, outputs, LIMITS[kind])
    return result


def largest_error(found, expected):
    errors = {name: error_of(found[name], value) for name, value in expected.items()}
    worst = max(errors, key=errors.get)
    return errors[worst], worst


def run_onnxruntime(path, inputs, outputs):
    """Its outputs, or none and its line of error."""
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return dict(zip(outputs, session.run(list(outputs), inputs))), None
    except Exception as error:
        return None, str(error).splitlines()[0][:200]


def holds_nan(path):
    """Whether a constant of the file is no number."""
    graph = onnx.load(path).graph
    tensors = list(graph.initializer)
    tensors += [attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t")]
    kinds = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
    return any(
        numpy.isnan(onnx.numpy_helper.to_array(tensor)).any() for tensor in tensors if tensor.data_type in kinds
    )


def spread_of(path, inputs, outputs):
    """How far ONNX Runtime's outputs move when the last digits of the inputs do: where a model ranks numbers that are
    all but equal, or takes sines of large ones, no result is the right one."""
    random, largest = numpy.random.default_rng(1), 0.0
    first, _ = run_onnxruntime(path, inputs, outputs)
    for _ in range(4):
        moved = {
            name: value * (1 + 2.0**-22 * random.uniform(-1, 1, value.shape)).astype(value.dtype)
            if value.dtype.kind == "f"
            else value
            for name, value in inputs.items()
        }
        other, _ = run_onnxruntime(path, moved, outputs)
        largest = max(largest, largest_error(other, first)[0])
    return largest


def compare_with_onnxruntime(result, path, inputs, found, outputs, limit):
    """Tells an exporter's fault from kfuse's: a file that ONNX Runtime computes as kfuse does is not what PyTorch ran. A
    model may lose more in its type than the limit; kfuse is right where it loses less than ONNX Runtime and ten limits,
    or than ONNX Runtime and twice what its results move by with the inputs' last digits."""
    other, result["onnxruntime"] = run_onnxruntime(path, inputs, outputs)
    if not other:
        if not numpy.isfinite(result["error"]) and holds_nan(path):
            result["run"] = ["export", "a constant of the file is NaN"]
            result["error"] = 0.0
        return
    result["onnxruntime"] = largest_error(other, outputs)[0]
    between = largest_error(found, other)[0]
    if between <= limit:
        result["run"] = ["export", f"the file computes something else than PyTorch did: {result['error']:.1e}"]
        result["error"] = between
    elif result["error"] <= min(result["onnxruntime"], 10 * limit):
        result["run"] = ["ok", f"ONNX Runtime's error is {result['onnxruntime']:.1e}"]
    elif result["error"] <= result["onnxruntime"] and numpy.isfinite(result["error"]):
        spread = spread_of(path, inputs, outputs)
        if result["error"] <= 2 * spread:
            result["run"] = ["export", f"the inputs' last digits move its results by {spread:.1e}"]
            result["error"] = 0.0


def compile_all(folder, kfuse, target, pattern, say):
    """Compiles accepted files for a target that need not be here, one exporter's of each form and type; small ones first."""
    build = build_of(kfuse)
    chosen = {}
    for path in sorted((folder / "result").glob("*.onnx.json")):  # dynamo's come before legacy's
        result = json.loads(path.read_text())
        if is_right(result) and fnmatch.fnmatch(path.name.split("-")[0], pattern):
            chosen.setdefault(path.name.split(".")[0], (path, result))
    left = [
        (path, result)
        for path, result in chosen.values()
        if result.get("compiled", {}).get("status") != "ok" and result.get("compiled", {}).get("kfuse") != build
    ]
    left.sort(key=lambda item: (folder / "export" / item[1]["file"]).stat().st_size)
    for number, (path, result) in enumerate(left):
        say(f"compile {number + 1} of {len(left)}: {result['file']}")
        status, line, _ = run_kfuse(
            [
                kfuse,
                "tune",
                folder / "export" / result["file"],
                "--target",
                target,
                "--no-benchmark",
                "--threads",
                "1",
                "--store",
                folder / f"{target}.db",
            ],
            COMPILE_S,
        )
        result["compiled"] = {"target": target, "status": status, "line": line, "kfuse": build}
        path.write_text(json.dumps(result))


def build_of(kfuse):
    return hashlib.sha1(kfuse.read_bytes()).hexdigest()[:12]


def is_right(result):
    return all(status == "ok" for status, _ in result["targets"].values()) and result.get("run", [""])[0] in (
        "ok",
        "export",
    )


def judge_all(folder, kfuse, pattern, say):
    """Files without a result, and those that another kfuse did not run right; small files first."""
    results = folder / "result"
    results.mkdir(exist_ok=True)
    build = build_of(kfuse)
    left = []
    for path in sorted((folder / "export").glob("*.onnx"), key=lambda path: path.stat().st_size):
        kept = results / f"{path.name}.json"
        former = json.loads(kept.read_text()) if kept.exists() else None
        is_done = (
            former and (former["kfuse"] == build or is_right(former)) and kept.stat().st_mtime > path.stat().st_mtime
        )
        if not is_done and fnmatch.fnmatch(path.name.split("-")[0], pattern):
            left.append((path, kept))
    for number, (path, kept) in enumerate(left):
        say(f"run {number + 1} of {len(left)}: {path.name}")
        result = judge(path, kfuse, folder / "store.db") | {"kfuse": build}
        kept.with_suffix(".new").write_text(json.dumps(result))
        kept.with_suffix(".new").rename(kept)
