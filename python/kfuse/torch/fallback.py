"""What runs that kfuse does not take: a whole graph as Dynamo gave it, or what is left of one."""

import functools
import itertools
import operator
import weakref

import torch

from .sizes import symbolic_sizes

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
    """The graph with programs in place of its parts, as a function of a list of arguments. Where sizes change, what is
    left runs op by op."""
    left = [node for node in module.graph.nodes if node.op == "call_function" and node.target not in _PLAIN]
    if options.fallback == "inductor" and left and not symbolic_sizes(inputs):
        return _by_inductor(module, programs, inputs, options)
    for name, program in programs.items():
        module.add_module(name, program)
    module.recompile()
    return boxed(module.forward)


def boxed(function):
    """As AOTAutograd calls it: with a list, which the callee empties."""

    def run(args):
        given = list(args)
        args.clear()
        return function(*given)

    run._boxed_call = True
    return run


# Inductor sees a part as one op, torch.ops.kfuse.run(number, read, written), and plans its memory around it: what is
# written are the part's states, and behind them its outputs, which Inductor allocates.
_programs = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _run(number, read, written):
    program = _programs[number]
    read, written = iter(read), iter(written)
    arguments = [next(written if is_state else read) for is_state in program.is_state]
    program.run_into(list(written), arguments)


@functools.cache
def _library():
    library = torch.library.Library("kfuse", "FRAGMENT")
    library.define("run(int number, Tensor[] read, Tensor(a!)[] written) -> ()")
    library.impl("run", _run, "CompositeExplicitAutograd")
    torch.library.register_fake("kfuse::run", lambda number, read, written: None, lib=library)
    return library


def _call_as_op(graph, call, program):
    """The call of a part as tensors for its outputs, and a call of torch.ops.kfuse.run."""
    number = next(_numbers)
    _programs[number] = program
    with graph.inserting_before(call):
        made = [
            graph.call_function(
                aten.empty_strided.default,
                (list(one.shape), list(one.stride())),
                {"dtype": one.dtype, "device": one.device},
            )
            for one in program.made
        ]
        read = [arg for arg, is_state in zip(call.args, program.is_state) if not is_state]
        states = [arg for arg, is_state in zip(call.args, program.is_state) if is_state]
        graph.call_function(torch.ops.kfuse.run.default, (number, read, states + made))
    for item in list(call.users):
        item.replace_all_uses_with(made[item.args[1]])
        graph.erase_node(item)
    graph.erase_node(call)


def _by_inductor(module, programs, inputs, options):
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import make_fx

    _library()
    for call in module.graph.find_nodes(op="call_module"):
        _call_as_op(module.graph, call, programs[call.target])
    module.recompile()
    fake_mode = torch._guards.detect_fake_mode(inputs)
    with fake_mode, V.set_fake_mode(fake_mode), config.patch(_patches(options) or {}):
        traced = make_fx(module, decomposition_table=select_decomp_table())(*inputs)
        compiled = compile_fx_inner(traced, inputs)

    def run(args):
        return compiled(args)

    run._boxed_call, run.programs = True, programs  # Which live as long as what calls them.
    return run
