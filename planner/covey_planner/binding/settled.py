"""A call that stands for a comparison goes in; out comes what that is of every answer, where it is the same of all;
asks nothing, and looks at no text.

`AI_SCORE(…) >= 0` is true whatever the model would say, and `AI_CLASSIFY(…) = 'no such label'` is false: only a NULL
argument makes either NULL.
"""

from __future__ import annotations

from sqlglot import exp

from covey_planner.call import Call


def settled(call: Call) -> exp.Expr | None:
    """The comparison without the call, over the call's arguments; None where its answer matters."""
    truth = _truth(call)
    if truth is None:
        return None
    known = [
        exp.Not(this=exp.Is(this=_bracketed(each.expr), expression=exp.Null())) for each in call.arguments
    ]
    case = exp.If(this=exp.and_(*known, copy=False) if known else exp.true(), true=exp.Boolean(this=truth))
    return exp.Case(ifs=[case])


def _truth(call: Call) -> bool | None:
    """Whether every answer makes a comparison true, or none; None where it depends."""
    if call.above is not None:
        bound, least = call.above.bound, call.above.least
        if bound < 0 or (least and bound == 0):
            return True
        return False if bound > 1 or (not least and bound == 1) else None
    if call.accepted is None or "" in call.labels:
        return None
    if not call.accepted:
        return False
    return True if set(call.labels) <= set(call.accepted) else None


def _bracketed(expr: exp.Expr) -> exp.Expr:
    return expr.copy() if isinstance(expr, exp.Column) else exp.Paren(this=expr.copy())
