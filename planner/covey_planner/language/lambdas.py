"""Functions of lists whose lambda asks become subqueries over the lists' values as rows; the tree is changed in place.

`list_filter(xs, lambda x: AI_FILTER('q', x))` becomes `(SELECT list(u.x ORDER BY u.i) FROM UNNEST(xs) WITH ORDINALITY
AS u(x, i) WHERE AI_FILTER('q', u.x))`, and [] where that is NULL, unless xs is NULL itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from covey_planner.binding.clauses import own_nodes
from covey_planner.binding.volatile import shown, volatile
from covey_planner.errors import Unsupported
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import SITE, Scan, Statement, site_number, sites_of
from covey_planner.language.refusals import in_lambda, in_reduction, on_list

_FILTERS = frozenset({"list_filter", "array_filter", "filter"})
_TRANSFORMS = frozenset(
    {"list_transform", "array_transform", "list_apply", "array_apply", "apply", "transform"}
)
_REDUCTIONS = frozenset({"list_reduce", "array_reduce", "reduce"})


@dataclass(frozen=True)
class _Each:
    """What is made of each value of a list. names: of the value and of its number, as far as it has one; value: what is
    kept, None for the value itself; condition: of which values, None for all.
    """

    values: exp.Expr
    names: tuple[exp.Identifier, ...]
    value: exp.Expr | None
    condition: exp.Expr | None


def lists_to_rows(statement: Statement) -> Statement:
    """Rewrite the statement's functions of lists in whose lambdas it asks, the outer ones first. Raises Unsupported."""
    repeated = _group_by_number(statement.tree)
    depth: dict[int, int] = {}
    for node in list(statement.tree.walk(bfs=True)):
        each = _each(node, statement.scan)
        if each is None:
            continue
        _check_list(each.values, statement.scan)
        level = next((depth[id(above)] + 1 for above in _ancestors(node) if id(above) in depth), 0)
        made = _rows(each, f"__covey_u{level}")
        depth[id(made)] = level
        node.replace(made)
    if not repeated:
        return statement
    sites = tuple(replace(site, repeated=n in repeated) for n, site in enumerate(statement.scan.sites))
    return replace(statement, scan=replace(statement.scan, sites=sites))


def _group_by_number(tree: exp.Query) -> set[int]:
    """Let GROUP BY name what it shares with the SELECT list by its number: subqueries are never the same. The sites
    that are gone.
    """
    gone: set[int] = set()
    for group in tree.find_all(exp.Group):
        select = group.parent
        if not isinstance(select, exp.Select):
            continue
        for key in list(group.expressions):
            asks = any(sites_of(node) for node in key.find_all(exp.Lambda, exp.Comprehension))
            at = [n for n, item in enumerate(select.expressions, 1) if asks and _alike(item.unalias(), key)]
            if at and not any(item.is_star for item in select.expressions[: at[0]]):
                gone.update(sites_of(key))
                key.replace(exp.Literal.number(at[0]))
    return gone


