"""SQL of the guarded domain queries: the distinct argument tuples that still matter; never sees a syntax
tree.

Only what is connected with the arguments is read: members of FROM are linked by the predicates between them,
and a domain takes the component around its arguments, so that no cross product arises that the predicates do
not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from covey_planner.call import Argument
from covey_planner.lowering.first_rows import NO_ORDER, Order
from covey_planner.physical import Domain, Given, Odds, TextArgument

VALUE = "__covey_x"


@dataclass(frozen=True)
class Member:
    """A member of FROM as SQL. free: without AI calls, "" for an answer table; odds: what that leaves out; needs: the
    relations of SELECTs around that it reads.
    """

    sql: str
    relations: frozenset[str]
    names: frozenset[str]
    free: str = ""
    odds: tuple[Odds, ...] = ()
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Extra:
    """A LEFT join as SQL, or a SEMI or ANTI join as a predicate; relation: what a LEFT join adds, None for one that
    only filters.

    free: without AI calls, like a member's.
    """

    sql: str
    relation: str | None
    needs: frozenset[str]
    names: frozenset[str]
    free: str = ""


@dataclass(frozen=True)
class Link:
    """A predicate that every row of interest satisfies, as SQL. odds: None where it holds no answers; window: it looks
    at all rows that the other predicates leave.
    """

    sql: str
    relations: frozenset[str]
    has_subquery: bool = False
    odds: Odds | None = None
    window: bool = False


@dataclass
class Rows:
    """What is known of the rows that still matter; grows as answers come in. with_: the WITH clause for a
    query text; with_free: the same without AI calls, None where nothing is to be estimated. is_free: they are those
    before anything is answered.
    """

    with_: Callable[[str], str]
    with_free: Callable[[str], str] | None
    members: list[Member] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    is_free: bool = False

    @property
    def relations(self) -> frozenset[str]:
        """The relations that can be read."""
        added = {extra.relation for extra in self.extras if extra.relation is not None}
        return frozenset().union(added, *(member.relations for member in self.members))

    def known(self) -> Rows:
        """These rows without the predicates on relations that are not there yet."""
        return replace(self, links=[link for link in self.links if link.relations <= self.relations])

    def inside(self, outer: Rows) -> Rows:
        """These rows, combined with those of the SELECT around; what is hidden by a name used here is left
        out.
        """
        names = frozenset().union(
            *(member.names for member in self.members), *(extra.names for extra in self.extras)
        )
        members = [member for member in outer.members if not member.names & names]
        extras = [extra for extra in outer.extras if not extra.names & names]
        known = frozenset().union(*(member.relations for member in [*members, *self.members]))
        known |= {extra.relation for extra in [*extras, *self.extras] if extra.relation is not None}
        extras = [extra for extra in extras if extra.needs <= known]
        links = [
            link
            for link in [*outer.links, *self.links]
            if link.relations <= known and not (link.has_subquery or link.window)
        ]
        return Rows(self.with_, self.with_free, [*members, *self.members], [*extras, *self.extras], links)

    def component(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations connected with the given ones, by members, predicates and joins."""
        found = set(relations)
        joins = [extra.needs | ({extra.relation} if extra.relation else set()) for extra in self.extras]
        filters = [extra.needs for extra in self.extras if extra.relation is None]
        sets = [
            *(member.relations | member.needs for member in self.members),
            *(link.relations for link in self.links),
            *filters,
        ]
        while True:
            before = len(found)
            for together in sets:
                if together & found:
                    found |= together
            for extra, together in zip(self.extras, joins, strict=True):
                if extra.relation in found:
                    found |= together
            if len(found) == before:
                return frozenset(found)

    def free(self) -> Rows:
        """The rows before anything is answered."""
        return Rows(
            self.with_,
            None,
            [replace(member, sql=member.free) for member in self.members if member.free],
            [replace(extra, sql=extra.free) for extra in self.extras],
            [link for link in self.links if link.odds is None],
            is_free=True,
        )

    def odds(self, component: frozenset[str]) -> tuple[Odds, ...]:
        """The answers on which the rows of a component depend."""
        links = (link.odds for link in self.links if link.odds is not None and link.relations <= component)
        members = (odds for member in self.members if member.relations & component for odds in member.odds)
        return (*links, *members)

    def select(self, columns: Sequence[str], component: frozenset[str]) -> str:
        """`SELECT columns FROM … WHERE …` over a component; predicates without a relation always hold."""
        text = f"SELECT {', '.join(columns)}"
        members = [member for member in self.members if member.relations & component]
        links = [link for link in self.links if link.relations <= component]
        where = [link.sql for link in links if not link.window]
        if members:
            joined, reduced = self._joined(component)
            text += f" FROM {joined}"
            where += reduced
            if not self.is_free:
                where += self._others(component)
        if where:
            text += " WHERE " + " AND ".join(f"({predicate})" for predicate in where)
        windows = [link.sql for link in links if link.window]
        return f"{text} QUALIFY {' AND '.join(windows)}" if windows else text

    def _joined(self, component: frozenset[str]) -> tuple[str, list[str]]:
        """The members of a component with what is joined to them, each after what it reads; and predicates that stand
        for SEMI and ANTI joins.
        """
        waiting: list[Member | Extra] = [member for member in self.members if member.relations & component]
        waiting += [
            extra
            for extra in self.extras
            if extra.needs <= component and extra.relation in {None, *component}
        ]
        there: set[str] = set()
        text, where = "", []
        while waiting:
            part = next((part for part in waiting if part.needs <= there), waiting[0])
            waiting.remove(part)
            if isinstance(part, Member):
                text += f" CROSS JOIN {part.sql}" if text else part.sql
                there |= part.relations
            elif part.relation is None:
                where.append(part.sql)
            else:
                text += f" {part.sql}"
                there.add(part.relation)
        return text, where

    def _others(self, component: frozenset[str]) -> list[str]:
        """That there are rows of what is not connected with a component, where predicates may have left none.

        No EXISTS: DuckDB 2.0.1 finds it false of a RIGHT JOIN with nothing on its left.
        """
        found: list[str] = []
        seen = component
        for member in self.members:
            if member.relations & seen:
                continue
            other = self.component(member.relations)
            seen |= other
            filters = [link.relations for link in self.links if not link.window]
            filters += [extra.needs for extra in self.extras if extra.relation is None]
            if any(relations and relations <= other for relations in filters):
                alone = replace(self, members=[each for each in self.members if each.relations & other])
                found.append(
                    f"(SELECT count(*) FROM ({alone.select(['1'], other)} LIMIT 1) AS __covey_o) > 0"
                )
        return found


