"""Derived tables that ask which rows of one table they show become that table, and what they ask a part of WHERE; the
tree is changed in place.

Then what the SELECT around says of the rows counts as well: its own conditions come first, and LIMIT, EXISTS and IN end
early. A CTE that is read once is such a derived table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from covey_planner.binding.volatile import volatile
from covey_planner.language.parse import site_number
from covey_planner.language.writing import WRITTEN

_CLAUSES = frozenset({"expressions", "from_", "where"})
_PLAIN = frozenset({"this", "db", "catalog", "alias"})


def flatten(tree: exp.Query, stored: Mapping[str, Mapping[str, str]]) -> None:
    """Rewrite a statement's tree, the inner queries first, so that what is in layers comes out whole.

    stored: the columns of stored tables, by which it is known what `*` shows.
    """
    columns = {name.lower(): list(map(str.lower, own)) for name, own in stored.items()}
    named = _cte_names(tree)
    columns = {name: own for name, own in columns.items() if name not in named}
    for table in list(tree.find_all(exp.Subquery)):
        _forget_names(table, columns)
    for select in reversed(list(tree.find_all(exp.Select, bfs=True))):
        _flatten_members(select, columns)
    for cte in _read_once(tree):
        _put_in_place(tree, cte)


def _forget_names(table: exp.Subquery, stored: Mapping[str, Sequence[str]]) -> None:
    """Drop the names that a derived table gives its columns where they are those that they have, and then a layer that
    shows nothing else: a view's query comes in both.
    """
    alias, query = table.args.get("alias"), table.this
    given = [] if alias is None else [column.name.lower() for column in alias.args.get("columns") or []]
    if alias is None or not given or given != _shown(query, stored):
        return
    alias.set("columns", None)
    around = table.parent_select
    if (
        around is not None
        and isinstance(around.parent, exp.Subquery)
        and _is_star(around)
        and _used(around) == {"expressions", "from_"}
        and around.args["from_"].this is table
    ):
        around.replace(query)


def _shown(query: exp.Expr, stored: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the columns of one table that a query shows; none where that cannot be told."""
    if not isinstance(query, exp.Select) or not _used(query) <= _CLAUSES or not query.args.get("from_"):
        return []
    if _is_star(query):
        table = query.args["from_"].this
        return list(stored.get(table.name.lower(), ())) if isinstance(table, exp.Table) else []
    return [item.name.lower() for item in query.expressions]


def _used(node: exp.Expr) -> set[str]:
    """What a node has."""
    return {name for name, value in node.args.items() if value}


def _cte_names(tree: exp.Query) -> set[str]:
    return {cte.alias.lower() for cte in tree.find_all(exp.CTE)}


def _flatten_members(select: exp.Select, stored: Mapping[str, Sequence[str]]) -> None:
    for member in _members(select):
        table = member.this
        if (
            isinstance(table, exp.Subquery)
            and _shows_rows_of_a_table(table.this, around=True)
            and _sees_alike(select, table, stored)
            and _fits(select, table)
        ):
            _flatten(select, member, table)


def _sees_alike(select: exp.Select, table: exp.Subquery, stored: Mapping[str, Sequence[str]]) -> bool:
    """Whether the names of others that a derived table's WHERE reads mean the same in that of the SELECT around it."""
    inner = table.this.args["from_"].this
    own = stored.get(inner.name.lower())
    there = {member.this.alias_or_name.lower() for member in _all_members(select)}
    nested = select.parent_select is not None
    for column in table.this.args["where"].find_all(exp.Column):
        if column.table:
            if column.table.lower() != inner.alias_or_name.lower() and column.table.lower() in there:
                return False
        elif nested if own is None else column.name.lower() not in own:
            return False
    return True


