"""What runs that kfuse does not take: a whole graph as Dynamo gave it, or what is left of one."""

import contextlib
import functools
import itertools
import operator
import weakref

import torch

from .graph import is_view
from .roles import is_copy_to_argument
from .sizes import is_symbolic

aten = torch.ops.aten
# Done by torch one by one, around parts of kfuse, without a compiler.
_PLAIN = (
    operator.getitem, aten.view.default, aten._unsafe_view.default, aten.alias.default, aten.permute.default,
    aten.unsqueeze.default, aten.squeeze.dims, aten.expand.default, aten.slice.Tensor, aten.select.int,
    aten.copy_.default,
)  # fmt: skip


def whole(module, inputs, options):
    """The untouched graph."""
    if options.fallback == "eager":
        return module.forward
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, inputs, config_patches=_patches(options))


def _patches(options):
    from torch._inductor import list_mode_options

    return list_mode_options(options.mode) if options.mode not in (None, "default") else None


def around(module, programs: dict, inputs, options):
    """The graph with programs in place of its parts, as a function of a list of arguments."""
    if options.fallback == "inductor" and any(map(_is_for_inductor, module.graph.nodes)):
        return _by_inductor(module, programs, inputs, options)
    for name, program in programs.items():
        module.add_module(name, program)
    module.recompile()
    return boxed(module.forward)


def _is_for_inductor(node) -> bool:
    return node.op == "call_function" and node.target not in _PLAIN and not is_symbolic(node.meta.get("val"))


def boxed(function):
    """As AOTAutograd calls it: with a list, which the callee empties."""

    def run(args):
        given = list(args)
        args.clear()
        return function(*given)

    run._boxed_call = True
    return run


# Inductor sees a part as one op, torch.ops.kfuse.run(number, read, sizes, written), and plans its memory around it: what
# is written are the part's states, and behind them its outputs, which Inductor allocates.
_programs = weakref.WeakValueDictionary()
_numbers = itertools.count()


_LIST = {"input": 0, "parameter": 0, "size": 1, "state": 2}  # Which of the op's lists an argument of a part is in.


def _run(number, read, sizes, written):
    program, lists = _programs[number], (iter(read), iter(sizes), iter(written))
    arguments = [next(lists[_LIST[role]]) for role in program.roles]
    program.run_into(list(lists[2]), arguments)


@functools.cache
def _library():
    library = torch.library.Library("kfuse", "FRAGMENT")
    library.define("run(int number, Tensor[] read, SymInt[] sizes, Tensor(a!)[] written) -> ()")
    library.impl("run", _run, "CompositeExplicitAutograd")
    torch.library.register_fake("kfuse::run", lambda number, read, sizes, written: None, lib=library)
    library.define("copied(Tensor x) -> Tensor")
    library.impl("copied", torch.clone, "CompositeExplicitAutograd")
    torch.library.register_fake("kfuse::copied", torch.empty_like, lib=library)
    return library


class _PartAsOp(torch.nn.Module):
    """What a trace sees of a part: tensors for its outputs, and a call of torch.ops.kfuse.run that writes them."""

    def __init__(self, program):
        super().__init__()
        self.program, self.number = program, next(_numbers)
        _programs[self.number] = program

    def forward(self, *args):
        made = [
            torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device)
            for one in self.program.made
        ]
        lists = read, sizes, written = [], [], []
        for arg, role in zip(args, self.program.roles):
            lists[_LIST[role]].append(arg)
        torch.ops.kfuse.run(self.number, read, sizes, written + made)
        return tuple(made)


@contextlib.contextmanager
def _with_constants(fake_mode):
    """The mode, in which a part may be given a tensor that the graph holds."""
    before, fake_mode.allow_non_fake_inputs = fake_mode.allow_non_fake_inputs, True
    try:
        with fake_mode:
            yield
    finally:
        fake_mode.allow_non_fake_inputs = before


# What Inductor may take for its last operand, where it finds that both are the same tensor but for the memory.
_COPIES = (
    aten.clone.default, aten.copy.default, aten.cat.default, aten.repeat.default, aten.constant_pad_nd.default,
    aten.slice_scatter.default,
)  # fmt: skip


def _keep_copies(graph):
    """Copies of arguments that change, where other arguments become them, by an op of ours: up to torch 2.11, at least,
    Inductor reads the argument itself in their place, behind its change."""
    changes = [node for node in graph.nodes if is_copy_to_argument(node)]
    changed = {node.args[0] for node in changes}
    for node in changes:
        copy = node.args[1]
        if copy is not node.args[0] and _copied(copy) in changed:
            with graph.inserting_before(changes[0]):  # All changes are last.
                node.args = (node.args[0], graph.call_function(torch.ops.kfuse.copied.default, (copy,)))


def _copied(node):
    """What a view or a copy is one of, through whatever views and copies."""
    while node.target in _COPIES or is_view(node):
        node = node.args[0] if is_view(node) else node.all_input_nodes[-1]  # Sizes are operands of views, too.
    return node


def _by_inductor(module, programs, inputs, options):
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import make_fx

    _library()
    for name, program in programs.items():
        module.add_module(name, _PartAsOp(program))
    _keep_copies(module.graph)
    module.recompile()
    fake_mode = torch._guards.detect_fake_mode(inputs)
    with _with_constants(fake_mode), V.set_fake_mode(fake_mode), config.patch(_patches(options) or {}):
        traced = make_fx(module, decomposition_table=select_decomp_table())(*inputs)
        compiled = compile_fx_inner(traced, inputs)

    def run(args):
        return compiled(args)

    run._boxed_call, run.programs = True, programs  # Which live as long as what calls them.
    return run
