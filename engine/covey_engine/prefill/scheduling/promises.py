"""A tree and the kinds of all running orders go in; an AssertionError comes out where promises are not what is wanted.

What orders may want of a node follows from the slots of their rows; it is looked up here by a table of its own, so that
`Groups.find` is checked as well. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from covey_engine.prefill.scheduling.claims import Claim
from covey_engine.prefill.scheduling.compiled import Flags, FlagsOut, Ints, IntsOut, Table, TokenTable, kernel
from covey_engine.prefill.scheduling.groups import Groups, Slots
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.tree import Tree

_FAULTS = (
    "",
    "of a kind that nobody uses",
    "promised to who cannot want it",
    "promised, and not marked",
    "a node that is wanted is not promised",
    "a node is promised twice",
)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of some groups, by their slots.

    groups: the number of each. keys: int32 [columns, rows], slots; columns that groups do not have are 0. owners: int64
    [2, rows], whose groups' each row is, and its group there. table: by a hash of a row's owner and slots, its number
    plus one.
    """

    groups: dict[Groups, int]
    keys: TokenTable
    owners: Table
    table: Ints


@dataclass(frozen=True, eq=False)
class _Wishes:
    """Which nodes the running orders may want at all, by kind and slots.

    state: of which claims on which kinds that is so. numbers: those of the claims. kinds: int64 [kinds, 3], of each
    kind number its column segments and where its `members` begin and end, -1 columns for a number nobody uses. members:
    int64 [., 3], claims on a kind: a claim, its groups' number, and where its groups begin among those of all claims.
    """

    state: list[tuple[int, tuple[Claim, ...]]]
    numbers: dict[Claim, int]
    kinds: Table
    members: Table
    rows: _Rows


_known: WeakKeyDictionary[Tree, _Wishes] = WeakKeyDictionary()


def check_promises(tree: Tree, kinds: Mapping[int, Kind], wanted: FlagsOut, sure: FlagsOut) -> None:
    """Assert that just what orders may want is promised to them; writes which nodes that is, and which surely."""
    wishes = _wishes(tree, kinds)
    left = [claim.left for claim in wishes.numbers]
    promised = list[int]()
    for node, some in tree.claimants.items():
        for claim, group in some:
            if claim.wants_one(group):
                promised += (node, wishes.numbers.get(claim, -1), group)
    fault, where = _examine(
        tree.name,
        tree.holds,
        tree.slots,
        tree.claimed,
        wishes.kinds,
        wishes.members,
        wishes.rows.keys,
        wishes.rows.owners,
        wishes.rows.table,
        np.concatenate(left) if left else np.empty(0, np.bool_),
        np.array([claim.sure for claim in wishes.numbers], np.bool_),
        np.array(promised, np.int64).reshape(-1, 3),
        np.array(list(tree.claimants), np.int64),
        wanted,
        sure,
    )
    assert not fault, f"{_FAULTS[fault]}: node {where}"


def _wishes(tree: Tree, kinds: Mapping[int, Kind]) -> _Wishes:
    """What orders may want now."""
    state = [(number, tuple(kind.claims)) for number, kind in kinds.items()]
    known = _known.get(tree)
    if known is None or known.state != state:
        known = _known[tree] = _lay_out(state, kinds, known)
    return known


def _lay_out(
    state: list[tuple[int, tuple[Claim, ...]]], kinds: Mapping[int, Kind], known: _Wishes | None
) -> _Wishes:
    """All wishes. known: those before, of whose groups the rows are laid out."""
    numbers, begin = dict[Claim, int](), dict[Claim, int]()
    table, members, count = [-1, 0, 0] * (max(kinds) + 1), list[int](), 0
    for number, claims in state:
        first = len(members) // 3
        table[3 * number : 3 * number + 3] = kinds[number].columns, first, first + len(claims)
        for claim in claims:
            if claim not in numbers:
                numbers[claim], begin[claim] = len(numbers), count
                count += claim.groups.count
            members += (numbers[claim], 0, begin[claim])
    if known is None or any(claim.groups not in known.rows.groups for claim in numbers):
        rows = _rows({claim.groups for claim in numbers})
    else:
        rows = known.rows
    members[1::3] = [rows.groups[claim.groups] for _, claims in state for claim in claims]
    return _Wishes(
        state,
        numbers,
        np.array(table, np.int64).reshape(-1, 3),
        np.array(members, np.int64).reshape(-1, 3),
        rows,
    )


