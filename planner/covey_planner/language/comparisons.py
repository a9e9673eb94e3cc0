"""`AI_SCORE(…) > 0.7` and `AI_CLASSIFY(…) = 'x'` in WHERE and ON become questions answered by yes or no; the tree is
changed in place.

Such a question ends early, and is ordered and asked together with others, as AI_FILTER is. What is asked does not
change, nor what the answer is: only where it counts as true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from covey_planner.language.functions import BOOLEAN, CLASSIFY, LABEL, SCORE
from covey_planner.language.parse import Site, Statement, site_name, site_number
from covey_planner.language.render import render
from covey_planner.physical import Above

_DIGITS = 15
"""Digits of a number that a DOUBLE holds exactly as it is written, whoever reads it."""

_TURNED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
}


@dataclass(frozen=True)
class _Comparison:
    """A call's node, what makes its answer count as true, and whether the comparison is true where it does not."""

    call: exp.Expr
    test: Above | tuple[str, ...]
    negated: bool


def ask_comparisons(statement: Statement, dialect: str) -> Statement:
    """The statement with such comparisons replaced by their calls, and its sites.

    An answer that the statement also wants as a value is asked for as a value, once; not one that its SELECT list shows
    of the rows below a LIMIT.
    """
    sites = list(statement.scan.sites)
    places: dict[str, list[exp.Expr]] = {}
    for node in statement.tree.walk():
        if site_number(node) is not None:
            places.setdefault(_asked(node, sites), []).append(node)
    for node in list(statement.tree.walk()):
        found = _comparison(node, sites, dialect) if _filters(node) else None
        if found is None:
            continue
        others = (each for each in places[_asked(found.call, sites)] if each is not found.call)
        if all(_shown_below_limit(each, statement.tree) for each in others):
            _replace(node, found, sites)
    return replace(statement, scan=replace(statement.scan, sites=tuple(sites)))


def _replace(node: exp.Expr, found: _Comparison, sites: list[Site]) -> None:
    number = site_number(found.call)
    assert number is not None
    if isinstance(found.test, Above):
        sites[number] = replace(sites[number], above=found.test)
    else:
        sites[number] = replace(sites[number], accepted=found.test)
    call = found.call.copy()
    call.set("this", site_name(number, min(BOOLEAN)))
    node.replace(exp.Not(this=call) if found.negated else call)


def _asked(call: exp.Expr, sites: list[Site]) -> str:
    """Equal for calls that are written alike."""
    number = site_number(call)
    assert number is not None
    return ", ".join([sites[number].function, *map(render, call.expressions)])


def _filters(node: exp.Expr) -> bool:
    """Whether a node is a condition of WHERE or ON, or one that such a condition combines."""
    part = node
    while isinstance(part.parent, exp.And | exp.Or | exp.Not | exp.Paren):
        part = part.parent
    return isinstance(part.parent, exp.Where) or (
        isinstance(part.parent, exp.Join) and part.parent.args.get("on") is part
    )


def _shown_below_limit(call: exp.Expr, tree: exp.Query) -> bool:
    """Whether a call only shows, in the SELECT list, an answer of the rows below the statement's LIMIT."""
    if not isinstance(tree, exp.Select) or tree.args.get("limit") is None or tree.args.get("order"):
        return False
    if len({render(column) for column in call.find_all(exp.Column)}) > 1:
        return False  # about pairs: each of two steps might choose another side
    part = call
    while part.parent is not None and part.parent is not tree:
        part = part.parent
    return call.find_ancestor(exp.Select) is tree and any(part is item for item in tree.expressions)


def _comparison(node: exp.Expr, sites: list[Site], dialect: str) -> _Comparison | None:
    match node:
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return _of_score(node, sites)
        case exp.EQ(this=one, expression=other) | exp.NEQ(this=one, expression=other):
            answer, text = (other, one) if _is_text(one) else (one, other)
            return _of_label(answer, [text], isinstance(node, exp.NEQ), sites, dialect)
        case exp.In(this=answer, expressions=[_, *_] as texts) if not node.args.get("query"):
            return _of_label(answer, texts, False, sites, dialect)
    return None


def _of_score(node: exp.Expr, sites: list[Site]) -> _Comparison | None:
    kind: type[exp.Expr] = type(node)
    call, bound = node.this.unnest(), _number(node.expression)
    if bound is None:
        call, bound, kind = node.expression.unnest(), _number(node.this), _TURNED[kind]
    number = site_number(call)
    if bound is None or number is None or sites[number].function not in SCORE:
        return None
    # At most 0.7 is not above 0.7, also of NULL.
    return _Comparison(call, Above(bound, kind in (exp.GTE, exp.LT)), kind in (exp.LT, exp.LTE))


def _number(node: exp.Expr) -> float | None:
    """A number that is written out."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        number = _number(inner.this)
        return None if number is None else -number
    exact = isinstance(inner, exp.Cast) and inner.to.this == exp.DataType.Type.DOUBLE
    inner = inner.this.unnest() if exact else inner
    if not isinstance(inner, exp.Literal) or (inner.is_string and not exact):
        return None
    try:
        number = float(inner.this)
    except ValueError:
        return None
    short = sum(letter.isdigit() for letter in str(inner.this)) <= _DIGITS
    return number if math.isfinite(number) and (exact or short) else None


def _of_label(
    answer: exp.Expr, texts: list[exp.Expr], negated: bool, sites: list[Site], dialect: str
) -> _Comparison | None:
    inner = answer.unnest()
    calls = [part for part in _inside(inner) if site_number(part) is not None]
    if len(calls) != 1 or not all(map(_is_text, texts)):
        return None
    (call,) = calls
    number = site_number(call)
    assert number is not None
    if sites[number].function not in LABEL:
        return None
    is_object = dialect == "snowflake" and sites[number].function in CLASSIFY
    if (_first_label(inner) if is_object else inner) is not call:
        return None
    return _Comparison(call, tuple(text.unnest().name for text in texts), negated)


def _inside(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and those around its only part, outside of calls."""
    yield node
    if site_number(node) is None and isinstance(node.this, exp.Expr):
        yield from _inside(node.this)


def _first_label(node: exp.Expr) -> exp.Expr | None:
    """What `…:labels[0]` takes the label of, with or without a cast to text."""
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TEXT and not node.to.expressions:
        node = node.this.unnest()
    match node:
        case exp.JSONExtractScalar(this=exp.Cast(this=call), expression=exp.JSONPath(expressions=path)):
            steps = [step.this for step in path if isinstance(step, exp.JSONPathKey | exp.JSONPathSubscript)]
            return call if steps == ["labels", 0] and len(path) == 3 else None
    return None


def _is_text(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Literal) and inner.is_string
