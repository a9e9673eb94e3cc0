"""What surrounds an AI call inside an expression: the conditions under which its answer is looked at; no SQL
text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sqlglot import exp

Must = Literal["be true", "not be true", "not be false", "be null"]


def surroundings(node: exp.Expr, root: exp.Expr) -> Iterator[tuple[exp.Expr, Must]]:
    """Conditions on the way up from a call to `root`: CASE and IF branches, and what stands before it in AND,
    OR and coalesce.

    Each is necessary for the call's answer to matter; leaving one out is always correct.
    """
    part = node
    while part is not root and part.parent is not None:
        parent = part.parent
        match parent:
            case exp.And():
                if part is parent.expression:
                    yield parent.this, "not be false"
            case exp.Or():
                if part is parent.expression:
                    yield parent.this, "not be true"
            case exp.Case() if part is not parent.this:
                yield from _case(parent, part)
            case exp.Coalesce() if part is not parent.this:
                yield parent.this, "be null"
                for before in parent.expressions:
                    if before is part:
                        break
                    yield before, "be null"
            case exp.If() if part is parent.args.get("true"):
                for test in _tests(parent):
                    yield test, "be true"
            case exp.If() if part is parent.args.get("false"):
                yield parent.this, "not be true"
        part = parent


def _case(case: exp.Case, part: exp.Expr) -> Iterator[tuple[exp.Expr, Must]]:
    """Earlier branches are not taken; the call's own branch is, unless the call stands in its condition."""
    for branch in case.args["ifs"]:
        if branch is part:
            return
        for test in _tests(branch):
            yield test, "not be true"


def _tests(branch: exp.If) -> Iterator[exp.Expr]:
    """When a branch is taken: its condition, or that its value is the one that a CASE compares."""
    case = branch.parent
    if not isinstance(case, exp.Case) or case.this is None:
        yield branch.this
    elif case.this.find(exp.Query) is None and branch.this.find(exp.Query) is None:
        yield exp.EQ(this=exp.paren(case.this), expression=exp.paren(branch.this))
