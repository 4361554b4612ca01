#!/usr/bin/env python3
"""Fails where the documents do not match the repository: the README's program is the end of examples/minimal.cpp,
links lead somewhere, to a heading where they name one, what pages about the source name is there, the page on ops knows every
place that names its example, every error code is in the table of exit statuses, and the pages of results stay short:
history belongs to git.

Usage: docs.py REPOSITORY
"""
import pathlib
import re
import sys

MOST_LINES = {"docs/performance.md": 200, "docs/experiments.md": 200}
OF_THE_SOURCE = ("architecture", "graphs", "kernels", "numbers", "tuning", "adding-an-op", "adding-a-gpu")
FOLDERS = ("ir", "passes", "codegen", "runtime", "tuner", "tools", "include", "python", "bench", "examples", "tests", "docs", "cmake")
SUFFIXES = (".h", ".cpp", ".c", ".cuh", ".td", ".py", ".pyi", ".sh", ".txt", ".cmake", ".mlir")


def anchors(page: pathlib.Path):
    """What links may name after a #: a page's headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def missing_names(root: pathlib.Path):
    """Paths, files, classes and functions that a page about the source names, and the source does not have. A path may
    begin at any folder, and lack its suffix; a test is named as its file is."""
    paths, words = set(), set()
    for file in (f for folder in FOLDERS for f in (root / folder).rglob("*") if "__pycache__" not in f.parts):
        parts = file.relative_to(root).parts
        for begin in range(len(parts)):
            paths |= {(path := "/".join(parts[begin:])), re.sub(r"\.\w+$", "", path)}
        if file.suffix in SUFFIXES and parts[0] != "docs" and file.is_file():
            words |= set(re.findall(r"\w+", file.read_text(errors="replace")))
    paths |= set(FOLDERS)
    for name in OF_THE_SOURCE:
        text = re.sub(r"```.*?```", "", (root / f"docs/{name}.md").read_text(), flags=re.S)
        for named in re.findall(r"`([^`\n]+)`", text):
            if re.fullmatch(r"[\w.+-]+(/[\w.+-]+)+/?|[A-Za-z]\w*\.(cpp|h|cuh|py|sh|td|mlir)", named):
                is_there = named.rstrip("/") in paths or "NAME" in named or named.endswith(".db")
            elif re.fullmatch(r"(\w+::)*\w*[A-Z]\w*(\(\))?", named):
                is_there = named in paths or words.issuperset(re.findall(r"\w+", named))
            else:
                continue
            if not is_there:
                yield f"docs/{name}.md: `{named}` is not in the source"


def unnamed_places(root: pathlib.Path):
    """Files that name the op which docs/adding-an-op.md takes as its example, of which the page says nothing: neither they
    nor a folder of theirs."""
    page = (root / "docs/adding-an-op.md").read_text()
    example = re.search(r'def Kfuse_\w+Op : Kfuse_UnaryOp<"(\w+)">', page).group(1)
    for folder in (f for f in FOLDERS if f != "docs"):
        for file in (f for f in (root / folder).rglob("*") if f.suffix in SUFFIXES):
            path = file.relative_to(root)
            places = [path.as_posix(), *(p.as_posix() for p in path.parents if len(p.parts) > 1)]
            if re.search(rf"\b{example}\b", file.read_text(errors="replace")) and not any(p in page for p in places):
                yield f"docs/adding-an-op.md: {path} names the op {example}, and the page says nothing of it"


def variant_numbers(root: pathlib.Path):
    """The numbers of the variants of matrix products, which docs/tuning.md explains, and the next free one."""
    sources = "".join(file.read_text() for file in sorted((root / "codegen/cuda/matmul").glob("*.cpp")))
    numbers = set(map(int, re.findall(r"MatmulVariant\(\{(\d+),", sources)))
    listed = re.search(r"`variant=` in the config: (.*?)\)", (root / "docs/tuning.md").read_text(), re.S).group(1)
    if (explained := set(map(int, re.findall(r"(?:^|,)\s*(\d)\s", listed)))) != numbers:
        yield f"docs/tuning.md: explains variants {sorted(explained)}, there are {sorted(numbers)}"
    free = re.search(r"the next\s+free one is (\d+)", (root / "docs/adding-an-op.md").read_text()).group(1)
    if int(free) <= max(numbers):
        yield f"docs/adding-an-op.md: the next free variant is {max(numbers) + 1}, not {free}"


def problems(root: pathlib.Path):
    readme = (root / "README.md").read_text()
    shown = re.search(r"```cpp\n(.*?)```", readme, re.S)
    if not shown or not (root / "examples/minimal.cpp").read_text().endswith("\n" + shown.group(1)):
        yield "README.md: its C++ is not the end of examples/minimal.cpp, which the tests run; copy it from there"

    pages = [root / "README.md", root / "CHANGELOG.md", root / "examples/README.md", *sorted((root / "docs").glob("*.md"))]
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
            target = page.parent / link if link else page
            if "://" in link:
                continue
            if not target.exists():
                yield f"{page.relative_to(root)}: {link} does not exist"
            elif anchor and anchor not in anchors(target):
                yield f"{page.relative_to(root)}: {link}#{anchor}: no such heading"

    yield from missing_names(root)
    yield from unnamed_places(root)
    yield from variant_numbers(root)

    for name, most in MOST_LINES.items():
        if (lines := len((root / name).read_text().splitlines())) > most:
            yield f"{name}: {lines} lines, {most} at most; keep what is current, one table a subject"

    codes = set(re.findall(r"^  \w+ = (\d+)", (root / "include/kfuse/error.h").read_text(), re.M))
    documented = set(re.findall(r"^\| (\d+) \|", (root / "docs/command-line.md").read_text(), re.M))
    if codes | {"0"} != documented:
        yield f"docs/command-line.md: statuses {sorted(documented, key=int)}, error.h has {sorted(codes, key=int)}"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "docs: program, links, names, statuses and lengths match")
sys.exit(bool(found))
