"""From a syntax tree to DuckDB's SQL text; the tree stays as it is."""

from __future__ import annotations

import threading

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator


class _Local(threading.local):
    """One generator a thread: making one costs more than using it."""

    def __init__(self) -> None:
        self.generator: Generator = Dialect.get_or_raise("duckdb").generator(comments=False)


_LOCAL = _Local()


def render(node: exp.Expr, copy: bool = True) -> str:
    """The SQL text of a tree. copy=False: the tree is the caller's own and not used again."""
    return _LOCAL.generator.generate(node, copy=copy)
