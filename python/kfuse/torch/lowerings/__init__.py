"""How each op of aten is written as calls of a GraphBuilder: one row an op, in the table of its kind.

A row is a function of a Site and the op's own arguments, tensors among them as tensors of the builder. It returns the
result, or a tuple where the op has several (None: one that kfuse does not compute), or raises a Refusal.
"""

from . import layout, pointwise, products, rows, state
from .products import ATTENTION
from .site import Refusal, Site, type_of
from .state import IN_PLACE, rows_written, written_in_place

TABLE = pointwise.TABLE | rows.TABLE | products.TABLE | layout.TABLE | state.TABLE

__all__ = ["ATTENTION", "IN_PLACE", "TABLE", "Refusal", "Site", "rows_written", "type_of", "written_in_place"]
