"""A part of a graph as a program of kfuse, run in place of the part."""

import threading

import torch

import kfuse

from . import changes
from .cost import tensors_of
from .records import warn


class PartProgram(torch.nn.Module):
    """Called with what the part is called with; returns a tuple of its outputs.

    Parameters are prepared at the first call, and anew when one has changed. Where kfuse fails, the part's own ops run.
    """

    def __init__(self, part, model, options):
        super().__init__()
        self.part, self.checked = part.module, options.weights == "checked"
        self.made = [node.meta["val"] for node in part.outputs]
        self.inputs, self.states, self.parameters = (
            [(i, node.name) for i, node in enumerate(part.placeholders) if part.roles[i] == role]
            for role in ("input", "state", "parameter")
        )
        if self.checked and self.parameters:
            changes.watch()
        self.roles = part.roles
        self.permuted = {i: order for i, order in enumerate(model.orders) if order != sorted(order)}
        self.permuted_outputs = {i: order for i, order in enumerate(model.output_orders) if order != sorted(order)}
        self.output_count = len(model.output_orders)
        self.device = next(tensor.device for node in part.ops for tensor in tensors_of(node))
        self.program = kfuse.compile(model.graph, **_compile_options(self.device, options))
        # Outputs that are a state after its update, as a clone of it: torch's has memory of its own.
        self.cloned = [i for i in range(self.output_count) if self.program.updated_states[i] >= 0]
        self.weights, self.watched, self.stamp = None, [], None
        self.sessions, self.captured = {}, []
        self.lock, self.failed = threading.Lock(), False

    def __call__(self, *args):
        made = self._guarded(args, None)
        return self.part(*args) if made is None else made

    def run_into(self, out, args):
        """Writes the outputs to tensors of the caller's."""
        if self._guarded(args, out) is None:
            for target, made in zip(out, self.part(*args)):
                target.copy_(made)

    def _guarded(self, args, out):
        """The outputs; None where kfuse fails, or has no session for a capture."""
        if self.failed:
            return None
        try:
            return self.run(args, out)
        except kfuse.errors.UsageError:  # A tensor is not dense, or not aligned.
            return self._guarded_copies(args, out)
        except Exception as error:
            return self._fail(error)

    def _guarded_copies(self, args, out):
        try:
            dense = list(args)
            for i, _ in (*self.inputs, *self.states):
                dense[i] = self._dense_as_declared(i, args[i])
            made = self.run(dense, out)
            for i, _ in self.states:
                if dense[i].data_ptr() != args[i].data_ptr():
                    args[i].copy_(dense[i])
            return made
        except Exception as error:
            return self._fail(error)

    def _dense_as_declared(self, i, arg):
        """Without gaps, its dimensions in the order in which the program has them in memory."""
        order = self.permuted.get(i, list(range(arg.dim())))
        return _dense(arg.permute(order)).permute(sorted(order, key=order.__getitem__))

    def _fail(self, error):
        self.failed = True
        warn(f"a part of {len(self.part.graph.nodes)} ops runs in torch from now on: {error}")

    def run(self, args, out=None):
        """The outputs, made by torch or given."""
        watched = [args[i] for i, _ in self.parameters] if self.checked else []
        if self.permuted:
            args = [arg.permute(self.permuted[i]) if i in self.permuted else arg for i, arg in enumerate(args)]
        session = self.session(args, watched)
        if session is None:
            return None
        if not (self.inputs or self.states):  # Nothing from which kfuse could tell that outputs are torch's.
            return self._run_alone(session, out)
        made = session(
            *[args[i] for i, _ in self.inputs],
            states={name: args[i] for i, name in self.states} if self.states else None,
            out=self._in_memory_order(out),
        )
        made = list(made) if isinstance(made, tuple) else [made]
        if out is not None:
            for i in self.cloned:
                self._placed(i, out[i]).copy_(made[i])
            return out
        for i in self.cloned:
            made[i] = made[i].clone()
        made = tuple(made[: self.output_count])
        for i, order in self.permuted_outputs.items():
            inverse = sorted(order, key=order.__getitem__)
            made = (*made[:i], made[i].permute(inverse), *made[i + 1 :])
        return made

    def _run_alone(self, session, out):
        if out is None:
            out = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device) for one in self.made]
        session(out=self._in_memory_order(out), stream=_stream(self.device))
        return out

    def _in_memory_order(self, out):
        """Tensors for all outputs of the program; None for a state that was updated, behind the part's own."""
        if out is None:
            return None
        placed = [None if i in self.cloned else self._placed(i, one) for i, one in enumerate(out)]
        return placed + [None] * (len(self.program.outputs) - len(placed))

    def _placed(self, i, tensor):
        return tensor.permute(self.permuted_outputs[i]) if i in self.permuted_outputs else tensor

    def session(self, args, watched):
        """This thread's and stream's, with weights that are those of now. `watched` tell whether they have changed."""
        if self.weights is None or (changes.versions(watched), changes.accesses(watched)) != self.stamp:
            self.prepare(args, watched)
        thread = threading.get_ident()
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return self._captured_session(thread)
        key = thread, _stream(self.device)
        session = self.sessions.get(key)
        if session is None:
            session = self.sessions[key] = self.program.session(self.weights)
        return session

    def _captured_session(self, thread):
        """One that was made before, since a capture allows no allocation; None where the model has not run yet. It is the
        captured graph's from now on: a replay writes its scratch memory, whatever else runs."""
        free = [key for key in self.sessions if key[0] == thread]
        if free:
            self.captured.append(self.sessions.pop(free[0]))
        return self.captured[-1] if self.captured else None

    def prepare(self, args, watched):
        with self.lock:
            versions = changes.versions(watched)
            tensors = {name: _dense(args[i].detach()) for i, name in self.parameters}
            self.weights, self.sessions = self.program.prepare(tensors), {}
            # Accesses last: in a graph's first run torch itself asks parameters for their data.
            self.stamp = versions, changes.accesses(watched)
            self.watched = watched  # Held, or else a new one could have the address of one that is gone.


def _compile_options(device, options):
    return {
        "target": "auto" if device.type == "cuda" else "cpu",
        "device": device.index or 0,
        "effort": options.effort,
        "budget": options.budget,
        "store": options.store,
        "require_tuned": options.require_tuned,
        "trust_store": options.trust_store,
    }


def _stream(device) -> int:
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


def _dense(tensor):
    """A parameter that kfuse can read where it lies, else a copy that it can."""
    return (
        tensor
        if tensor.is_contiguous() and tensor.data_ptr() % 16 == 0
        else tensor.clone(memory_format=torch.contiguous_format)
    )
