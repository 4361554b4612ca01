#!/usr/bin/env python3
"""Fails on words that the field does not know, and on comments that begin with "Of" or "As" instead of their subject.
docs/architecture.md has the terms in their place, and a glossary of those that are ours.

Usage: words.py REPOSITORY
"""
import pathlib
import re
import sys

FOLDERS = ("ir", "passes", "codegen", "runtime", "tuner", "tools", "include", "python", "bench", "examples", "tests", "docs", "cmake")
SUFFIXES = {".h", ".cpp", ".c", ".cuh", ".td", ".cu", ".py", ".sh", ".md", ".txt", ".cmake", ".mlir"}
INSTEAD = {
    r"worthBelow": "profitability threshold",
    r"rivals?": "runners-up",
    r"woven|weaves?": "permuted load",
    r"raster(?!=)": "tile swizzle",
    r"isBehind|launchBehind|dependentLaunch": "programmatic dependent launch",
    r"[Ll]ines? of K": "K block",
    r"shared last wave": "stream-K",
    r"shop": "tuning context",
    r"settle": "warpgroupFenceOperand",
    r"[Pp]arts? of K": "split, or K block",
    r"in turns(?! if)": "ping-pong (kernels), interleaved (measurements)",
}
WORDS = re.compile(r"\b(" + "|".join(f"(?:{word})" for word in INSTEAD) + r")\b")
DANGLING = re.compile(r"(?:///?<?|#) Of [a-z0-9{]|^\s*(?:///?|#) As ")


def instead_of(found: str):
    return next(term for word, term in INSTEAD.items() if re.fullmatch(word, found))


def problems(root: pathlib.Path):
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES):
        name = path.relative_to(root).as_posix()
        if name == "tests/lint/words.py" or "/__pycache__/" in name:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for match in WORDS.finditer(line):
                yield f"{name}:{number}: '{match.group()}': write {instead_of(match.group())}"
            if path.suffix != ".md" and DANGLING.search(line):
                yield f"{name}:{number}: a comment that begins with 'Of' or 'As': begin with the subject"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "words: all are the field's, or in the glossary")
sys.exit(bool(found))
