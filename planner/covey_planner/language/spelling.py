"""Names as DuckDB compares them: a syntax tree in, the same one with its names written alike out."""

from __future__ import annotations

import re

from sqlglot import exp

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def is_plain(node: exp.Expr) -> bool:
    """Whether all names in a tree are in lower case and unquoted."""
    return all(
        not name.args.get("quoted") and name.name == name.name.lower()
        for name in node.find_all(exp.Identifier)
    )


def spelled_alike(node: exp.Expr) -> exp.Expr:
    """A caller's own tree, its names in lower case and quoted only where they must be."""
    for name in node.find_all(exp.Identifier):
        lower = name.name.lower()
        name.set("this", lower)
        name.set("quoted", _PLAIN.fullmatch(lower) is None)
    return node
