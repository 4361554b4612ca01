"""Writes docs/models.md from the results that a survey left."""

import collections
import importlib.metadata
import json
import re

from judge import LIMITS, TARGETS

LIBRARIES = ("transformers", "timm", "diffusers")
FORMS = {"plain": "whole", "head": "classifier", "past": "growing cache", "static": "static cache"}
A_ROW = 12  # Architectures in a row of the table of right ones.
HOURS = 4

HEAD = """# Models that were run

Every architecture of transformers, timm and diffusers that [bench/models](../bench/models/survey.py) builds from a
small configuration (1 to 4 layers, 32 wide, random weights) and that an exporter of PyTorch writes to ONNX. *Accepted*
is a file that kfuse explains for {targets} and runs on the CPU with configs that the cost model chooses. *Right* is one
whose results are PyTorch's, [within limits](#how-it-is-judged).

*whole* is a model as it is called without a cache; *growing cache* is a decoder's step that takes `past_key_values.*`
and returns `present.*`; *static cache* is one that writes its rows into buffers of fixed length, at a position;
*classifier* is an encoder's or decoder's head for sequences.

- [Summary](#summary), [right](#right), [not right](#not-right), [not exported](#not-exported), [not built](#not-built),
  [how it is judged](#how-it-is-judged)
"""

JUDGED = """## How it is judged

```
pip install torch onnx onnxruntime onnxscript transformers timm diffusers torchvision
bench/models/survey.py FOLDER --kfuse build/bin/kfuse
```

It takes some {hours} hours of one core, goes on where it was ended, and runs again what a former kfuse did not run
right: {newest} of the rows are of one build, the others of {former} before it. This table: {versions}.{compiled}

Results are compared with PyTorch's in f32, of weights and inputs rounded to the file's type. An error is the largest
difference relative to an output's largest value; right is up to {limits}.

ONNX Runtime's CPU provider runs what differs more. It is counted as right where that tells that kfuse is not at fault:

- it gives what kfuse does, within these limits;
- its own error is as large, and kfuse's at most ten times the limit (the only rows above with larger errors);
- its results move half as far when the inputs' last digits do;
- a constant of the file is no number.

All but the second of these are listed under [not right](#not-right), too.
"""


def load(folder):
    """Records of architectures, and results by file."""
    records = [json.loads(path.read_text()) for path in sorted((folder / "export").glob("*.json"))]
    results = {}
    for path in (folder / "result").glob("*.json"):
        result = json.loads(path.read_text())
        results[result["file"]] = result
    return records, results


def outcome(result):
    """ "right", or what it is instead."""
    refused = {target: line for target, (status, line) in result["targets"].items() if status != "ok"}
    if refused:
        target, line = next(iter(refused.items()))
        status = result["targets"][target][0]
        line = re.sub(r"^kfuse: .*?\.onnx: ", "", line).split("; export again")[0]
        where = "" if len(refused) == len(TARGETS) else f" for {', '.join(refused)}"
        knows = "-bf16." not in result["file"]  # ONNX Runtime's CPU lacks most kernels of bf16.
        fault = ", as ONNX Runtime does" if knows and isinstance(result.get("onnxruntime"), str) else ""
        return f"{status}{where}{fault}: {line.removeprefix('kfuse: ')}"
    status, line = result["run"]
    if status == "ok":
        return "right"
    if status == "export" and line.startswith("the file computes"):
        return "right; the exporter is not: ONNX Runtime gives the same, PyTorch not"
    if status == "export":
        return f"as right as can be: {line}"
    line = re.sub(r"^kfuse: .*?\.onnx: ", "", line)
    return f"{status}: {line}"


def is_accepted(result):
    return all(status == "ok" for status, _ in result["targets"].values())


def is_right(result):
    return is_accepted(result) and result["run"][0] in ("ok", "export")


def short(text, length=150):
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= length else text[: length - 3] + "..."


def rows(*lines):
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def decade(error):
    return f"{error:.0e}" if error else "0"