def key(sql: str) -> str:
    """The key of a text, as SQL."""
    return f"unhex(md5(CAST({sql} AS VARCHAR)))"


def domain(
    arguments: Sequence[Argument],
    rows: Rows,
    exclude: Sequence[str] = (),
    order: Order = NO_ORDER,
    flags: Sequence[str] = (),
) -> Domain:
    """The distinct tuples of some arguments. exclude: answer tables whose tuples are not wanted; order: keys of the
    rows, by which the tuples come in the order of the first row of each; flags: conditions on the rows, of which `m`
    says which hold for some row of a tuple.
    """
    component = rows.component(_relations(arguments))
    known = given(arguments, rows, component, exclude)
    if flags:
        assert not order.sql, "what rows decide is asked in no order"
        inner = rows.select([*values(arguments), f"{_bits(flags)} AS __covey_m"], component)
        return domain_of(arguments, inner, rows.with_, exclude, known, flagged=True)
    inner = rows.select(values(arguments), component)
    found = domain_of(arguments, inner, rows.with_, exclude, known)
    if not order.sql:
        return found
    ranked = rows.select([*values(arguments), f"rank() OVER (ORDER BY {order.sql}) AS __covey_o"], component)
    count = range(len(arguments))
    keys = ", ".join(f"{key(f'{VALUE}{n}')} AS k{n}" for n in count)
    there = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in count)
    sql = f"SELECT {keys}, min(__covey_o) AS o FROM ({ranked}) AS __covey_d WHERE {there} GROUP BY ALL"
    for table in exclude:
        same = " AND ".join(f"__covey_e.k{n} = __covey_k.k{n}" for n in count)
        sql = f"SELECT * FROM ({sql}) AS __covey_k WHERE NOT EXISTS (SELECT 1 FROM {table} AS __covey_e WHERE {same})"
    columns = [*(f"k{n}" for n in count), *(["o"] if order.ties else [])]
    sql = f"SELECT {', '.join(columns)} FROM ({sql}) AS __covey_s ORDER BY o"
    return replace(found, sql=rows.with_(sql) + sql, once="")


def _bits(flags: Sequence[str]) -> str:
    """The conditions that hold, as one number."""
    return " + ".join(f"CASE WHEN {sql} THEN {1 << n} ELSE 0 END" for n, sql in enumerate(flags))


def given(
    arguments: Sequence[Argument], rows: Rows, component: frozenset[str], without: Sequence[str] = ()
) -> Given | None:
    """The rows behind some arguments before anything is answered. component: theirs with all answers."""
    if rows.with_free is None:
        return None
    free, relations = rows.free(), _relations(arguments)
    together = free.component(relations)
    inner, alike = (free.select(columns, together) for columns in (values(arguments), ["1"]))
    return Given(
        rows.with_free(inner) + inner,
        relations,
        rows.odds(component),
        tuple(without),
        rows.with_free(alike) + alike,
    )


def _relations(arguments: Sequence[Argument]) -> frozenset[str]:
    return frozenset().union(*(argument.relations for argument in arguments))


