"""What torch.export made, as a model of kfuse."""

import torch
from torch.export.graph_signature import InputKind, OutputKind

import kfuse

from .decompositions import decompositions
from .graph import prepared
from .importer import Importer, reason_against
from .records import place_of

aten = torch.ops.aten


def from_exported(program: "torch.export.ExportedProgram"):
    """(model, parameters): a kfuse.Model, and the tensors that its Program.prepare() takes, by name.

    Parameters and buffers keep their names, inputs those that the exported function gave them; outputs are output0,
    output1, ... A buffer that the program changes by rows is a state. What kfuse does not take is a BadModelError that
    names each op and its line.
    """
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    module, _ = prepared(_with_copies(program.graph_module, signature))
    _refuse_unsupported(module.graph)
    written = set(signature.buffers_to_mutate.values())
    importer, parameters = Importer(), {}
    for node, spec in zip(module.graph.find_nodes(op="placeholder"), signature.input_specs):
        if spec.kind is InputKind.USER_INPUT:
            importer.argument(node, "input", spec.arg.name)
        elif spec.target in written:
            importer.argument(node, "state", spec.target)
        else:
            importer.argument(node, "parameter", spec.target)
            parameters[spec.target] = _tensor(program, spec)
    for node in (node for node in module.graph.nodes if node.op == "call_function"):
        importer.lower(node)
    for i, node in enumerate(module.graph.output_node().args[0]):
        importer.g.output(f"output{i}", importer.values[node])
    return importer.g.build(), parameters


def _tensor(program, spec):
    held = program.constants if spec.target in program.constants else program.state_dict
    return held[spec.target].detach()


def _with_copies(module, signature):
    """The graph with its changes of buffers as copies to them, as AOTAutograd writes them for the backend."""
    graph = torch.fx.Graph()
    outputs = graph.graph_copy(module.graph, {})
    buffers = {spec.target: node for spec, node in zip(signature.input_specs, graph.find_nodes(op="placeholder"))}
    kept = []
    for spec, value in zip(signature.output_specs, outputs):
        if spec.kind is OutputKind.BUFFER_MUTATION:
            copy = graph.call_function(aten.copy_.default, (buffers[spec.target], value))
            copy.meta["val"] = buffers[spec.target].meta["val"]
        else:
            kept.append(value)
    graph.output(tuple(kept))
    return torch.fx.GraphModule(module, graph)


def _refuse_unsupported(graph):
    ops = [node for node in graph.nodes if node.op == "call_function"]
    lines = [f"{node.name} ({place_of(node)}): {reason}" for node in ops if (reason := reason_against(node))]
    if lines:
        raise kfuse.errors.BadModelError(f"{len(lines)} ops are not for kfuse: {'; '.join(lines)}")
