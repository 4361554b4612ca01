#!/usr/bin/env python3
"""Fails where the documents do not match the repository: the README's program is the end of examples/minimal.cpp,
links lead somewhere, to a heading where they name one, every error code is in the table of exit statuses, and the pages
of results stay short: history belongs to git.

Usage: docs.py REPOSITORY
"""
import pathlib
import re
import sys

MOST_LINES = {"docs/performance.md": 200, "docs/experiments.md": 200}


def anchors(page: pathlib.Path):
    """What links may name after a #: a page's headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


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

    for name, most in MOST_LINES.items():
        if (lines := len((root / name).read_text().splitlines())) > most:
            yield f"{name}: {lines} lines, {most} at most; keep what is current, one table a subject"

    codes = set(re.findall(r"^  \w+ = (\d+)", (root / "include/kfuse/error.h").read_text(), re.M))
    documented = set(re.findall(r"^\| (\d+) \|", (root / "docs/command-line.md").read_text(), re.M))
    if codes | {"0"} != documented:
        yield f"docs/command-line.md: statuses {sorted(documented, key=int)}, error.h has {sorted(codes, key=int)}"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "docs: program, links, statuses and lengths match")
sys.exit(bool(found))
