"""Parts of a statement that may yield other rows each time they run, run once: each into a table, before the first step
that reads it.

A statement runs as several queries, which must all see the same rows of such a part. Parts that ask, or that read the
query around, stay as they are; so does one that a single query reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.binding.ctes import stands_alone, with_clause
from covey_planner.binding.scope import Catalog, Viewing
from covey_planner.binding.varying import Views, picks_values, varies
from covey_planner.language.parse import sites_of
from covey_planner.language.render import render
from covey_planner.physical import AskStep, Domain, Given

PART = "covey_once"
"""Key in the meta of a query, or of a view's name: the number of the part that it is; copies keep it."""

_TABLE = "__covey_once"


@dataclass(frozen=True)
class _Part:
    """A query without AI calls. ctes: those that it can see; view: the view that it stands for, as written."""

    body: str
    ctes: tuple[exp.CTE, ...] = ()
    view: str = ""

    def put_back(self, query: str, table: str) -> str:
        """A query that reads what the part reads, instead of the part's table."""
        if self.view:
            return re.sub(rf"{table}\b", lambda _: self.view, query)
        return re.sub(rf"SELECT \* FROM {table}\b", lambda _: self.body, query)


@dataclass
class Once:
    """The parts of a statement, by number, and the queries that fill the tables of those that were met so far."""

    parts: Sequence[_Part] = ()
    filled: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def find(tree: exp.Expr, catalog: Catalog) -> Once:
        """Find the parts of a statement that is to be bound, and mark them in its tree."""
        parts: list[_Part] = []
        marked: set[int] = set()
        views = Views(catalog.views() if isinstance(catalog, Viewing) else {})
        for node in tree.dfs(prune=lambda node: id(node) in marked):
            part = None if node is tree else _part(node, views, catalog)
            if part is not None:
                marked.add(id(node))
                node.meta[PART] = len(parts)
                parts.append(part)
        return Once(parts)

    def put(self, holder: exp.Expr, rewrite: Callable[[exp.Expr], exp.Expr]) -> None:
        """Let copied queries below a node read the tables. rewrite: puts answers into what the parts read."""
        if not self.parts:
            return
        marked = [node for node in holder.find_all(exp.Query, exp.Table) if node.meta_get(PART) is not None]
        for node in marked:
            number: int = node.meta_get(PART)
            table, part = f"{_TABLE}{number}", self.parts[number]
            if table not in self.filled:
                self.filled[table] = with_clause(part.ctes, rewrite, part.body) + part.body
            if part.view:
                _rename(node, table)
            else:
                node.replace(exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.to_table(table))))

    def placed(
        self,
        steps: Sequence[AskStep],
        residual: str,
        free: Callable[[exp.Expr], exp.Expr] | None,
    ) -> tuple[tuple[AskStep, ...], str]:
        """The steps with the tables that each has to fill, and the residual. What one query alone reads is put back.

        free: takes AI calls out of what parts read, for estimates, which read no such table.
        """
        steps, texts = [self._estimated(step, free) for step in steps], dict(self.filled)
        for table in reversed(self.filled):
            readers = [query for step in steps for query in _queries(step)] + [residual, *texts.values()]
            if sum(_reads(query, table) for query in readers) > 1:
                continue
            part = self.parts[int(table.removeprefix(_TABLE))]
            del texts[table]
            texts = {name: part.put_back(text, table) for name, text in texts.items()}
            residual = part.put_back(residual, table)
            for number, step in enumerate(steps):
                before = tuple((name, part.put_back(query, table)) for name, query in step.before)
                steps[number] = replace(step, before=before)
        there: list[str] = []
        for number, step in enumerate(steps):
            new = [table for query in _queries(step) for table in _needed(query, texts, there)]
            steps[number] = replace(step, before=(*((table, texts[table]) for table in new), *step.before))
        return tuple(steps), residual

    def _estimated(self, step: AskStep, free: Callable[[exp.Expr], exp.Expr] | None) -> AskStep:
        """A step whose rows are counted without the tables."""
        if free is None or not self.filled:
            return step

        def without(given: Given | None) -> Given | None:
            if given is None:
                return None
            rows, alike = given.rows, given.alike
            for table in self.filled:
                part = self.parts[int(table.removeprefix(_TABLE))]
                whole = replace(part, body=with_clause(part.ctes, free, part.body) + part.body)
                rows, alike = whole.put_back(rows, table), whole.put_back(alike, table)
            return replace(given, rows=rows, alike=alike)

        def side(domain: Domain) -> Domain:
            return replace(domain, given=without(domain.given))

        partners = None if step.partners is None else side(step.partners)
        pairs = without(step.pairs_given)
        return replace(step, anchors=side(step.anchors), partners=partners, pairs_given=pairs)


