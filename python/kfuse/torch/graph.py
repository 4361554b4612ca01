"""The copy of AOTAutograd's graph that kfuse works on; the graph itself stays as it is, for the fall-back."""

import operator

import torch

from .importer import reason_against
from .lowerings import IN_PLACE
from .roles import is_copy_to_argument

aten = torch.ops.aten


def prepared_copy(module: torch.fx.GraphModule):
    """As prepared(), of a copy."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return prepared(torch.fx.GraphModule(module, graph))


def prepared(module: torch.fx.GraphModule):
    """The module with constants of one element as ops, and rows of arguments written in place; and the nodes that would
    write more than kfuse can, by their names, each with the reason."""
    drop_checks(module.graph)
    drop_empty_operands(module.graph)
    inline_constants(module)
    forward_sources(module.graph)
    refused = write_in_place(module.graph)
    module.recompile()
    return module, refused


def drop_checks(graph: torch.fx.Graph):
    """What torch.export writes before a cast: that types are those of the trace, which they are."""
    for node in graph.find_nodes(op="call_function", target=aten._assert_tensor_metadata.default):
        graph.erase_node(node)


def drop_empty_operands(graph: torch.fx.Graph):
    """A tensor without elements, as a cache is at first, adds nothing to what it is joined with."""
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        kept = [piece for piece in node.args[0] if piece.meta["val"].numel() > 0]
        if not kept or len(kept) == len(node.args[0]):
            continue
        dropped = [piece for piece in node.args[0] if piece not in kept]
        node.args = (kept, *node.args[1:])
        while dropped:
            last = dropped.pop()
            if not last.users and last.op in ("call_function", "get_attr"):
                dropped += last.all_input_nodes
                graph.erase_node(last)


def inline_constants(module: torch.fx.GraphModule):
    """Tensors of one element that the graph holds become full(...)."""
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.is_cuda:
            continue
        fake = next((user.meta["val"] for user in node.users if "val" in user.meta), None)
        if fake is None or fake.dtype != value.dtype:
            continue
        number = _number(value)
        with module.graph.inserting_before(node):
            full = module.graph.call_function(
                aten.full.default, (list(value.shape), number), {"dtype": value.dtype, "device": value.device}
            )
        full.meta["val"] = fake.new_empty(value.shape) if fake.shape != value.shape else fake
        node.replace_all_uses_with(full)
        module.graph.erase_node(node)


def _number(value: torch.Tensor):
    """The element, without a fake mode in the way."""
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        return value.item()


def forward_sources(graph: torch.fx.Graph):
    """copy(target, source) makes the source, and of the target only its type and shape. An argument stays copied, since
    it may change before the copy is read."""
    for node in graph.find_nodes(op="call_function", target=aten.copy.default):
        target, source = node.args[:2]
        made, given = node.meta["val"], source.meta["val"]
        if given.dtype != made.dtype or given.shape != made.shape or is_argument(source):
            continue
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        if not target.users and target.op == "call_function":
            graph.erase_node(target)


def is_argument(node) -> bool:
    """Or a view of one."""
    return viewed(node).op == "placeholder"


def viewed(node):
    """What a view is one of, through whatever views; the node itself where it is none."""
    while is_view(node):
        node = node.args[0]
    return node


def is_view(node) -> bool:
    """Of its first operand; a piece of several, too. Sizes may be operands beside it."""
    op = node.args[0].target if node.target is operator.getitem else node.target
    return getattr(op, "is_view", False)


def change_last(graph: torch.fx.Graph):
    """Arguments change when all else has read them: a part runs where the last of its ops stands, which may be behind a
    change, of views of arguments that are inputs of others."""
    for copy in [node for node in graph.nodes if is_copy_to_argument(node) and not node.users]:
        graph.output_node().prepend(copy)


def write_in_place(graph: torch.fx.Graph) -> dict:
    """A changed copy of an argument that is copied back to it becomes the change itself, where nothing else reads the
    argument. What the copy's readers read is then the argument after its change."""
    refused = {}
    for copy in [node for node in graph.nodes if is_copy_to_argument(node) and not node.users]:
        argument, changed = copy.args[:2]
        if not isinstance(changed, torch.fx.Node) or changed.target not in IN_PLACE:
            continue
        if changed.args[0] is not argument or set(argument.users) != {copy, changed}:
            continue
        target, changed.target = changed.target, IN_PLACE[changed.target]
        reason = reason_against(changed)
        if reason:
            changed.target, refused[changed.name] = target, reason
        else:
            graph.erase_node(copy)
    return refused