def domain_of(
    arguments: Sequence[Argument],
    inner: str,
    with_: Callable[[str], str],
    exclude: Sequence[str] = (),
    known: Given | None = None,
    flagged: bool = False,
) -> Domain:
    """The domain over a query that yields the arguments as __covey_x0, …, and (flagged) bits as __covey_m."""
    count = len(arguments)
    keys = ", ".join(f"{key(f'{VALUE}{n}')} AS k{n}" for n in range(count))
    given = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in range(count))
    computed = [n for n, argument in enumerate(arguments) if argument.table is None]
    bits = ["bit_or(__covey_m) AS m"] if flagged else []
    own = [*bits, *(f"any_value(CAST({VALUE}{n} AS VARCHAR)) AS t{n}" for n in computed)]
    rows = f"FROM ({inner}) AS __covey_d WHERE {given}"
    sql = (
        f"SELECT {', '.join([keys, *bits])} {rows} GROUP BY ALL"
        if flagged
        else f"SELECT DISTINCT {keys} {rows}"
    )
    once = f"SELECT {', '.join([keys, *own])} {rows} GROUP BY ALL" if computed else ""
    for table in exclude:
        same = " AND ".join(f"__covey_e.k{n} = __covey_k.k{n}" for n in range(count))
        there = f"SELECT 1 FROM {table} AS __covey_e WHERE {same}"
        sql = f"SELECT * FROM ({sql}) AS __covey_k WHERE NOT EXISTS ({there})"
        once = once and f"SELECT * FROM ({once}) AS __covey_k WHERE NOT EXISTS ({there})"
    texts = tuple(_texts(argument, n, inner, with_) for n, argument in enumerate(arguments))
    return Domain(with_(sql) + sql, texts, known, with_(once) + once if once else "")


def held(domain: Domain, table: str) -> Domain:
    """A domain with computed texts as it is read from a table that its query `once` has filled."""
    arguments = (
        argument
        if argument.table is not None
        else replace(argument, texts=f"SELECT k{n} AS key, any_value(t{n}) AS text FROM {table} GROUP BY ALL")
        for n, argument in enumerate(domain.arguments)
    )
    texts = ", ".join(f"t{n}" for n, argument in enumerate(domain.arguments) if argument.table is None)
    return replace(
        domain, sql=f"SELECT * EXCLUDE ({texts}) FROM {table}", arguments=tuple(arguments), once=""
    )


def values(arguments: Sequence[Argument]) -> list[str]:
    """The arguments as a SELECT list."""
    return [f"{argument.sql} AS {VALUE}{n}" for n, argument in enumerate(arguments)]


@dataclass(frozen=True)
class Met:
    """The two sides of a question about pairs. pairs: the query of the pairs where a predicate links the sides;
    given: for estimates, None where only answers link them.
    """

    anchors: Domain
    partners: Domain
    pairs: str | None = None
    given: Given | None = None


def pairs(anchors: Sequence[Argument], partners: Sequence[Argument], rows: Rows, always: bool = False) -> Met:
    """Domains of the two sides, and their pairs. always: as a query, even where no predicate links them."""
    sides = [rows.component(_relations(side)) for side in (anchors, partners)]
    if not (sides[0] & sides[1] or always):
        return Met(domain(anchors, rows), domain(partners, rows))
    # A LEFT join links one way: what it adds needs its left side, which does not need it.
    component, both = rows.component(sides[0] | sides[1]), [*anchors, *partners]
    linked = pairs_of(rows.select(values(both), component), len(anchors), len(partners), rows.with_)
    left, right = (
        domain_of(side, rows.select(values(side), component), rows.with_, known=given(side, rows, component))
        for side in (anchors, partners)
    )
    return Met(left, right, linked, given(both, rows, component))


def pairs_of(inner: str, anchors: int, partners: int, with_: Callable[[str], str]) -> str:
    """The distinct pairs of key tuples, over a query that yields the anchor's and then the partner's
    arguments.
    """
    names = [f"a{n}" for n in range(anchors)] + [f"p{n}" for n in range(partners)]
    columns = ", ".join(f"{key(f'{VALUE}{n}')} AS {name}" for n, name in enumerate(names))
    given = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in range(len(names)))
    sql = f"SELECT DISTINCT {columns} FROM ({inner}) AS __covey_d WHERE {given}"
    return with_(sql) + sql


def _texts(argument: Argument, number: int, inner: str, with_: Callable[[str], str]) -> TextArgument:
    name = f"{VALUE}{number}"
    texts = f"SELECT {key(name)} AS key, CAST({name} AS VARCHAR) AS text FROM ({inner}) AS __covey_d"
    texts = f"{texts} WHERE {name} IS NOT NULL"
    sql = f"SELECT key, any_value(text) AS text FROM ({texts}) AS __covey_t GROUP BY key"
    return TextArgument(argument.text, with_(sql) + sql, argument.table, argument.column)
