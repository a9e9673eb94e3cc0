"""The logical plan: blocks (SELECTs with AI calls) whose conditions are trees of AI calls and ordinary
predicates.

Everything is frozen. A syntax tree held by a node is never changed in place; lowering works on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from covey_planner.binding.deciding import Probe
from covey_planner.binding.guards import Must
from covey_planner.call import Call

BLOCK = "covey_block"
"""Key in a SELECT's meta: the number of its block; copies keep it."""

JOIN = "covey_join"
"""Key in the meta of a join whose ON asks beside a RIGHT or FULL join: its number; copies keep it."""


@dataclass(frozen=True)
class Cheap:
    """An ordinary predicate."""

    expr: exp.Expr
    relations: frozenset[str]


@dataclass(frozen=True)
class Ask:
    """An AI call as a predicate."""

    call: Call


@dataclass(frozen=True)
class Mixed:
    """An expression that holds AI calls in another place than a boolean tree, or subqueries with AI calls in
    them.
    """

    expr: exp.Expr
    relations: frozenset[str]
    values: tuple[Value, ...]
    blocks: tuple[Block, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The AI calls in the expression itself."""
        return tuple(value.call for value in self.values)


@dataclass(frozen=True)
class Not:
    """Negation, three-valued."""

    part: Condition


@dataclass(frozen=True)
class All:
    """Conjunction, three-valued."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Any:
    """Disjunction, three-valued."""

    parts: tuple[Condition, ...]


Condition = Cheap | Ask | Mixed | Not | All | Any


@dataclass(frozen=True)
class Item:
    """A member of FROM that is joined by an inner or cross join: one relation, or several that stay as
    written.

    position: index of its last join in the SELECT's list of joins, -1 for the first member alone.
    """

    relations: frozenset[str]
    first: exp.Expr
    joins: tuple[exp.Expr, ...] = ()
    position: int = -1


@dataclass(frozen=True)
class Attached:
    """A LEFT, SEMI or ANTI join whose right side is `relation`; needs: the relations that its ON reads
    besides.
    """

    relation: str
    kind: Literal["LEFT", "SEMI", "ANTI"]
    table: exp.Expr
    on: exp.Expr
    needs: frozenset[str]
    position: int


@dataclass(frozen=True)
class Source:
    """What a block reads: members joined by inner joins, then attached joins in order.

    insertable: whether an answer table may be joined in; not where COLUMNS(…) or a comma before a FULL JOIN
    forbids it. around: of members in a subquery, by relation, those of the SELECTs around that they read.
    """

    items: tuple[Item, ...]
    attached: tuple[Attached, ...] = ()
    insertable: bool = True
    around: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def relations(self) -> frozenset[str]:
        """All relations in the source."""
        own = (item.relations for item in self.items)
        return frozenset().union(*own, (join.relation for join in self.attached))

    def needs(self, relations: frozenset[str]) -> frozenset[str]:
        """What some of its relations read of the SELECTs around."""
        return frozenset().union(*(read for relation, read in self.around if relation in relations))


@dataclass(frozen=True)
class Filter:
    """The rows of `input` for which `condition` is true."""

    input: Node
    condition: Condition


Node = Source | Filter


@dataclass(frozen=True)
class Guard:
    """A condition without which the answer of a call does not matter: `expr` must (not) be true, must not be false, or
    must be NULL.
    """

    expr: exp.Expr
    relations: frozenset[str]
    must: Must


@dataclass(frozen=True)
class Value:
    """An AI call whose answer is used as a value: SELECT list, CASE, GROUP BY, HAVING, ORDER BY, QUALIFY.

    grouped: it is evaluated after GROUP BY, on groups. guards: when it is evaluated at all.
    """

    call: Call
    grouped: bool
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A join whose ON holds AI calls and stays in its place.

    position: index in the SELECT's list of joins. plan: the ON as filters on the pairs of its two sides; the source has
    only the right side where the block's members and the joins before are the left one. reduces: the relations whose
    filters in the block limit the pairs. flagged: the number of a join in whose ON no subquery may stand; right: the
    relations on its right.
    """

    position: int
    plan: Node
    reduces: frozenset[str]
    flagged: int | None = None
    right: frozenset[str] = frozenset()

    @property
    def sides(self) -> tuple[Item, ...]:
        """The sides that are the join's own."""
        return filters(self.plan)[0].items


@dataclass(frozen=True)
class Block:
    """A SELECT that holds AI calls, or that encloses a correlated subquery which does.

    select: the syntax tree. ctes: those it can see. plan: filters over the source. values: answers needed
    after the filters, in the order of the text. nested: blocks in the SELECT list and later clauses. joins: those
    whose ON asks, in the order of the text. probe: where it is the subquery of `x IN`, what is compared. keys: of ORDER
    BY beside LIMIT, each with the relations that it reads; None where one of them cannot be told.
    """

    number: int
    select: exp.Select
    ctes: tuple[exp.CTE, ...]
    plan: Node
    values: tuple[Value, ...] = ()
    nested: tuple[Block, ...] = ()
    joins: tuple[Joined, ...] = ()
    probe: Probe | None = None
    keys: tuple[tuple[exp.Expr, frozenset[str]], ...] | None = None


@dataclass(frozen=True)
class Logical:
    """All blocks of a statement that are not inside another's expressions; what a block reads comes before
    it.
    """

    blocks: tuple[Block, ...]


def filters(node: Node) -> tuple[Source, tuple[Condition, ...]]:
    """The source under a chain of filters, and their conditions, the first applied first."""
    conditions: list[Condition] = []
    while isinstance(node, Filter):
        conditions.append(node.condition)
        node = node.input
    return node, tuple(reversed(conditions))


def leaves(condition: Condition) -> Iterator[Cheap | Ask | Mixed]:
    """The leaves of a boolean tree, in order."""
    match condition:
        case Not(part):
            yield from leaves(part)
        case All(parts) | Any(parts):
            for part in parts:
                yield from leaves(part)
        case leaf:
            yield leaf


def map_leaves(condition: Condition, change: Callable[[Cheap | Ask | Mixed], Condition]) -> Condition:
    """The tree with every leaf replaced."""
    match condition:
        case Not(part):
            return Not(map_leaves(part, change))
        case All(parts):
            return All(tuple(map_leaves(part, change) for part in parts))
        case Any(parts):
            return Any(tuple(map_leaves(part, change) for part in parts))
        case leaf:
            return change(leaf)


def is_cheap(condition: Condition) -> bool:
    """Whether no model is needed to decide it."""
    return all(isinstance(leaf, Cheap) for leaf in leaves(condition))


def relations_of(condition: Condition) -> frozenset[str]:
    """The relations a condition reads."""
    found: set[str] = set()
    for leaf in leaves(condition):
        found |= leaf.call.relations if isinstance(leaf, Ask) else leaf.relations
    return frozenset(found)
