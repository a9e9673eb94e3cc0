"""CTEs of a subquery that are read at one place there become derived tables, which may read the query around; the tree
is changed in place.
"""

from __future__ import annotations

from sqlglot import exp

from covey_planner.language.parse import site_number


def put_ctes_in_place(tree: exp.Query) -> None:
    """Rewrite the WITH clauses of subqueries that ask."""
    for with_ in list(tree.find_all(exp.With)):
        owner = with_.parent
        if (
            isinstance(owner, exp.Select)
            and owner.parent_select is not None
            and not with_.args.get("recursive")
            and sum(1 for _ in owner.find_all(exp.With)) == 1
            and any(site_number(node) is not None for node in owner.walk())
        ):
            _put_in_place(owner, with_)


def _put_in_place(owner: exp.Select, with_: exp.With) -> None:
    kept: list[exp.Expr] = []
    for cte in reversed(with_.expressions):
        name = cte.alias.lower()
        read = [table for table in owner.find_all(exp.Table) if table.name.lower() == name and not table.db]
        if len(read) != 1 or cte.args.get("materialized") or not _stands_for(owner, read[0], cte):
            kept.insert(0, cte)
            continue
        table = read[0]
        alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
        if not alias.args.get("columns"):
            alias.set("columns", cte.args["alias"].args.get("columns"))
        body = cte.this
        cte.set("this", None)
        table.replace(exp.Subquery(this=body, alias=alias))
    with_.set("expressions", kept)
    if not kept:
        owner.set("with_", None)


def _stands_for(owner: exp.Select, table: exp.Table, cte: exp.CTE) -> bool:
    """Whether names in a CTE go on meaning what they mean where it is read: at the first place of a FROM,
    before which nothing stands, or with every name qualified by what stands nowhere there.
    """
    used = {key for key, value in table.args.items() if value}
    if not used <= {"this", "alias"}:
        return False
    node: exp.Expr | None = table
    while node is not owner and isinstance(node, exp.Table | exp.Subquery | exp.Select | exp.From):
        node = node.parent
    if node is owner:
        return True
    if table.parent_select is not owner or not isinstance(table.parent, exp.Join):
        return False
    members = [owner.args["from_"], *(owner.args.get("joins") or [])]
    there = {member.this.alias_or_name.lower() for member in members}
    own = {each.alias_or_name.lower() for each in cte.this.find_all(exp.Table, exp.Subquery, exp.Unnest)}
    return all(
        column.table and (column.table.lower() in own or column.table.lower() not in there)
        for column in cte.this.find_all(exp.Column)
    )
