"""Which answers of the outermost SELECT list are wanted for the rows below its LIMIT alone, and that list over them.

The SELECT without these answers is run first, into a table with the arguments of the calls beside its columns. The
calls are asked about that table, and what the statement yields is read from it, in the order of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.call import Argument, Call
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import quote, site_number, sites_of
from covey_planner.language.render import render
from covey_planner.logical import Block, Logical, Value
from covey_planner.lowering.domains import Member
from covey_planner.lowering.residual import Rewrites

ROWS = "__covey_limited"
"""The table of the rows below the LIMIT."""

_ALLOWED = frozenset({"expressions", "from_", "joins", "where", "kind", "with_", "order", "limit", "offset"})
_BARRED = (exp.Window, exp.UDTF, exp.Explode, exp.Query, exp.Columns, exp.Star)


def limited(logical: Logical, tree: exp.Query) -> Limited | None:
    """The items of the SELECT list that can wait; None where there is none.

    What looks at several rows, or decides on their number or order, cannot wait; nor can an item that asks what is
    asked about all rows anyway.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("limit") is None:
        return None
    if not {name for name, value in tree.args.items() if value} <= _ALLOWED:
        return None
    block = next((block for block in logical.blocks if block.select is tree), None)
    items = tree.expressions
    if block is None or any(_several_rows(item) for item in items):
        return None
    stars = [at for at, item in enumerate(items) if item.is_star]
    inside = range(stars[0], stars[-1]) if stars else ()
    late = [at for at in range(len(items)) if at not in inside and _may_wait(items[at], tree)]
    by_site = {value.call.site: value for value in block.values}
    asked = {at: [by_site[site] for site in sites_of(items[at]) if site in by_site] for at in late}
    late = [at for at in late if asked[at] and not any(value.grouped for value in asked[at])]
    waiting = {value.call.site for at in late for value in asked[at]}
    early = {value.call.identity for value in block.values if value.call.site not in waiting}
    late = [at for at in late if not any(value.call.identity in early for value in asked[at])]
    if not late:
        return None
    return Limited(tree, block, tuple(late), tuple(value for at in late for value in asked[at]))


