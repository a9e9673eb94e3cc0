"""A SELECT under construction: relations go in, one by one, flat as long as SQL allows it; its text comes out.

Nothing here knows Substrait. A column is an expression over the relations in FROM; only `wrapped` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey_planner.language.parse import quote


@dataclass(frozen=True)
class Sql:
    """An expression. type: of DuckDB, None where it is not known. plain: it is a column of a relation in FROM. once: it
    must not be written twice, since it is another value each time.
    """

    text: str
    type: str | None = None
    plain: bool = False
    once: bool = False


def sort_key(text: str) -> str:
    """An expression to group or sort by: a bare number there would be a column's."""
    return f"CAST({text} AS INTEGER)" if text.isdigit() else text


def made_of(text: str, kind: str | None, parts: Sequence[Sql]) -> Sql:
    """An expression of a type, which must not be written twice where one of its parts must not."""
    return Sql(text, kind, once=any(part.once for part in parts))


def listed(parts: Sequence[Sql]) -> str:
    """Expressions with commas between them."""
    return ", ".join(part.text for part in parts)


@dataclass(frozen=True)
class Key:
    """What to sort by. direction: as SQL."""

    text: str
    direction: str


class Names:
    """Names for the relations of one statement, each used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """A name like `wanted` that nothing else has."""
        name, number = wanted, 1
        while name.lower() in self._taken or name.lower().startswith("__covey_"):
            number += 1
            name = f"{wanted.lstrip('_')}_{number}"
        self._taken.add(name.lower())
        return name


@dataclass(frozen=True)
class Select:
    """relations: what stands after FROM; single: it is one relation; chained: it can be appended to other joins, as no
    join in it keeps unmatched rows of its right side. group: None where it does not aggregate, "" where it does without
    groups; aggregates: the calls that say so.
    """

    relations: str
    columns: tuple[Sql, ...]
    single: bool = True
    chained: bool = True
    where: tuple[str, ...] = ()
    group: str | None = None
    aggregates: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    distinct: bool = False
    order: tuple[Key, ...] = ()
    limit: str | None = None
    offset: str | None = None

    @property
    def grouped(self) -> bool:
        """Whether its columns are groups and aggregates."""
        return self.group is not None

    @property
    def limited(self) -> bool:
        """Whether it is about some of the rows only."""
        return self.limit is not None or self.offset is not None

    @property
    def unstable(self) -> bool:
        """Whether a column must not be written twice."""
        return any(column.once for column in self.columns)

    @property
    def joinable(self) -> bool:
        """Whether its relations and conditions can stand in a larger SELECT."""
        return not (self.grouped or self.distinct or self.limited or self.unstable)

    def text(self, names: Sequence[str]) -> str:
        """As SQL, its columns under these names."""
        items = [f"{column.text} AS {quote(name)}" for column, name in zip(self.columns, names, strict=True)]
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(items) or '1 AS c0'}"]
        parts += [f"FROM {self.relations}"] if self.relations else []
        parts += [f"WHERE {' AND '.join(self.where)}"] if self.where else []
        parts += [f"GROUP BY {self.group}"] if self.group else []
        parts += [f"HAVING {' AND '.join(self.having)}"] if self.having else []
        parts += [f"ORDER BY {', '.join(self._key(key, names) for key in self.order)}"] if self.order else []
        parts += [f"LIMIT {self.limit}"] if self.limit is not None else []
        parts += [f"OFFSET {self.offset}"] if self.offset is not None else []
        return " ".join(parts)

    def _key(self, key: Key, names: Sequence[str]) -> str:
        """A column that is shown goes by its name, if no other has it."""
        shown = [
            name
            for column, name in zip(self.columns, names, strict=True)
            if column.text == key.text and not column.plain
        ]
        lower = [name.lower() for name in names]
        text = next((quote(name) for name in shown if lower.count(name.lower()) == 1), key.text)
        return f"{text} {key.direction}"

    def wrapped(self, names: Names) -> Select:
        """The same rows from a derived table."""
        columns = [f"c{number}" for number in range(len(self.columns))]
        return derived(self.text(columns), self.columns, names)

    def stable(self, names: Names) -> Select:
        """The same rows, every column of which may be written twice."""
        return self.wrapped(names) if self.unstable else self

    def filtered(self, names: Names, condition: Callable[[Select], str]) -> Select:
        """The rows for which a condition, over the SELECT as it is then, is true."""
        base = self.wrapped(names) if self.distinct or self.limited else self.stable(names)
        text = condition(base)
        if base.grouped:
            return replace(base, having=(*base.having, text))
        return replace(base, where=(*base.where, text))


def derived(text: str, columns: Sequence[Sql], names: Names) -> Select:
    """A SELECT from a query whose columns are named c0, c1, …"""
    name = quote(names.take("q"))
    read = tuple(Sql(f"{name}.c{n}", column.type, plain=True) for n, column in enumerate(columns))
    return Select(f"({text}) AS {name}", read)


def joined(
    left: Select, right: Select, kind: str, names: Names, condition: Callable[[Sequence[Sql]], str | None]
) -> Select:
    """A join. kind: INNER, LEFT, RIGHT, FULL, SEMI or ANTI; condition: over both sides' columns, None for none."""
    left, right = _side(left, names), _side(right, names)
    outer = kind in ("RIGHT", "FULL")
    if outer and (left.where or not _plain(left)):
        left = left.wrapped(names)
    if (outer and right.where) or (kind in ("LEFT", "FULL") and not _plain(right)):
        right = right.wrapped(names)
    flat = kind == "INNER" and right.chained
    if not right.single and not flat:
        right = right.wrapped(names)
    on = condition((*left.columns, *right.columns))
    where, relations = left.where, f"{left.relations} {kind} JOIN {right.relations}"
    if flat and not right.single:
        relations = f"{left.relations} CROSS JOIN {right.relations}"
        where = (*where, *([on] if on is not None else []), *right.where)
    elif kind == "INNER" and on is None:
        relations, where = f"{left.relations} CROSS JOIN {right.relations}", (*where, *right.where)
    elif kind == "INNER":
        relations, where = f"{relations} ON {on}", (*where, *right.where)
    else:
        conditions = [*([on] if on is not None else []), *right.where]
        relations = f"{relations} ON {' AND '.join(conditions) or 'TRUE'}"
    columns = left.columns if kind in ("SEMI", "ANTI") else (*left.columns, *right.columns)
    return Select(relations, columns, False, left.chained and not outer, where)


def _side(select: Select, names: Names) -> Select:
    if not select.joinable or not select.relations:
        return select.wrapped(names)
    return replace(select, order=())


def _plain(select: Select) -> bool:
    return all(column.plain for column in select.columns)
