"""What torch.export made, as a model of kfuse."""

import torch
from torch.export.graph_signature import InputKind, OutputKind

import kfuse

from .decompositions import decompositions
from .graph import prepared
from .importer import Importer, reason_against
from .lowerings import Refusal
from .records import place_of
from .sizes import Sizes

aten = torch.ops.aten


def from_exported(program: "torch.export.ExportedProgram"):
    """(model, parameters): a kfuse.Model, and the tensors that its Program.prepare() takes, by name.

    Parameters and buffers keep their names, inputs those that the exported function gave them; outputs are output0,
    output1, ... A buffer that the program changes by rows is a state, a torch.export.Dim with a max a size that each run
    gives. What kfuse does not take is a BadModelError that names each op and its line.
    """
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    module, _ = prepared(_with_copies(program.graph_module, signature))
    written = set(signature.buffers_to_mutate.values())
    arguments = [
        _argument(spec, written, node)
        for spec, node in zip(signature.input_specs, module.graph.find_nodes(op="placeholder"))
    ]
    parameters = {
        spec.target: _tensor(program, spec)
        for spec, (role, _) in zip(signature.input_specs, arguments)
        if role == "parameter"
    }
    try:
        return _model(module.graph, arguments), parameters
    except Refusal as refusal:
        raise kfuse.errors.BadModelError(str(refusal)) from None


def _argument(spec, written, node) -> tuple:
    """Role and name. What no op reads is "unread": the weights of heads that the call left out, the empty tensor that
    a cache is at first."""
    if spec.kind is InputKind.USER_INPUT:
        return "input", spec.arg.name
    if not node.users:
        return "unread", spec.target
    return "state" if spec.target in written else "parameter", spec.target


def _model(graph, arguments):
    values = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
    sizes = Sizes(values)
    if reason := sizes.reason_against():
        raise kfuse.errors.BadModelError(f"{reason}; give it one with torch.export.Dim(name, max=4096)")
    _refuse_unsupported(sizes.largest(graph))
    if not sizes:
        return _written(graph, arguments).build()
    dims = sizes.dims(values)
    return kfuse.Model.from_graphs(
        lambda *lengths: _written(sizes.at(graph, dict(zip(dims, lengths))), arguments), dims
    )


def _written(graph, arguments):
    """The graph, with sizes that are numbers, as a GraphBuilder."""
    importer = Importer()
    for node, (role, name) in zip(graph.find_nodes(op="placeholder"), arguments):
        if role != "unread":
            importer.argument(node, role, name)
    for node in (node for node in graph.nodes if node.op == "call_function"):
        importer.lower(node)
    for i, node in enumerate(graph.output_node().args[0]):
        importer.g.output(f"output{i}", importer.values[node])
    return importer.g


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