def _alike(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether two expressions are the same, but for the numbers of the calls in them."""
    return _unnumbered(left) == _unnumbered(right)


def _unnumbered(node: exp.Expr) -> exp.Expr:
    copy = node.copy()
    for part in list(copy.walk()):
        if site_number(part) is not None:
            part.set("this", SITE)
    return copy


def _each(node: exp.Expr, scan: Scan) -> _Each | None:
    """What a node makes of each value of a list, where that asks; None for any other node."""
    if isinstance(node, exp.Array) and len(node.expressions) == 1:
        found = _comprehension(node.expressions[0])
        if isinstance(found, exp.Comprehension) and any(
            sites_of(part) for part in (found.this, found.args.get("condition")) if part is not None
        ):
            parts = [found.expression, found.args.get("position")]
            own = tuple(part for part in parts if isinstance(part, exp.Identifier))
            return _Each(found.args["iterator"], own, found.this, found.args.get("condition"))
        return None
    name, arguments = _function(node)
    lambdas = [part for part in arguments if isinstance(part, exp.Lambda)]
    asking = next((part for part in lambdas if sites_of(part.this)), None)
    if asking is None:
        return None
    site = scan.sites[sites_of(asking.this)[0]]
    if name in _REDUCTIONS:
        raise Unsupported(in_reduction(site.function), site.position)
    names = tuple(part for part in asking.expressions if isinstance(part, exp.Identifier))
    if len(arguments) != 2 or not 1 <= len(names) <= 2 or name not in _FILTERS | _TRANSFORMS:
        raise Unsupported(in_lambda(site.function), site.position)
    if name in _FILTERS:
        return _Each(arguments[0], names, None, asking.this)
    return _Each(arguments[0], names, asking.this, None)


def _comprehension(node: exp.Expr) -> exp.Expr:
    """The comprehension that the parser has put at the end of an expression, around all of it; else the node itself."""
    inner = node
    while isinstance(inner, exp.Binary | exp.Unary) and not isinstance(inner, exp.Dot | exp.Paren):
        inner = inner.expression if isinstance(inner, exp.Binary) else inner.this
    if inner is node or not isinstance(inner, exp.Comprehension):
        return node
    last = inner.this
    outer = exp.Comprehension(**{key: value for key, value in inner.args.items() if key != "this"})
    inner.replace(last)
    node.replace(outer)
    outer.set("this", node)
    return outer


def _function(node: exp.Expr) -> tuple[str, Sequence[exp.Expr]]:
    """The name and the arguments of a function that may have a lambda."""
    if isinstance(node, exp.ArrayFilter | exp.Transform):
        return ("filter" if isinstance(node, exp.ArrayFilter) else "transform"), [node.this, node.expression]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        first = node.this
        parts = [part for part in first.walk() if isinstance(part, exp.Identifier)]
        if isinstance(first, exp.Identifier) or all(
            isinstance(part, exp.Identifier | exp.Dot) for part in first.walk()
        ):
            first = exp.Column(this=parts[-1].copy(), table=parts[-2].copy() if len(parts) > 1 else None)
        return str(node.expression.this).lower(), [first, *node.expression.expressions]
    if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Dot):
        return str(node.this).lower(), node.expressions
    if isinstance(node, exp.Func):
        return node.sql_name().lower(), [part for part in node.args.values() if isinstance(part, exp.Expr)]
    return "", ()


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _check_list(values: exp.Expr, scan: Scan) -> None:
    """Refuse lists that rows cannot be read from where the others are."""
    sites = sites_of(values)
    if sites:
        raise Unsupported(on_list("an AI call"), scan.sites[sites[0]].position)
    parts = list(own_nodes(values))
    if any(isinstance(part, exp.Window) for part in parts):
        raise Unsupported(on_list("a window function"))
    if any(map(is_aggregate, parts)):
        raise Unsupported(on_list("an aggregate"))
    found = volatile(values)
    if found is not None:
        raise Unsupported(on_list(shown(found)))


def _rows(each: _Each, alias: str) -> exp.Expr:
    """The subquery that stands for a function of a list."""
    names = [*each.names, exp.to_identifier("__covey_i")][:2]
    value, place = (exp.Column(this=name.copy(), table=exp.to_identifier(alias)) for name in names)
    meant = {name.name.lower(): column for name, column in zip(each.names, (value, place), strict=False)}
    kept = value if each.value is None else _with_columns(each.value, meant)
    condition = None if each.condition is None else _with_columns(each.condition, meant)
    text = (
        f"CASE WHEN NOT __covey_v IS NULL THEN COALESCE((SELECT LIST(__covey_k ORDER BY __covey_p)"
        f" FROM UNNEST(__covey_v) WITH ORDINALITY AS {alias}(__covey_x, __covey_i)), []) END"
    )
    made: exp.Expr = sqlglot.parse_one(text, dialect="duckdb")
    put = {"__covey_v": each.values, "__covey_k": kept, "__covey_p": place}
    for column in list(made.find_all(exp.Column)):
        if column.name in put:
            part = put[column.name]
            column.replace(part if column.name == "__covey_k" else part.copy())
    unnest = made.find(exp.Unnest)
    select = made.find(exp.Select)
    assert unnest is not None
    assert select is not None
    _name_columns(unnest, names)
    if condition is not None:
        select.set("where", exp.Where(this=condition))
    return made


def _name_columns(unnest: exp.Unnest, names: Sequence[exp.Identifier]) -> None:
    """Name the columns of UNNEST; the parser keeps the number's beside the others."""
    alias = unnest.args["alias"]
    if isinstance(unnest.args.get("offset"), exp.Identifier):
        alias.set("columns", [names[0].copy()])
        unnest.set("offset", names[1].copy())
    else:
        alias.set("columns", [name.copy() for name in names])


def _with_columns(body: exp.Expr, meant: Mapping[str, exp.Column]) -> exp.Expr:
    """The body of a lambda, its parameters being columns."""
    holder = exp.Paren(this=body)
    _put_columns(body, meant)
    inner: exp.Expr = holder.this
    return inner


def _put_columns(node: exp.Expr, meant: Mapping[str, exp.Column]) -> None:
    if isinstance(node, exp.Lambda):
        hidden = {item.name.lower() for item in node.expressions}
        _put_columns(node.this, {name: column for name, column in meant.items() if name not in hidden})
        return
    if isinstance(node, exp.Comprehension):
        _put_columns(node.args["iterator"], meant)
        names = (node.expression, node.args.get("position"))
        hidden = {name.name.lower() for name in names if name is not None}
        others = {name: column for name, column in meant.items() if name not in hidden}
        for part in (node.this, node.args.get("condition")):
            if part is not None:
                _put_columns(part, others)
        return
    if isinstance(node, exp.Column):
        first = node.parts[0].name.lower()
        if first in meant and isinstance(node.parts[0], exp.Identifier):
            made: exp.Expr = _spelled(meant[first], node)
            for part in node.parts[1:]:
                made = exp.Dot(this=made, expression=part.copy())
            node.replace(made)
        return
    if isinstance(node, exp.Identifier):
        found = meant.get(node.name.lower())
        if found is not None and not _is_name(node):
            node.replace(_spelled(found, node))
        return
    for child in list(node.iter_expressions()):
        _put_columns(child, meant)


def _spelled(column: exp.Column, written: exp.Expr) -> exp.Column:
    """A copy of a column, at the place of what it stands for."""
    copy = column.copy()
    place = written if isinstance(written, exp.Identifier) else written.find(exp.Identifier)
    copy.this._meta = dict(place.meta) if place is not None else None
    return copy


def _is_name(node: exp.Identifier) -> bool:
    """Whether an identifier names a part of something, and no value."""
    parent, key = node.parent, node.arg_key
    if isinstance(parent, exp.Dot):
        return key == "expression"
    if isinstance(parent, exp.PropertyEQ | exp.Kwarg):
        return key == "this"
    return isinstance(parent, exp.TableAlias | exp.Alias | exp.Table | exp.Collate)