def _all_members(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    return [*([clause] if clause is not None else []), *(select.args.get("joins") or [])]


def _members(select: exp.Select) -> Iterator[exp.Expr]:
    """What holds the members of FROM of which rows may be left out in WHERE as well."""
    joins: list[exp.Join] = select.args.get("joins") or []
    if select.meta_get(WRITTEN) or select.args.get("sample") or any(map(_turns, joins)):
        return
    clause = select.args.get("from_")
    if clause is not None:
        yield clause
    yield from (join for join in joins if not join.args.get("side") and _kind(join) in ("", "INNER", "CROSS"))


def _kind(join: exp.Join) -> str:
    return str(join.args.get("kind") or "").upper()


def _turns(join: exp.Join) -> bool:
    """Whether a join gives rows for what is not there on its left, or goes by the place of rows."""
    side, method = (str(join.args.get(key) or "").upper() for key in ("side", "method"))
    return side in ("RIGHT", "FULL") or method != ""


def _shows_rows_of_a_table(query: exp.Expr, around: bool = False) -> bool:
    """Whether a query shows columns of one table as they are, of rows that it asks for.

    around: its WHERE may read other tables, which are around it.
    """
    if not isinstance(query, exp.Select) or _used(query) != _CLAUSES:
        return False
    table, where = query.args["from_"].this, query.args["where"]
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return False
    alias = table.args.get("alias")
    plain = _used(table) <= _PLAIN
    if not plain or (alias is not None and alias.args.get("columns")):
        return False
    if not any(site_number(node) is not None for node in where.walk()):
        return False
    if where.find(exp.Query, exp.Window, exp.Lambda) is not None or volatile(where) is not None:
        return False
    names = {"", table.alias_or_name.lower()}
    columns = list(where.find_all(exp.Column))
    if any(len(column.parts) > 2 or not (around or column.table.lower() in names) for column in columns):
        return False
    shown = [item for item in query.expressions if isinstance(item, exp.Column)]
    return _is_star(query) or (
        len(shown) == len(query.expressions) and all(item.table.lower() in names for item in shown)
    )


def _is_star(query: exp.Expr) -> bool:
    items = query.expressions
    return len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values())


def _fits(select: exp.Select, table: exp.Subquery) -> bool:
    """Whether the names in a SELECT go on meaning what they mean, once a derived table in it is its table."""
    alias = table.args.get("alias")
    if _used(table) - {"this", "alias"}:
        return False
    if alias is None:
        own = table.this.args["from_"].this.alias_or_name.lower()
        around = (
            column
            for column in select.find_all(exp.Column)
            if column.find_ancestor(exp.Subquery) is not table
        )
        return (
            not select.args.get("joins")
            and _is_star(table.this)
            and not any(column.table.lower() == own for column in around)
        )
    if alias.args.get("columns") or not alias.this:
        return False
    if _is_star(table.this):
        return True
    # Columns that the derived table does not show must not come in sight.
    shown = {item.name.lower() for item in table.this.expressions}
    inside = {id(node) for node in table.walk()}
    columns = [column for column in select.find_all(exp.Column) if id(column) not in inside]
    stars = [star for star in select.find_all(exp.Star) if id(star) not in inside]
    joins = select.args.get("joins") or []
    return (
        all(column.table for column in columns)
        and all(
            column.name.lower() in shown for column in columns if column.table.lower() == alias.name.lower()
        )
        and all(isinstance(star.parent, exp.Count) for star in stars)
        and not any(join.args.get("using") for join in joins)
        and select.find(exp.Columns) is None
    )


def _flatten(select: exp.Select, member: exp.Expr, table: exp.Subquery) -> None:
    query, alias = table.this, table.args.get("alias")
    inner, asked = query.args["from_"].this, query.args["where"].this
    if alias is not None:
        own = {"", inner.alias_or_name.lower()}
        inner.set("alias", alias)
        for column in asked.find_all(exp.Column):
            if column.table.lower() in own:
                column.set("table", alias.this.copy())
    member.set("this", inner)
    where = select.args.get("where")
    parts = [exp.Paren(this=asked)] if where is None else [exp.Paren(this=asked), exp.Paren(this=where.this)]
    select.set("where", exp.Where(this=exp.and_(*parts, copy=False)))


def _read_once(tree: exp.Query) -> list[exp.CTE]:
    """The CTEs of a statement that show rows of a table and are read at one place; none where names may be hidden."""
    clauses = list(tree.find_all(exp.With))
    if len(clauses) != 1 or clauses[0].parent is not tree or clauses[0].args.get("recursive"):
        return []
    times = Counter(table.name.lower() for table in tree.find_all(exp.Table) if not table.db)
    return [
        cte
        for cte in clauses[0].expressions
        if times[cte.alias.lower()] == 1
        and not cte.args.get("materialized")
        and not cte.args["alias"].args.get("columns")
        and _shows_rows_of_a_table(cte.this)
    ]


def _put_in_place(tree: exp.Query, cte: exp.CTE) -> None:
    """Put a CTE where it is read, if that flattens it."""
    name = cte.alias.lower()
    table = next(each for each in tree.find_all(exp.Table) if each.name.lower() == name and not each.db)
    select, holder = table.find_ancestor(exp.Select), table.parent
    alias = table.args.get("alias")
    plain = _used(table) <= _PLAIN
    if select is None or holder is None or not plain or (alias is not None and alias.args.get("columns")):
        return
    derived = exp.Subquery(this=cte.this, alias=alias or exp.TableAlias(this=table.this.copy()))
    if not any(member is holder for member in _members(select)) or not _fits(select, derived):
        cte.set("this", derived.this)
        return
    _flatten(select, holder, derived)
    with_ = tree.args["with_"]
    with_.set("expressions", [each for each in with_.expressions if each is not cte])
    if not with_.expressions:
        tree.set("with_", None)
