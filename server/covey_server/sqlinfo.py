"""Ids of facts about the server in, the facts in Flight SQL's union of types out; never asks the database.

Drivers read a fact through the union member that the specification gives its id, without looking, and some
fail on a missing one: so every id is here, with that member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import duckdb
import pyarrow as pa
from covey_planner.substrait.write import VERSION

_STRING, _BOOL, _BIGINT, _BITMASK, _LIST, _MAP = range(6)

_MEMBERS = [
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
]

SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_MEMBERS)),
    ]
)

_NUMERIC = """abs acos asin atan atan2 ceil cos cot degrees exp floor ln log log10 mod pi power radians random
    round sign sin sqrt tan trunc"""
_TEXT = """ascii chr concat left length lower lpad ltrim repeat replace reverse right rpad rtrim substring
    trim upper"""
_SYSTEM = "coalesce current_schema ifnull nullif typeof version"
_TIME = """current_date current_timestamp date_diff date_part date_trunc dayname extract month monthname now
    quarter second strftime year"""


def facts(keywords: Sequence[str], statement_ttl: float, transaction_ttl: float) -> dict[int, object]:
    """Every id and its value. Times to live in seconds."""
    found: dict[int, object] = {
        0: "Covey",
        1: version("covey"),
        2: pa.__version__,
        3: False,  # read-only
        4: True,  # SQL
        5: True,  # Substrait, and the versions that are read
        6: "0.20.0",
        7: ".".join(map(str, VERSION)),
        8: 1,  # transactions, no savepoints
        9: True,  # cancellation
        10: True,  # bulk ingestion
        11: True,  # ingestion in transactions
        100: int(statement_ttl * 1000),
        101: int(transaction_ttl * 1000),
        503: 1,  # identifiers: case-insensitive
        504: '"',
        505: 1,
        507: 3,  # nulls come last
        508: list(keywords),
        509: _NUMERIC.split(),
        510: _TEXT.split(),
        511: _SYSTEM.split(),
        512: _TIME.split(),
        513: "\\",
        514: "",
        517: {},
        522: 3,  # GROUP BY: unrelated columns, columns beyond SELECT
        525: 3,  # minimum and core grammar
        526: 3,  # ANSI 92 entry and intermediate level
        528: 2,  # full outer joins
        529: "schema",
        530: "procedure",
        531: "catalog",
        533: 0,
        534: 0,
        535: 0,
        538: 15,  # subqueries in comparisons, EXISTS, IN, quantified
        540: 3,  # UNION and UNION ALL
        562: 3,  # default isolation: repeatable read (snapshot)
        564: 1 << 3,
        567: 1 << 1,  # forward-only results
        568: 0,
        569: 1 << 1,  # read-only
        570: 0,
        571: 0,
    }
    yes = (501, 502, 506, 515, 516, 518, 520, 521, 523, 524, 527, 532, 539, 563, 572)
    no = (500, 519, 536, 537, 556, 565, 566, 573, 574, 575, 576)
    found.update(dict.fromkeys(yes, True))
    found.update(dict.fromkeys(no, False))
    # No limit, or none known.
    found.update(dict.fromkeys([*range(541, 556), *range(557, 562)], 0))
    return found


def sql_info(wanted: Sequence[int], known: Mapping[int, object]) -> pa.Table:
    """The facts asked for, all of them where none are named; unknown ids are left out."""
    ids = [number for number in wanted if number in known] if wanted else sorted(known)
    children: list[list[object]] = [[] for _ in _MEMBERS]
    members, offsets = [], []
    for number in ids:
        member = member_of(number)
        members.append(member)
        offsets.append(len(children[member]))
        children[member].append(known[number])
    union = pa.UnionArray.from_dense(
        pa.array(members, pa.int8()),
        pa.array(offsets, pa.int32()),
        [
            pa.array([list(v.items()) if isinstance(v, dict) else v for v in values], field.type)
            for values, field in zip(children, _MEMBERS, strict=True)
        ],
        [field.name for field in _MEMBERS],
    )
    return pa.Table.from_arrays([pa.array(ids, pa.uint32()), union], schema=SCHEMA)


def member_of(number: int) -> int:
    """The union member that the specification gives an id."""
    if number in (0, 1, 2, 6, 7, 504, 513, 514, 529, 530, 531):
        return _STRING
    if 508 <= number <= 512:
        return _LIST
    if number == 517:
        return _MAP
    if 541 <= number <= 562 and number != 556:
        return _BIGINT
    if number in (8, 100, 101, 503, 505, 507, 522, 525, 526, 528, 538, 540, 564):
        return _BITMASK
    if 533 <= number <= 535 or 567 <= number <= 571:
        return _BITMASK
    return _BOOL


def keywords(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """DuckDB's reserved words."""
    rows = cursor.execute(
        "SELECT upper(keyword_name) FROM duckdb_keywords() WHERE keyword_category = 'reserved' ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]
