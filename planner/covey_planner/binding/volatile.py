"""Finding what gives another value at every evaluation: functions and samples; changes nothing."""

from __future__ import annotations

from sqlglot import exp

from covey_planner.language.render import render

NAMES = frozenset(
    [
        "random",
        "rand",
        "uuid",
        "gen_random_uuid",
        "uuidv4",
        "uuidv7",
        "setseed",
        "nextval",
        "currval",
        "get_random_bytes",
    ]
)


def volatile(node: exp.Expr) -> exp.Expr | None:
    """The first volatile part of an expression or query, or None."""
    for part in node.walk():
        if isinstance(part, exp.TableSample) or (isinstance(part, exp.Func) and _name(part) in NAMES):
            return part
    return None


def shown(part: exp.Expr) -> str:
    """A volatile part, for a message."""
    return "a random sample" if isinstance(part, exp.TableSample) else render(part).lower()


def _name(function: exp.Func) -> str:
    return str(function.this).lower() if isinstance(function, exp.Anonymous) else function.sql_name().lower()