def summary(files):
    lines = rows(("library", "form", "type", "exporter", "files", "accepted", "right", "largest error"), ("---",) * 8)
    groups = collections.defaultdict(list)
    for library, _, entry, result in files:
        groups[library, entry["variant"], entry["type"], entry["exporter"]].append(result)
    order = list(LIBRARIES), list(FORMS), list(LIMITS), ["dynamo", "legacy"]
    for key in sorted(groups, key=lambda key: [places.index(part) for places, part in zip(order, key)]):
        found = groups[key]
        errors = [result["error"] for result in found if is_right(result)]
        library, form, kind, exporter = key
        lines += rows(
            (
                library,
                FORMS[form],
                kind,
                exporter,
                len(found),
                sum(map(is_accepted, found)),
                sum(map(is_right, found)),
                decade(max(errors, default=0)),
            )
        )
    accepted, right = sum(is_accepted(result) for *_, result in files), sum(is_right(result) for *_, result in files)
    lines += rows(
        (
            "all",
            "",
            "",
            "",
            len(files),
            f"{accepted} ({accepted / len(files):.1%})",
            f"{right} ({right / max(accepted, 1):.1%})",
            "",
        )
    )
    return lines


def compiled(files):
    """What the stage `compile` did, as a sentence."""
    found = [result["compiled"] for *_, result in files if "compiled" in result]
    if not found:
        return ""
    good = sum(one["status"] == "ok" for one in found)
    return f" {len(found)} files were also compiled for {found[0]['target']} without a GPU: {good} of them passed."


def refused_ops(files):
    """Ops and other reasons that files were refused for, by the number of files."""
    found = collections.Counter()
    for *_, result in files:
        status, line = result["targets"]["cpu"]
        if status != "refused":
            continue
        match = re.search(r"does not have: (.*)", line)
        reason = re.sub(r"\[[-\d, ]+\]", "[...]", re.sub(r".*?\.onnx: ", "", line))
        reason = re.sub(r"node '[^']*' ", "", reason).removeprefix("kfuse: ")
        found.update(re.findall(r"(\S+) \(\d+ nodes?", match[1]) if match else [reason])
    return found


def right_table(architectures):
    """Architectures all of whose files are right, several a row, by the forms that they have."""
    groups = collections.defaultdict(list)
    for (library, name), found in architectures.items():
        if all(outcome(result) == "right" for _, result in found):
            groups[library, tuple(sorted({f"{FORMS[e['variant']]} {e['type']}" for e, _ in found}))].append(name)
    lines = rows(("architectures", "forms", "files", "largest error"), ("---",) * 4)
    for library in LIBRARIES:
        for (owner, forms), names in sorted(groups.items(), key=lambda item: (len(item[0][1]), item[0])):
            if owner != library:
                continue
            for start in range(0, len(names), A_ROW):
                part = sorted(names)[start : start + A_ROW]
                found = [pair for name in part for pair in architectures[library, name]]
                worst = {}
                for entry, result in found:
                    worst[entry["type"]] = max(worst.get(entry["type"], 0), result["error"])
                by_form = collections.defaultdict(list)
                for form in forms:
                    by_form[form.rsplit(" ", 1)[0]].append(form.rsplit(" ", 1)[1])
                text = ", ".join(
                    form + ("" if kinds == ["f32"] else " " + "/".join(sorted(kinds, key=list(LIMITS).index)))
                    for form, kinds in by_form.items()
                )
                lines += rows(
                    (
                        f"{', '.join(part)}",
                        text,
                        len(found),
                        ", ".join(f"{kind} {decade(worst[kind])}" for kind in LIMITS if kind in worst),
                    )
                )
    return lines


def not_right_table(architectures):
    lines = rows(("architecture", "files", "right", "what the others are"), ("---",) * 4)
    for (library, name), found in sorted(
        architectures.items(), key=lambda item: (LIBRARIES.index(item[0][0]), item[0][1])
    ):
        others = collections.defaultdict(list)
        for entry, result in found:
            what = outcome(result)
            if what != "right":
                others[what].append(f"{FORMS[entry['variant']]} {entry['type']} {entry['exporter']}")
        if others:
            text = "; ".join(f"{', '.join(which)}: {short(what)}" for what, which in others.items())
            lines += rows((name, len(found), len(found) - sum(map(len, others.values())), text))
    return lines


