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
# The runtime knows codegen's plain data only, so that it ships without MLIR.
PLAIN_CODEGEN = {"codegen/KernelPlan.h", "codegen/TileConfig.h", "codegen/DeviceHeader.h"}
# Folders that never see MLIR or LLVM.
WITHOUT_MLIR = ("include/", "runtime/cuda/")
HEAVY = ("InitAllDialects.h", "InitAllPasses.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


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