def _rows(groups: Collection[Groups]) -> _Rows:
    columns = {each: _columns(each) for each in groups}
    count = sum(each.rows for each in groups)
    keys = np.zeros((max(map(len, columns.values()), default=0), count), np.int32)
    owners = np.empty((2, count), np.int64)
    at = 0
    for number, (each, theirs) in enumerate(columns.items()):
        place = slice(at, at + each.rows)
        owners[0, place], owners[1, place] = number, each.of(np.arange(each.rows))
        for column, slots in enumerate(theirs):
            keys[column, place] = slots
        at += each.rows
    table = np.zeros(1 << (2 * count).bit_length(), np.int64)
    _enter(table, keys, owners[0])
    return _Rows({each: number for number, each in enumerate(columns)}, keys, owners, table)


def _columns(groups: Groups) -> list[Slots]:
    """The slots by which rows are grouped, the first column foremost."""
    if groups.parent is None or groups.slots is None:
        return []
    return [*_columns(groups.parent), groups.slots]


@kernel
def _place(table: Ints, keys: TokenTable, owners: Ints, owner: int, slots: TokenTable, at: int) -> int:
    """Where the row of some groups with a column of slots is in the table, or the empty place where it would be."""
    mask, mixed = len(table) - 1, owner
    for column in range(len(keys)):
        mixed = (mixed ^ slots[column, at]) * 0x1E3779B97F4A7C15
        mixed ^= mixed >> 29
    place = mixed & mask
    while table[place]:
        row, same = table[place] - 1, True
        if owners[row] == owner:
            for column in range(len(keys)):
                same = same and keys[column, row] == slots[column, at]
            if same:
                break
        place = (place + 1) & mask
    return place


@kernel
def _enter(table: IntsOut, keys: TokenTable, owners: Ints) -> None:
    """Put rows into the table, of equal ones the first."""
    for row in range(len(owners)):
        place = _place(table, keys, owners, owners[row], keys, row)
        if table[place] == 0:
            table[place] = row + 1


@kernel
def _examine(
    names: Ints,
    holds: Ints,
    slots: TokenTable,
    claimed: Flags,
    kinds: Table,
    members: Table,
    keys: TokenTable,
    owners: Table,
    table: Ints,
    left: Flags,
    sure: Flags,
    promised: Table,
    marked: Ints,
    wanted: FlagsOut,
    surely: FlagsOut,
) -> tuple[int, int]:
    """Whether just what orders may want is promised to them; a fault, an index into _FAULTS, with the node that has it.

    left: by claim and group, whether it may be wanted; sure: by claim. promised: int64 [promises, 3], a node, a claim
    and its group; marked: the nodes of promises. Writes, by node: whether it is wanted, and by who surely is asked.
    """
    for node in marked:
        if not claimed[node]:
            return 3, node
    # Of each node, the claims that want it, one after another: a claim and its group.
    due, count = np.empty((64, 2), np.int64), 0
    begins = np.zeros(len(names) + 1, np.int64)
    own = np.zeros((len(keys), 1), np.int32)
    for node in range(len(names)):
        begins[node] = count
        if node == 0 or holds[node] < 0 or names[node] <= 0:
            continue
        kind = names[node] >> 32
        if kind >= len(kinds) or kinds[kind, 0] < 0:
            return 1, node
        for column in range(len(keys)):
            own[column, 0] = slots[column, node] if column < min(kinds[kind, 0], len(slots)) else 0
        for member in range(kinds[kind, 1], kinds[kind, 2]):
            claim, owner, begin = members[member]
            row = table[_place(table, keys, owners[0], owner, own, 0)] - 1
            if row < 0 or not left[begin + owners[1, row]]:
                continue
            wanted[node] = True
            surely[node] |= sure[claim]
            if count == len(due):
                more = np.empty((2 * count, 2), np.int64)
                more[:count] = due
                due = more
            due[count, 0], due[count, 1] = claim, owners[1, row]
            count += 1
    begins[len(names)] = count
    for promise in range(len(promised)):
        node, claim, group = promised[promise]
        found = -1
        for n in range(begins[node], begins[node + 1]):
            if due[n, 1] == group and (due[n, 0] == claim or due[n, 0] == -2 - claim):
                found = n
        if found < 0:
            return 2, node
        if due[found, 0] < 0:
            return 5, node
        due[found, 0] = -2 - claim
    for node in range(len(names)):
        for n in range(begins[node], begins[node + 1]):
            if due[n, 0] >= 0:
                return 4, node
    return 0, 0
