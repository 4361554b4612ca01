"""torch.compile(model, backend="kfuse"): the parts of a model that kfuse takes and where it pays, the rest by Inductor.

The backend is found by its entry point; nothing has to be imported. report() says what became of each graph.
"""

from .dynamo import backend
from .export import from_exported
from .records import report

__all__ = ["backend", "from_exported", "report"]
