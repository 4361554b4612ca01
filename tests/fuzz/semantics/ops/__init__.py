"""How each op of the importer is drawn at random: one generator an op, which registers itself."""

from . import attention, elementwise, images, layout, quantised, rows, runtime, static  # noqa: F401
from .registry import GENERATORS  # noqa: F401