def not_exported(records):
    """Files that PyTorch's exporters did not write, by the reason."""
    found = collections.defaultdict(list)
    for record in records:
        for entry in record["files"]:
            if entry["reason"]:
                reason = entry["reason"]
                match = re.search(r"operator '(\S+)'", reason)
                if match:
                    reason = f"{match[1]} is not supported"
                elif "TorchExportError" in reason or "ConversionError" in reason:
                    reason = "torch.export fails" if "TorchExport" in reason else "the translation to ONNX fails"
                elif entry["exporter"] is None:
                    reason = "no such form: " + re.sub(r"\d+", "N", reason.split(":")[0])
                else:
                    reason = re.sub(r"\d+", "N", reason)[:90]
                found[entry["exporter"] or "", reason].append((record["name"], FORMS[entry["variant"]], entry["type"]))
    lines = rows(("exporter", "why", "files", "of"), ("---",) * 4)
    for (exporter, reason), which in sorted(found.items(), key=lambda item: -len(item[1])):
        names = sorted({name for name, *_ in which})
        lines += rows((exporter or "both", short(reason, 100), len(which), short(", ".join(names), 400)))
    return lines


def not_built(records):
    names = collections.defaultdict(list)
    for record in records:
        if not record["files"]:
            names[record["library"]].append(record["name"])
    return [f"{library}: {', '.join(found)}.\n" for library, found in names.items()]


def write_table(folder, path, listed):
    """`listed`: pairs of library and name that a whole survey takes."""
    records, results = load(folder)
    files = [
        (record["library"], record["name"], entry, results[entry["file"]])
        for record in records
        for entry in record["files"]
        if entry.get("file") in results
    ]
    architectures = collections.defaultdict(list)
    for library, name, entry, result in files:
        architectures[library, name].append((entry, result))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", *LIBRARIES, "onnxruntime"))
    built = sum(bool(record["files"]) for record in records)
    accepted = sum(is_accepted(result) for *_, result in files)
    right = sum(is_right(result) for *_, result in files)
    builds = collections.Counter(result["kfuse"] for *_, result in files)
    newest = max(
        (path for path in (folder / "result").glob("*.json")), key=lambda path: path.stat().st_mtime, default=None
    )
    newest = json.loads(newest.read_text())["kfuse"] if newest else None
    text = [
        HEAD.format(targets=", ".join(TARGETS[:-1]) + " and the " + TARGETS[-1].upper()),
    ]
    text += [
        "## Summary\n",
        f"{len(records)} architectures, of which {built} were built and {len(architectures)} exported: "
        f"{len(files)} files.\n",
        *summary(files),
        "",
    ]
    reasons = refused_ops(files)
    if reasons:
        text += [
            "Refusals by what the file wanted (files):\n",
            *(f"- {short(reason, 110)}: {count}" for reason, count in reasons.most_common()),
            "",
        ]
    text += ["## Right\n", "Architectures whose files all are.\n", *right_table(architectures), ""]
    text += [
        "## Not right\n",
        "Architectures of which a file is not; their other files are.\n",
        *not_right_table(architectures),
        "",
    ]
    text += ["## Not exported\n", "What PyTorch's exporters do not write.\n", *not_exported(records), ""]
    text += [
        "## Not built\n",
        "No small configuration or inputs of these were found, or a library of theirs is missing.\n",
        *not_built(records),
    ]
    reached = {(record["library"], record["name"]) for record in records}
    waiting = [name for library, name in listed if (library, name) not in reached]
    not_run = [
        entry["file"].removesuffix(".onnx")
        for record in records
        for entry in record["files"]
        if not entry["reason"] and entry["file"] not in results
    ]
    if waiting or not_run:
        text += ["## Not run yet\n"]
        text += [f"{len(waiting)} architectures: {', '.join(waiting)}.\n"] if waiting else []
        text += [f"{len(not_run)} files: {', '.join(not_run)}.\n"] if not_run else []
    text += [
        "",
        JUDGED.format(
            newest=builds[newest],
            former=len(set(builds) - {newest}),
            hours=HOURS,
            versions=versions,
            compiled=compiled(files),
            limits=", ".join(f"{limit:.0e} of {kind}" for kind, limit in LIMITS.items()),
        ),
    ]
    path.write_text("\n".join(text).rstrip() + "\n")
    print(f"accepted {accepted} of {len(files)}, right {right} of {accepted}")
    for reason, count in reasons.most_common():
        print(f"{count:5} {reason[:110]}")
