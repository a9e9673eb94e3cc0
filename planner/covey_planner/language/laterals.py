"""The ON of a lateral join that asks becomes the WHERE of a derived table, where calls may stand; the tree is changed
in place.
"""

from __future__ import annotations

from sqlglot import exp

from covey_planner.language.parse import sites_of


def ask_in_laterals(tree: exp.Query) -> None:
    """Rewrite `JOIN LATERAL (q) x ON c` as `JOIN LATERAL (SELECT * FROM (q) x WHERE c) x ON TRUE`, wherever c asks."""
    for join in list(tree.find_all(exp.Join)):
        on, select = join.args.get("on"), join.parent
        if on is None or not sites_of(on) or not isinstance(select, exp.Select) or not _may_turn(join):
            continue
        member = join.this
        if not member.alias or not (_is_lateral(member) or _reads(member, select)):
            continue
        inner = exp.Subquery(this=member.this.unnest()) if isinstance(member, exp.Lateral) else member
        alias = exp.to_identifier(member.alias, quoted=True)
        if isinstance(member, exp.Lateral):
            inner.set("alias", member.args["alias"])
        query = exp.select("*").from_(inner, copy=False).where(on, copy=False)
        lateral = exp.Lateral(this=exp.Subquery(this=query), alias=exp.TableAlias(this=alias))
        join.set("this", lateral)
        join.set("on", exp.true())


def _may_turn(join: exp.Join) -> bool:
    side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    return side in ("", "LEFT") and kind in ("", "INNER", "CROSS") and not method


def _is_lateral(member: exp.Expr) -> bool:
    if isinstance(member, exp.Unnest):
        return member.find(exp.Column) is not None
    return isinstance(member, exp.Lateral) and isinstance(member.this, exp.Subquery | exp.Query)


def _reads(member: exp.Expr, select: exp.Select) -> bool:
    """Whether a derived table names members of FROM before it."""
    if not isinstance(member, exp.Subquery) or not isinstance(member.this, exp.Query):
        return False
    clause = select.args.get("from_")
    names = {clause.this.alias_or_name.lower()} if clause is not None else set()
    for join in select.args.get("joins") or []:
        if join.this is member:
            break
        names.add(join.this.alias_or_name.lower())
    names -= {
        each.alias_or_name.lower() for each in member.this.find_all(exp.Table, exp.Subquery, exp.Unnest)
    }
    return any(column.table.lower() in names for column in member.this.find_all(exp.Column))