def _needed(query: str, texts: dict[str, str], there: list[str]) -> Iterator[str]:
    """The tables that a query reads and that are not there yet, each behind those that fill it; they then are."""
    for table in texts:
        if table not in there and _reads(query, table):
            yield from _needed(texts[table], texts, there)
            there.append(table)
            yield table


def _queries(step: AskStep) -> list[str]:
    """The SQL that a step runs."""
    domains = [step.anchors, *([step.partners] if step.partners is not None else [])]
    texts = [argument.texts for domain in domains for argument in domain.arguments]
    groups = [] if step.groups is None else [step.groups.sql, step.groups.wanted]
    before = [query for _, query in step.before]
    return [*(domain.sql for domain in domains), *texts, step.pairs or "", *groups, *before]


def _reads(query: str, table: str) -> bool:
    return re.search(rf"{table}\b", query) is not None


def _rename(node: exp.Expr, table: str) -> None:
    """Let a name in FROM stand for a table."""
    alias = node.args.get("alias") or exp.TableAlias()
    if alias.args.get("this") is None:
        alias.set("this", node.this.copy())
    node.set("alias", alias)
    node.set("db", None)
    node.set("this", exp.to_identifier(table))


def _part(node: exp.Expr, views: Views, catalog: Catalog) -> _Part | None:
    """The part that a node of a statement is, None for one that is none."""
    if isinstance(node, exp.Table):
        if not views.varies(node) or node.name.lower() in _names(_visible(node), _around(node)):
            return None
        columns = node.root().find_all(exp.Column)
        if not isinstance(node.parent, exp.From | exp.Join) or any(
            column.args.get("db") for column in columns
        ):
            return None
        bare = exp.Table(this=node.this.copy(), db=node.args.get("db"))
        return _Part(f"SELECT * FROM {render(bare)}", view=render(bare))
    if not isinstance(node, exp.Select | exp.SetOperation):
        return None
    ctes = _visible(node)
    alone = _picks(node, ctes, views) and _stands_alone(node, ctes, catalog)
    return _Part(render(node), ctes) if alone else None


def _names(*ctes: Iterable[exp.CTE]) -> set[str]:
    return {cte.alias.lower() for some in ctes for cte in some}


def _picks(node: exp.Select | exp.SetOperation, ctes: Sequence[exp.CTE], views: Views) -> bool:
    """Whether a query picks some of several possible results, and it matters which."""
    if isinstance(node.parent, exp.Exists) and not picks_values(node):
        return False
    known = {cte.alias.lower(): cte.this for cte in ctes}

    def resolve(table: exp.Table) -> exp.Expr | None:
        return views.query(table) if table.db else known.get(table.name.lower()) or views.query(table)

    return varies(node, resolve)


def _stands_alone(node: exp.Expr, ctes: Sequence[exp.CTE], catalog: Catalog) -> bool:
    """Whether a query asks nothing, and can be read outside of the statement with the same meaning."""
    names = [cte.alias.lower() for cte in ctes]
    if sites_of(node) or len(set(names)) < len(names):
        return False
    around = _names(_around(node))
    if any(table.name.lower() in around for table in node.find_all(exp.Table) if not table.db):
        return False
    return stands_alone(catalog, ctes, exp.Subquery(this=node.copy()))


def _around(node: exp.Expr) -> Iterator[exp.CTE]:
    """The CTEs that a node is a part of."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.CTE):
            yield parent
        parent = parent.parent


def _visible(node: exp.Expr) -> tuple[exp.CTE, ...]:
    """The CTEs that a query can read besides its own, the outermost first."""
    found: list[exp.CTE] = []
    child, parent = node, node.parent
    while parent is not None:
        with_ = parent.args.get("with_")
        if isinstance(parent, exp.With):
            before = next(n for n, cte in enumerate(parent.expressions) if cte is child)
            found[:0] = parent.expressions[:before]
        elif with_ is not None and with_ is not child:
            found[:0] = with_.expressions
        child, parent = parent, parent.parent
    return tuple(found)
