#!/usr/bin/env python3
"""Fails on an include that goes against the house's direction (docs/architecture.md).

Usage: includes.py REPOSITORY
"""
import pathlib
import re
import sys

# room -> rooms whose headers it may include; include/kfuse is open to all.
MAY_INCLUDE = {
    "ir": {"ir"},
    "passes": {"passes", "ir"},
    "codegen": {"codegen", "ir"},
    "runtime": {"runtime", "codegen"},
    "tuner": {"tuner", "runtime", "codegen", "passes", "ir"},
    "tools": {"tools", "tuner", "runtime", "codegen", "passes", "ir"},
    "include": set(),
}
# The same inside the two largest rooms: folder -> folders beside it whose headers it may include. What lies in the
# room itself may include them all, and none of them it.
INNER = {
    "codegen/cuda": {
        "text": set(),
        "elementwise": {"text"},
        "rows": {"text"},
        "matmul": {"text", "rows"},
        "chain": {"text", "rows", "matmul"},
        "attention": {"text", "rows"},
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
# The runtime knows codegen's plain data only, so that it ships without MLIR.
PLAIN_CODEGEN = {"codegen/KernelPlan.h", "codegen/TileConfig.h", "codegen/DeviceHeader.h"}
# Folders that never see MLIR or LLVM.
WITHOUT_MLIR = ("include/", "runtime/cuda/")
HEAVY = ("InitAllDialects.h", "InitAllPasses.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def folder_in(room: str, name: str):
    """The folder of `room` that a file lies in: "" for the room itself, None outside of it."""
    if not name.startswith(room + "/"):
        return None
    rest = name[len(room) + 1 :].split("/")
    return rest[0] if len(rest) > 1 else ""


def inner_problem(name: str, header: str):
    """Why a file may not include a header of its own room, or None."""
    for room, may in INNER.items():
        folder, other = folder_in(room, name), folder_in(room, header)
        if folder is None or other is None or folder in ("", other):
            continue
        if folder not in may:
            return f"{room}/{folder} is not in the table of tests/lint/includes.py"
        if other not in may[folder]:
            return f"{room}/{folder} may not include {room}/{other or '*.h'}"
    return None


def problems(root: pathlib.Path):
    for path in sorted(p for room in MAY_INCLUDE for p in (root / room).rglob("*") if p.suffix in {".h", ".cpp"}):
        name = path.relative_to(root).as_posix()
        room = name.split("/")[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1)
            other = header.split("/")[0]
            where = f"{name}:{number}: {header}"
            if other in MAY_INCLUDE and (root / header).exists() and other not in MAY_INCLUDE[room]:
                yield f"{where}: {room}/ may not include {other}/"
            inner = inner_problem(name, header)
            if inner:
                yield f"{where}: {inner}"
            if room == "runtime" and other == "codegen" and header not in PLAIN_CODEGEN:
                yield f"{where}: runtime/ may include only codegen's plain data"
            plain_runtime = room == "runtime" and name.count("/") == 1
            if header.startswith(("mlir/", "llvm/")) and (name.startswith(WITHOUT_MLIR) or plain_runtime):
                yield f"{where}: no MLIR or LLVM here"
            if header.startswith(("cuda", "boost/")) and room == "include":
                yield f"{where}: public headers include only the standard library and each other"
            if header.endswith(HEAVY):
                yield f"{where}: costs over a minute of compile time; name the dialects and passes you use"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "includes: every arrow is in the table")
sys.exit(bool(found))
