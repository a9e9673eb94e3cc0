"""The shapes of queries, as text: those of the peer's benchmark (QUAIL-B) and what else analysts ask."""

from __future__ import annotations

from shapes.others import OTHERS
from shapes.peer import PEER
from shapes.tables import TABLES
from shapes.writing import Shape

__all__ = ["SHAPES", "TABLES", "Shape"]

SHAPES = (*PEER, *OTHERS)
