#!/usr/bin/env python3
"""Exports every architecture of transformers, timm and diffusers that builds small, runs kfuse on each file and writes the
table of docs/models.md.

Usage: bench/models/survey.py FOLDER [--kfuse build/bin/kfuse] [--only 'bert*'] [--stage export|run|compile|table]
Needs torch, onnx, onnxruntime, transformers, timm and diffusers. FOLDER keeps files and results; what is there is not done
again, but files that a former kfuse did not run right are run by a new one.
"""

import argparse
import fnmatch
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def say(line):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def listed(pattern):
    import of_diffusers
    import of_timm
    import of_transformers

    found = [("transformers", name) for name in of_transformers.architectures()]
    others = [("timm", name) for name in of_timm.FAMILIES] + [("diffusers", name) for name in of_diffusers.names()]
    popular = len(of_transformers.POPULAR)
    found = found[:popular] + others + found[popular:]
    return [(library, name) for library, name in found if fnmatch.fnmatch(name, pattern)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kfuse", type=pathlib.Path, default=pathlib.Path("build/bin/kfuse"))
    parser.add_argument("--only", default="*", help="a glob of architectures")
    parser.add_argument("--stage", choices=("export", "run", "compile", "table"), help="else all")
    parser.add_argument(
        "--compile", default="sm_90a", help="the target that the stage `compile` prints and compiles kernels for"
    )
    parser.add_argument("--table", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "docs" / "models.md")
    options = parser.parse_args()
    exported = options.folder / "export"
    exported.mkdir(parents=True, exist_ok=True)
    if options.stage in (None, "export"):
        from export import export_all

        export_all(listed(options.only), exported, say)
    if options.stage in (None, "run"):
        from judge import judge_all

        judge_all(options.folder, options.kfuse.resolve(), options.only, say)
    if options.stage in (None, "compile"):
        from judge import compile_all

        compile_all(options.folder, options.kfuse.resolve(), options.compile, options.only, say)
    if options.stage in (None, "table"):
        from table import write_table

        write_table(options.folder, options.table, listed("*"))


if __name__ == "__main__":
    main()
