#!/usr/bin/env python3
"""Fails on an include that goes against the direction of modules (docs/architecture.md, which has the same tables).

Usage: includes.py REPOSITORY
"""
import pathlib
import re
import sys

# Module -> modules whose headers it may include; include/kfuse is open to all.
MAY_INCLUDE = {
    "ir": {"ir"},
    "passes": {"passes", "ir"},
    "codegen": {"codegen", "ir"},
    "runtime": {"runtime", "codegen", "ir"},
    "tuner": {"tuner", "runtime", "codegen", "passes", "ir"},
    "tools": {"tools", "tuner", "runtime", "codegen", "passes", "ir"},
    "include": set(),
    "python": set(),
}
# The same inside the largest modules, and of the device library: folder -> folders beside it whose headers it may
# include. What lies in the module itself may include them all, and none of them it.
INNER = {
    "codegen": {
        "cuda": {""},
        "cpu": {"", "cuda"},  # What is found out about products and attention.
    },
    "codegen/cuda": {
        "text": set(),
        "cost": set(),
        "elementwise": {"text", "cost"},
        "rows": {"text", "cost"},
        "matmul": {"text", "cost", "rows"},
        "chain": {"text", "cost", "rows", "matmul"},
        "attention": {"text", "cost", "rows"},
    },
    "codegen/cuda/device": {
        "base": set(),
        "elementwise": {"base"},
        "rows": {"base"},
        "matmul": {"base", "rows"},
        "chain": {"base", "rows", "matmul"},
        "attention": {"base", "rows"},
    },
    "ir/import/onnx": {
        "file": set(),
        "node": {"file"},
        "arithmetic": {"node"},
        "layout": {"node"},
        "images": {"node"},
        "attention": {"node"},
        "quantised": {"node"},
        "static": {"node"},
    },
    "tools/kfuse": {
        "console": set(),
        "model": {"console"},
        "bench": {"console", "model"},
    },
    "tuner": {
        "record": set(),
        "store": {"record"},
        "peaks": {"record", "store"},
        "check": {"record"},
        "report": {"record"},
        "search": {"record", "store", "peaks", "check", "report"},
        "model": {"record", "store", "peaks", "check", "report", "search"},
        "api": {"record", "store", "peaks", "check", "report", "search", "model"},
    },
}
# The runtime knows plain data only of what lies before it, so that it ships without MLIR.
PLAIN = {
    "codegen/CompileOptions.h",
    "codegen/DeviceHeader.h",
    "codegen/KernelPlan.h",
    "codegen/TileConfig.h",
    "ir/MappedFile.h",
}
# Folders that never see MLIR or LLVM.
WITHOUT_MLIR = ("include/", "runtime/cuda/", "runtime/host/", "runtime/library/", "runtime/pack/")
HEAVY = ("InitAllDialects.h", "InitAllPasses.h")

DEVICE = "codegen/cuda/device"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def folder_in(module: str, name: str):
    """The folder of `module` that a file lies in: "" for the module itself, None outside of it."""
    if not name.startswith(module + "/"):
        return None
    rest = name[len(module) + 1 :].split("/")
    return rest[0] if len(rest) > 1 else ""


def inner_problem(name: str, header: str):
    """Why a file may not include a header of its own module, or None."""
    for module, may in INNER.items():
        folder, other = folder_in(module, name), folder_in(module, header)
        if folder is None or other is None or folder in ("", other):
            continue
        if folder not in may:
            return f"{module}/{folder} is not in the table of tests/lint/includes.py"
        if other not in may[folder]:
            return f"{module}/{folder} may not include {module}/{other or '*.h'}"
    return None


def device_problems(root: pathlib.Path):
    """The device library includes its headers by their names alone, <kfuse/math.cuh>: NVRTC gets them from memory."""
    headers = {path.name: path.relative_to(root).as_posix() for path in sorted((root / DEVICE).rglob("*.cuh"))}
    for name in headers.values():
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or not match.group(1).startswith("kfuse/"):
                continue
            included = match.group(1).removeprefix("kfuse/")
            inner = inner_problem(name, headers[included]) if included in headers else "no such device header"
            if inner:
                yield f"{name}:{number}: {match.group(1)}: {inner}"


def problems(root: pathlib.Path):
    yield from device_problems(root)
    for path in sorted(p for module in MAY_INCLUDE for p in (root / module).rglob("*") if p.suffix in {".h", ".cpp"}):
        name = path.relative_to(root).as_posix()
        module = name.split("/")[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1)
            other = header.split("/")[0]
            where = f"{name}:{number}: {header}"
            if other in MAY_INCLUDE and (root / header).exists() and other not in MAY_INCLUDE[module]:
                yield f"{where}: {module}/ may not include {other}/"
            inner = inner_problem(name, header)
            if inner:
                yield f"{where}: {inner}"
            if module == "runtime" and other in {"codegen", "ir"} and header not in PLAIN:
                yield f"{where}: runtime/ may include only plain data of {other}/"
            plain_runtime = module == "runtime" and name.count("/") == 1
            if header.startswith(("mlir/", "llvm/")) and (name.startswith(WITHOUT_MLIR) or plain_runtime):
                yield f"{where}: no MLIR or LLVM here"
            if header.startswith(("cuda", "boost/")) and module == "include":
                yield f"{where}: public headers include only the standard library and each other"
            if header.endswith(HEAVY):
                yield f"{where}: costs over a minute of compile time; name the dialects and passes you use"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "includes: each is in the tables")
sys.exit(bool(found))
