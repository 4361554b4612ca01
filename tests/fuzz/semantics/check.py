"""Whether a graph's results are right, and the smallest graph whose results are as wrong."""

import copy
import re
from dataclasses import dataclass

from .graph import Value, prune
from .oracle import Expectation, evaluate, Run
from .values import BOOL

CONFIRMING_RUNS = 100
KNOWN = {"Constant", "ConstantOfShape", "Shape", "Size", "Range"}  # Ops read their results as attributes.

# Why kfuse may refuse a valid model: its errors begin with the node, or name the tensor.
REFUSALS = {
    "powers of integers": r"the base is of an integer type; kfuse takes powers of floats",
    "a tensor without elements": r"a tensor without elements can only be part of shape arithmetic or of a Concat",
    "an output without elements": r"output '\w+' has no elements",
    "ReduceProd of what is computed": r"multiplies a tensor that is no known vector of integers",
    "factors of one element": r"updates into each place; kfuse multiplies at most 64",
    "means of integers": r"takes the mean of floats, not of 'i(32|64)'",
    "an op on integers or booleans": r"operand #\d must be statically shaped tensor of .* values, but got 'tensor<.*[ix](1|32|64)>'",
}


@dataclass
class Failure:
    kind: str  # What must stay while a graph is made smaller.
    how: str
    target: str
    text: str

    def __str__(self):
        return f"{self.kind} ({self.how}, {self.target}): {self.text}"


@dataclass
class Refusal:
    reason: str


class NoCompiler:
    """This machine has no NVRTC."""


def refusal_of(answer):
    if answer.status == 3:
        for reason, text in REFUSALS.items():
            if re.search(text, answer.text):
                return Refusal(reason)
    return None


def gist(text):
    """What of an error does not depend on names and numbers."""
    return re.sub(r"[\w/.']*\d[\w/.'x]*", "#", text.rpartition(": ")[2])[:80]


def check(graph, runner, how, target, expectation=None):
    """A Failure, a Refusal, or nothing when all is right."""
    answer = runner.ask(graph, how, target)
    if answer.status < 0:
        kind = {-999: "hung", -1001: "wrong type or shape"}.get(answer.status, "crashed")
        return Failure(kind, how, target, answer.text)
    if answer.status == 4:
        return NoCompiler()
    if answer.status:
        return refusal_of(answer) or Failure(f"status {answer.status}: {gist(answer.text)}", how, target, answer.text)
    if target != "cpu":
        return None
    return compare(graph, answer.outputs, how, expectation or Expectation(graph))


def compare(graph, outputs, how, expectation):
    for value in graph.outputs:
        found = outputs[value.name]
        if value.dtype == BOOL and (found > 1).any():
            return Failure("wrong", how, "cpu", f"{value.name} holds booleans other than 0 and 1")
        found = found.astype(bool) if value.dtype == BOOL else found
        if not expectation.difference(value, found):
            continue
        if expectation.runs_count() < CONFIRMING_RUNS:
            expectation.extend(CONFIRMING_RUNS)
        if difference := expectation.difference(value, found):
            return Failure("wrong", how, "cpu", f"{value.dtype} {difference}")
    return None


def without(graph, step):
    """The graph with a node's results as inputs, as the reference's first run has them."""
    smaller = copy.copy(graph)
    values = evaluate(graph, Run(0, graph.seed))
    smaller.steps = [other for other in graph.steps if other is not step]
    names = {name: dtype for name, dtype in zip(step.node.output, step.dtypes) if name}
    smaller.sources = graph.sources + [Value(name, dtype, values[name], "input") for name, dtype in names.items()]
    smaller.outputs = [value for value in graph.outputs if value.name not in names]
    if not smaller.outputs:
        return None
    prune(smaller)
    return smaller if smaller.steps else None


def candidates(graph):
    """Graphs that are smaller by one thing."""
    for output in graph.outputs:
        if len(graph.outputs) > 1:
            smaller = copy.copy(graph)
            smaller.outputs = [output]
            prune(smaller)
            yield smaller
    for step in graph.steps:
        if step.node.op_type not in KNOWN:
            yield without(graph, step)
    for step in reversed(graph.steps):  # What is computed on the way as the only result.
        smaller = copy.copy(graph)
        values = evaluate(graph, Run(0, graph.seed))
        smaller.outputs = [Value(name, dtype, values[name]) for name, dtype in zip(step.node.output, step.dtypes) if name and values[name].size]
        if smaller.outputs and [v.name for v in smaller.outputs] != [v.name for v in graph.outputs]:
            prune(smaller)
            if len(smaller.steps) < len(graph.steps):
                yield smaller


def minimise(graph, failure, runner, attempts=150):
    """Takes away what the failure does not need."""
    found = True
    while found and attempts > 0:
        found = False
        for smaller in candidates(graph):
            if smaller is None:
                continue
            attempts -= 1
            again = check(smaller, runner, failure.how, failure.target)
            if isinstance(again, Failure) and again.kind == failure.kind:
                graph, failure, found = smaller, again, True
                break
            if attempts <= 0:
                break
    return graph, failure
