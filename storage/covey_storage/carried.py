"""A DuckDB relation in, one whose values Arrow carries unchanged out; reads nothing.

DuckDB hands Arrow a time without its offset from UTC, the bytes in which it keeps bits and large numbers, and the half
of UHUGEINT above 2^127 as negative numbers. Offsets, bits and BIGNUM go as text, as UUID does; UHUGEINT goes as the
decimal number that Arrow is told anyway, and one that is too large for it is an error.
"""

from __future__ import annotations

import re

import duckdb

_CARRIED = {
    "TIME WITH TIME ZONE": "VARCHAR",
    "BIT": "VARCHAR",
    "BIGNUM": "VARCHAR",
    "UHUGEINT": "DECIMAL(38,0)",
}
_TYPE = re.compile(rf"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|\b(?:{'|'.join(_CARRIED)})(?=[,)\[]|$)")
"""A quoted name, an ENUM's value, or one of the types: a name is followed by a type, a type is not."""

_MOST = 10**38 - 1


def carried_type(kind: str) -> str:
    """The type in which a column of this DuckDB type is sent."""
    return _TYPE.sub(lambda found: _CARRIED.get(found[0], found[0]), kind)


def carried(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with the columns cast that Arrow would get wrong; a value that does not fit fails as it is read."""
    kinds = [str(kind) for kind in relation.types]
    if all(kind == carried_type(kind) for kind in kinds):
        return relation
    columns = zip(relation.columns, kinds, strict=True)
    return relation.project(", ".join(_column(at, name, kind) for at, (name, kind) in enumerate(columns, 1)))


def _column(at: int, name: str, kind: str) -> str:
    """A column's expression, by its place: names may be equal."""
    quoted = '"' + name.replace('"', '""') + '"'
    if kind != "UHUGEINT":
        cast = carried_type(kind)
        return f"#{at} AS {quoted}" if cast == kind else f"CAST(#{at} AS {cast}) AS {quoted}"
    said = (
        f"column {quoted}: a UHUGEINT of more than 38 digits cannot be sent as a number, cast it to VARCHAR"
    )
    literal = "'" + said.replace("'", "''") + "'"
    return (
        f"CASE WHEN #{at} > {_MOST} THEN error({literal}) ELSE CAST(#{at} AS DECIMAL(38,0)) END AS {quoted}"
    )
