"""A condition on the answer of a question for labels in, the labels for which it is true out; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from covey_planner.call import Call
from covey_planner.language.parse import sites_of
from covey_planner.logical import All, Any, Condition, Mixed, Not, leaves


def labelled(condition: Condition) -> Call | None:
    """The one question for labels that a condition speaks of, however often; None where it speaks of anything else."""
    found = [leaf for leaf in leaves(condition) if isinstance(leaf, Mixed) and not leaf.blocks]
    calls = {value.call.identity: value.call for leaf in found for value in leaf.values}
    if len(calls) != 1 or len(found) != len(list(leaves(condition))):
        return None
    (call,) = calls.values()
    return call if call.kind == "label" else None


def accepted(condition: Condition, labels: Sequence[str]) -> tuple[str, ...]:
    """The labels for which a condition is true; none where that cannot be told from its text."""
    verdicts = {label: _true(condition, label) for label in labels}
    return () if None in verdicts.values() else tuple(label for label, true in verdicts.items() if true)


def _true(condition: Condition, label: str) -> bool | None:
    match condition:
        case Mixed(expr=expr):
            return _holds(expr, label)
        case Not(part):
            return _opposite(_true(part, label))
        case All(parts) | Any(parts):
            return _combined([_true(part, label) for part in parts], isinstance(condition, All))
    return None


def _holds(expr: exp.Expr, label: str) -> bool | None:
    match expr:
        case exp.Paren(this=inner):
            return _holds(inner, label)
        case exp.Not(this=inner):
            return _opposite(_holds(inner, label))
        case exp.And(this=one, expression=other) | exp.Or(this=one, expression=other):
            return _combined([_holds(one, label), _holds(other, label)], isinstance(expr, exp.And))
        case exp.EQ(this=one, expression=other) | exp.NEQ(this=one, expression=other):
            text, answer = (one, other) if isinstance(one, exp.Literal) else (other, one)
            if not _text(text) or not _answer(answer):
                return None
            return (text.name == label) is isinstance(expr, exp.EQ)
        case exp.In(this=answer, expressions=[_, *_] as texts) if _answer(answer) and all(map(_text, texts)):
            return label in [text.name for text in texts]
    return None


def _text(expr: exp.Expr) -> bool:
    return isinstance(expr, exp.Literal) and expr.is_string


def _answer(expr: exp.Expr) -> bool:
    """Whether this is the call, or what a dialect takes the label out of its answer with."""
    return len(sites_of(expr)) == 1


def _opposite(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _combined(verdicts: Sequence[bool | None], every: bool) -> bool | None:
    if None in verdicts:
        return None
    return all(verdicts) if every else any(verdicts)
