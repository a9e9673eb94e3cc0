"""Values of an answer table as an SQL expression of keys, for places where the table cannot be joined in.

An expression stands wherever a value may: on groups, in correlated subqueries, in ON. The answers are gathered once
in a list of maps, by a part of the key's hash, so that a look-up compares few keys.
"""

from __future__ import annotations

from collections.abc import Sequence

_MAPS = 1024


def lookup(table: str, names: Sequence[str], answer: str, keys: Sequence[str]) -> str:
    """The answer that belongs to `keys`; NULL where there is none, or where a key is NULL.

    table: a member of FROM; names: its key columns, BLOBs of 16 bytes; answer: its column of answers; keys: as SQL.
    """
    own, given = " || ".join(names), f"({' || '.join(keys)})"
    pairs = f"list(({own}, {answer})) FILTER (WHERE {names[0]} IS NOT NULL)"
    entries = (
        f"SELECT __covey_n, map_from_entries({pairs}) AS __covey_m"
        f" FROM range({_MAPS}) AS __covey_r(__covey_n)"
        f" LEFT JOIN {table} ON hash({own}) % {_MAPS} = __covey_n GROUP BY __covey_n"
    )
    maps = f"(SELECT list(__covey_m ORDER BY __covey_n) FROM ({entries}) AS __covey_e)"
    return f"{maps}[1 + CAST(hash{given} % {_MAPS} AS BIGINT)][{given}]"
