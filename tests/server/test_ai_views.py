"""Views with AI calls, through the real client: asked when they are read, kept in the file, known to metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_planner.language.views import expand
from covey_planner.language.writing import view
from covey_server.views import StoredViews
from covey_storage.catalog import Database
from support.hash_server import Host
from support.sql import rows, run

URGENT = "AI_FILTER('Is it urgent?', body)"
CREATE = (
    f"CREATE VIEW urgent(number, rude) AS SELECT id, AI_FILTER('Is it rude?', body) FROM notes WHERE {URGENT}"
)


@pytest.fixture
def uri(host: Host, tmp_path: Path) -> Iterator[str]:
    with host.serve(tmp_path) as address:
        with dbapi.connect(address, autocommit=True) as connection:
            run(
                connection,
                "CREATE TABLE notes AS SELECT range AS id, 'text ' || range AS body FROM range(30)",
            )
        yield address


@pytest.fixture
def client(uri: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as connection:
        yield connection


def expected(client: dbapi.Connection) -> list[tuple[int, bool]]:
    return rows(client, f"SELECT id, AI_FILTER('Is it rude?', body) FROM notes WHERE {URGENT} ORDER BY id")


def test_a_view_is_asked_when_it_is_read(client: dbapi.Connection) -> None:
    wanted = expected(client)
    assert {rude for _, rude in wanted} == {True, False}
    run(client, CREATE)
    assert rows(client, "SELECT * FROM urgent ORDER BY number") == wanted
    assert rows(client, "SELECT u.rude, number FROM main.urgent AS u WHERE rude ORDER BY 2") == [
        (True, number) for number, rude in wanted if rude
    ]
    assert rows(client, "FROM urgent WHERE number = ? AND AI_FILTER('Is it?', number)", (wanted[0][0],)) in (
        [],
        wanted[:1],
    )
    run(client, "DELETE FROM notes WHERE id > 15")
    assert rows(client, "SELECT * FROM urgent ORDER BY number") == [row for row in wanted if row[0] <= 15]


def test_whatever_reads_a_view_reads_its_answers(client: dbapi.Connection) -> None:
    wanted = expected(client)
    run(client, CREATE)
    count = [(len(wanted),)]
    assert rows(client, "SELECT count(*) FROM urgent") == count
    assert rows(client, "WITH w AS (FROM urgent) SELECT count(*) FROM w JOIN urgent USING (number)") == count
    assert rows(client, "SELECT count(*) FROM notes WHERE id IN (SELECT number FROM urgent)") == count
    assert rows(client, "WITH urgent AS (SELECT 1) SELECT count(*) FROM urgent") == [(1,)]
    run(client, "CREATE TABLE kept AS SELECT * FROM urgent")
    assert rows(client, "SELECT * FROM kept ORDER BY 1") == wanted
    assert run(client, "DELETE FROM notes WHERE id IN (SELECT number FROM urgent WHERE rude)") == sum(
        rude for _, rude in wanted
    )
    assert run(client, "DELETE FROM notes USING urgent u WHERE u.number = notes.id") == sum(
        not rude for _, rude in wanted
    )


def test_views_on_views(client: dbapi.Connection) -> None:
    wanted = [(number,) for number, rude in expected(client) if rude]
    run(client, CREATE)
    run(client, "CREATE VIEW both_ AS SELECT number FROM urgent WHERE rude")
    assert rows(client, "SELECT * FROM both_ ORDER BY 1") == wanted
    with pytest.raises(dbapi.Error, match="'notes' hides what the view urgent reads"):
        rows(client, "WITH notes AS (SELECT 1) SELECT * FROM urgent, notes")


def test_a_view_on_a_view_follows_it(client: dbapi.Connection) -> None:
    run(client, f"CREATE VIEW one AS SELECT id, {URGENT} AS yes FROM notes")
    run(client, "CREATE VIEW two AS SELECT id FROM one WHERE yes")
    run(client, "CREATE VIEW three AS SELECT count(*) AS n FROM two")
    run(client, "CREATE OR REPLACE VIEW one AS SELECT id, AI_FILTER('Is it rude?', body) AS yes FROM notes")
    rude = rows(client, "SELECT id FROM notes WHERE AI_FILTER('Is it rude?', body) ORDER BY id")
    assert rows(client, "SELECT * FROM two ORDER BY id") == rude
    assert rows(client, "SELECT * FROM three") == [(len(rude),)]
    run(client, "CREATE OR REPLACE VIEW one AS SELECT id, id < 2 AS yes FROM notes")
    assert rows(client, "SELECT * FROM two ORDER BY id") == [(0,), (1,)]
    assert rows(client, "SELECT * FROM three WHERE n > ?", (1,)) == [(2,)]
    run(client, f"CREATE OR REPLACE VIEW one AS SELECT id, {URGENT} AS yes FROM notes, three")
    with pytest.raises(dbapi.Error, match="the view three reads itself"):
        rows(client, "SELECT * FROM three")
    run(client, "DROP VIEW one")
    with pytest.raises(dbapi.Error, match="one"):
        rows(client, "SELECT * FROM two")


def test_metadata_and_the_end_of_a_view(uri: str, client: dbapi.Connection) -> None:
    run(client, CREATE)
    objects = client.adbc_get_objects(table_name_filter="urgent").read_all().to_pylist()
    (table,) = [
        table
        for catalog in objects
        for schema in catalog["catalog_db_schemas"] or ()
        for table in schema["db_schema_tables"] or ()
    ]
    assert table["table_type"] == "VIEW"
    assert [column["column_name"] for column in table["table_columns"]] == ["number", "rude"]
    types = rows(client, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'urgent'")
    assert types == [("number", "BIGINT"), ("rude", "BOOLEAN")]
    run(client, "ALTER VIEW urgent RENAME TO pressing")
    assert len(rows(client, "SELECT * FROM pressing")) == len(expected(client))
    with dbapi.connect(uri) as connection:
        run(connection, "DROP VIEW pressing")
        connection.rollback()
    assert len(rows(client, "SELECT * FROM pressing")) == len(expected(client))
    run(client, "CREATE OR REPLACE VIEW pressing AS SELECT 7 AS seven")
    assert rows(client, "SELECT * FROM pressing") == [(7,)]
    run(client, "DROP VIEW pressing")
    with pytest.raises(dbapi.Error, match="pressing"):
        rows(client, "SELECT * FROM pressing")


def test_what_is_wrong_below_a_view_names_the_view(client: dbapi.Connection) -> None:
    run(client, "CREATE TABLE letters AS SELECT 1 AS id, 'late' AS body")
    run(client, "CREATE VIEW late AS SELECT id FROM letters WHERE AI_FILTER('Is it late?', body)")
    run(client, "ALTER TABLE letters RENAME COLUMN body TO words")
    with pytest.raises(dbapi.Error, match=r"no column 'body' .*, in the view late"):
        rows(client, "SELECT * FROM late")
    run(client, "ALTER TABLE letters RENAME COLUMN words TO body")
    with pytest.raises(dbapi.Error) as caught:
        rows(client, "SELECT nothing FROM late")
    assert "nothing" in str(caught.value)
    assert "in the view" not in str(caught.value)
    run(client, "DROP VIEW late")
    run(client, "DROP TABLE letters")


def test_a_rolled_back_view_is_gone(uri: str) -> None:
    with dbapi.connect(uri) as connection:
        run(connection, CREATE)
        assert len(rows(connection, "SELECT * FROM urgent")) > 0
        connection.rollback()
        with pytest.raises(dbapi.Error, match="urgent"):
            rows(connection, "SELECT * FROM urgent")


def test_a_view_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kept.duckdb"
    database = Database.open(path)
    query = "SELECT 'it''s' AS a, AI_FILTER('Is it?', 'x')"
    database.cursor().execute(view("CREATE VIEW v AS SELECT 'it''s' AS a, NULL::BOOLEAN AS b", "v", query))
    database.close()
    database = Database.open(path)
    views = StoredViews(database)
    assert views.concern(frozenset({"v", "select"}))
    assert not views.concern(frozenset({"w", "select"}))
    expanded = expand("SELECT x.b FROM v AS x", views.read(database.cursor()))
    assert expanded == f'SELECT x.b FROM (SELECT * FROM ({query}) AS "v"("a", "b")) AS x'
    database.close()


def test_creating_a_view_asks_nothing_and_finds_what_is_wrong(client: dbapi.Connection) -> None:
    run(client, CREATE)
    for sql, said in (
        (f"CREATE VIEW v AS SELECT nothing FROM notes WHERE {URGENT}", "nothing"),
        (f"CREATE VIEW v AS SELECT id FROM notes WHERE {URGENT} AND id = ?", "no parameters"),
        (f"CREATE VIEW covey_v AS SELECT id FROM notes WHERE {URGENT}", "reserved"),
        ("SUMMARIZE urgent", "urgent asks a model"),
    ):
        with pytest.raises(dbapi.Error, match=said):
            rows(client, sql, (1,) if "?" in sql else None)
    assert rows(client, "SELECT sum(prompts)::BIGINT FROM covey_queries") == [(0,)]