@dataclass
class Limited:
    """Items of `select`, by their place in its list, and their calls. columns: what the table holds besides its own."""

    select: exp.Select
    block: Block
    items: tuple[int, ...]
    values: tuple[Value, ...]
    columns: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._calls = {value.call.site: self._moved(value.call) for value in self.values}
        self._items = {at: self._read(self.select.expressions[at]) for at in self.items}

    @property
    def sites(self) -> frozenset[int]:
        """The sites of the calls that wait."""
        return frozenset(self._calls)

    @property
    def calls(self) -> list[Call]:
        """The calls, with arguments that are columns of the table; their prompts are what they were."""
        return list(self._calls.values())

    def member(self, width: int, free: Callable[[exp.Expr], str] | None) -> Member:
        """The table as a member of FROM. width: columns of the statement."""
        relations = frozenset().union(*(call.relations for call in self.calls)) or frozenset({ROWS})
        text = "" if free is None else f"({free(self._with_columns())}) AS {self._named(width)}"
        return Member(ROWS, relations, frozenset({ROWS}), text)

    def query(self, rewrites: Rewrites, width: int) -> str:
        """What fills the table: the SELECT without these answers."""
        return f"SELECT * FROM ({rewrites.sql(self._with_columns())}) AS {self._named(width)}"

    def residual(self, rewrites: Rewrites, names: Sequence[str], joins: Sequence[str]) -> str:
        """What the statement yields, the calls being answered over the table. joins: `LEFT JOIN …` to the answers."""
        shown = [f"{ROWS}.{_own(n)}" for n in range(len(names))]
        for at, item in self._items.items():
            stars_before = any(other.is_star for other in self.select.expressions[:at])
            place = len(names) - (len(self.select.expressions) - at) if stars_before else at
            shown[place] = rewrites.sql(item)
        listed = ", ".join(f"{text} AS {quote(name)}" for text, name in zip(shown, names, strict=True))
        return f"SELECT {listed} FROM {' '.join([ROWS, *joins])} ORDER BY {ROWS}.rowid"

    def _with_columns(self) -> exp.Select:
        copy = self.select.copy()
        for at in self.items:
            item = copy.expressions[at]
            name = item.alias if isinstance(item, exp.Alias) else ""
            nothing: exp.Expr = exp.Null()
            copy.expressions[at] = exp.alias_(nothing, name, quoted=True) if name else nothing
        copy.set("expressions", [*copy.expressions, *(exp.Var(this=column) for column in self.columns)])
        return copy

    def _named(self, width: int) -> str:
        names = [*map(_own, range(width)), *(_beside(n) for n in range(len(self.columns)))]
        return f"{ROWS}({', '.join(names)})"

    def _moved(self, call: Call) -> Call:
        arguments = tuple(self._argument(argument) for argument in call.arguments)
        return replace(call, arguments=arguments)

    def _argument(self, argument: Argument) -> Argument:
        if not argument.relations:
            return argument
        return replace(argument, known=argument.sql, expr=exp.column(self._column(argument.sql), table=ROWS))

    def _column(self, text: str) -> str:
        if text not in self.columns:
            self.columns.append(text)
        return _beside(self.columns.index(text))

    def _read(self, item: exp.Expr) -> exp.Expr:
        """The item with columns of the table for those that it reads besides its calls."""
        copy = exp.Paren(this=(item.this if isinstance(item, exp.Alias) else item).copy())
        for node in list(_outside(copy)):
            if isinstance(node, exp.Column) and not _is_parameter(node):
                node.replace(exp.column(self._column(render(node)), table=ROWS))
        read: exp.Expr = copy.this
        return read


def _own(number: int) -> str:
    return f"__covey_c{number}"


def _beside(number: int) -> str:
    return f"__covey_b{number}"


def _several_rows(item: exp.Expr) -> bool:
    return any(is_aggregate(node) or isinstance(node, exp.UDTF | exp.Explode) for node in item.walk())


def _may_wait(item: exp.Expr, select: exp.Select) -> bool:
    """Whether nothing but the list itself looks at the item's answers."""
    others = [other for other in select.expressions if other is not item]
    barred = any(isinstance(node, _BARRED) for node in _outside(item)) or _names(others, item.alias.lower())
    order = select.args.get("order")
    keys = (
        []
        if order is None
        else [key.this if isinstance(key, exp.Ordered) else key for key in order.expressions]
    )
    if not keys:
        return not barred
    number = str(1 + next(n for n, other in enumerate(select.expressions) if other is item))
    said = {
        node.name.lower()
        for key in keys
        for node in key.walk()
        if isinstance(node, exp.Column | exp.Identifier)
    }
    numbered = any(isinstance(key, exp.Literal) for key in keys) and any(
        other.is_star for other in select.expressions
    )
    named = item.alias.lower() in said - {""} or number in {
        key.name for key in keys if isinstance(key, exp.Literal)
    }
    return not (barred or named or numbered or any(render(key).upper() == "ALL" for key in keys))


def _names(items: Sequence[exp.Expr], alias: str) -> bool:
    """Whether an item may mean another one by its alias."""
    columns = (column for item in items for column in item.find_all(exp.Column))
    return alias != "" and any(column.name.lower() == alias and not column.table for column in columns)


def _outside(item: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an item that are not inside its calls."""
    yield item
    if site_number(item) is None:
        for child in item.iter_expressions():
            yield from _outside(child)


def _is_parameter(column: exp.Column) -> bool:
    """Whether a name is a lambda's parameter."""
    around = column.find_ancestor(exp.Lambda)
    return around is not None and column.parts[0].name.lower() in {p.name.lower() for p in around.expressions}
