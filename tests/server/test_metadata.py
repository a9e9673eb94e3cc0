"""Metadata through the real ADBC driver, and facts about the server in the types that are specified."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from covey_server.sqlinfo import SCHEMA, facts, member_of, sql_info
from covey_server.xdbc import type_info
from support.sql import run


def test_objects_down_to_the_columns(connection: dbapi.Connection) -> None:
    run(connection, "CREATE OR REPLACE VIEW pets AS SELECT name FROM animals WHERE legs = 4")
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    (main,) = [s for s in catalog["catalog_db_schemas"] if s["db_schema_name"] == "main"]
    kinds = {t["table_name"]: t["table_type"] for t in main["db_schema_tables"]}
    assert kinds["animals"] == "TABLE"
    assert kinds["pets"] == "VIEW"
    assert kinds["covey_queries"] == "SYSTEM TABLE"
    (animals,) = [t for t in main["db_schema_tables"] if t["table_name"] == "animals"]
    columns = {c["column_name"]: c["xdbc_type_name"] for c in animals["table_columns"]}
    assert columns == {"name": "VARCHAR", "legs": "BIGINT", "says": "VARCHAR"}


def test_objects_by_pattern_and_type(connection: dbapi.Connection) -> None:
    def names(**filters: object) -> set[str]:
        objects = connection.adbc_get_objects(depth="tables", **filters).read_all().to_pylist()
        return {
            table["table_name"]
            for catalog in objects
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
        }

    assert names(table_name_filter="anim%") == {"animals"}
    assert "animals" in names(table_types_filter=["BASE TABLE"])
    assert "animals" not in names(table_types_filter=["VIEW"])
    assert names(table_name_filter="SELECT * FROM animals WHERE legs > 2") == set()


def test_a_tables_schema_and_a_missing_tables(connection: dbapi.Connection) -> None:
    schema = connection.adbc_get_table_schema("animals")
    assert schema.field("legs").metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"BIGINT"
    with pytest.raises(dbapi.ProgrammingError):
        connection.adbc_get_table_schema("nowhere")


def test_table_types(connection: dbapi.Connection) -> None:
    assert connection.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]


def test_the_driver_learns_who_serves(connection: dbapi.Connection) -> None:
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Covey"


def test_every_fact_has_the_member_the_specification_gives_it() -> None:
    strings = {0, 1, 2, 6, 7, 504, 513, 514, 529, 530, 531}
    booleans = {3, 4, 5, 9, 10, 11, 500, 501, 502, 506, 515, 516, 518, 519, 520, 521, 523, 524, 527, 532}
    booleans |= {536, 537, 539, 556, 563, 565, 566, 572, 573, 574, 575, 576}
    bigints = {*range(541, 556), *range(557, 563)}
    bitmasks = {8, 100, 101, 503, 505, 507, 522, 525, 526, 528, 533, 534, 535, 538, 540, 564}
    bitmasks |= {*range(567, 572)}
    lists, maps = {*range(508, 513)}, {517}
    members = [strings, booleans, bigints, bitmasks, lists, maps]
    known = facts(["SELECT"], 3600, 60)
    assert set(known) == set().union(*members)
    for member, ids in enumerate(members):
        assert {number for number in known if member_of(number) == member} == ids
    table = sql_info([], known)
    assert table.schema.equals(SCHEMA)
    assert table["info_name"].to_pylist() == sorted(known)
    assert dict(zip(table["info_name"].to_pylist(), table["value"].to_pylist(), strict=True))[101] == 60_000


def test_facts_asked_for_come_in_the_order_asked() -> None:
    assert sql_info([504, 8, 9999], facts([], 1, 1)).to_pylist() == [
        {"info_name": 504, "value": '"'},
        {"info_name": 8, "value": 1},
    ]


def test_types_by_code() -> None:
    assert type_info(12)["type_name"].to_pylist() == ["UUID", "VARCHAR"]
    everything = type_info(None)
    assert everything["data_type"].to_pylist() == sorted(everything["data_type"].to_pylist())
    assert everything.schema.field("create_params").type == pa.list_(
        pa.field("item", pa.string(), nullable=False)
    )
