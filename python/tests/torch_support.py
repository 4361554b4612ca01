"""What the tests of the torch backend share: models, and the backend as they call it.

KFUSE_TEST_DEVICE=cuda runs test_torch_models, _ops, _state, _sizes and _fallback on a GPU, as gpu.sh does.
"""

import contextlib
import logging
import os
import pathlib

import torch

DEVICE = os.environ.get("KFUSE_TEST_DEVICE", "cpu")
torch.set_num_threads(2)
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# What a user would never choose: every part in kfuse, however small, and without a search.
EVERY = {"effort": "none", "min_benefit_us": -1000.0, "fallback": "eager"}


def report():
    import kfuse.torch

    return kfuse.torch.report()


def compiled(model, *, dynamic=None, **options):
    """The backend by its name, as a user writes it."""
    torch._dynamo.reset()
    report().clear()
    return torch.compile(model, backend="kfuse", dynamic=dynamic, options=EVERY | options)


@contextlib.contextmanager
def warnings():
    """The lines of the logger kfuse."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("kfuse").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("kfuse").removeHandler(handler)


class Layers(torch.nn.Module):
    """Two products, and between them an op that kfuse has not."""

    def __init__(self, middle=lambda x: x):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(48, 80), torch.nn.Linear(80, 48), torch.nn.LayerNorm(48)
        self.middle = middle

    def forward(self, x):
        return self.norm(self.down(self.middle(torch.nn.functional.gelu(self.up(x)))) + x)


def layers(*args):
    torch.manual_seed(0)
    return Layers(*args).eval(), torch.randn(5, 48)


class Rows(torch.nn.Module):
    """Rows of a cache, written at a position."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(48, 48)
        self.register_buffer("rows", torch.zeros(3, 8, 48))

    def forward(self, x, position):
        self.rows.index_copy_(1, position, self.up(x))
        return self.rows.sum(1)


class Attention(torch.nn.Module):
    """Of heads that share keys, causal, with a part of each row's positions."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = torch.nn.Linear(48, 64), torch.nn.Linear(48, 64), torch.nn.Linear(64, 48)

    def forward(self, x):
        batch, rows, _ = x.shape
        heads = lambda t, count: t.view(batch, rows, count, 16).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        y = torch.nn.functional.scaled_dot_product_attention(
            heads(self.q(x), 4), heads(k, 2), heads(v, 2), is_causal=True, enable_gqa=True
        )
        return x + self.o(y.transpose(1, 2).reshape(batch, rows, 64))
